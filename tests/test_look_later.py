"""Data that are looked at for NaN while the device already computes: the same results, and errors in the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukde
from tests import reference
from tests.conftest import Backend
from tests.tolerances import DENSITY, SD_DENSITY

h = 1.5


@pytest.fixture(autouse=True)
def _few_points_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    density = pytest.importorskip("cukde.gpu.density", exc_type=ImportError)
    monkeypatch.setattr(density, "_FEWEST_PAIRS", 0)


@pytest.fixture
def waiting_is_refused(device: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: Any) -> None:
        raise AssertionError("waits for the look at the data")

    monkeypatch.setattr("cukde.gpu.look", refused)


def _sample(n: int = 150, m: int = 20, d: int = 16) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)).astype("f4"), rng.standard_normal((m, d)).astype("f4")


def _call(device: Backend, name: str, X: np.ndarray, Y: np.ndarray, **options: Any) -> np.ndarray:
    points = (X,) if name == "debias" else (X, Y)
    return device.asnumpy(getattr(cukde, name)(*map(device.asarray, points), h, **options))


def _expected(name: str, X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, Any]:
    """By the formulas, and what errors are relative to."""
    if name == "laplace_kde":
        return reference.laplace(X, Y, h)
    if name == "score":
        score = reference.score(X, Y, h)
        return score, abs(score).max()
    if name == "debias":
        return reference.debias(X, h), h
    density = getattr(reference, name)(X, Y, h)
    return density, density


NAMES = ("kde", "score", "debias", "sd_kde", "laplace_kde")


@pytest.mark.parametrize("far", [0, 60], ids=["near", "far"])  # beyond what tensor cores take
@pytest.mark.parametrize("d", [4, 16])
@pytest.mark.parametrize("name", NAMES)
def test_results(device: Backend, waiting_is_refused: None, name: str, d: int, far: float) -> None:
    X, Y = _sample(d=d)
    X[0] += far
    expected, size = _expected(name, X, Y)
    most = max(DENSITY["gpu", "float32"].value, SD_DENSITY["float32"].value)
    assert (abs(_call(device, name, X, Y) - expected) / size).max() <= most


@pytest.mark.parametrize("entry", [np.nan, np.inf])
@pytest.mark.parametrize("of", ["X", "Y"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_found_is_raised_in_the_end(
    device: Backend, waiting_is_refused: None, name: str, of: str, entry: float
) -> None:
    X, Y = _sample(d=3)
    if name == "debias":
        of = "X"
    {"X": X, "Y": Y}[of][7, 1] = entry
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=f"^{of} must be finite"):
        _call(device, name, X, Y)


def test_points_beyond_the_range_are_refused(device: Backend, waiting_is_refused: None) -> None:
    X, Y = _sample(d=3)
    Y[0] = 1e19
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=r"must lie within 1e\+18 bandwidths"):
        _call(device, "kde", X, Y)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("kde", {"check_finite": False}),
        ("kde", {"weights": np.ones(150)}),
        ("kde", {"local_factors": np.ones(150)}),
        ("kde", {"rtol": 1e-3}),
        ("kde", {"bounds": [(-9, 9)] * 3}),
        ("kde", {"precision": "ieee"}),
        ("sd_kde", {"score_bandwidth": 1.0}),
        ("debias", {"score_bandwidth": 1.0}),
    ],
)
def test_calls_that_look_first(
    device: Backend, monkeypatch: pytest.MonkeyPatch, name: str, options: dict[str, Any]
) -> None:
    """Where more is to be looked at than data and queries, or the result changes what is looked for."""
    monkeypatch.setattr("cukde.gpu._survey.look_later", None)
    X, Y = _sample(d=3)
    given = {key: device.asarray(a) if isinstance(a, np.ndarray) else a for key, a in options.items()}
    assert np.isfinite(_call(device, name, X, Y, **given)).all()


@pytest.mark.parametrize("wrong", [False, True])
def test_a_pass_that_fails_says_so_and_the_look_ends(
    device: Backend, monkeypatch: pytest.MonkeyPatch, wrong: bool
) -> None:
    def fails(*arguments: Any, **options: Any) -> None:
        raise MemoryError("no room")

    X, Y = _sample(d=3)
    X[0, 0] = np.nan if wrong else 0
    monkeypatch.setattr("cukde.gpu.density.density", fails)
    expected = pytest.raises(ValueError, match="X must be finite") if wrong else pytest.raises(MemoryError)
    with np.errstate(all="ignore"), expected:
        _call(device, "kde", X, Y)
