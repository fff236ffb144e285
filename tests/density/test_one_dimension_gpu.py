"""The Numba kernels of one dimension: what they compile to, and what ``test_one_dimension`` cannot see."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cukde
from cukde.core.gpu import compile as core_compile
from cukde.core.plan import only
from cukde.density.one_dimension import plan as one_dimension_plan
from cukde.density.one_dimension.plan import TOLERANCE
from cukde.density.options import Options
from cukde.density.sums import Output
from tests import compilation, passes, processes, reference, tolerances
from tests.density.test_one_dimension import bound
from tests.tolerances import DENSITY


@pytest.fixture
def gpu(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The modules under test on the emulated device, which takes the transform however few pairs there are."""
    from cukde.core.gpu import numba_cuda
    from cukde.density.one_dimension.gpu import boxes as one_dimension_boxes, expansions, passes as one_dimension_passes

    monkeypatch.setattr(one_dimension_passes, "_POINTS_PER_CHUNK", 16)
    with only("line"):
        yield SimpleNamespace(
            boxes=one_dimension_boxes, kernels=expansions, numba=numba_cuda, density=one_dimension_passes
        )


@pytest.fixture
def launched(gpu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> list[core_compile.Kernel]:
    """Kernels in the order of their launches."""
    found: list[core_compile.Kernel] = []
    launch = gpu.numba.launch

    def noted(chosen: Any, *others: Any) -> None:
        found.append(chosen.kernel)
        launch(chosen, *others)

    monkeypatch.setattr(gpu.numba, "launch", noted)
    return found


def names(launched: list[core_compile.Kernel]) -> list[str]:
    return [kernel.name for kernel in launched]


def run_python(code: str, **environment: str) -> str:
    """Output of a process of its own, in which Numba does not simulate."""
    without = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=without | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def assembled() -> list[dict[str, Any]]:
    pytest.importorskip("cuda.bindings.nvjitlink")
    return [each for future in compilation.numba_started() for each in future.result()]


class TestCompilation:
    def test_every_kernel_compiles_without_a_gpu(self, assembled: list[dict[str, Any]]) -> None:
        """For every architecture, to nothing in local memory: no spills, no arrays that an index reaches."""
        self.check(assembled)

    @pytest.mark.kernels
    def test_a_kernel_compiles_without_a_gpu(self) -> None:
        """What every run has of the test above."""
        pytest.importorskip("cuda.bindings.nvjitlink")
        code = "import json; from tests.density import numba_ptx; print(json.dumps(numba_ptx.report(0)))"
        self.check(json.loads(processes.finished(processes.start("-c", code))[0]))

    @staticmethod
    def check(assembled: list[dict[str, Any]]) -> None:
        assert {each["architecture"] for each in assembled} == {80, 90, 120}
        for each in assembled:
            assert not each["local"], each
            assert each["stack"] == each["spills"] == 0, each
            assert each["registers"] <= 128, each  # of which 128 threads fit four times
            if each["kernel"] == "pairs":
                single = each["defines"]["real"] == "float32"
                assert (each["exponentials"] > 0) == single, each
                if each["defines"]["points"] == "float32" and each["defines"]["weighted"] == "False":
                    # Sums of tiles, 16 at most, and what "laplace" is multiplied by in the end: nothing of each pair.
                    assert each["double"] <= 16, each

    def test_the_backend_imports_without_a_driver(self) -> None:
        """And without Numba, until the first call in one dimension."""
        pytest.importorskip("cupy")
        code = f"import sys, {', '.join(passes.ON_GPU)}; print('numba' in sys.modules)"
        assert run_python(code, CUDA_VISIBLE_DEVICES="") == "False\n"

    @pytest.mark.parametrize(
        ("broken", "says"),
        [
            # What numba-cuda raises without a CUDA runtime is no ImportError.
            (
                "import builtins; real = builtins.__import__\n{hook}",
                r"numba-cuda\[cu13\].* or for CUDA 12 .*numba-cuda\[cu12\]",
            ),
            ("import numba, numpy; numba.__version__, numpy.__version__ = '0.68.0', '2.5.0'", r"numba~=0\.68\.1"),
        ],
    )
    def test_what_is_missing_is_named(self, broken: str, says: str) -> None:
        pytest.importorskip("cupy")
        hook = (
            "def hooked(name, globals=None, locals=None, fromlist=(), level=0):\n"
            "    if name == 'numba' and 'cuda' in (fromlist or ()):\n"
            "        raise RuntimeError('cudart not found')\n"
            "    return real(name, globals, locals, fromlist, level)\n"
            "import numba\n"
            "builtins.__import__ = hooked"
        )
        code = (
            f"{broken.format(hook=hook)}\n"
            "try:\n    import cukde.core.gpu.numba_cuda\nexcept ImportError as error:\n    print(error)"
        )
        printed = run_python(code, NUMBA_ENABLE_CUDASIM="1")
        assert re.search(says, printed), printed


class TestKernels:
    """One kernel at a time, against what it is to compute."""

    N, WIDTH, FIRST = 100, 0.25, -7.0

    @pytest.fixture
    def x(self) -> np.ndarray:
        rng = np.random.default_rng(0)
        # A crowd in one box, some boxes with few and many with none.
        return np.sort(np.concatenate((rng.uniform(-1.7, 2.1, 40), rng.uniform(0.26, 0.49, self.N - 40))))

    def starts(self, gpu: SimpleNamespace, x: np.ndarray, boxes: int) -> np.ndarray:
        out = np.empty(boxes + 1, np.int64)
        chosen = gpu.numba.Specialisation(gpu.kernels.bounds, ("float64",))
        gpu.numba.launch(chosen, (boxes,), 4, x, out.astype(float), out, boxes, self.FIRST, self.WIDTH, False)
        return out

    def test_bounds(self, gpu: SimpleNamespace, x: np.ndarray) -> None:
        boxes = int(np.floor(x[-1] / self.WIDTH) - self.FIRST) + 1
        got = self.starts(gpu, x, boxes)
        edges = (self.FIRST + np.arange(boxes + 1)) * self.WIDTH
        np.testing.assert_array_equal(got, np.searchsorted(x, edges))

    @pytest.mark.parametrize("chunk", [16, 64, 1000])
    @pytest.mark.parametrize("together", [0, 32])
    def test_moments(
        self, gpu: SimpleNamespace, x: np.ndarray, chunk: int, together: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Chunk + rank numbers the pieces: added over its chunks, a box has its moments."""
        monkeypatch.setattr(gpu.kernels, "_TOGETHER", together)
        boxes = int(np.floor(x[-1] / self.WIDTH) - self.FIRST) + 1
        starts = self.starts(gpu, x, boxes)
        chunks = -(-self.N // chunk)
        rng = np.random.default_rng(2)
        log_weights, values = rng.uniform(-3, 0, self.N), rng.standard_normal((self.N, 1))
        S = np.full((2, chunks + boxes, 13), np.nan)
        chosen = gpu.numba.Specialisation(gpu.kernels.moments, (12, "float64"))
        arguments = (chunk, boxes, self.FIRST, self.WIDTH, True, False)
        gpu.numba.launch(chosen, (chunks, 2), 4, x, log_weights, values, log_weights, starts, S, *arguments)
        for rank in range(boxes):
            rows = slice(starts[rank], starts[rank + 1])
            alpha = (x[rows] - (self.FIRST + rank + 0.5) * self.WIDTH) / (self.WIDTH / 2)
            pieces = range(rows.start // chunk, (rows.stop - 1) // chunk + 1) if rows.start < rows.stop else ()
            for column, charge in enumerate((np.exp(log_weights), np.exp(log_weights) * values[:, 0])):
                want = np.append(charge[rows] @ alpha[:, None] ** np.arange(12), np.abs(charge[rows]).sum())
                got = sum((S[column, piece + rank] for piece in pieces), np.zeros(13))
                np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)

    @pytest.mark.parametrize("output", ["cdf", "sum"])
    def test_boxes_are_accepted_where_their_error_is_within_the_tolerance(
        self, gpu: SimpleNamespace, output: Output
    ) -> None:
        """By masses of thirty decades: a bound ten times too loose or too tight is seen."""
        plan = one_dimension_plan.plan(1.0, output, 1e-6)
        error, least, beyond = bound(plan, output)
        order, reach, rng = plan.order, plan.reach, np.random.default_rng(3)
        table = np.concatenate([error, least, np.zeros((2 * reach + 1) * order**2)])
        chosen = gpu.numba.Specialisation(gpu.kernels.translate, (order,))
        used = []
        for _ in range(4):
            boxes = np.unique(np.concatenate([rng.integers(0, reach, 8), 3 * reach + rng.integers(0, reach, 8)]))
            n, mass = len(boxes), 10.0 ** rng.uniform(-15, 15, len(boxes))
            targets = np.arange(boxes[0] - 2, boxes[-1] + 3)
            S = np.zeros((1, 1 + n, order + 1))
            S[0, :n, order] = mass
            masses = np.concatenate([[0.0], mass.cumsum()]) if output == "cdf" else mass.sum(keepdims=True)
            B = np.full((1, len(targets), order), 5.0)
            arguments = S, boxes, np.arange(n + 1), targets, masses, table, B, n, 1000, n, int(boxes[0])
            scalars = int(targets[0]), reach, plan.tolerance, plan.beyond, True, True, output == "cdf"
            gpu.numba.launch(chosen, (len(targets), 1), 8, *arguments, *scalars)
            o = targets[:, None] - boxes + reach
            near = (o >= 0) & (o <= 2 * reach)
            o = np.where(near, o, 0)
            off = (np.where(near, error[o], beyond) * mass).sum(axis=1)
            to_left = (boxes < targets[:, None] - reach) @ mass if output == "cdf" else 0.0
            share = off / (plan.tolerance * ((near * least[o]) @ mass + to_left + 1e-300))
            clear = np.abs(np.log(share)) > 1e-6
            np.testing.assert_array_equal(np.isnan(B[0, clear]).all(axis=1), share[clear] > 1)
            assert np.isfinite(B[0, clear & (share < 1)]).all()
            used.append(share)
        share = np.concatenate(used)
        for low, high in ((0.1, 1), (1, 10)):
            assert ((share > low) & (share < high)).sum() > 5


class TestPasses:
    def sample(self, n: int = 120, m: int = 24, dtype: str = "float64") -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng([n, m])
        return rng.standard_normal((n, 1)).astype(dtype), rng.standard_normal((m, 1)).astype(dtype)

    @pytest.mark.parametrize("squared_radius", [None, 1e26])
    @pytest.mark.parametrize(
        ("scale", "offset", "precision"),
        [(1.0, 2.0**41, "float64"), (1e-292, 0.0, "float64"), (1.0, 0.0, "ieee"), (1e-38, 0.0, "ieee")],
        ids=["far out", "tiny bandwidth", "ieee", "tiny bandwidth, ieee"],
    )
    def test_all_pairs_are_summed_where_there_are_no_boxes(
        self,
        gpu: SimpleNamespace,
        launched: list[core_compile.Kernel],
        scale: float,
        offset: float,
        precision: str,
        squared_radius: float | None,
    ) -> None:
        """Data beyond all boxes, bandwidths of which squares leave the range, and the mode that says so."""
        X, Y = (scale * (a + offset) for a in self.sample(60, 6))
        sums = gpu.density.partial_sums(
            X, Y, 0.5 * scale, "sum", Options(precision, centre=X[0], squared_radius=squared_radius)
        )
        want = reference.log_kde(X / scale, Y / scale, 0.5) - reference.log_constant(0.5, 1) + np.log(len(X))
        allowed = DENSITY["gpu", precision].value
        np.testing.assert_allclose(sums.reference + np.log(sums.total), want, rtol=0, atol=allowed)
        assert names(launched) == ["pairs", "evaluate"]

    def test_no_call_that_is_captured_waits(
        self, gpu: SimpleNamespace, launched: list[core_compile.Kernel], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        X, Y = self.sample(60, 6)
        monkeypatch.setattr("cukde.core.gpu.device.capturing", lambda: True)
        monkeypatch.setattr(gpu.density.cp, "asnumpy", None, raising=False)
        with only("line"):
            got = cukde.sd_kde(X, Y, 0.5, check_finite=False)
        np.testing.assert_allclose(got, reference.sd_kde(X, Y, 0.5), rtol=3e-11)
        assert names(launched) == ["pairs", "evaluate"] * 2

    @pytest.mark.parametrize(("dtype", "precision"), [("float32", None), ("float64", None), ("float64", "float32")])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_few_points(
        self,
        gpu: SimpleNamespace,
        launched: list[core_compile.Kernel],
        dtype: str,
        precision: str | None,
        weighted: bool,
    ) -> None:
        """Queries that no block divides, and some of which all are far."""
        X, Y = self.sample(70, 6, dtype)
        Y[1], Y[4] = 40, -1e4
        w = np.random.default_rng(0).exponential(size=70) if weighted else None
        single = dtype == "float32" or precision == "float32"
        exponent = reference.nearness(X, Y, 0.5, w).exponent
        allowed = tolerances.log_error("gpu", "float32" if single else "float64", exponent)
        with only():
            got = cukde.kde(X, Y, 0.5, weights=w, log=True, precision=precision)
            tolerances.check_log(got, reference.log_kde(X, Y, 0.5, w), allowed)
            got = cukde.sd_kde(X, Y, 0.5, weights=w, log=True, precision=precision)
            tolerances.check_log(got, reference.sd_kde(X, Y, 0.5, weights=w, log=True), allowed + 1e-5 * single)
            got = cukde.kde(X, Y[:1], 0.5, weights=w, precision=precision)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, reference.kde(X, Y[:1], 0.5, w), rtol=1e-5 if single else 1e-12)
        assert names(launched) == ["pairs", "evaluate"] * 4

    def test_not_a_number_comes_out_where_it_went_in(self, gpu: SimpleNamespace) -> None:
        X, Y = self.sample(40, 6)
        Y[2] = np.nan
        got = cukde.kde(X, Y, 0.5, check_finite=False)
        want = reference.kde(X, np.delete(Y, 2, axis=0), 0.5)
        assert np.isnan(got[2])
        np.testing.assert_allclose(np.delete(got, 2), want, rtol=1e-12)
        X[5] = np.nan
        assert np.isnan(cukde.kde(X, Y, 0.5, check_finite=False)).all()

    @pytest.mark.parametrize("output", ["sum", "moments", "laplace", "values"])
    def test_splits_of_the_data(self, gpu: SimpleNamespace, output: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Sums over pairs in several splits, in single precision, queries far away among them."""
        from cukde.density.one_dimension.gpu import pairs

        X, Y = self.sample(100, 10, "float32")
        Y[3], Y[4] = 30, -1e4
        V = np.random.default_rng(0).standard_normal((100, 9)).astype("float32")
        monkeypatch.setattr(pairs, "TILE", 16)
        pairs.pairs.cache_clear()
        try:
            with only():
                got = gpu.density.partial_sums(
                    X, Y, 0.5, output, Options("float32"), values=V if output == "values" else None
                )
        finally:
            pairs.pairs.cache_clear()
        a = -0.5 * ((Y.astype(float) - X[:, 0]) / 0.5) ** 2
        e = np.exp(a - got.reference[:, None])
        difference = X[:, 0] - Y.astype(float)
        want = {"laplace": e * (1.5 + a), "moments": e * difference}
        size = {"laplace": e * (1.5 - a), "moments": e * np.maximum(0.5, np.abs(difference))}
        allowed = np.where(got.reference < 0, 2.0**-49 * -got.reference, DENSITY["gpu", "float32"].value)
        if output == "values":
            np.testing.assert_array_less(np.abs(got.moments - e @ V), 1e-30 + allowed[:, None] * (e @ np.abs(V)))
        if output in want:
            error = np.abs(got.moments[:, 0] - want[output].sum(axis=1))
            assert (error <= allowed * size[output].sum(axis=1)).all()
        assert (np.abs(got.total - e.sum(axis=1)) <= allowed * e.sum(axis=1)).all()

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_few_points_to_a_box(
        self, gpu: SimpleNamespace, launched: list[core_compile.Kernel], dtype: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neighbours are summed one by one; nothing is kept for boxes."""
        monkeypatch.setattr(one_dimension_plan, "FEW_BOXES", 8)
        X, Y = self.sample(80, 12, dtype)
        got = cukde.kde(X, Y, 0.003, log=True)
        exponent = reference.nearness(X, Y, 0.003).exponent
        allowed = np.maximum(TOLERANCE[dtype] + np.finfo(dtype).eps, 2.0**-49 * exponent)
        want = reference.log_kde(X, Y, 0.003)
        assert (np.abs(got - want) <= allowed + np.finfo(dtype).eps * np.abs(want)).all()
        assert names(launched) == ["evaluate"]

    def test_a_laplace_corrected_pass_takes_no_more_launches(
        self, gpu: SimpleNamespace, launched: list[core_compile.Kernel]
    ) -> None:
        X, Y = self.sample()
        sums = gpu.density.partial_sums(X, Y, 0.5, "laplace", Options("float64"))
        assert names(launched) == ["bounds", "moments", "translate", "evaluate"]
        a = -0.5 * ((Y - X[:, 0]) / 0.5) ** 2
        e = np.exp(a - sums.reference[:, None])
        np.testing.assert_allclose(sums.total, e.sum(axis=1), rtol=1e-12)
        ratio = (e * (1.5 + a)).sum(axis=1) / e.sum(axis=1)
        np.testing.assert_allclose(sums.moments[:, 0] / sums.total, ratio, rtol=1e-12, atol=1e-12)

    def test_every_plan_has_kernels(self, gpu: SimpleNamespace) -> None:
        for tolerance in TOLERANCE.values():
            for output in ("sum", "moments", "laplace"):
                for h in (0.1, 0.25, 0.2501, 0.4999, 1.0):
                    plan = one_dimension_plan.plan(h, output, tolerance)
                    assert gpu.boxes.order(plan) - plan.order <= 2
                    assert plan.reach <= gpu.kernels.MOST_REACH


def test_threads_that_ask_for_a_kernel_at_once_get_one(gpu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver may make one of two that are equal, which Numba would unload twice."""
    made: list[object] = []

    class Slow:
        def __init__(self, *_: object) -> None:
            made.append(self)
            time.sleep(0.05)

    monkeypatch.setattr(gpu.numba, "_Loaded", Slow)
    chosen = gpu.numba.Specialisation(lambda powers: powers, (4,))
    with ThreadPoolExecutor(4) as threads:
        got = list(threads.map(lambda _: gpu.numba._load(chosen, ()), range(4)))
    assert got == 4 * made
    assert len(made) == 1


class TestLookBySorting:
    """Data in order are looked at by sorting them: nothing else is launched before the pass."""

    @pytest.fixture
    def looked(self, gpu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Which of the two looks a call takes, in order."""
        from cukde.core.gpu import arrays, survey

        found: list[str] = []
        for module, name in ((survey, "ends"), (arrays, "look"), (arrays, "mean")):
            inner = getattr(module, name)
            monkeypatch.setattr(
                module, name, lambda *args, inner=inner, name=name: (found.append(name), inner(*args))[1]
            )
        return found

    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    @pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
    def test_the_result_is_that_of_the_other_look(
        self, gpu: SimpleNamespace, looked: list[str], dtype: str, shape: tuple[int, ...]
    ) -> None:
        rng = np.random.default_rng(0)
        X, Y = (rng.standard_normal(n).astype(dtype).reshape(shape) + 5 for n in (150, 12))
        X[3], Y[7] = 14, -3
        calls: list[tuple[Any, tuple[Any, ...]]] = [(cukde.kde, (X, Y, 0.4)), (cukde.kde, (X, X, 0.4))]
        if dtype == "float32" and X.ndim == 1:  # each call takes the simulator seconds
            calls += [
                (cukde.score, (X, Y, 0.4)),
                (cukde.laplace_kde, (X, Y, 0.4)),
                (functools.partial(cukde.sd_kde, score_bandwidth=0.3), (X, Y, 0.4)),
                (cukde.debias, (X, 0.4)),
            ]
        for function, (X_, *others) in calls:
            got = function(X_, *others)
            assert looked[0] == "ends"
            assert "mean" not in looked
            looked.clear()
            want = function(X_, *others, weights=np.ones(len(X)))  # takes the other
            assert "ends" not in looked
            assert "mean" in looked
            looked.clear()
            assert got.dtype == dtype
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=2e-6 if dtype == "float32" else 1e-12)

    @pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("name", ["X", "Y"])
    def test_what_is_not_finite_is_named(
        self, gpu: SimpleNamespace, looked: list[str], name: str, value: float
    ) -> None:
        arrays = {"X": np.linspace(0, 1, 50), "Y": np.linspace(0, 1, 20)}
        arrays[name][11] = value
        with pytest.raises(ValueError, match=f"^{name} must be finite"):
            cukde.kde(arrays["X"], arrays["Y"], 0.4)
        assert looked[0] == "ends"

    def test_what_is_too_far_is_refused(self, gpu: SimpleNamespace) -> None:
        X, Y = np.linspace(0, 1, 50, dtype="float32"), np.linspace(0, 1, 20, dtype="float32")
        Y[3] = 3e18
        with pytest.raises(ValueError, match="must lie within"):
            cukde.kde(X, Y, 0.4)
