"""The example of a neural network: it learns, and piecewise activations change its logits by no more than they must."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.piecewise import network
from tests.benchmarks import untimed

_STEEPEST = 1.1290  # slope of gelu, at sqrt(2)


@pytest.fixture(scope="module")
def data() -> tuple[network.Digits, network.Digits]:
    return network.digits()


@pytest.fixture(scope="module")
def layers(data: tuple[network.Digits, network.Digits]) -> network.Layers:
    return network.train(data[0], epochs=6)


def _exact_logits(layers: network.Layers, images: np.ndarray) -> np.ndarray:
    """In float64, by the error function."""
    a = images.astype(np.float64)
    for i, (weights, biases) in enumerate(layers):
        a = a @ weights + biases
        if i < len(layers) - 1:
            a = np.vectorize(lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))))(a)
    return a


def _farthest_logit(layers: network.Layers, error: float) -> float:
    """What an activation that is off by at most ``error`` can do to a logit: Lipschitz bounds, layer by layer."""
    off = error
    for weights, _ in layers[1:-1]:
        off = error + _STEEPEST * off * np.abs(weights).sum(axis=0).max()
    return float(off * np.abs(layers[-1][0]).sum(axis=0).max())


def test_gradients() -> None:
    """Against differences of the loss, in float64."""
    rng = np.random.default_rng(0)
    layers = [(rng.standard_normal((i, o)), rng.standard_normal(o)) for i, o in ((5, 4), (4, 6), (6, 3))]
    images, labels = rng.standard_normal((7, 5)), rng.integers(3, size=7)

    def loss() -> float:
        logits = network.forward(layers, images, network.gelu)
        return float((np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(7), labels]).mean())

    parameters = [array for layer in layers for array in layer]
    for p, gradient in zip(parameters, network._gradients(layers, images, labels), strict=True):
        for index in np.ndindex(p.shape):
            here, step = p[index], 1e-5
            p[index] = here + step
            above = loss()
            p[index] = here - step
            below = loss()
            p[index] = here
            assert gradient[index] == pytest.approx((above - below) / (2 * step), rel=1e-6, abs=1e-9)


def test_it_learns(layers: network.Layers, data: tuple[network.Digits, network.Digits]) -> None:
    """Nine digits of ten, where guesses get one; the 40 epochs of the example get 97 in 100."""
    labels = network.forward(layers, data[1].images, network.gelu).argmax(axis=1)
    assert (labels == data[1].labels).mean() > 0.9


@pytest.mark.parametrize("name", ["exact", "cukde.functions.gelu", "8 pieces", "16 pieces", "64 pieces"])
def test_logits_with_piecewise_activations(
    layers: network.Layers, data: tuple[network.Digits, network.Digits], name: str
) -> None:
    """Each logit within the bound that the activation's error gives, so that only labels in doubt can differ."""
    images = data[1].images
    farthest = network.reach(layers, data[0].images)
    activation, pieces = network.activations(farthest)[name]
    exact = _exact_logits(layers, images)
    error = network.largest_error(activation, farthest) + 2**-20 * farthest  # between points of the grid; rounding
    bound = _farthest_logit(layers, error)
    logits = network.forward(layers, images, activation)
    assert logits.dtype == np.float32
    assert np.abs(logits - exact).max() <= bound

    first, second = np.sort(exact, axis=1)[:, :-3:-1].T
    certain = first - second > 2 * bound
    right, same = data[1].labels, logits.argmax(axis=1)
    np.testing.assert_array_equal(same[certain], exact.argmax(axis=1)[certain])
    accuracies = [float((of.argmax(axis=1) == right).mean()) for of in (logits, exact)]
    assert abs(accuracies[0] - accuracies[1]) <= 0.01  # of 449 digits, four
    if pieces is None or pieces >= 16:
        assert certain.mean() > 0.9  # the bound says something


def test_the_table(
    layers: network.Layers, data: tuple[network.Digits, network.Digits], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(network._TIMED_DIGITS, "cpu", 900)
    untimed.use(monkeypatch)
    rows = network.study(np, layers, *data)
    assert [row["activation"] for row in rows[:3]] == ["exact", "cukde.functions.gelu", "8 pieces"]
    assert rows[0]["labels_that_differ"] == 0
    assert rows[0]["rel_err_max"] < 2e-6
    assert all(row["labels_that_differ"] <= 5 and row["shape"]["n"] >= 900 for row in rows)
    text = network.table(rows, len(data[1].labels))
    assert len(text.splitlines()) == 1 + len(rows)
    assert "cukde.functions.gelu" in text
