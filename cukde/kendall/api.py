"""Kendall's tau of two samples and of all pairs of columns of matrices, and the counts behind it."""

from __future__ import annotations

import math
from functools import partial
from types import ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np

from cukde.core import check as core_check, dispatch, reprs, warnings as core_warnings
from cukde.core.cost.registry import declare
from cukde.core.cpu import arrays as cpu
from cukde.core.entry import returned
from cukde.core.entry.given import Given
from cukde.core.entry.public_call import public_call
from cukde.core.over_dask import over_dask
from cukde.core.public import public_in
from cukde.core.types import Array, ArrayLike
from cukde.kendall import check, cost, samples, statistics
from cukde.kendall.counts import PairCounts, SignificanceResult
from cukde.kendall.cpu import few as few_on_cpu

_passes = partial(dispatch.passes, "cukde.kendall")


@public_in("cukde")
@reprs.readable
class Concordance(NamedTuple):
    """Counts of pairs of samples for each pair of columns, int64; the five counts add up to n (n - 1) / 2."""

    concordant: Array  # (p, q): in the same order in both columns
    discordant: Array  # (p, q): in opposite order
    tied_x: Array  # (p, q): equal in the column of A alone
    tied_y: Array  # (p, q): equal in the column of B alone
    tied_both: Array  # (p, q): equal in both


def _with_names(given: Given, result: Any) -> Any:
    """Matrices have a row for each column of A, and a column for each of B."""
    A, B = given.given["A"], given.given.get("B")
    return returned.as_matrices(given, result, A, A if B is None else B)


@declare(cost.kendalltau, cost.of_samples)
@public_call()
def kendalltau(
    x: ArrayLike,
    y: ArrayLike,
    *,
    nan_policy: Literal["propagate", "omit", "raise"] = "propagate",
    distribution: Literal["auto", "exact", "asymptotic"] = "auto",
    method: Literal["auto", "exact", "asymptotic"] | None = None,
    variant: Literal["a", "b", "c"] = "b",
    alternative: Literal["two-sided", "less", "greater"] = "two-sided",
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
) -> SignificanceResult:
    r"""Kendall's tau of two paired samples, and the p-value of independence; a drop-in for SciPy's.

    Of all N = n (n - 1) / 2 pairs of samples, C have the same order in x and y, D have opposite orders, :math:`T_x` are
    tied in x and :math:`T_y` are tied in y. Let m be the smaller of the numbers of distinct values of x and y:

    .. math::

        \tau_a = \frac{C - D}{N}, \qquad
        \tau_b = \frac{C - D}{\sqrt{(N - T_x)(N - T_y)}}, \qquad
        \tau_c = \frac{2 (C - D)}{n^2 (m - 1) / m}

    Parameters
    ----------
    x, y : array_like
        Samples. They are flattened and must have the same size if ``axis`` is None; otherwise their shapes must
        broadcast. Real numbers of up to 8 bytes, also 64-bit integers, are compared exactly. Other values that have an
        order (long doubles, objects, text, times, ordered categories) are compared on the CPU, where None and
        ``pandas.NA`` count as NaN. If ``x`` is a GPU array, the call computes on the GPU and moves ``y`` there. Masked
        entries are left out, whatever ``nan_policy`` is. Infinities are ordinary values. Two frames with columns of the
        same names are paired by them.
    nan_policy : {"propagate", "omit", "raise"}
        What NaN does: "propagate" makes the result NaN, "omit" leaves the sample out, "raise" raises an error.
    distribution : {"auto", "exact", "asymptotic"}
        The distribution under independence, which gives the p-value. "asymptotic" is the normal distribution, with a
        variance that accounts for ties. "exact" is the exact distribution, which exists only for samples without ties.
        "auto" is exact if there are no ties and either n is at most 33 or at most one pair is out of order; otherwise
        it is asymptotic.
    method : {"auto", "exact", "asymptotic"}, optional
        SciPy's name of ``distribution``; give one of the two.
    variant : {"b", "c", "a"}
        Which tau; the p-value is the same for all.
    alternative : {"two-sided", "less", "greater"}
        The alternative to independence: tau is not 0, is negative, or is positive.
    axis : int or tuple of int, optional
        Axes to reduce. Default None: all axes, of flattened samples.
    keepdims : bool
        Keep the reduced axes, with size 1.

    Returns
    -------
    SignificanceResult
        A pair ``(statistic, pvalue)`` of float64 values, one for each slice along the other axes; ``correlation`` is
        another name of the statistic. NumPy in, NumPy out (scalars where no axis is left); CuPy in, CuPy out. NaN for
        constant samples and for fewer than two samples.

    Raises
    ------
    TypeError
        For complex values, for values and categories without an order, on the GPU for anything but real numbers, and
        for ``y`` on the GPU beside ``x`` on the CPU.
    ValueError
        For incompatible sizes or shapes, an unknown option, NaN with ``nan_policy="raise"``, ties with
        ``distribution="exact"``, and an axis out of bounds.

    Warns
    -----
    SmallSampleWarning
        SciPy's warning, if fewer than two samples are left; on the GPU only if the shape alone shows it.

    Examples
    --------
    >>> import cukde
    >>> result = cukde.kendalltau([12, 2, 1, 12, 2], [1, 4, 7, 1, 0])
    >>> print(f"{result.statistic:.4f} {result.pvalue:.4f}")
    -0.4714 0.2827

    Notes
    -----
    Counts are exact (int64), for up to 1e8 samples; the statistic is accurate to 1e-12. It lies between -1 and 1, and
    perfect order gives exactly 1. Cost: O(n log n) comparisons and O(n) memory. The host waits for the GPU only with
    ``nan_policy="raise"``, and with ``distribution="exact"``, which the host computes in O(n min(C, D)).

    SciPy's function differs in three ways: it has no variant "a", it checks an option only where it uses it, and with
    ``distribution="asymptotic"`` it divides by zero for two samples.

    References
    ----------
    - Kendall, M. G. (1938). A new measure of rank correlation. *Biometrika* 30, 81-93.
    - Kendall, M. G. (1970). *Rank Correlation Methods*, 4th edition. Griffin.
    - Knight, W. R. (1966). A computer method for calculating Kendall's tau with ungrouped data. *J. Am. Stat. Assoc.*
      61.
    """
    core_check.option("nan_policy", nan_policy, check.NAN_POLICIES)
    core_check.option("distribution", distribution, statistics.DISTRIBUTIONS)
    if method is not None:
        core_check.option("method", method, statistics.DISTRIBUTIONS)
        check.one_name(distribution)
        distribution = method
    core_check.option("variant", variant, statistics.VARIANTS)
    check.alternative(alternative)
    keepdims = core_check.flag("keepdims", keepdims)
    backend = dispatch.backend(x, "x", y=y)
    with backend.device_of(x):
        xp = backend.xp
        rows = samples.rows(x, y, axis, backend)
        b, n = rows.x.shape
        if nan_policy == "raise":
            check.no_nan(rows.nan, x=rows.x, y=rows.y)
        complete = n if nan_policy == "propagate" and rows.nan is None else 0
        null = None if distribution == "exact" else statistics.Null(distribution, alternative)
        if null is not None and rows.nan is None:
            few = _of_few(backend, rows.x, rows.y, "alike", 1, variant, null, complete)
            if few is not None:
                core_warnings.small_samples(None, None, n, rows.shape, nan_policy)
                return _result(*few, rows.kept if keepdims else rows.shape)
        passes = _counting(backend, b, n)
        counts = passes.pairs(rows.x, rows.y) if b else PairCounts.none(xp, (0,))
        core_warnings.small_samples(counts.samples, rows.nan, n, rows.shape, nan_policy)
        if nan_policy == "propagate" and rows.nan is not None:
            counts = counts._replace(samples=xp.where(xp.asarray(rows.nan), 0, counts.samples))
        statistic, pvalue = passes.statistics(counts, variant, null, complete)
        if distribution == "exact":
            on_host = statistics.of_complete(counts.map(backend.asnumpy), complete)
            check.exact_without_ties(statistics.tied(on_host))
            pvalue = xp.asarray(statistics.exact_p_value(on_host, alternative))
        return _result(statistic, pvalue, rows.kept if keepdims else rows.shape)


@declare(cost.kendall_matrix, cost.of_columns)
@public_call(_with_names)
@over_dask("cukde.kendall.dask")
def kendall_matrix(
    A: ArrayLike,
    B: ArrayLike | None = None,
    *,
    variant: Literal["a", "b", "c"] = "b",
    pvalue: bool = False,
    nan_policy: Literal["propagate", "omit", "raise"] = "propagate",
) -> Array | Any:
    """Kendall's tau of all pairs of columns of A, or of A with B.

    Parameters
    ----------
    A : array_like, shape (n, p)
        Samples in rows, variables in columns: real numbers, compared exactly, and ordered categories in frames. None
        and ``pandas.NA`` count as NaN. If ``A`` is a GPU array, the call computes on the GPU. Infinities are ordinary
        values. If ``A`` or ``B`` is a Dask array or data frame, the call is lazy.
    B : array_like, shape (n, q), optional
        Variables to pair with those of ``A``, of any of these dtypes. Default ``A`` itself, at half the work.
    variant : {"b", "c", "a"}
        As in :func:`kendalltau`.
    pvalue : bool
        Whether to return two-sided p-values too, by the distribution "auto" of :func:`kendalltau`.
    nan_policy : {"propagate", "omit", "raise"}
        What NaN does: "propagate" makes the row and the column of its variable NaN; "omit" leaves samples out of a pair
        of columns where either value is NaN (pairwise deletion, as in pandas); "raise" raises an error.

    Returns
    -------
    array, shape (p, q), or SignificanceResult
        tau, float64; with ``pvalue=True`` the pair ``(statistic, pvalue)`` of such arrays. Without ``B`` q is p, and
        the diagonal is 1, or less with "a" and "c" for columns with ties, which these variants count as pairs. Constant
        columns give NaN, also on the diagonal. NumPy in, NumPy out; CuPy in, CuPy out; Dask in, Dask out. For frames
        the result is a frame, whose rows have the names of the columns of ``A``, and whose columns have those of ``B``.

    Raises
    ------
    TypeError
        For ``B`` on the GPU with ``A`` on the CPU, and for columns of frames that do not hold real numbers.
    ValueError
        For anything but two dimensions of real numbers, masked entries unless ``nan_policy="omit"`` leaves them out,
        ``B`` and ``A`` with different numbers of rows, an unknown option, NaN with ``nan_policy="raise"``, and blocks
        of Dask whose integers float64 would round.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> A = np.array([[1, 2, 5], [2, 1, 4], [3, 4, 3], [4, 3, 1]])
    >>> cukde.kendall_matrix(A).round(4)
    array([[ 1.    ,  0.3333, -1.    ],
           [ 0.3333,  1.    , -0.3333],
           [-1.    , -0.3333,  1.    ]])

    Notes
    -----
    Counts are exact (int64); the statistic is accurate to 1e-12. Each entry equals the result of :func:`kendalltau`.
    Cost: for each pair of columns O(n log n) comparisons or n^2 / 2 sign products, whichever is faster; without ``B``
    half of the pairs. Memory: O(n (p + q) + p q), and bounded buffers.

    On a GPU, tensor cores multiply the signs. With compute capability 8.0 to 9.0 signs are single bits, with one
    product for each pair of samples without ties and three with ties; from 10.0 on they are bytes. Columns with NaN are
    counted by sorting. The host waits for the GPU once, to learn which columns have NaN and which have ties.

    Dask arrays are paired in blocks of whole columns; without ``B`` each unordered pair of blocks is computed once.
    Statistics have the same bits (``tests/test_dask_others.py``). Shapes and options are checked at once, NaN when the
    result is computed.

    The result equals ``pandas.DataFrame.corr("kendall")`` with ``nan_policy="omit"``, except that pandas drops
    infinities like NaN and has 1 on the diagonal of constant columns.

    References
    ----------
    - As in :func:`kendalltau`.
    """
    core_check.option("variant", variant, statistics.VARIANTS)
    core_check.option("nan_policy", nan_policy, check.NAN_POLICIES)
    pvalue = core_check.flag("pvalue", pvalue)
    backend = dispatch.backend(A, "A", B=B)
    null = statistics.Null("auto", "two-sided") if pvalue else None
    with backend.device_of(A):
        a, b = _matrices(A, B, backend, nan_policy)
        pairing, complete = "upper" if b is None else "all", 0 if nan_policy == "omit" else a.shape[0]
        few = _of_few(backend, a, a if b is None else b, pairing, 0, variant, null, complete)
        if few is None:
            passes, counts = _counts(a, b, backend, nan_policy)
            few = passes.statistics(counts, variant, null, 0)
        return SignificanceResult(*few) if pvalue else few[0]


@declare(cost.concordance, cost.of_columns)
@public_call(_with_names)
def concordance(A: ArrayLike, B: ArrayLike | None = None) -> Concordance:
    """Count concordant, discordant and tied pairs of samples, for all pairs of columns of A, or of A with B.

    Parameters
    ----------
    A : array_like, shape (n, p)
    B : array_like, shape (n, q), optional
        As in :func:`kendall_matrix`.

    Returns
    -------
    Concordance
        A tuple ``(concordant, discordant, tied_x, tied_y, tied_both)`` of int64 arrays of shape (p, q), or (p, p)
        without ``B``. They count the pairs of samples that have the same order in both columns, that have opposite
        orders, that are equal only in the column of A, only in that of B, and in both. They add up to n (n - 1) / 2.
        For frames they are frames, as in :func:`kendall_matrix`.

    Raises
    ------
    TypeError
        For ``B`` on the GPU with ``A`` on the CPU, and for columns of frames that do not hold real numbers.
    ValueError
        For anything but two dimensions of real numbers, masked entries, ``B`` and ``A`` with different numbers of rows,
        and NaN, which has no place in an order: drop those rows, or use ``nan_policy`` of :func:`kendall_matrix`.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> counts = cukde.concordance(np.array([[1], [2], [2]]), np.array([[1], [3], [2]]))
    >>> counts.concordant, counts.discordant, counts.tied_x
    (array([[2]]), array([[0]]), array([[1]]))

    Notes
    -----
    Counts are exact. The cost is that of :func:`kendall_matrix`; the host also waits for the GPU's search for NaN.

    References
    ----------
    - As in :func:`kendalltau`.
    """
    backend = dispatch.backend(A, "A", B=B)
    with backend.device_of(A):
        _, counts = _counts(*_matrices(A, B, backend, "raise"), backend, "raise")
        both = counts.tied_in_both
        return Concordance(counts.concordant, counts.discordant, counts.x.pairs - both, counts.y.pairs - both, both)


def _of_few(backend: ModuleType, *arguments: Any) -> tuple[Any, Any] | None:
    """Return statistics and p-values where the backend has a way of its own to those of so few samples."""
    if backend is cpu:
        return None
    of_few: tuple[Any, Any] | None = _passes(backend).statistics_of_few(*arguments)
    return of_few


def _counting(backend: ModuleType, pairs: int, n: int) -> ModuleType:
    """Return the passes for so many pairs of variables of n samples."""
    return few_on_cpu if backend is cpu and few_on_cpu.serves(pairs, n) else _passes(backend)


def _matrices(A: Any, B: Any, backend: ModuleType, nan_policy: str) -> tuple[Any, Any | None]:
    """Check two matrices; the second is None where there is none, or it is the first."""
    a = check.matrix("A", A, backend, nan_policy)
    b = None
    if B is not None and B is not A:
        b = check.matrix("B", B, backend, nan_policy)
        check.same_rows(a, b)
    if nan_policy == "raise":
        check.no_nan(A=a, **({} if b is None else {"B": b}))
    return a, b


def _counts(a: Any, b: Any | None, backend: ModuleType, nan_policy: str) -> tuple[ModuleType, PairCounts]:
    """Count for all pairs of columns; return the passes that did, too."""
    shape = (a.shape[1], (a if b is None else b).shape[1])
    passes = _counting(backend, math.prod(shape), len(a))
    if 0 in shape:
        return passes, PairCounts.none(backend.xp, shape)
    return passes, passes.matrix(a, b, deletion=nan_policy == "omit")


def _result(statistic: Any, pvalue: Any, shape: tuple[int, ...]) -> SignificanceResult:
    """Return both arrays in their final shape; without dimensions NumPy's become scalars, which CuPy does not have."""
    out = statistic.reshape(shape), pvalue.reshape(shape)
    if shape == () and isinstance(statistic, np.ndarray):
        return SignificanceResult(out[0][()], out[1][()])
    return SignificanceResult(*out)
