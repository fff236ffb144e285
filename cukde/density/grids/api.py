"""Density on a product grid: by Fourier transforms where they are quicker, else exactly."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Literal, Unpack

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cost.registry import declare
from cukde.core.cpu import meanwhile
from cukde.core.entry.public_call import public_call
from cukde.core.over_dask import over_dask
from cukde.core.types import Array, ArrayLike, Bandwidth
from cukde.density import axes as density_axes, check as density_check, results
from cukde.density.arguments import problem_of
from cukde.density.cost import calls as cost_calls
from cukde.density.grids import check, cost, exact, plan as grids_plan, transform as grids_transform
from cukde.density.grids.in_domain import GridInDomain
from cukde.density.grids.plan import Plan
from cukde.density.keywords import OfGrid, before_dask, takes
from cukde.density.plan import compositions as plan_compositions
from cukde.density.problem import Problem
from cukde.density.signed import with_signed

_ERROR = {"float32": 1e-6, "float64": 1e-10}
"""Largest error of a transform, relative to the largest density of the grid."""

_GOAL = 0.8  # of that error, for the bound of a plan: omitted points and rounding come on top
_FINEST = 1e-12  # error beyond which no transform is tried: rounding is a hundredth of it
_QUERIES = 2**20  # of a pass over all pairs, which bounds memory
_PLAIN = (1e-100, 1e100)  # deviations whose squares and reciprocals are numbers


@declare(cost.evaluate_grid, cost_calls.of_grid)
@public_call()
@over_dask("cukde.density.grids.dask", before=before_dask)
@takes(OfGrid)
@with_signed
def evaluate_grid(
    X: ArrayLike,
    axes: Sequence[ArrayLike] | ArrayLike,
    h: Bandwidth,
    *,
    algorithm: Literal["auto", "exact", "fft"] = "auto",
    **options: Unpack[OfGrid],
) -> Array:
    r"""Gaussian kernel density estimate of the data ``X`` on a product grid.

    The result is that of :func:`kde` at all points :math:`(g_1, \dots, g_d)` with :math:`g_k` in ``axes[k]``, as an
    array of d axes.

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Data; (n,) means d = 1. A GPU array computes on the GPU. A Dask array or data frame, here or for ``weights``,
        makes the call lazy.
    axes : sequence of d array_like, each of shape (g_k,), or mapping
        Coordinates along each axis, in the units of ``X``, in any order and with any steps; or a mapping from the names
        of the columns. For d = 1 a single array will do. GPU arrays are copied to the host.
    h : float, array_like, mapping or str
        Bandwidth, in the forms of :func:`kde`.
    log : bool
        Return the log density, which is finite everywhere; it is computed by :func:`kde`.
    algorithm : {"auto", "exact", "fft"}
        "fft" convolves by Fourier transforms, for d <= 3; its error is relative to the largest density. "exact" sums
        all pairs; its error is relative to each number. "auto" is "fft" for d > 1 where it is faster and its error on
        this grid is within the bounds below, else "exact".
    deterministic : bool
        Give the same bits on every run on the same machine; transforms and exact products always do.
    check_finite : bool
        Refuse NaN and infinity. With False the data are unchecked, and a transform leaves out rows that hold them.

    Returns
    -------
    array, shape (g_1, ..., g_d)
        Density in units of 1/volume (or its logarithm), of dtype ``result_type(X, *axes)`` by the rule of :func:`kde`.
        NumPy in, NumPy out; CuPy in, CuPy out; Dask in, a Dask array of one chunk out.

    Raises
    ------
    TypeError, ValueError
        As :func:`kde`; for ``axes`` that are Dask collections, other than d axes, coordinates that are not finite or
        not in one dimension, and an unknown algorithm; for "fft" with ``log``, for more than three columns, and if it
        would need too large a grid or too many images of the data.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> cukde.evaluate_grid(X, ([0.0, 0.5, 1.0], [0.0, 2.0]), 1.0).round(4)
    array([[0.1278, 0.0173],
           [0.1405, 0.019 ],
           [0.1278, 0.0173]])

    Notes
    -----
    The error of "fft" is at most 1e-6 (float32) or 1e-10 (float64) of the largest density on the grid or within 6
    bandwidths of it; "auto" promises this relative to the largest density of the result. The error of "exact", relative
    to each number, is 1e-12 where the nearest point is within 12 bandwidths, for d > 1 and a bandwidth without
    covariances and local factors. In other cases it is that of :func:`kde`.

    Cost: "fft" spreads each point over 4 to 10 cells along each axis, with at most 2^25 cells or 16 for each number of
    the result, about 24 bytes each, and 8 (d + 1) bytes a point. "exact" takes 2 n m flops for m numbers, for d > 1.
    See ``docs/grids.md``.

    References
    ----------
    - Silverman, B. W. (1982). Kernel density estimation using the fast Fourier transform. *Applied Statistics* 31.
    - Essmann, U. et al. (1995). A smooth particle mesh Ewald method. *J. Chem. Phys.* 103, for the splines.
    """
    log = core_check.flag("log", options.pop("log", False))
    check.plain(axes=axes, h=h)
    return evaluated(X, axes, h, options, log=log, algorithm=algorithm)


def evaluated(
    X: Any, axes: Any, h: Any, options: Mapping[str, Any], *, log: bool, algorithm: str, dtype: np.dtype | None = None
) -> Any:
    """The same, rounded to a ``dtype`` if it is given; other options are those of ``prepare``."""
    backend = dispatch.backend(X, weights=options.get("weights"))
    with backend.device_of(X):
        x, _ = density_check.data(X, backend)
        d = x.shape[1]
        grid = density_axes.checked(axes, d)
        check.algorithm(algorithm, d, log=log)
        problem = problem_of(x, _corners(grid), h, options, takes_factors=algorithm != "fft")
        problem = problem if dtype is None else problem._replace(dtype=dtype)
        with problem.device:
            return results.cast(_Grid(problem, grid).density(algorithm, log=log), problem.dtype)


def _corners(grid: Sequence[np.ndarray]) -> np.ndarray:
    """Two queries with the least and the largest coordinates, for the checks; none where there are no coordinates."""
    dtype = density_check.result_dtype(*grid)
    if not all(map(len, grid)):
        return np.empty((0, len(grid)), dtype)
    return np.array([[g.min() for g in grid], [g.max() for g in grid]], dtype)


class _Grid:
    """A density of data whose bandwidth and weights have been checked, on a grid."""

    def __init__(self, problem: Problem, axes: list[np.ndarray]) -> None:
        self._problem = problem._replace(outside=None)
        self._in_domain = None if problem.domain is None else GridInDomain.of(problem.domain, axes)
        self._axes = [g.astype(np.float64) for g in axes] if self._in_domain is None else self._in_domain.axes
        self._shape = tuple(map(len, self._axes))
        self._numbers = math.prod(self._shape)
        self._backend: ModuleType = problem.backend
        self._n, self._d = problem.X.shape
        h = problem.whitening.bandwidth
        self._deviations = np.broadcast_to(h, (self._d,)) if h.ndim < 2 else None
        w = problem.options.log_weights
        self._weights = None if w is None else problem.xp.exp(w)
        self._error = _ERROR["float64" if problem.options.precision == "float64" else "float32"]

    def density(self, algorithm: str, *, log: bool) -> Any:
        """Return the density, float64 or of the dtype of the result, or its logarithm by the passes over all pairs."""
        out = self._by_pairs(log=True) if log else self._density(algorithm)
        domain = self._in_domain
        return out if domain is None else domain.whole(out, -math.inf if log else 0.0, self._problem.xp)

    def _density(self, algorithm: str) -> Any:
        if self._numbers == 0:
            return self._problem.xp.zeros(self._shape)
        if self._problem.options.local_factors is not None:  # of which there is no product, nor a transform
            return self._by_pairs(log=False)
        if algorithm == "fft":
            choice = self._plan(_GOAL * self._error)
            check.planned(choice)
            return self._transformed(choice[0], judged=False)[0]  # type: ignore[index]  # checked
        # In one dimension the fast transform of the exact way is about as quick, and accurate relative to each number.
        out = self._quick() if algorithm == "auto" and 1 < self._d <= check.MOST_COLUMNS else None
        if out is not None:
            return out
        if self._separable:
            assert self._deviations is not None
            problem, domain = self._problem, self._in_domain
            columns = None if domain is None else domain.columns(self._deviations)
            of_data = problem.X, self._weights, self._cell_axes, self._deviations
            return exact.density(*of_data, problem.dtype, self._backend, columns)
        return self._by_pairs(log=False)

    @property
    def _cell_axes(self) -> list[np.ndarray]:
        """The coordinates, those along a period from 0 to it."""
        return self._axes if self._in_domain is None else self._in_domain.wrapped

    @property
    def _separable(self) -> bool:
        return self._d > 1 and self._deviations is not None

    def _quick(self) -> Any:
        """Return the density by a transform, or None where the exact way is quicker or the error would be too large."""
        goal = _GOAL * self._error
        while goal >= _FINEST:
            choice = self._plan(goal)
            if choice is None or not self._pays(choice[1]):
                return None
            out, error = self._transformed(choice[0], judged=True)
            within = self._error * float(out.max()) / error if error > 0 else math.inf
            if within >= 1:
                return out
            if not within > 0:  # nothing near the grid, or not numbers
                return None
            goal *= min(0.5, 0.5 * within)
        return None

    def _plan(self, goal: float) -> tuple[Plan, float] | None:
        least, largest = _PLAIN
        if self._deviations is not None and not ((self._deviations > least) & (self._deviations < largest)).all():
            return None
        n = self._n
        if self._in_domain is not None:
            if self._data is None:
                return None
            n = len(self._data[0])
        costs = plan_compositions.transform_costs(self._backend.name)
        return grids_plan.plan(self._axes, self._covariance, n, goal, costs)

    @functools.cached_property
    def _data(self) -> tuple[Any, Any, float] | None:
        """Points, weights that sum to 1 or None, and what they are times; with images, None where these are many."""
        if self._in_domain is None:
            return self._problem.X, self._weights, 1.0
        widths = np.sqrt(np.diag(self._covariance))
        images = self._in_domain.images(self._problem.X, widths, self._problem.xp)
        if images is None:
            return None
        index, points = images
        if self._weights is None:
            return points, None, len(points) / self._n
        weights = self._weights[index]
        mass = float(weights.sum())
        return points, weights / mass, mass

    @property
    def _covariance(self) -> np.ndarray:
        h = self._problem.whitening.bandwidth
        return h if self._deviations is None else np.diag(self._deviations**2)

    def _transformed(self, plan: Plan, *, judged: bool) -> tuple[Any, float]:
        assert self._data is not None
        points, weights, mass = self._data
        mode = meanwhile.WAITING if self._problem.options.deterministic else meanwhile.mode.get()
        with meanwhile.within(mode):
            out, error = grids_transform.density(points, weights, self._covariance, plan, self._backend, judged=judged)
        if self._in_domain is None:
            return out, error
        left_out = self._in_domain.left_out(np.sqrt(np.diag(self._covariance)))
        return out * mass, error * mass + left_out * grids_transform.peak(self._covariance)

    def _pays(self, ns: float) -> bool:
        """Whether a transform of so many nanoseconds is quicker than the exact way."""
        columns = None
        if self._separable:
            cut = exact.halves(self._shape)
            columns = math.prod(self._shape[:cut]) + math.prod(self._shape[cut:])
        return plan_compositions.transform_pays(self._backend.name, ns, self._n, self._numbers, columns)

    def _by_pairs(self, *, log: bool) -> Any:
        """Take all pairs of the data and the grid's points, some of these at a time."""
        problem, xp = self._problem, self._problem.xp
        axes = [xp.asarray(g) for g in self._cell_axes]
        out = xp.empty(self._numbers, problem.dtype)
        for start in range(0, self._numbers, _QUERIES):
            rest = xp.arange(start, min(start + _QUERIES, self._numbers))
            columns = []
            for g in axes[::-1]:
                columns.append(g[rest % len(g)])
                rest = rest // len(g)
            Y = xp.stack(columns[::-1], axis=1).astype(problem.X.dtype)
            out[start : start + len(Y)] = problem._replace(Y=Y, query_shape=Y.shape).density(log=log)
        return out.reshape(self._shape)
