"""Whether a pass leaves out pairs: what is looked at, how often, and what a later pass starts from."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cukde
from cukde.density.cost import calls as cost_calls
from cukde.density.options import Options
from cukde.density.plan import gpu as plan_gpu
from cukde.density.sums import Output
from tests import reference, tolerances


def drawn(name: str, n: int, d: int) -> np.ndarray:
    """Data whose axes may be hard to find."""
    rng = np.random.default_rng([n, d])
    X = rng.standard_normal((n, d))
    return {
        "normal": lambda: X,
        "scales 1e-3 to 1e3": lambda: X * np.geomspace(1e-3, 1e3, d),
        "outlier": lambda: np.concatenate((X[1:], np.full((1, d), 1e7))),
        "all equal": lambda: np.full((n, d), 3.7),
        "constant column": lambda: X * (np.arange(d) > 0),
        "huge": lambda: 1e200 * X,
        "far from zero": lambda: X + 1e4,
    }[name]()


KINDS = ("normal", "scales 1e-3 to 1e3", "outlier", "all equal", "constant column", "huge", "far from zero")


@pytest.mark.usefixtures("emulated_device")
@pytest.mark.parametrize("kind", KINDS)
def test_axes_are_orthonormal_and_edges_ascend(kind: str) -> None:
    from cukde.density.pairs.gpu.skipping import frame as skipping_frame

    for n, d in ((3000, 2), (3000, 3), (3000, 4), (3000, 16), (3000, 17), (5, 40), (900, 64), (3000, 128)):
        with np.errstate(over="ignore", invalid="ignore"):
            frame = skipping_frame.frame(skipping_frame.sample(drawn(kind, n, d)))
        axes = frame.box_axes.astype(np.float64)
        assert axes.shape == (min(d, 16), d)
        np.testing.assert_allclose(axes @ axes.T, np.eye(len(axes)), atol=4e-7)
        np.testing.assert_array_equal(frame.axes, frame.box_axes[: len(frame.axes)])
        assert frame.edges.shape == (min(d, 5), 257)
        assert kind == "huge" or (np.diff(frame.edges, axis=1) >= 0).all()
        assert frame.centre.shape == (d,)
        assert frame.centre.dtype == np.float64


@pytest.fixture
def counted(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """How often a call asks the data and runs passes that leave out pairs; ``shares`` are what probes find in turn."""
    from cukde.density.pairs.gpu.skipping import choice, frame as skipping_frame, passes

    counts: Counter[str] = Counter()
    shares: list[float] = []

    def counting(module: Any, name: str) -> None:
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, **kw: (counts.update([name]), original(*args, **kw))[1])

    for least in ("_LEAST_MS", "_LEAST_OF_FAST_MS"):
        monkeypatch.setattr(plan_gpu, least, 0.0)
    monkeypatch.setattr(plan_gpu, "order_ms", lambda: 0.0)
    monkeypatch.setattr(plan_gpu, "_MOST_SHARE", 1.0)
    monkeypatch.setattr(choice, "_share", lambda prepared, frame: (shares.pop(0), 0.0))
    for module, names in (
        (skipping_frame, ("sample", "samples", "frame")),
        (choice, ("_share",)),
        (passes, ("run",)),
    ):
        for name in names:
            counting(module, name)
    return SimpleNamespace(counts=counts, shares=shares)


def case(d: int = 8) -> tuple[np.ndarray, np.ndarray, float]:
    rng = np.random.default_rng(d)
    X = rng.standard_normal((600, d)).astype(np.float32)
    return X, (X[:150] + 0.1).astype(np.float32), 0.4


def check(p: np.ndarray, X: np.ndarray, Y: np.ndarray, h: float) -> None:
    np.testing.assert_allclose(p, reference.sd_kde(X, Y, h), rtol=tolerances.SD_DENSITY["float32"].value)


def test_the_second_pass_of_sd_kde_starts_from_the_look_of_the_first(counted: SimpleNamespace) -> None:
    counted.shares += [0.02]
    X, Y, h = case()
    check(cukde.sd_kde(X, Y, h), X, Y, h)
    assert counted.counts == {"samples": 1, "frame": 1, "_share": 1, "run": 2}


@pytest.mark.usefixtures("emulated_device")
@pytest.mark.parametrize(
    ("d", "output", "itself"),
    [
        *((d, "sum", itself) for d in (3, 8) for itself in (True, False)),
        (8, "moments", True),
        (8, "moments", False),
        (8, "weighted", False),
        (20, "laplace", False),
    ],
)
def test_a_probe_finds_about_the_share_that_a_pass_takes(d: int, output: Any, itself: bool) -> None:
    """Whichever operands the pass has: of mean shifts at queries there are no chunks, of blocks far apart all."""
    from cukde.density.pairs.gpu.skipping import choice, frame as skipping_frame, passes, plan

    rng = np.random.default_rng(d)
    centres = rng.standard_normal((10, d)) * (20 if d < 6 else np.geomspace(4, 30, 10)[:, None])
    X = (centres[np.arange(2000) % 10] + 0.7 * rng.standard_normal((2000, d))).astype(np.float32)
    Y = None if itself else X[:1400] + np.float32(0.1)
    frame = skipping_frame.frame(skipping_frame.sample(X))
    weighted = output == "weighted"
    options = Options("float32", np.log(rng.uniform(0.1, 1, len(X))) if weighted else None)
    of_pass: Output = "moments" if weighted else output
    prepared = plan.prepare(X, Y, 0.5, of_pass, options, frame, 1e-5, ratio=True)
    assert d < 6 or set(prepared.data.kinds) >= {1, 2}
    found, tight = choice._share(prepared, frame)
    taken = passes.share(prepared)
    assert taken < 0.5
    assert taken / 1.5 < found < 1.5 * taken
    assert 0 <= tight <= 1


@pytest.mark.usefixtures("emulated_device")
@pytest.mark.parametrize("output", ["sum", "moments"])
def test_a_probe_of_two_clumps(output: Output) -> None:
    """Blocks of both kinds of centres, so that the probe has operands of either."""
    from cukde.density.pairs.gpu.skipping import choice, frame as skipping_frame, passes, plan

    X = np.random.default_rng(8).standard_normal((600, 8)).astype(np.float32)
    X[:300] += 100
    frame = skipping_frame.frame(skipping_frame.sample(X))
    prepared = plan.prepare(X, None, 0.4, output, Options("float32"), frame, 1e-5, ratio=True)
    assert prepared.plan.products
    found, tight = choice._share(prepared, frame)
    assert found == pytest.approx(passes.share(prepared), abs=0.1)
    assert 0.5 < tight < 1


def test_the_model_is_told_the_shares_that_a_call_takes(counted: SimpleNamespace) -> None:
    counted.shares += [0.02]
    X, Y, h = case()
    both = cost_calls.taken("moments", "sum")(lambda: cukde.sd_kde(X, Y, h), gpu=True)["share"]
    assert len(both) == 2
    assert all(0 < share <= 1 for share in both)
    counted.shares += [0.9, 0.02, 0.02]
    assert cost_calls.taken("sum")(lambda: cukde.kde(X, Y, h), gpu=True)["share"] is None
    share = cost_calls.taken("sum")(lambda: cukde.kde(X, Y, h), gpu=True)["share"]
    assert share == pytest.approx(both[1], abs=0.1)
    assert cost_calls.taken("moments", "sum")(lambda: cukde.kde(X, Y, h), gpu=True)["share"][0] is None
