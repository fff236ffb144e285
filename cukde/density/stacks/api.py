"""The density family over stacks, many densities of one size, by the names of :mod:`cukde.density.api`.

Small members are summed at once, in one pass of the backend's ``stacks``; large ones by the passes of single
densities, one after the other.
"""

from __future__ import annotations

import functools
import math
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cpu import meanwhile
from cukde.core.warnings import NegativeDensityWarning, of_user
from cukde.density import check as density_check, results, rules_by_name
from cukde.density.options import Options
from cukde.density.problem import WIDE, Problem, log_weights, moved, quiet
from cukde.density.stacks import check
from cukde.density.sums import PartialSums, moment_columns, to_density
from cukde.density.whitening import Whitening


def kde(X: Any, Y: Any, h: Any, *, log: bool = False, **options: Any) -> Any:
    """See :func:`cukde.kde`."""
    log = core_check.flag("log", log)
    stack = prepare(X, Y, h, **options)
    with stack.device:
        return stack.density(log=log)


def score(X: Any, Y: Any, h: Any, **options: Any) -> Any:
    """See :func:`cukde.score`."""
    stack = prepare(X, Y, h, **options)
    with stack.device:
        return stack.of_queries(results.gradient(stack.sums("moments", ratio=True), stack.whitening, stack.xp))


def density_and_score(X: Any, Y: Any, h: Any, **options: Any) -> tuple[Any, Any]:
    """See :func:`cukde.density_and_score`."""
    stack = prepare(X, Y, h, **options)
    with stack.device:
        sums = stack.sums("moments")
        log_density = results.log_density(sums, stack.log_constants, stack.dtype, stack.xp)
        return log_density, stack.of_queries(results.gradient(sums, stack.whitening, stack.xp))


def debias(
    X: Any, h: Any, *, score_bandwidth: Any = None, steps: int = 1, own_point: bool = True, **options: Any
) -> Any:
    """See :func:`cukde.debias`."""
    check.own_point(own_point)
    steps = density_check.steps(steps)
    density_check.one_step(h, steps, own_point=own_point)
    stack = prepare(X, X, h, method="sd", steps=steps, **options)
    estimate = stack.of_score(score_bandwidth)
    with stack.device:
        return stack.of_queries(stack.moved(estimate, steps))


def sd_kde(
    X: Any,
    Y: Any,
    h: Any,
    *,
    score_bandwidth: Any = None,
    steps: int = 1,
    own_point: bool = True,
    log: bool = False,
    **options: Any,
) -> Any:
    """See :func:`cukde.sd_kde`."""
    log = core_check.flag("log", log)
    check.own_point(own_point)
    steps = density_check.steps(steps)
    density_check.one_step(h, steps, own_point=own_point)
    stack = prepare(X, Y, h, method="sd", steps=steps, **options)
    estimate = stack.of_score(score_bandwidth)
    with stack.device:
        return stack.debiased(estimate, steps).density(log=log)


def laplace_kde(
    X: Any, Y: Any, h: Any, *, negative: Literal["keep", "clip"] = "keep", log: bool = False, **options: Any
) -> Any:
    """See :func:`cukde.laplace_kde`."""
    density_check.negative(negative)
    log = core_check.flag("log", log)
    stack = prepare(X, Y, h, method="laplace", **options)
    with stack.device:
        sums, clip = stack.sums("laplace"), negative == "clip"
        out, report = results.laplace(sums, stack.log_constants, log, stack.dtype, stack.xp, clip=clip)
    if report is not None:
        of_user(report, NegativeDensityWarning)
    return out


class Stack(NamedTuple):
    """Checked arguments in the backend's arrays; see :class:`cukde.density.problem.Problem` of a single density."""

    backend: ModuleType
    X: Any  # (b, n, d) float32 or float64, C-contiguous
    Y: Any | None  # (b, m, d), or (1, m, d) where members share them; None: the data themselves
    query_shape: tuple[int, ...]  # of results that have a number for each coordinate of the queries
    dtype: np.dtype  # of the result
    options: Options  # log_weights (b, n) or (1, n), centre (b, d), squared_radius (b,) on the host
    whitening: Whitening

    @property
    def xp(self) -> Any:
        """The backend's array module."""
        return self.backend.xp

    @property
    def device(self) -> AbstractContextManager[Any]:
        """Makes the data's device the current one."""
        device: AbstractContextManager[Any] = self.backend.device_of(self.X)
        return device if self.options.squared_radius is not None else quiet(device)

    @property
    def log_constants(self) -> Any:
        """Logarithms of the normalising constants, (b, 1), with 1/n in them where there are no weights."""
        share = 0.0 if self.options.log_weights is not None else -math.log(self.X.shape[1])
        return self.whitening.of_queries(self.whitening.log_norm + share, self.xp)

    def sums(self, output: Literal["sum", "moments", "laplace"], *, ratio: bool = False) -> PartialSums:
        """Sums of all members at their queries; arrays begin with the axis of members."""
        (b, n, d), m = self.X.shape, (self.X if self.Y is None else self.Y).shape[1]
        stacks, options = _passes(self.backend), self.options
        if stacks.pays(b, n, m, d, options.precision) and not self._reaches_far:
            X = self.whitening.apply(self.X, options.centre, self.xp)
            Y = X if self.Y is None else self.whitening.apply(self.Y, options.centre, self.xp)
            log_weights, precision = options.log_weights, options.precision
            mode = meanwhile.WAITING if options.deterministic else meanwhile.mode.get()
            with meanwhile.within(mode):
                return stacks.partial_sums(X, Y, self.whitening.h, output, log_weights=log_weights, precision=precision)
        xp, k = self.xp, moment_columns(output, d)
        if b == 0:
            return PartialSums(xp.zeros((0, m)), xp.zeros((0, m)), xp.zeros((0, m, k)) if k else None)
        parts = [self._member(i).sums(output, ratio=ratio) for i in range(b)]
        return PartialSums(*(None if arrays[0] is None else xp.stack(arrays) for arrays in zip(*parts, strict=True)))

    @property
    def _reaches_far(self) -> bool:
        """Whether single densities take what rounding has taken from whitened points, as their passes do."""
        radii = self.options.squared_radius
        if self.whitening.plain or self.backend.name == "gpu" or self.options.precision != "float64":
            return False
        return radii is None or bool((radii > WIDE).any())

    def density(self, *, log: bool) -> Any:
        """Densities at the queries, (b, m), or their logarithms."""
        return to_density(self.sums("sum"), self.log_constants, log, self.dtype, self.xp)

    def of_queries(self, a: Any) -> Any:
        """Round a result that has a number for each coordinate of the queries, and give it its shape."""
        return results.cast(a, self.dtype).reshape(self.query_shape)

    def of_score(self, score_bandwidth: Any) -> Stack:
        """Pose the scores of the data at the data (Y = X); ``score_bandwidth`` None is the stack's own."""
        if score_bandwidth is None:
            return self._replace(Y=None)
        b, _, d = self.X.shape
        name = "score_bandwidth"
        log_w = self.options.log_weights
        weights = None if log_w is None else self.xp.exp(log_w)
        widths = check.bandwidths(_bandwidths(score_bandwidth, self.X, weights, "kde", name), b, d, name)
        estimate = self._replace(
            Y=None, whitening=Whitening(widths, d, name, stacked=True, single=self.whitening.single)
        )
        return estimate if self.options.squared_radius is None else estimate.located()

    def located(self) -> Stack:
        """Return the same with scaled squared radii by its own bandwidths and points, which are checked."""
        centres, xp = self.options.centre, self.xp
        with self.device, np.errstate(over="ignore", invalid="ignore"):
            origins = self.whitening.image(centres, xp)
            whitened = [self.whitening.apply(a, centres, xp) for a in (self.X, self.Y) if a is not None]
            return self.with_radii([_passes(self.backend).look(a, origins)[0] for a in whitened])

    def with_radii(self, radii: list[np.ndarray]) -> Stack:
        """Return the same with checked radii: the largest of squared distances (b,) to the centres."""
        scaled = np.max(radii, axis=0) / self.whitening.h**2
        check.squared_radii(scaled, single=self.options.precision != "float64")
        return self._replace(options=self.options._replace(squared_radius=scaled))

    def moved(self, estimate: Stack, steps: int = 1) -> Any:
        """Debiased data, (b, n, d) float64, moved along the score that ``estimate`` poses."""
        points = self._moved_along(estimate)
        for _ in range(steps - 1):
            points = self._moved_along(estimate.of_points(points, self.X))
        return points

    def _moved_along(self, estimate: Stack) -> Any:
        return moved(self.X, estimate.sums("moments", ratio=True), self.whitening, estimate.whitening, self.xp)

    def of_points(self, points: Any, queries: Any) -> Stack:
        """Return the same with points in place of the data, float64, at queries of their own."""
        out = self._replace(X=points, Y=queries.astype(points.dtype, copy=False))
        return out if self.options.squared_radius is None else out.located()

    def debiased(self, estimate: Stack, steps: int = 1) -> Stack:
        """Return the same stack with debiased data, float64; ``estimate`` poses their score."""
        X = self.moved(estimate, steps)
        Y = (self.X if self.Y is None else self.Y).astype(X.dtype, copy=False)
        out = self._replace(X=X, Y=Y)
        # With its own bandwidth a point moves half way to a mean of the data: radii cannot grow.
        same = estimate.whitening is self.whitening
        return out if same or self.options.squared_radius is None else out.located()

    def _member(self, i: int) -> Problem:
        """Pose one member as a single density."""

        def of(a: Any) -> Any:
            return None if a is None else a[min(i, len(a) - 1)]

        options = self.options
        radius = None if options.squared_radius is None else float(options.squared_radius[i])
        options = options._replace(log_weights=of(options.log_weights), centre=options.centre[i], squared_radius=radius)
        return Problem(self.backend, self.X[i], of(self.Y), (), self.dtype, options, self.whitening.member(i))


def prepare(
    X: Any,
    Y: Any,
    h: Any,
    *,
    weights: Any = None,
    rtol: Any = None,
    precision: Any = None,
    deterministic: bool = False,
    check_finite: bool = True,
    method: str = "kde",
    steps: int = 1,
    **of_single_densities: Any,
) -> Stack:
    """Check every argument and lay it out for the backend; options that only single densities have must be None.

    Checks on the host come first; then, with ``check_finite``, the reductions over all members at once.
    """
    deterministic = core_check.flag("deterministic", deterministic)
    check_finite = core_check.flag("check_finite", check_finite)
    rtol = density_check.tolerance(rtol)
    backend = dispatch.backend(X, Y=Y, weights=weights)
    with backend.device_of(X):
        xp = backend.xp
        itself = Y is X or Y is None
        x = check.data(X, backend)
        check.only_single(of_single_densities, x.shape)
        b, _, d = x.shape
        y, query_shape = (x, x.shape) if itself else check.queries(Y, x.shape, backend)
        w = None if weights is None else check.weights(weights, x.shape, backend)
        dtype = density_check.result_dtype(x, y)
        chosen = density_check.precision(precision, dtype)
        h = _bandwidths(h, x, w, method, steps=steps)
        single = chosen != "float64" or backend.name == "gpu"
        whitening = Whitening(check.bandwidths(h, b, d), d, stacked=True, single=single)
        storage = xp.float64 if chosen == "float64" else dtype
        x = xp.ascontiguousarray(x, dtype=storage)
        y = None if itself else xp.ascontiguousarray(y, dtype=storage)
        with np.errstate(over="ignore", invalid="ignore"):  # such data are refused below
            centres = _passes(backend).means(x)
        options = Options(chosen, centre=centres, deterministic=deterministic, rtol=rtol)
        stack = Stack(backend, x, y, query_shape, dtype, options, whitening)
        if check_finite:
            stack = _checked(stack, w)
        if w is None:
            return stack
        return stack._replace(options=stack.options._replace(log_weights=log_weights(w, xp)[0]))


def _bandwidths(h: Any, x: Any, w: Any, method: str, name: str = "h", steps: int = 1) -> Any:
    """Return bandwidths on the host: those given, or by the name of a rule one of each member."""
    options: dict[str, Any] = {"steps": steps, "name": name}
    if not isinstance(h, str) or len(x) == 0:
        return rules_by_name.bandwidth(h, x, w, method, **options)
    rows = [None if w is None else w[min(i, len(w) - 1)] for i in range(len(x))]
    return np.stack([rules_by_name.bandwidth(h, *member, method, **options) for member in zip(x, rows, strict=True)])


def _checked(stack: Stack, w: Any) -> Stack:
    """Check that arrays are finite, weights are weights, and the scaled squared radii."""
    with np.errstate(over="ignore", invalid="ignore"):
        looked = {
            name: _passes(stack.backend).look(a, stack.options.centre)
            for name, a in (("X", stack.X), ("Y", stack.Y))
            if a is not None
        }
    flags = {name: finite for name, (_, finite) in looked.items()}
    if stack.Y is not None and len(stack.Y) == 1:  # shared by all members
        flags["Y"] = flags["Y"][:1]
    if w is not None:
        finite, least, largest = _of_weights(w, stack.xp, stack.backend)
        flags["weights"] = finite
    check.finite(flags)
    if w is not None:
        check.weight_ranges(least, largest)
    return stack.with_radii([radii for radii, _ in looked.values()]) if stack.whitening.plain else stack.located()


def _of_weights(w: Any, xp: Any, backend: ModuleType) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each row of weights whether all are finite, and the smallest and the largest."""
    summary = backend.asnumpy(
        xp.stack([a.astype(np.float64) for a in (xp.isfinite(w).all(axis=1), w.min(axis=1), w.max(axis=1))])
    )
    return summary[0] > 0, summary[1], summary[2]


@functools.cache
def _passes(backend: ModuleType) -> ModuleType:
    """Sums of small members, all in one pass."""
    if backend.name == "gpu":
        from cukde.density.stacks import gpu as on_gpu

        return on_gpu
    from cukde.density.stacks.cpu import passes as on_cpu

    return on_cpu
