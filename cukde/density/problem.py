"""From the arguments of a public function to arrays a backend computes on."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cpu import arrays as cpu
from cukde.density import backends, check, kernels, leave_one_out, results
from cukde.density.domains import check as domains_check, distribution, images
from cukde.density.domains.domain import Domain
from cukde.density.kept import Kept, kept
from cukde.density.kernels import Kernel
from cukde.density.options import Options
from cukde.density.over_devices import OverDevices
from cukde.density.pairs.cpu import few
from cukde.density.plan import compositions as plan_compositions, cpu as plan_cpu, gpu as plan_gpu
from cukde.density.sums import Epilogue, Output, PartialSums, debiased, of_logarithms, to_density
from cukde.density.whitening import Whitening, whitening_of

# Stands for log(0) in weights: finite, so that differences of exponents stay numbers in every precision.
_LOG_ZERO = -1e30

_LEAST_RATIO = 1e-300  # of weights: below the quotient has fewer bits, or is 0

# A scaled squared radius, in any bandwidth, that is far below those that are refused.
SURE = 1e30

_NOTHING: Mapping[str, Any] = MappingProxyType({})

_HERE = contextlib.nullcontext()

_LARGEST_LOG = 690.0  # of an absolute tolerance of sums: more means the same


class Unchecked(NamedTuple):
    """What is left to do for a problem of arrays in order, on the current device, whose values are unchecked."""

    call: Any  # the backend's, which checks them on its way; its methods return None where it does not serve
    look: Callable[[], Problem]  # check them, and return the problem
    other: Callable[[], Any | None] = lambda: None  # another such call, for where the first does not serve

    def tried(self, method: str, *args: Any, **kwargs: Any) -> Any | None:
        """Return what a method of the calls returns; None where the values have to be looked at first."""
        out = getattr(self.call, method)(*args, **kwargs)
        if out is None and (other := self.other()) is not None:
            out = getattr(other, method)(*args, **kwargs)
        return out


class Problem(NamedTuple):
    """Checked arguments in the backend's arrays: data, queries, one bandwidth, and the options of a pass."""

    backend: ModuleType
    X: Any  # (n, d) float32 or float64, C-contiguous; of unchecked values also (n,)
    Y: Any | None  # (m, d); None: the data themselves
    query_shape: tuple[int, ...]
    dtype: np.dtype  # of the result
    options: Options  # log_weights are of weights that sum to 1; None: every weight is 1/n
    whitening: Whitening
    points: Any = None  # what the backend has prepared of them
    domain: Domain | None = None  # of X and Y, which are then taken from its origin, float64; None: all of space
    outside: Any | None = None  # (m,): queries that do not lie in it; None: unchecked
    unchecked: Unchecked | None = None  # of values that are still to be checked; options then have no centre
    leave_one_out: bool = False  # whether sums at row i leave out datum i; there are as many queries as data
    devices: tuple[int, ...] = ()  # that take shares of passes over pairs; none: that of the data takes all

    @property
    def xp(self) -> Any:
        """The backend's array module."""
        return self.backend.xp

    def passes(self, columns: int = 0) -> Any:
        """The backend's passes over the data: one column has some of its own, and so have two and three, and few pairs.

        ``columns`` are those of values.
        """
        if backends.has_few(self.backend, self.X, self.Y, columns):
            return few
        if self.X.shape[1] == 1:
            return backends.line(self.backend, self.X, self.Y)
        if self.devices:
            return OverDevices(self.backend, self.devices, self.X.shape[1], self.options)
        return backends.passes(self.backend, self.X.shape[1], self.options)

    @property
    def device(self) -> AbstractContextManager[Any]:
        """Makes the data's device the current one, so that work beside the pass runs there too.

        Of unchecked data NumPy warns no more than CuPy does of what comes of NaN and infinities.
        """
        if self.unchecked is not None:
            return _HERE
        device: AbstractContextManager[Any] = self.backend.device_of(self.X)
        return device if self.options.squared_radius is not None and self.domain is None else quiet(device)

    @property
    def log_constant(self) -> float:
        """Logarithm of the Gaussian's normalising constant, with 1/n in it where there are no weights."""
        return self.whitening.log_norm + self._log_share

    def _log_constant_of(self, kernel: Kernel) -> float:
        """The same of another kernel."""
        return kernels.log_constant(kernel, self.X.shape[1]) - self.whitening.log_det + self._log_share

    def within(self, atol: float, kernel: Kernel | None = None) -> Problem:
        """Return the same with an absolute tolerance of densities, by the Gaussian or another kernel."""
        log_constant = self.log_constant if kernel is None else self._log_constant_of(kernel)
        beside = math.exp(min(_LARGEST_LOG, math.log(atol) - log_constant)) if atol > 0 else 0.0
        return self._replace(options=self.options._replace(atol=beside))

    @property
    def _log_share(self) -> float:
        """Logarithm of the weight of a point, where there are no weights."""
        return 0.0 if self.options.log_weights is not None else -math.log(self.X.shape[0])

    def _pass(self, columns: int = 0) -> tuple[Any, Options]:
        """Which passes take the problem, and their options: those of the whitened data."""
        options = self._whitened_options
        if options.local_factors is None:
            passes = self.passes(columns)
            return passes if options.lost is None or passes is few else backends.pairs(self.backend), options
        log_weights = -self.X.shape[1] * self.xp.log(options.local_factors)
        if options.log_weights is not None:
            log_weights = log_weights + options.log_weights
        options = options._replace(log_weights=log_weights)
        if self.devices:
            return OverDevices(self.backend, self.devices, self.X.shape[1], options), options
        return backends.pairs(self.backend), options  # all pairs in one dimension, too

    @property
    def _whitened_options(self) -> Options:
        if self.whitening.plain:
            return self.options
        options = self.options
        centre = kept(
            options.kept, "image", options.centre, None, lambda: self.whitening.image(options.centre, self.xp)
        )
        return options._replace(centre=centre, lost=self.lost())

    @property
    def _by_sums(self) -> bool:
        """Whether results are made of sums, as no pass ends in them."""
        return self.domain is not None or self.leave_one_out

    @property
    def _ends(self) -> ModuleType | None:
        """The backend's kernels for what becomes of sums."""
        return backends.ends(self.backend)

    def lost(self) -> tuple[Any, Any | None] | None:
        """What rounding has taken from whitened data and queries that reach far; None where it does not matter."""
        options, whitening = self.options, self.whitening
        radius, centre = options.squared_radius, options.centre
        if whitening.plain or self.backend is not cpu or options.precision != "float64":
            return None
        if radius is None:
            radius = squared_radius(self.backend, self.X, self.Y, centre, whitening)
        if not plan_compositions.reaches_far(radius):
            return None
        of_data = kept(options.kept, "lost", self.X, whitening, lambda: whitening.lost(self.X, centre))
        return of_data, None if self.Y is None else whitening.lost(self.Y, centre)

    def epilogue(self, *, log: bool) -> Epilogue:
        """How sums become the density, or its logarithm."""
        return Epilogue(self.log_constant, log, self.dtype)

    def sums(self, output: Output, values: Any = None, *, ratio: bool = False) -> PartialSums:
        """Run one pass over all pairs on the backend; ``ratio`` asks for nothing but moments / total."""
        if self.leave_one_out:
            return leave_one_out.sums(self, output)
        if self.domain is not None:
            return images.sums(self, output, values)
        X, Y = self.whitened()
        passes, options = self._pass(0 if values is None else values.shape[1])
        return passes.partial_sums(X, Y, self.whitening.h, output, options, values=values, ratio=ratio)

    def sums_without_own(self, output: Output) -> PartialSums | None:
        """Run a pass that leaves out row i from the sums of query i; None where there is none, or others are faster."""
        if self.domain is not None:  # an own term is one of many images
            return None
        passes, options = self._pass()
        if not hasattr(passes, "sums_without_own"):  # a transform
            plan = plan_cpu if self.backend is cpu else plan_gpu
            if not plan.own_pairs_are_few(len(self.X)):
                return None
            passes = backends.pairs(self.backend)
        options = options._replace(own=self.xp.arange(len(self.X)))
        out: PartialSums | None = passes.sums_without_own(*self.whitened(), self.whitening.h, output, options)
        return out

    def density(self, *, log: bool) -> Any:
        """Run the pass that sums kernels; return the density at the queries, or its logarithm."""
        if self.unchecked is not None:
            out = self.unchecked.tried("density", self.whitening.h, self.whitening.log_norm, self.dtype, log=log)
            return self.unchecked.look().density(log=log) if out is None else out
        epilogue = self.epilogue(log=log)
        if self._by_sums:
            return self._ended(self.sums("sum"), epilogue)
        X, Y = self.whitened()
        passes, options = self._pass()
        return passes.density(X, Y, self.whitening.h, options, epilogue, points=self.points)

    def score(self) -> Any:
        """Return the gradient of the log density at the queries, in their own shape."""
        if self.unchecked is not None:
            out = self.unchecked.tried("score", self.whitening.h, self.dtype)
            return self.unchecked.look().score() if out is None else out
        return self._gradient(self._of_gradient().sums("moments", ratio=True))

    def log_density_and_score(self) -> tuple[Any, Any]:
        """Return the log density at the queries and the score, by one pass."""
        if self.unchecked is not None:
            both = self.unchecked.tried("density_and_score", self.whitening.h, self.whitening.log_norm, self.dtype)
            return self.unchecked.look().log_density_and_score() if both is None else both
        sums = self._of_gradient().sums("moments")
        return self._ended(sums, self.epilogue(log=True)), self._gradient(sums)

    def _ended(self, sums: PartialSums, epilogue: Epilogue) -> Any:
        """Densities of sums: on a GPU by one launch, where array operations take one each."""
        ends = self._ends
        return to_density(sums, *epilogue, self.xp) if ends is None else ends.density(sums, epilogue)

    def _of_gradient(self) -> Problem:
        """The same whose moments are the gradient's, which with local factors are not those of the mean shift."""
        return self._replace(options=self.options._replace(of_gradient=True))

    def _gradient(self, sums: PartialSums) -> Any:
        ends = self._ends
        if ends is not None and self.whitening.plain:
            return ends.gradient(sums, self.whitening.h, self.dtype).reshape(self.query_shape)
        gradient = results.gradient(sums, self.whitening, self.xp)
        return results.cast(gradient, self.dtype).reshape(self.query_shape)

    def laplace_density(self, *, log: bool, positive: bool = False, log_mass: float = 0.0) -> Any:
        """Return the Laplace-corrected density at the queries, negative values and all, or its logarithm.

        ``positive`` asks for the density of the same sums that is positive everywhere (:func:`results.positive`), over
        a mass.
        """
        if self.unchecked is not None:
            h, log_norm = self.whitening.h, self.whitening.log_norm - log_mass
            form = "positive" if positive else "laplace"
            out = self.unchecked.tried("density", h, log_norm, self.dtype, log=log, form=form)
            if out is not None:
                return out
            return self.unchecked.look().laplace_density(log=log, positive=positive, log_mass=log_mass)
        epilogue = self.epilogue(log=log)
        if log_mass:
            epilogue = epilogue._replace(log_constant=epilogue.log_constant - log_mass)
        passes, options = (None, self.options) if self._by_sums else self._pass()
        if passes is None or not hasattr(passes, "laplace_density"):  # no pass ends in the density itself
            sums = self.sums("laplace")
            if positive:
                return results.positive(sums, *epilogue, self.xp)
            return results.laplace(sums, *epilogue, self.xp)[0]
        X, Y = self.whitened()
        return passes.laplace_density(X, Y, self.whitening.h, options, epilogue, positive=positive)

    def kernel_density(self, kernel: Kernel, *, log: bool) -> Any:
        """Return the density at the queries by another kernel than the Gaussian, or its logarithm."""
        epilogue = Epilogue(self._log_constant_of(kernel), log, self.dtype)
        if not self.leave_one_out:
            return self._by_kernel(kernel, epilogue)
        others = self._replace(options=self.options._replace(own=self.xp.arange(len(self.X))))
        sums = leave_one_out.divided(others.kernel_sums(kernel), self)
        with np.errstate(divide="ignore"):  # out of reach of all others
            return to_density(sums, *epilogue, self.xp)

    def distribution(self, *, log: bool) -> Any:
        """Return the distribution function at the queries, of data of one column, or its logarithm."""
        sums = self._normal_sums if self.domain is None else functools.partial(distribution.sums, self)
        lower = sums(1)
        upper = sums(-1) if log else None
        return results.distribution(lower, upper, self._log_share, self.dtype, self.xp)

    def _normal_sums(self, sign: int) -> PartialSums:
        """Sum the normal distribution function; with ``sign`` -1 that of the data and queries reflected in zero."""
        # What is not reflected stays the same array, by which passes know what they keep.
        X, Y = (a if a is None or sign == 1 else -a for a in self.whitened())
        options = self._whitened_options
        reflected = options._replace(centre=sign * options.centre)
        return backends.line(self.backend, X, Y).partial_sums(X, Y, self.whitening.h, "cdf", reflected)

    def kernel_sums(self, kernel: Kernel) -> PartialSums:
        """Return sums of another kernel than the Gaussian, each a single term of its own logarithm."""
        logs = self._by_kernel(kernel, Epilogue(0.0, True, np.dtype(np.float64)))
        return of_logarithms(logs, self.xp)

    def _by_kernel(self, kernel: Kernel, epilogue: Epilogue) -> Any:
        X, Y = self.whitened()
        passes = backends.radial(self.backend, X, Y)
        return passes.kernel_density(X, Y, self.whitening.h, kernel, options=self.options, **epilogue._asdict())

    def moved(self, estimate: Problem, steps: int = 1) -> Any:
        """Return debiased data, (n, d) float64 or of the result's dtype, moved by the mean shift of ``estimate``.

        Each of several ``steps`` moves the data themselves, by the mean shift at them of the points of the step before.
        """
        if self.unchecked is not None:
            out = None
            if estimate.whitening.plain:
                out = self.unchecked.tried("moved", self.whitening.h, estimate.whitening.h, self.dtype)
            if out is not None:
                return out
            self, estimate = self._looked_with(estimate)
        points = self._moved_along(estimate)
        for _ in range(steps - 1):
            points = self._moved_along(estimate.of_points(points, self.X))
        return points

    def moved_rows(self, estimate: Problem, steps: int = 1) -> Any:
        """The same in the user's coordinates, of the dtype of the result, in the shape of the data."""
        points = self.moved(estimate, steps)
        points = points if self.domain is None else self.domain.restored(points, self.xp)
        return results.cast(points, self.dtype).reshape(self.query_shape)

    def _moved_along(self, estimate: Problem) -> Any:
        sums = estimate.sums("moments", ratio=True)
        if estimate.leave_one_out:
            sums = leave_one_out.limited(sums, estimate.whitening.h, self.xp)
        ends, at, by = self._ends, self.whitening, estimate.whitening
        if ends is not None and at.plain and by.plain:
            points = ends.debiased(self.X, sums, 0.5 * (at.h / by.h) ** 2)
        else:
            points = moved(self.X, sums, at, by, self.xp)
        return points if self.domain is None else self.domain.folded(points, self.xp)

    def of_points(self, points: Any, queries: Any) -> Problem:
        """Return the same with points in place of the data, float64, a row for each, at queries of their own."""
        options = self.options._replace(kept=None)
        out = self._replace(X=points, Y=queries.astype(points.dtype, copy=False), points=None, options=options)
        return out if options.squared_radius is None else out.located()

    def density_of_moved(self, estimate: Problem, *, log: bool, steps: int = 1) -> Any:
        """Return the density, or its log, of the debiased data at the queries; ``estimate`` is that of the score."""
        if self.unchecked is not None:
            out = None
            if estimate.whitening.plain:
                h, log_norm = self.whitening.h, self.whitening.log_norm
                out = self.unchecked.tried("density_of_moved", h, estimate.whitening.h, log_norm, self.dtype, log=log)
            if out is not None:
                return out
            self, estimate = self._looked_with(estimate)
        return self.debiased(estimate, steps).density(log=log)

    def _looked_with(self, estimate: Problem) -> tuple[Problem, Problem]:
        """Return the same and the problem of its score, with values that are checked."""
        assert self.unchecked is not None
        problem = self.unchecked.look()
        same = estimate.whitening is self.whitening
        return problem, problem.of_score(None if same else estimate.whitening)

    def debiased(self, estimate: Problem, steps: int = 1) -> Problem:
        """Return the same problem with debiased data, float64; ``estimate`` is the problem of the score."""
        points = None
        # The shorter way may change the order of the rows, and takes one step with own terms and without factors.
        in_order = estimate.leave_one_out or steps > 1 or self.options.local_factors is not None
        if self.whitening.plain and estimate.whitening.plain and not (in_order or self._by_sums):
            queries = self.X if self.Y is None else self.Y
            passes, widths = estimate.passes(), (self.whitening.h, estimate.whitening.h)
            X, Y, points = passes.debias(self.X, queries, *widths, self.options)
        else:
            X = self.moved(estimate, steps)
            Y = (self.X if self.Y is None else self.Y).astype(X.dtype, copy=False)
        out = self._replace(X=X, Y=Y, points=points)
        # With its own bandwidth a point moves half way to a mean of the data: the radius cannot grow, but by wrapping.
        same = estimate.whitening is self.whitening and self.domain is None
        return out if same or self.options.squared_radius is None else out.located()

    def kept(self) -> Problem:
        """Return the same for many calls of :meth:`at`: passes keep what they make of the data."""
        return self._replace(options=self.options._replace(kept=Kept(self.backend.place)))

    def at(self, Y: Any, name: str = "Y", *, gaussian: bool = True) -> Problem:
        """Return the same at other queries, which are checked as :func:`cukde.density.arguments.prepare` does.

        It is for checked data, in a dtype that holds the queries. ``name`` is what an error calls the queries. For a
        ``gaussian`` their values may be left unchecked, for the backend's passes to look at.
        """
        plain = self.whitening.plain and self.domain is None and self.options.local_factors is None
        unchecked = self._unchecked_at(Y, name) if gaussian and plain else None
        return self._at(Y, name) if unchecked is None else self._replace(Y=Y, query_shape=Y.shape, unchecked=unchecked)

    def _unchecked_at(self, Y: Any, name: str) -> Unchecked | None:
        """The backend's call of a small problem, or of passes that are launched before the queries are looked at."""
        backend, options = self.backend, self.options
        small, ahead = backends.small(backend), backends.ahead(backend)
        if small is None or not small.in_order(self.X, Y):
            return None

        def of_many() -> Any | None:
            if ahead is None:
                return None
            all_pairs = functools.partial(backends.all_pairs, backend, options)
            return ahead.Call.of(self.X, Y, options.precision, options, all_pairs)

        log_w = options.log_weights
        weights = None if log_w is None else kept(options.kept, "weights", self.X, None, lambda: self.xp.exp(log_w))
        call = small.Call.of(self.X, Y, options.precision, weights, True)
        if call is not None:
            return Unchecked(call, lambda: self._at(Y, name), of_many)
        call = of_many()
        return None if call is None else Unchecked(call, lambda: self._at(Y, name))

    def _at(self, Y: Any, name: str) -> Problem:
        backend, options = self.backend, self.options
        y, query_shape = check.queries(Y, self.X.shape[1], backend, name)
        outside = None
        if self.domain is not None:
            core_check.finite({name: bool(backend.xp.isfinite(y).all())})  # before any is brought onto a bound
            outside = self.domain.outside(y, backend.xp).any(axis=1)
            y = self.domain.anchored(y, backend.xp)
        y = backend.xp.ascontiguousarray(y, dtype=self.X.dtype)
        with np.errstate(over="ignore", invalid="ignore"):  # such queries are refused
            radius, bounded, _ = checked_radius(backend, [(name, y)], options.centre, self.whitening, self.X)
        if radius > options.squared_radius:
            narrowest = least_factor(options.local_factors)
            single = options.precision != "float64"
            check.squared_radius(radius / narrowest**2, single=single, name=name, of_queries=True)
            options = options._replace(squared_radius=radius, bounded=bounded)
        return self._replace(Y=y, query_shape=query_shape, options=options, outside=outside)

    def of_score(self, whitening: Whitening | None = None) -> Problem:
        """The score of the data at the data as a problem, with the same bandwidth or another."""
        problem = self._replace(Y=None, outside=None, leave_one_out=False)
        if whitening is None:
            return problem
        problem = problem._replace(whitening=whitening)
        return problem if problem.options.squared_radius is None else problem.located()

    def located(self, name: str = "X") -> Problem:
        """Return the same with the scaled squared radius of its points and bandwidth, which is checked.

        ``name`` is what an error calls the data.
        """
        with self.device:
            radius = squared_radius(self.backend, self.X, self.Y, self.options.centre, self.whitening)
            narrowest = least_factor(self.options.local_factors)
        check.squared_radius(radius / narrowest**2, single=self.options.precision != "float64", name=name)
        return self._replace(options=self.options._replace(squared_radius=radius, bounded=False))

    def whitened(self) -> tuple[Any, Any | None]:
        """Data and queries in coordinates in which one number is the bandwidth."""
        if self.whitening.plain:
            return self.X, self.Y
        centre, xp, store = self.options.centre, self.xp, self.options.kept
        X = kept(store, "whitened", self.X, self.whitening, lambda: self.whitening.apply(self.X, centre, xp))
        return X, None if self.Y is None else self.whitening.apply(self.Y, centre, xp)


@contextlib.contextmanager
def quiet(device: AbstractContextManager[Any]) -> Iterator[None]:
    """Make a device the current one, with no warnings of floating point numbers."""
    with device, np.errstate(all="ignore"):
        yield


def moved(X: Any, sums: PartialSums, whitening: Whitening, of_score: Whitening, xp: Any) -> Any:
    """Points moved by half of their mean shift times H H_s^-1, float64: without local factors by H/2 times the score.

    The mean shift is that of moments of the data at the points, by the bandwidth ``of_score``, H_s.
    """
    if whitening.plain and of_score.plain:
        return debiased(X, sums, whitening.of_queries(0.5 * (whitening.h / of_score.h) ** 2, xp))
    return X + 0.5 * whitening.smooth(results.gradient(sums, of_score, xp), xp)


def score_whitening(score_bandwidth: Any, d: int, domain: Domain | None, *, factors: bool, single: bool) -> Whitening:
    """Return the whitening of a score's own bandwidth, with local ``factors`` or without."""
    whitening = whitening_of(dispatch.to_host(score_bandwidth), d, "score_bandwidth", factors=factors, single=single)
    if domain is not None:
        domains_check.bandwidth(whitening.bandwidth, domain.bounded, "score_bandwidth")
    return whitening


def score_problem(problem: Problem, score_bandwidth: Any, *, own_point: bool = True) -> Problem:
    """The score of the data at the data (Y = X) as a problem; ``score_bandwidth`` None is the problem's own.

    Without ``own_point`` each row is left out of the sums at itself.
    """
    whitening = None
    if score_bandwidth is not None:
        d, factors = 1 if problem.X.ndim == 1 else problem.X.shape[1], problem.options.local_factors is not None
        single = problem.whitening.single
        whitening = score_whitening(score_bandwidth, d, problem.domain, factors=factors, single=single)
    estimate = problem.of_score(whitening)
    if own_point:
        return estimate
    log_w = problem.options.log_weights
    check.rows_to_leave_out(len(problem.X) if log_w is None else int((log_w > _LOG_ZERO).sum()), "own_point=False")
    return estimate._replace(leave_one_out=True)


def least_factor(factors: Any | None, least_and_largest: tuple[float, float] | None = None) -> float:
    """Smallest local factor and 1, None being none; the largest is checked with it. Both may be known."""
    if factors is None:
        return 1.0
    least, largest = least_and_largest or (float(factors.min()), float(factors.max()))
    check.factor_range(least, largest)
    return min(1.0, least)


def checked_radius(
    backend: ModuleType,
    points: Sequence[tuple[str, Any]],
    centre: Any,
    whitening: Whitening,
    X: Any,
    others: Mapping[str, Any] = _NOTHING,
    ranged: Mapping[str, Any] = _NOTHING,
) -> tuple[float, bool, dict[str, tuple[float, float]]]:
    """Check that arrays are finite; return the scaled squared radius of points, whether it is a bound, and ranges.

    Everything is reduced where the arrays are. ``points`` are the data or queries, or both, with their names in errors,
    ``X`` the data of a pass, ``others`` further arrays, and ``ranged`` those whose least and largest entry are wanted.
    """
    x, y = points[0][1], points[1][1] if len(points) > 1 else None
    if backends.has_few(backend, X, x if y is None else y) and "local_factors" not in ranged:
        bound = _bound(x, centre, whitening)
        if y is not None and bound < SURE:
            of_queries = _bound(y, centre, whitening)
            bound = bound if of_queries <= bound else of_queries  # or NaN
        if bound < SURE and all(np.isfinite(a).all() for a in (*others.values(), *ranged.values())):
            return bound, True, {name: cpu.range_of(a) for name, a in ranged.items()}
    about = centre if whitening.plain else None
    radius, finite, found = backend.look(x, y, about, list(others.values()), list(ranged.values()))
    core_check.finite(dict(zip((*(name for name, _ in points), *others, *ranged), finite, strict=True)))
    ranges = dict(zip(ranged, found, strict=True))
    if whitening.plain:
        return radius / whitening.h**2, False, ranges
    return squared_radius(backend, x, y, centre, whitening), False, ranges


def _bound(A: Any, centre: Any, whitening: Whitening) -> float:
    """A bound of the scaled squared radius of points on the host; infinite or NaN where an entry is not finite."""
    bound = cpu.radius_bound(whitening.apply(A, centre, np), whitening.image(centre, np))
    return bound / float(whitening.h) ** 2


def squared_radius(backend: ModuleType, x: Any, y: Any, centre: Any, whitening: Whitening) -> float:
    """Scaled squared radius: the largest squared distance to the centre, in bandwidths; ``y`` may be None."""
    with np.errstate(over="ignore", invalid="ignore"):
        x, y = (None if a is None else whitening.apply(a, centre, backend.xp) for a in (x, y))
        return backend.look(x, y, whitening.image(centre, backend.xp))[0] / whitening.h**2


def shares(backend: ModuleType, w: Any) -> Any:
    """Logarithms of weights, (n,), divided by their sum; nothing waits for them."""
    on_gpu = backends.weights(backend)
    return log_weights(w, backend.xp)[0] if on_gpu is None else on_gpu.logarithms(w)


def log_weights(w: Any, xp: Any) -> tuple[Any, Any]:
    """Logarithms of weights divided by their sum, and of that sum; of many densities, a row each."""
    w = w.astype(xp.float64)
    with np.errstate(divide="ignore", invalid="ignore"):  # of unchecked weights
        largest = w.max(axis=-1, keepdims=True)
        ratios = w / largest  # the sum of huge weights must not overflow
        log_sum, log_largest = xp.log(ratios.sum(axis=-1, keepdims=True)), xp.log(largest)
        logs = xp.where(ratios < _LEAST_RATIO, xp.log(w) - log_largest, xp.log(ratios))
        return xp.maximum(logs - log_sum, _LOG_ZERO), (log_sum + log_largest)[..., 0]


def reweighted(log_w: Any | None, log_factors: Any, xp: Any) -> Any:
    """Logarithms of weights times factors, divided by their sum; ``log_w`` None: every weight is the same."""
    if log_w is not None:
        log_factors = xp.where(log_w > _LOG_ZERO, log_w, -xp.inf) + log_factors
    log_factors = log_factors - log_factors.max()
    return xp.maximum(log_factors - xp.log(xp.exp(log_factors).sum()), _LOG_ZERO)
