"""The example of a sequence model: its gradients are those of its loss, and it learns."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from benchmarks.conv1d import exact
from examples import s4_like_classifier as model
from tests.conftest import BACKENDS, Backend

EXACT = model.Convolution(exact.forward, exact.input_grad, exact.weight_grad)


def test_gradients() -> None:
    """Against differences of the loss, in float64, with fewer steps than taps and more."""
    rng = np.random.default_rng(0)
    for steps, taps in ((4, 6), (9, 5)):
        p = model.parameters(channels=3, taps=taps, blocks=2, dtype=np.float64)
        sequences, labels = rng.standard_normal((4, steps)), rng.integers(model.LABELS, size=4)
        _, gradients = model.loss_and_gradients(p, sequences, labels, EXACT)
        assert gradients.keys() == p.keys()
        for name, parameter in p.items():
            assert gradients[name].shape == parameter.shape
            for index in np.ndindex(parameter.shape):
                here, step = parameter[index], 1e-5
                ends = []
                for parameter[index] in (here + step, here - step):
                    ends.append(model.loss_and_gradients(p, sequences, labels, EXACT)[0])
                parameter[index] = here
                slope = (ends[0] - ends[1]) / (2 * step)
                assert gradients[name][index] == pytest.approx(slope, rel=1e-6, abs=1e-9), (name, index)


@pytest.mark.long
def test_it_learns() -> None:
    """19 digits of 20 in half of the example's epochs; guesses get one of ten."""
    learned, held_back = model.digits()
    p = model.parameters()
    with threadpool_limits(1):  # of products this small, threads wait for each other longer than they work
        losses = list(model.train(p, *learned, model.library(), epochs=10))
    assert losses[-1] < 0.1 * losses[0]
    assert {of.dtype for of in p.values()} == {np.dtype(np.float32)}
    assert model.accuracy(p, *held_back, model.library()) >= 0.95


def test_large_activations_do_not_overflow() -> None:
    p = {name: 1e3 * of for name, of in model.parameters(channels=2, taps=3).items()}
    found = model.logits(p, np.full((1, 8), 1e3, np.float32), EXACT)
    assert np.isfinite(found).all()


@pytest.fixture(params=[BACKENDS[0], BACKENDS[2]])
def either(request: pytest.FixtureRequest) -> Backend:
    """NumPy and CuPy: what the model does by itself is the same in the emulation as in NumPy."""
    return Backend(request.param)


def test_training_by_the_library(either: Backend) -> None:
    """Parameters after an epoch of three steps, float64."""
    rng = np.random.default_rng(1)
    sequences, labels = rng.standard_normal((200, 12)), rng.integers(model.LABELS, size=200)
    trained = []
    for backend, convolution in ((Backend("numpy"), EXACT), (either, model.library())):
        p = {name: backend.asarray(of) for name, of in model.parameters(4, 5, dtype=np.float64).items()}
        (loss,) = model.train(p, backend.asarray(sequences), backend.asarray(labels), convolution, epochs=1)
        trained.append({"loss": np.array(loss)} | {name: backend.asnumpy(of) for name, of in p.items()})
    assert trained[1].keys() == trained[0].keys()
    for name, wanted in trained[0].items():
        np.testing.assert_allclose(trained[1][name], wanted, rtol=1e-7, atol=1e-9, err_msg=name)
