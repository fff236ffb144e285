"""Samples of some columns, given values of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np

from cukde.core import dispatch, random_state as core_random_state
from cukde.core.cost.registry import declare
from cukde.core.entry import returned
from cukde.core.entry.given import Given
from cukde.core.entry.public_call import public_call
from cukde.core.random_state import RandomState
from cukde.core.types import Array, ArrayLike, Bandwidth
from cukde.density import results
from cukde.density.compositions import check, cost
from cukde.density.compositions.column_kernel import log_kernels
from cukde.density.compositions.question import Question, chosen_others
from cukde.density.cost import calls as cost_calls
from cukde.density.keywords import InDomain, takes
from cukde.density.problem import Problem

_GROUPS = 64  # of rows, of which a pass finds the shares
_PAIRS = 2**22  # of rows and given values that are taken one by one, a few arrays of which are held at a time


def _with_names(given: Given, result: Any) -> Any:
    """Samples of a frame are a frame of the columns that are left."""
    names = given.labels
    rest = None if names is None else [names[k] for k in chosen_others(given.arguments, names, len(names))]
    return returned.as_new_rows(given, result, "X", "sample", rest)


@declare(cost.conditional_sample, cost_calls.of_sample)
@public_call(_with_names, chosen=chosen_others)
@takes(InDomain)
def conditional_sample(
    X: ArrayLike,
    given: Mapping[Any, Any],
    h: Bandwidth,
    *,
    size: int | None = None,
    random_state: RandomState = None,
    **options: Unpack[InDomain],
) -> Array:
    r"""Samples of :func:`conditional`: of the other columns, given values of some.

    A row j is drawn with the probability :math:`W_j(g) \propto w_j K(g - x_{j,g})`, and a step from its kernel in the
    other columns is added: the samples are exactly of the conditional density.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Data, as for :func:`conditional`, in memory.
    given : mapping
        From a column, by position or by name, to its value: a number, or an array of shape (m,). At least one column is
        left.
    h : float, array_like or str
        Bandwidth of all ``d`` columns of ``X``, in the forms of :func:`kde`; a covariance may correlate given columns
        with others, but for columns with bounds or periods.
    size : int, optional
        Number of samples of each conditional density; default 1.
    random_state : int, numpy.random.RandomState, numpy.random.Generator or None
        Random state. An integer gives the same samples on every call and every device, up to rounding.

    Returns
    -------
    array or frame
        In the columns that are left, d - k, in the order of ``X``: shape (size, d - k) where all values are numbers;
        with arrays (m, d - k), a sample for each, or with ``size`` (m, size, d - k). A frame if ``X`` is one and there
        are two axes. dtype: as of :func:`conditional`.

    Raises
    ------
    TypeError, ValueError
        As :func:`conditional`; for Dask collections, and a ``size`` or random state that is none.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = np.array([[0.0, 5.0], [1.0, 7.0]])
    >>> cukde.conditional_sample(X, {0: 0.5}, 1.0, size=3, random_state=0).shape
    (3, 1)
    >>> at = cukde.conditional_sample(X, {0: np.zeros(1000)}, [0.1, 1.0], random_state=0)
    >>> at.shape, at.mean().round(1)  # the second row is ten bandwidths from 0
    ((1000, 1), np.float64(5.0))

    See Also
    --------
    conditional_cdf, conditional_quantile, KernelDensity.sample

    Notes
    -----
    Probabilities of rows are those of :func:`kde` of the given columns, with its accuracy; a draw takes 53 random bits.
    Cost: one pass, n m exponentials, which finds the share of each of 64 groups of rows, and then the rows of the one
    group that is drawn. Random numbers are drawn on the host. ``size`` costs no sum over the data.

    Steps over a bound are reflected and steps over the end of a period wrapped, as the kernels are.
    """
    seed = core_random_state.integer(random_state)
    count = 1 if size is None else check.size(size)
    backend = dispatch.backend(X, weights=options.get("weights"), **check.values_by_name(given))
    with backend.device_of(X):
        asked = Question.of(backend, X, given, h, dict(options))
        rest, of_given = asked.of_rest(), asked.of_given()
    rng = np.random.default_rng(seed)
    at = asked.at()
    shape = len(at), count
    with rest.device:
        xp = backend.xp
        u = backend.asarray(rng.uniform(size=(2, *shape)))
        steps = backend.asarray(_steps(rng, (*shape, len(asked.rest)), rest.whitening.bandwidth))
        rows = _drawn(of_given, u)
        out = rest.X[rows] + steps
        if asked.kernel.slope is not None:  # the regression at the given value, less that at the row
            of_rows = asked.moved(0.0, asked.x[:, asked.given], 1.0)
            out = out + asked.moved(0.0, at, 1.0)[:, None] - of_rows[rows]
        if rest.domain is not None:
            flat = rest.domain.folded(out.reshape(-1, out.shape[-1]), xp)
            out = rest.domain.restored(flat, xp).reshape(out.shape)
        if not asked.options.get("check_finite", True):  # what is no number draws no row
            numbers = xp.isfinite(of_given.Y).all(axis=1) & xp.isfinite(of_given.X).all()
            out = xp.where(numbers[:, None, None], out, xp.nan)
        out = results.cast(out, asked.dtype)
        if not asked.arrays:
            return out[0]
        return out[:, 0] if size is None else out


def _steps(rng: np.random.Generator, shape: tuple[int, ...], h: np.ndarray) -> np.ndarray:
    steps: np.ndarray = rng.standard_normal(shape)
    return steps @ np.linalg.cholesky((h + h.T) / 2).T if h.ndim == 2 else steps * h


def _drawn(problem: Problem, u: Any) -> Any:
    """Rows of the data, (m, s), that uniform numbers, (2, m, s), draw at the m queries of a problem."""
    n, (m, s) = len(problem.X), u.shape[1:]
    xp = problem.xp
    if n * m <= _PAIRS:
        return _in_group(problem, slice(0, n), xp.arange(m), u[1])
    step = -(-n // _GROUPS)
    groups = [slice(start, min(start + step, n)) for start in range(0, n, step)]
    logs = []
    for rows in groups:
        X = problem.X[rows].copy()  # kernels of a GPU read rows that are aligned
        sums = problem._replace(X=X, options=problem.options.of_rows(rows), points=None).sums("sum")
        logs.append(sums.reference + xp.log(sums.total))
    chosen = _places(xp.stack(logs, axis=1), u[0], xp)
    out = xp.empty((m, s), np.int64)
    for number, rows in enumerate(groups):
        here = chosen == number
        some = xp.flatnonzero(here.any(axis=1))
        most = max(1, _PAIRS // (rows.stop - rows.start))
        for start in range(0, len(some), most):
            queries = some[start : start + most]
            found = rows.start + _in_group(problem, rows, queries, u[1][queries])
            out[queries] = xp.where(here[queries], found, out[queries])
    return out


def _in_group(problem: Problem, rows: slice, queries: Any, u: Any) -> Any:
    """Rows within a group, (m, s), by their kernels at queries."""
    log_weights = problem.options.of_rows(rows).log_weights
    assert problem.Y is not None
    logs = log_kernels(problem, problem.X[rows], problem.Y[queries])
    return _places(logs if log_weights is None else logs + log_weights, u, problem.xp)


def _places(logs: Any, u: Any, xp: Any) -> Any:
    """Places in rows of logarithms of weights, (m, k), that uniform numbers (m, s) draw, (m, s)."""
    m, k = logs.shape
    shares = xp.cumsum(xp.exp(logs - logs.max(axis=1, keepdims=True)), axis=1)
    shares /= shares[:, -1:].copy()
    shares = xp.where(xp.isnan(shares), 1.0, shares)  # of unchecked values
    # Rows one after the other are in order, so that one search finds all.
    row = xp.arange(m)[:, None]
    places = xp.searchsorted((shares + row).reshape(-1), (u + row).reshape(-1), side="right").reshape(u.shape)
    return xp.clip(places - row * k, 0, k - 1)
