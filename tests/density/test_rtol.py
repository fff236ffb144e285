"""The tolerance ``rtol`` of every function of the family: within it by float64 oracles, and with 0 all pairs."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukde
import cukde.dask
from cukde import perf
from cukde.core.cost.registry import call_of
from cukde.core.plan import only
from cukde.density import backends
from cukde.density.one_dimension import plan as one_dimension_plan
from cukde.density.options import Options
from cukde.density.plane import plan as plane_plan
from tests import reference, tolerances
from tests.conftest import Backend
from tests.density.judge import Judge
from tests.perf.processors import H200

NAMES = ("kde", "score", "density_and_score", "debias", "sd_kde", "laplace_kde", "kernel_sum")
TOLERANCES = (None, 0, 1e-6, 1e-2)


@dataclasses.dataclass(frozen=True)
class Sample:
    """Clusters some bandwidths apart, so that most pairs hardly matter; queries near them, and one far from all."""

    X: np.ndarray
    Y: np.ndarray
    V: np.ndarray
    w: np.ndarray | None
    h: float = 0.3

    @classmethod
    @functools.cache
    def of(cls, d: int, dtype: str, weighted: bool = False, n: int = 90, m: int = 30) -> Sample:
        rng = np.random.default_rng([d, n, m])
        centres = 2 * rng.standard_normal((6, d))
        X = centres[rng.integers(6, size=n)] + 0.3 * rng.standard_normal((n, d))
        Y = X[rng.integers(n, size=m)] + 0.2 * rng.standard_normal((m, d))
        Y[0] += 10 * 0.3
        V = rng.standard_normal((n, 2))
        return cls(X.astype(dtype), Y.astype(dtype), V.astype(dtype), rng.uniform(0.1, 1, n) if weighted else None)

    def call(self, name: str, on: Backend, **options: Any) -> list[np.ndarray]:
        """Results of a function, on the host."""
        X, Y, V, w = (on.asarray(a) for a in (self.X, self.Y, self.V, self.w))
        function = getattr(cukde, name)
        if name == "kernel_sum":
            out = function(X, V, Y, self.h, **options)
        elif name == "debias":
            out = function(X, self.h, weights=w, **options)
        else:
            out = function(X, Y, self.h, weights=w, **options)
        return [on.asnumpy(a) for a in (out if isinstance(out, tuple) else (out,))]


def same_bits(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


class TestAccuracy:
    """Beside rounding a result is within the tolerance; signed terms by their absolute sum."""

    @pytest.fixture(params=TOLERANCES, ids=str)
    def rtol(self, request: pytest.FixtureRequest) -> Any:
        return request.param

    @pytest.fixture(params=[(1, "float64"), (2, "float32"), (3, "float64"), (5, "float32")], ids=str)
    def s(self, request: pytest.FixtureRequest) -> Sample:
        return Sample.of(*request.param, weighted=request.param[0] > 2)

    @staticmethod
    def judge(s: Sample, on: Backend, rtol: float | None) -> Judge:
        """Of rounding, and what the tolerance adds."""
        default = {"float32": 1e-5, "float64": 1e-13}[s.X.dtype.name]
        return Judge(on.device, s.X, s.Y, s.h, s.w, more=-np.log1p(-(default if rtol is None else rtol)))

    def test_density(self, backend: Backend, s: Sample, rtol: Any) -> None:
        logs, p = (s.call("kde", backend, rtol=rtol, log=log)[0] for log in (True, False))
        self.judge(s, backend, rtol).density(p, logs)

    def test_score(self, backend: Backend, s: Sample, rtol: Any) -> None:
        log_p, gradient = s.call("density_and_score", backend, rtol=rtol)
        judge = self.judge(s, backend, rtol)
        judge.logs(log_p)
        judge.score(gradient, s.call("score", backend, rtol=rtol)[0])

    def test_debiased_points_and_their_density(self, backend: Backend, s: Sample, rtol: Any) -> None:
        near, moved = reference.nearness(s.X, s.X, s.h, s.w), reference.debias(s.X, s.h, weights=s.w)
        allowed = (self.judge(s, backend, rtol).log_error(near)) * near.reach
        rounding = np.finfo(s.X.dtype).eps * reference.size_in_bandwidths(moved, s.h)
        if backend.device == "gpu" and s.X.dtype == np.float32 and s.w is None:  # coordinates of 11 bits
            rounding += 0.5 * tolerances.MEAN_SHIFT.value * reference.size_in_bandwidths(s.X - s.X.mean(axis=0), s.h)
        error = np.linalg.norm(s.call("debias", backend, rtol=rtol)[0] - moved, axis=1) / s.h
        tolerances.check(error, 0.5 * allowed + rounding, "debiased points")
        # A point that moves by some error moves the logarithm by its reach times that; the density adds its own.
        near_moved = reference.nearness(moved, s.Y, s.h, s.w)
        allowed = tolerances.sd_log_error(s.X.dtype.name, near_moved, reference.size_in_bandwidths(moved, s.h))
        allowed += 1.2 * (rtol or 0) + near_moved.reach * (rounding + 0.6 * (rtol or 0) * near.reach.max())
        want = reference.log_kde(moved, s.Y, s.h, s.w)
        tolerances.check_log(s.call("sd_kde", backend, rtol=rtol, log=True)[0], want, allowed)

    def test_signed_sums(self, backend: Backend, s: Sample, rtol: Any) -> None:
        judge = self.judge(s, backend, rtol)
        judge.laplace(s.call("laplace_kde", backend, rtol=rtol)[0])
        judge.kernel_sum(s.call("kernel_sum", backend, rtol=rtol)[0], s.V)


class TestAllPairs:
    """With 0, and in "ieee", all pairs are taken."""

    @pytest.mark.parametrize("name", NAMES)
    def test_few_pairs_of_one_dimension_are_all_taken(self, backend: Backend, name: str) -> None:
        s = Sample.of(1, "float64", True)
        same_bits(s.call(name, backend, rtol=0), s.call(name, backend))

    @pytest.mark.parametrize("d", [2, 5])
    @pytest.mark.parametrize("name", NAMES)
    def test_the_cpu_takes_all_pairs_by_default(self, name: str, d: int) -> None:
        s, on = Sample.of(d, "float32"), Backend("numpy")
        same_bits(s.call(name, on, rtol=0), s.call(name, on))

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("rtol", [0, 1e-9])
    def test_no_transform_of_one_dimension(self, name: str, rtol: float) -> None:
        """In float32 its tolerance is 1e-6: a smaller one takes the pairs, too."""
        s, on = Sample.of(1, "float32", n=2000, m=900), Backend("numpy")
        with only():
            want = s.call(name, on)
        with only("line"):
            same_bits(s.call(name, on, rtol=rtol), want)
            looser = s.call(name, on, rtol=1e-3)  # asks for no less than the transform gives
            same_bits(looser, s.call(name, on))

    @pytest.mark.parametrize("d", [2, 3])
    @pytest.mark.parametrize("options", [{"rtol": 0}, {"rtol": 1e-2, "precision": "ieee"}], ids=["0", "ieee"])
    @pytest.mark.parametrize("name", ["kde", "sd_kde"])
    def test_no_density_to_a_tolerance(
        self, backend: Backend, name: str, d: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(backends, "plane", None)
        s = Sample.of(d, "float32")
        without = {key: value for key, value in options.items() if key != "rtol"}
        same_bits(s.call(name, backend, **options), s.call(name, backend, **(without or {"rtol": 0})))


@pytest.mark.usefixtures("many_pairs")
class TestPasses:
    """What was given comes to every pass."""

    @pytest.fixture
    def seen(self, monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
        """Tolerances of the passes over pairs on the CPU."""
        passes, found = importlib.import_module("cukde.density.pairs.cpu.passes"), []

        def watched(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                found.extend(a.rtol for a in args if isinstance(a, Options))
                return function(*args, **kwargs)

            return call

        for name in ("partial_sums", "density", "debias", "mutual_sums"):
            monkeypatch.setattr(passes, name, watched(getattr(passes, name)))
        return found

    @pytest.mark.parametrize("rtol", TOLERANCES)
    @pytest.mark.parametrize("name", NAMES)
    def test_of_plain_arrays(self, name: str, rtol: Any, seen: list[float | None]) -> None:
        Sample.of(4, "float64").call(name, Backend("numpy"), rtol=rtol)
        assert set(seen) == {rtol}

    @pytest.mark.parametrize("name", NAMES[:-1])
    def test_of_domains(self, name: str, seen: list[float | None]) -> None:
        s = Sample.of(4, "float64")
        s.call(name, Backend("numpy"), rtol=1e-4, periods=[30.0, None, None, None])
        assert set(seen) == {1e-4}

    @pytest.mark.parametrize("name", NAMES[:-1])
    def test_of_large_stacks(self, name: str, seen: list[float | None], monkeypatch: pytest.MonkeyPatch) -> None:
        s, on = Sample.of(4, "float64"), Backend("numpy")
        X, Y = np.stack([s.X, s.X]), np.stack([s.Y, s.Y])
        stack = dataclasses.replace(s, X=X, Y=Y)
        small = stack.call(name, on, rtol=1e-4)
        assert not seen
        same_bits(small, stack.call(name, on, rtol=0))
        monkeypatch.setattr("cukde.density.plan.compositions.stack_pays", lambda *_: False)
        stack.call(name, on, rtol=1e-4)
        assert set(seen) == {1e-4}

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("check_finite", [False, True])
    @pytest.mark.parametrize("name", NAMES)
    def test_of_blocks(self, name: str, check_finite: bool, weighted: bool, seen: list[float | None]) -> None:
        da = pytest.importorskip("dask.array")
        s = Sample.of(4, "float64", weighted)
        X, options = da.from_array(s.X, chunks=(30, 4)), {"rtol": 1e-4, "check_finite": check_finite}
        if name == "kernel_sum":
            lazy = cukde.kernel_sum(X, s.V, s.Y, s.h, **options)
        elif name == "debias":
            lazy = cukde.debias(X, s.h, weights=s.w, **options)
        else:
            lazy = getattr(cukde, name)(X, s.Y, s.h, weights=s.w, **options)
        want = s.call(name, Backend("numpy"))
        seen.clear()
        for got, expected in zip(lazy if isinstance(lazy, tuple) else (lazy,), want, strict=True):
            np.testing.assert_allclose(got.compute(scheduler="sync"), expected, rtol=1e-9, atol=1e-9)
        assert set(seen) == {1e-4}

    @pytest.mark.parametrize("name", ["kde", "sd_kde", "score"])
    @pytest.mark.parametrize("d", plane_plan.COLUMNS)
    def test_the_transform_takes_it(self, name: str, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
        passes = importlib.import_module("cukde.density.plane.cpu.passes")
        monkeypatch.setattr(passes, "_worth", lambda *args: True)
        found, sums = [], passes._sums
        monkeypatch.setattr(passes, "_sums", lambda *args: found.append(args[-1].rtol) or sums(*args))
        s, on, stages = Sample.of(d, "float64"), Backend("numpy"), 2 if name == "sd_kde" else 1
        got = s.call(name, on, rtol=1e-4)
        assert found == stages * [1e-4]
        np.testing.assert_allclose(got[0], s.call(name, on)[0], rtol=1e-3)
        assert found[stages:] == stages * [plane_plan.TOLERANCE["float64"]]
        s.call(name, on, rtol=0)
        assert len(found) == 2 * stages


@pytest.mark.parametrize("rtol", [-1e-3, 0.11, np.nan, np.inf, True, "1e-3", np.ones(2), 1j])
def test_what_is_no_tolerance(rtol: Any) -> None:
    """It is looked at before anything else is."""
    X = np.full((3, 2), np.nan)
    with pytest.raises((TypeError, ValueError), match=r"rtol must be a number from 0 to 0.1, or None; got"):
        cukde.kde(X, X, 1.0, rtol=rtol)


@pytest.mark.parametrize("rtol", [0, 0.0, 0.1, np.float32(1e-3), np.int64(0)])
def test_numbers_of_any_kind(rtol: Any) -> None:
    assert cukde.kde(np.zeros((3, 2)), np.zeros((1, 2)), 1.0, rtol=rtol).shape == (1,)


def test_all_pairs_of_one_dimension_are_counted() -> None:
    assert [one_dimension_plan.serves("float32", rtol) for rtol in (None, 0, 1e-7, 1e-6, 0.1)] == [True, 0, 0, 1, 1]
    assert not one_dimension_plan.serves("ieee", None)
    sizes = {"n": 2**18, "m": 2**18, "d": 1}
    for name in NAMES[:-1]:
        given = {key: size for key, size in sizes.items() if name != "debias" or key != "m"}
        by_default, to_a_tolerance, of_all = (
            perf.cost(name, H200, **given, rtol=rtol).parts for rtol in (None, 0.1, 0)
        )
        assert by_default == to_a_tolerance
        few, all_pairs = (sum(part.work.get("instruction", 0) for part in parts) for parts in (by_default, of_all))
        assert few < 2.0**32 < 2.0**36 <= all_pairs
    X = np.zeros((2**10, 1))
    assert call_of(cukde.kde, (X, X, 1.0), {"rtol": 0}).shapes["rtol"] == 0
    assert "rtol" not in call_of(cukde.kde, (X, X, 1.0), {}).shapes
