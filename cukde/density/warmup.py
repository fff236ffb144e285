"""Compile before it counts: :func:`warmup`."""

from __future__ import annotations

import contextlib
import itertools
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from cukde.core import check as core_check, dispatch, plan
from cukde.core.cpu import arrays as cpu, meanwhile
from cukde.core.gpu import compile as core_compile
from cukde.core.quiet import quiet
from cukde.core.types import Bandwidth
from cukde.core.warnings import NegativeDensityWarning
from cukde.density import api, backends, check
from cukde.density.options import Options
from cukde.density.plan import cpu as plan_cpu, gpu as plan_gpu
from cukde.density.sums import Output
from cukde.density.whitening import Whitening

FUNCTIONS = ("kde", "score", "density_and_score", "debias", "sd_kde", "laplace_kde", "kernel_sum")

_OUTPUTS: dict[str, Output] = {
    "kde": "sum",
    "score": "moments",
    "density_and_score": "moments",
    "sd_kde": "sum",
    "laplace_kde": "laplace",
    "kernel_sum": "values",
}

# Rows that are enough for a run on the CPU: tiles beside each other, of data and of queries, and in one dimension more
# pairs than are summed one by one.
_CPU_ROWS, _CPU_QUERIES = 4097, 257


@quiet
def warmup(
    n: int,
    m: int | None,
    d: int,
    *,
    functions: Sequence[str] | None = None,
    h: Bandwidth = 1.0,
    dtype: DTypeLike = "float32",
    precision: str | None = None,
    weights: bool = False,
    values: int | None = None,
    deterministic: bool = False,
    backend: str | None = None,
) -> list[str]:
    """Compile and load everything that calls of a given size need, so that the first call need not wait for a compiler.

    On a GPU it makes the calls without launching kernels, which are only compiled and loaded. Its data are close
    together in some calls and far apart in others, because kernels differ. On the CPU it makes the calls on few points.

    Parameters
    ----------
    n : int
        Number of data points.
    m : int, optional
        Number of queries; None if the queries are the data themselves, ``Y is X``.
    d : int
        Number of dimensions.
    functions : sequence of str, optional
        Names of the functions that will be called, such as ``("kde", "sd_kde")``. Default: all, but "kernel_sum" only
        if ``values`` is given.
    h : float or array_like
        A bandwidth of the form that the calls will have: a number, a vector of d numbers, or a covariance. Its size
        does not matter.
    dtype : {"float32", "float64"}
        Of the results.
    precision : {"float32", "tf32", "ieee", "float64"}, optional
        As in :func:`kde`.
    weights : bool
        Whether the data will have weights.
    values : int, optional
        Columns of the values of :func:`kernel_sum`.
    deterministic : bool
        As in :func:`kde`.
    backend : {"gpu", "cpu"}, optional
        What to prepare: the current CUDA device, or the CPU. Default: the GPU if one works.

    Returns
    -------
    list of str
        Names of the compiled specialisations: of the CUDA kernels that the calls use, or on the CPU of all Numba
        functions that have been compiled.

    Raises
    ------
    ValueError
        For sizes that are not positive and names that do not exist.
    RuntimeError
        For ``backend="gpu"`` where no GPU works.

    Examples
    --------
    >>> import cukde
    >>> ready = cukde.warmup(1000, 100, 3, functions=["kde"], backend="cpu")
    >>> "add_sums" in ready
    True

    Notes
    -----
    It changes no result, not by a bit. Cost: NVRTC takes about half a second to compile a kernel, and a workload needs
    about ten to twenty. CuPy keeps them on disk, from where each takes milliseconds. So warm up once on each machine,
    and in every process whose first call must not wait. On a GPU it allocates as much memory as one call of that size,
    which stays in CuPy's memory pool.

    It covers calls with either value of ``check_finite``, ``log`` and ``negative``, and the defaults of
    ``score_bandwidth`` and ``local_factors``. It does not cover calls with ``rtol``: on the CPU the first of them waits
    seconds for the compiler.
    """
    n, d = core_check.count("n", n), core_check.count("d", d)
    m = None if m is None else core_check.count("m", m)
    values = None if values is None else core_check.count("values", values)
    weights = core_check.flag("weights", weights)
    names = _functions(functions, values)
    result = check.result_name(dtype)
    chosen = check.precision(precision, result)
    whitening = Whitening(check.bandwidth(h, d), d)
    module = dispatch.named(backend)

    if module is cpu:
        n, m = min(n, _CPU_ROWS), None if m is None else min(m, _CPU_QUERIES)
    try:
        calls = _Calls(module.xp, n, m, d, h, result, values if "kernel_sum" in names else None, weights)
    except ValueError as error:
        raise ValueError(f"n, m, d and values must be the sizes of arrays: {error}") from None
    options = {"precision": precision, "deterministic": deterministic}
    waiting = meanwhile.within(meanwhile.WAITING)
    # On a GPU without those that ask what the data are: kernels that do not run leave anything there.
    left_out = () if module is cpu else ("f16 ahead", "plane", "skipping", "apart")
    with warnings.catch_warnings(), waiting, core_compile.rehearsed(but="core/survey") as rehearsal:
        warnings.simplefilter("ignore", NegativeDensityWarning)
        passes = backends.passes(module, d, Options(chosen))
        for squared_radius in _squared_radii(chosen, d, on_gpu=module is not cpu):
            calls.spread_over(squared_radius, whitening)
            for name in names:
                for check_finite in (True, False):
                    with plan.without(*left_out) if left_out else contextlib.nullcontext():
                        calls.make(name, options | {"check_finite": check_finite})
                if module is cpu and backends.may_hand_over(calls.X, calls.Y, values or 0):
                    calls.sum(name, passes, whitening, Options(chosen))
                if module is cpu and chosen != "float64":  # queries far from all data
                    calls.sum(name, backends.pairs(module), whitening, Options("ieee"))
                    calls.make_of_far(name, options, whitening)
        if module is cpu:  # data most of whose pairs are left out
            calls.X[:, 0] = calls.X[0, 0] * np.linspace(1, 0, n)
            for name in names:
                calls.make(name, options)
        else:
            calls.load_others(names, Options(chosen, calls.weights, deterministic=deterministic))
    if module is cpu:
        from cukde.core.cpu import jit

        return jit.compiled()
    return [kernel.name for kernel in rehearsal.asked]


def _squared_radii(precision: str, d: int, *, on_gpu: bool) -> tuple[float, ...]:
    """Scaled squared radii that stand for all others."""
    if not on_gpu:
        return plan_cpu.radii()
    from cukde.density.pairs.gpu.shape import current

    return plan_gpu.radii(precision, d, current())


class _Calls:
    """Arrays of a workload, and the calls on them."""

    def __init__(
        self,
        xp: Any,
        n: int,
        m: int | None,
        d: int,
        h: Any,
        dtype: np.dtype,
        values: int | None,
        weights: bool,
    ) -> None:
        self.h = h
        self.X = xp.zeros((n, d), dtype)
        self.Y = self.X if m is None else xp.zeros((m, d), dtype)
        self.V = None if values is None else xp.ones((n, values), dtype)
        self.weights = xp.ones(n) if weights else None

    def spread_over(self, squared_radius: float, whitening: Whitening) -> None:
        """Take one point so far away from all others that the data have a scaled squared radius."""
        n = len(self.X)
        # The centre is a part 1/n of the way to that point: where it is the only one, queries have the whole way.
        self.X[0, 0] = self._distance(math.sqrt(squared_radius) / (1 - 1 / n if n > 1 else 1), whitening)

    def load_others(self, names: Sequence[str], options: Options) -> None:
        """Compile what passes launch that may serve or not, as the data are: those that the plan would ask."""
        from cukde.core.gpu.launch import DOUBLE
        from cukde.density.pairs.gpu.shape import shape_of
        from cukde.density.pairs.gpu.skipping import choice
        from cukde.density.plane.gpu import passes as plane_passes

        (n, d), m, itself = self.X.shape, len(self.Y), self.Y is self.X
        for name in names:
            moved = name in ("debias", "sd_kde")
            asked: list[tuple[Output, int, bool]] = [("moments", n, True)] if moved else []
            asked += [] if name == "debias" else [(_OUTPUTS[name], m, itself and not moved)]
            for output, queries, alike in asked:
                k = 0 if output != "values" or self.V is None else self.V.shape[1]
                shape = shape_of(output, n, queries, d, options, k=k, itself=alike, ratio=moved and alike)
                storage = DOUBLE if moved and not alike else self.X.dtype
                candidates = plan_gpu.plan(shape).names
                kernels = [*choice.kernels(shape, options, storage)] if "skipping" in candidates else []
                kernels += plane_passes.kernels(storage, shape) if "plane" in candidates else []
                for kernel in kernels:
                    core_compile.kernel(*kernel[:3], kernel.shared_bytes)

    def make_of_far(self, name: str, options: dict[str, Any], whitening: Whitening) -> None:
        """Make all calls of a function with a query so far from all data that it is taken again."""
        if self.Y is not self.X:
            self.Y[0, 0] = -self._distance(plan_cpu.far_distance(), whitening)
            self.make(name, options)
            self.Y[0, 0] = 0

    def _distance(self, bandwidths: float, whitening: Whitening) -> float:
        """So many bandwidths along the first column."""
        d = self.X.shape[1]
        step = float(np.linalg.norm(whitening.apply(np.eye(1, d), np.zeros(d), np))) / whitening.h  # in bandwidths
        distance = bandwidths / (step or math.ulp(0.0))
        check.representable_distance(distance, self.X.dtype)
        return distance

    def make(self, name: str, options: dict[str, Any]) -> None:
        """Make all calls of a function."""
        function, X, Y, h = getattr(api, name), self.X, self.Y, self.h
        if name == "kernel_sum":
            function(X, self.V, Y, h, **options)
            return
        options = options | {"weights": self.weights}
        ways: dict[str, list[Any]] = {"log": [False, True]}
        if name == "debias":
            function(X, h, **options)
            return
        if name in ("score", "density_and_score"):
            ways = {}
        elif name == "laplace_kde":
            ways |= {"negative": ["keep", "clip"]}
        for way in itertools.product(*ways.values()):
            function(X, Y, h, **dict(zip(ways, way, strict=True)), **options)

    def sum(self, name: str, passes: Any, whitening: Whitening, options: Options) -> None:
        """Sum by the passes of many pairs, to which few are handed where they lie far apart."""
        X, Y = (a if whitening.plain else whitening.apply(a, np.zeros(a.shape[1]), np) for a in (self.X, self.Y))
        if self.weights is not None and name != "kernel_sum":
            options = options._replace(log_weights=np.log(self.weights))
        if name in ("debias", "sd_kde"):
            passes.partial_sums(X, None, whitening.h, "moments", options)
        if name == "sd_kde":  # debiased points are double
            X, Y = X.astype(np.float64), Y.astype(np.float64)
        if name != "debias":
            values = self.V if name == "kernel_sum" else None
            passes.partial_sums(X, Y, whitening.h, _OUTPUTS[name], options, values=values)


def _functions(names: Sequence[str] | None, values: int | None) -> list[str]:
    """Check the names of functions; None are all that ``values`` allows."""
    if names is None:
        return [name for name in FUNCTIONS if name != "kernel_sum" or values is not None]
    names = [names] if isinstance(names, str) else core_check.sequence("functions", names, "names")
    for name in names:
        if not isinstance(name, str) or name not in FUNCTIONS:
            raise ValueError(f"functions must be among {', '.join(FUNCTIONS)}; got {name!r}")
    if "kernel_sum" in names and values is None:
        raise ValueError("values must be the number of columns of V, for kernel_sum; got None")
    return names
