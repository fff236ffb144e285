"""The public functions of the density family: checks, a problem, and the backend's pass over it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cost.registry import declare
from cukde.core.entry import returned, shapes
from cukde.core.entry.given import Given
from cukde.core.entry.public_call import public_call
from cukde.core.frames.columns import labels_of
from cukde.core.over_dask import over_dask
from cukde.core.types import Array, ArrayLike, Bandwidth, Devices, Domain
from cukde.core.warnings import NegativeDensityWarning, of_user
from cukde.density import check, results, rules_by_name
from cukde.density.arguments import prepare
from cukde.density.cost import calls as cost_calls, formulas as cost_formulas
from cukde.density.problem import score_problem
from cukde.density.stacks import api as stacks, check as stacks_check
from cukde.density.stacks.check import is_stack
from cukde.density.sums import Epilogue

_over_dask = over_dask("cukde.density.dask.api", before=stacks_check.in_memory)


def _posed(X: Any, Y: Any, h: Any, *options: Any, **more: Any) -> Any:
    """The problem of a density, or those of a stack, X of three dimensions; arguments are those of ``prepare``."""
    return stacks.prepare(X, Y, h, *options, **more) if is_stack(X) else prepare(X, Y, h, *options, **more)[0]


def _sums_with_names(given: Given, result: Any) -> Any:
    """Kernel sums have a column for each of the values."""
    return returned.as_rows(given, result, "Y", "kernel_sum", labels_of(given.given["V"]))


@declare(cost_formulas.kde, cost_calls.of_queries, observed=cost_calls.taken("sum"))
@public_call(returned.rows("Y", "density"), shape=shapes.of_queries)
@_over_dask
def kde(
    X: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    *,
    weights: ArrayLike | None = None,
    local_factors: ArrayLike | None = None,
    rtol: float | None = None,
    log: bool = False,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    bounds: Domain | None = None,
    periods: Domain | None = None,
    leave_one_out: bool = False,
    devices: Devices | None = None,
    nan_policy: Literal["raise", "omit"] = "raise",
    out: ArrayLike | None = None,
) -> Array:
    r"""Gaussian kernel density estimate of the data ``X`` at the queries ``Y``.

    .. math:: \hat p(y) = (2\pi h^2)^{-d/2} \sum_j w_j \exp(-|y - x_j|^2 / (2 h^2))

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Data; (n,) means d = 1. If it is a GPU array (CuPy, or anything with ``__cuda_array_interface__`` or DLPack),
        the call computes on the GPU. A Dask array or data frame, here or for any argument but ``h``, makes the call
        lazy. Columns of a data frame have names: see the notes. Shape (b, n, d) is a stack, b densities at once.
    Y : array_like, shape (m, d) or (m,)
        Queries, in the units of ``X``. (m,) only for d = 1. No queries give an empty result.
    h : float, array_like, mapping or str
        Bandwidth, in the units of ``X``: a positive standard deviation, one for each column in shape (d,) or in a
        mapping from the names of the columns, or a covariance of shape (d, d). A GPU array is copied to the host. It
        may also be the name of a rule of :mod:`cukde.bandwidth`, which is applied to ``X``, ``weights``, ``bounds`` and
        ``periods``: "scott", "silverman", "sd", "laplace", "positive", "isj", "cross_validate" or "select" (for this
        function's density), and "scott_covariance" or "silverman_covariance". Or it is the result of
        :func:`cukde.bandwidth.select` or :func:`cukde.bandwidth.cross_validate`. "select" and its result bring local
        factors along if held-out rows are more likely with them. Rules and results do not go with Dask arrays.
    weights : array_like, shape (n,), optional
        Non-negative weights of the data, normalised to sum to 1. Default 1/n each.
    local_factors : array_like, shape (n,), optional
        Positive factors of the bandwidth, from 1e-8 to 1e16: point j has the standard deviation :math:`\lambda_j h`, or
        the covariance :math:`\lambda_j^2 H`. :func:`cukde.bandwidth.abramson` computes such factors. Default 1 each.
    rtol : float, optional
        Relative tolerance, from 0 to 0.1: pairs may be left out of a sum if together they add at most this share. 0
        takes all pairs. Default None: about the size of rounding errors; see the notes.
    log : bool
        Return the log density, computed by log-sum-exp; it is finite for any finite query.
    precision : {"float32", "tf32", "ieee", "float64"}, optional
        Arithmetic of the pairs; default: as the dtype. ``"tf32"`` uses less accurate products of tensor cores on the
        GPU: the relative error of a density is 1e-3 in the median, and up to 5e-2 for a query among outlying data. On
        the CPU it means ``"float32"``. ``"ieee"`` sums squared differences. With ``local_factors`` the GPU always does
        so, in float32 also for ``"tf32"``, and the CPU computes pairs in double precision.
    deterministic : bool
        Give the same bits on every run on the same machine. On the CPU first calls then wait for the compiler. On the
        GPU it costs time if Y = X in 2 to 64 dimensions, 1.4 times for :func:`sd_kde` of 1,048,576 points at 131,072
        queries, and if pairs are left out, as a warp then takes all data of its queries.
    check_finite : bool
        Refuse NaN and infinity. With False the data are unchecked, and a CUDA graph can capture the call, except for
        many pairs in more than 64 dimensions, where CuPy allows no products by cuBLAS. Otherwise the call waits for the
        GPU all the same, for how far the data reach; small calls do not.
    bounds : sequence of length d or mapping, optional
        For each column (low, high), or None; or a mapping from the names of some columns; of one column the pair alone
        will do. None or an infinity stands for an open end. The density is then one on that domain, by reflection: it
        is 0 outside, and no mass is lost at the ends. ``h`` must not correlate such a column with another. Data must
        lie within; with ``check_finite=False`` they are unchecked, and those outside are moved to the nearest end.
    periods : sequence of length d or mapping, optional
        For each column its period, such as 360, or None; or a mapping from the names of some columns; of one column the
        number alone will do. The density repeats, and integrates to 1 over a period. Points may lie anywhere on the
        line. A column has bounds or a period, not both.
    leave_one_out : bool
        Leave the row's own kernel out of the density at each row of the data, and divide by the weight of the others.
        ``Y`` must then be ``X``, the same values in the same order, or None. Not for stacks.
    devices : "all" or sequence of int, optional
        GPUs that share the call: all of this process, or those of these numbers. The result is where ``X`` is. Default:
        the GPU of ``X`` alone. On the CPU "all" changes nothing. Not for stacks and Dask arrays; see the notes.
    nan_policy : {"raise", "omit"}
        What missing values do, including NaN. "raise" raises an error, which names the column and the row of a frame.
        "omit" leaves out their rows of ``X``, ``weights`` and ``local_factors``; a query with a missing value gives
        NaN.
    out : array, shape (m,), optional
        Where to write the result: a NumPy or CuPy array, as ``X`` is, of the shape and dtype of the result. It is
        returned. The result is computed first and then copied.

    Returns
    -------
    array or series, shape (m,)
        Density in units of 1/volume (or its logarithm), of dtype ``result_type(X, Y)``: float16 becomes float32, and
        integers become float64. NumPy in, NumPy out; CuPy in, CuPy out; Dask in, Dask out. For queries in a frame it is
        a series with their index: see :func:`cukde.set_output`.

    Raises
    ------
    TypeError
        For complex, string or object data, and for ``Y`` on the GPU with ``X`` on the CPU.
    ValueError
        For shapes that do not fit, no data, NaN or infinity, a bandwidth that is not positive (definite), negative or
        all-zero weights, local factors out of their range, an unknown precision, a tolerance that is not from 0 to 0.1,
        bounds and periods that do not fit, data outside their bounds, and a covariance that links a bounded column with
        another; and for columns of ``Y`` that are missing or that ``X`` does not have.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = np.array([[0.0], [1.0]])
    >>> cukde.kde(X, [[0.5]], 1.0).round(4)
    array([0.3521])
    >>> cukde.kde(X, [[0.5]], 1.0, local_factors=[1.0, 2.0]).round(4)
    array([0.2727])
    >>> cukde.kde(X, [[0.5], [-0.5]], 1.0, bounds=[(0, None)]).round(4)
    array([0.5929, 0.    ])
    >>> cukde.kde(np.zeros((1, 2)), [[0.0, 0.0]], 1.0, rtol=1e-5).round(4)
    array([0.1592])
    >>> cukde.kde(np.stack([X, X + 3.0]), [[0.5]], [1.0, 2.0]).round(4)  # two densities at one query
    array([[0.3521],
           [0.0672]])

    Notes
    -----
    *Cost.* n m exponentials and about 2 d n m flops; memory O((n + m) d), and tiles of bounded size.

    *Error.* If the nearest point is within 12 bandwidths, the worst relative error is 1e-5 in float32 on the CPU, 3e-5
    on the GPU and 1e-12 in float64 (``tests/density/test_api.py``). Farther out the log density is accurate to 8 eps
    times its exponent. In float32 a density above 3e38 overflows: use ``log=True``.

    *One dimension.* A fast Gauss transform takes O(n + m) operations in double precision; it is used where it is faster
    than all pairs. The functions of this family are then accurate to 1e-6 in float32 and 1e-12 in float64, by a bound
    that is checked box by box (``tests/density/test_one_dimension.py``). Where the bound does not hold, for queries
    between or beyond the data, the points that matter are summed. "ieee", and a smaller ``rtol``, take every pair. On a
    GPU the transform waits for the range of the data, even with ``check_finite=False``; while a CUDA graph is captured,
    every pair is summed instead.

    *Local factors* give an adaptive estimate, in which each point has its own bandwidth:

    .. math:: \hat p(y) = \sum_j w_j (2\pi \lambda_j^2 h^2)^{-d/2} \exp(-|y - x_j|^2 / (2 \lambda_j^2 h^2))

    Pairs are then summed also in one dimension, and the result is deterministic on any device. The CPU leaves out pairs
    by ``rtol``; a GPU takes all, with 3 d n m flops, as its bounds are for one bandwidth. The errors are those above,
    with the exponents :math:`|y - x_j|^2 / (2 \lambda_j^2 h^2) + d |\log \lambda_j|` of the points that determine the
    density (``tests/density/test_local_factors.py``). The other functions of this family take factors, too.

    *Tolerance.* A pass may leave out pairs if they are certain to add at most ``rtol`` times the rest of the query's
    sum. The default is 1e-5 in float32, 1e-3 in tf32 and 1e-13 in float64. This error adds to the rounding above. It
    holds wherever a query lies and however weights differ, and also for the logarithm of a density that underflows. For
    values with signs and Laplace-corrected terms it is relative to the sum of absolute terms. Points that are left out
    of a score lie about sqrt(2 log(n / rtol)) bandwidths away, so its error is that many times larger.

    With ``rtol=0``, and with "ieee", all pairs are taken. The other functions of this family take ``rtol``, too, and so
    do Dask arrays, stacks and domains; a pass that cannot use it takes all pairs.

    Both backends leave out pairs where an inspection of the data says that this is faster than all pairs: see
    ``docs/densities.md``. Small calls take all pairs. The CPU leaves out pairs in any number of dimensions; "tf32" has
    the tolerance of float32 there. A GPU leaves out pairs in 2 to 128 dimensions (up to 64 in double precision, and on
    devices of another compute capability than 9.0); for :func:`kernel_sum`, separately for each column of values. The
    inspection waits for the device. While a CUDA graph is captured, all pairs are taken.

    *Two and three dimensions.* A fast Gauss transform of cells one to two bandwidths wide takes O(n + m) operations in
    double precision, for densities, scores and debiased data. It computes the queries for which a bound on their error
    holds; other queries are summed over pairs. Both backends use it where many pairs can matter. Its bounds are
    5e-13 in float64 and 1e-5 in float32 by default; the errors themselves are below 1e-13 and 1e-8
    (``tests/density/test_plane.py``). Stacks, domains, ``local_factors``, Laplace-corrected densities, few pairs and
    "ieee" do not use it.

    On a GPU the cells form a grid around the data, or around most of them; a few data far from the others are summed as
    pairs. The transform waits for the device five or six times. It takes up to 3 GiB and about 800 bytes a point. If
    the cells would take more, and while a CUDA graph is captured, pairs are summed.

    *Leave-one-out.* The density at a row of the data includes the row's own kernel, which new points do not have: with
    3,000 rows of 8 columns it is most of the density. ``leave_one_out=True`` gives the density of the other rows, and
    so levels that hold for new points; see :func:`hdr_threshold`. Passes over pairs leave out a row's own pair
    (``tests/density/test_own_pairs.py``). Where others are faster, such as the transforms above, the own term is
    subtracted from the sum if at least half of the sum remains; otherwise the sum is computed again without it. So
    nothing cancels, however far a row lies, and errors are at most twice those above
    (``tests/density/test_leave_one_out.py``).

    It costs the pass over all data, and after a transform, where own terms dominate, up to n^2 pairs more, for which a
    GPU is waited for. With bounds or periods it costs 2 n passes. With Dask arrays, each block does so with
    itself and adds the sums over all other blocks; all ordered pairs of blocks are computed
    (``tests/density/test_leave_one_out_dask.py``).

    *Small calls.* On a GPU a small problem takes one launch, and :func:`sd_kde` two. It sums squared differences, which
    are accurate at any spread, and every run gives the same bits. The kernel also checks the values, for which the call
    waits once; with ``check_finite=False`` it does not wait. Small are up to 7.7e7 pairs in 3 dimensions and 2.7e7 in
    16; half as many for a score; a quarter in double precision and in one dimension. ``h`` must be a number, arrays
    CuPy's own, C-contiguous and of one dtype, float32 or float64, with at most 32 columns
    (``tests/density/test_small.py``). Other calls take more launches.

    Larger problems with such arrays are launched before the host knows the values, if they are in float32, have 2 to 64
    dimensions, no weights, and other queries than the data. The call then waits for a number that says whether the data
    reach no farther than the last call of the same sizes suggested. If they reach farther, it starts again, after
    inspecting the values. The result does not depend on this (``tests/density/test_ahead.py``). :func:`sd_kde` does so
    with one bandwidth unless ``deterministic`` is set; :func:`debias` does not.

    *Several GPUs.* With ``devices`` a thread for each GPU works on a share of each pass of at least 2e10 pairs; smaller
    passes, and transforms in up to three dimensions, run on the GPU of ``X``. The GPUs get the data and their queries
    by direct copies. Queries are dealt out 128 neighbours at a time, so that shares are equal also where pairs are left
    out. Where a pass of the data at themselves takes each pair once, as the score of :func:`sd_kde` in float32 does,
    each GPU takes some of its pairs, and the sums are added.

    Every GPU needs the memory of a plain call. Results are those of one GPU, to 1e-12 in float64
    (``tests/density/test_devices.py``). If a GPU fails or its memory runs out, the others compute its share, with a
    :class:`DeviceWarning`. ``docs/dask.md`` has measured times.

    *Names.* Frames of pandas, polars, cuDF, Arrow and Dask are matched by the names of their columns, here and in the
    other functions. Columns of ``Y`` are put in the order of those of ``X``; missing and additional ones are errors.
    The same holds for the keys of mappings. Arrays, and frames whose columns are called 0, 1, 2, ..., are matched by
    position. Columns of mixed, nullable and Arrow dtypes are promoted by NumPy's rules. ``docs/frames.md`` has details.

    *Rules by name.* ``h="isj"`` means ``h=cukde.bandwidth.isj(X, weights=weights)``, at the same cost, whatever
    ``check_finite`` is. For a stack the rule is applied to each member. ``docs/bandwidths.md`` says which rule is for
    which function, and which names mean the same in scikit-learn and in :class:`cukde.KernelDensity`.

    *Dask arrays.* The functions of this family compute pairs of a block of data and a block of queries, and merge the
    sums. Results are equal to 1e-12 in float64 whatever the blocks (``tests/density/test_dask.py``). Shapes and options
    are checked at once, values when their block is computed. Data on the host may go with queries on a GPU. A block at
    which memory runs out is computed in parts, with a :class:`MemoryWarning`. With ``boxes``, an argument for Dask
    arrays only, pairs of blocks that cannot matter are left out: see :func:`cukde.dask.block_boxes`. ``docs/dask.md``
    has the rule for blocks, data larger than memory, clusters and several GPUs.

    *Domains.* With ``bounds`` or ``periods`` the kernel is summed over all images of a point, mirrored or moved by
    periods. If h is small, only images near the ends matter to float64; they are treated as further data. If many
    images matter, a product over the columns is used instead, with a few exponentials a column, in float64 and for all
    pairs. Images that add at most 1e-17 of any query's sum are left out, whatever ``rtol`` is; ``rtol`` applies to the
    data and the images that are kept. Errors are those above (``tests/density/test_domains.py``). On a GPU such a call
    waits for the range of the queries and for their lowest density. ``docs/domains.md`` has formulas, limits and cost.

    *Stacks.* ``X`` of shape (b, n, d) gives b densities of one size at once, here and in :func:`score`,
    :func:`density_and_score`, :func:`debias`, :func:`sd_kde` and :func:`laplace_kde`. Results have the shape (b, m) or
    (b, m, d), and equal those of a call for each member, to the errors above (``tests/density/test_stacks.py``).
    Exceptions name the member.

    For a stack ``Y`` has the shape (b, m, d), or (m, d) for all members; ``weights`` have (b, n), or (n,) for all.
    ``h`` and ``score_bandwidth`` are a number for all members, or (b,) numbers, (b, d) deviations or (b, d, d)
    covariances. A vector has a number for each member, never for each dimension, whatever d is. ``local_factors`` and
    Dask arrays do not go with stacks.

    Small members are summed in one pass over all of them, by squared differences; larger ones one after the other
    within the call. Members are small if n m (4 + d) is at most 1.7e7 on the CPU and 1.1e9 on a GPU (a quarter of that
    in double precision), with at most 64 dimensions and 16,384 b / (4 + d) rows.

    Compared with a loop of calls, 512 densities of n = 1,000, m = 256 and d = 4 are 3.3 (float64) to 4.2 times
    (float32) as fast on two cores, and 97 to 119 times on an H200. With n = 100 and m = 10 they are 67 to 98 and 112 to
    126 times as fast (``benchmarks/density/bench_stacks.py``).

    References
    ----------
    - Parzen, E. (1962). On estimation of a probability density function and mode. *Ann. Math. Statist.* 33.
    - Breiman, L., Meisel, W. and Purcell, E. (1977). Variable kernel estimates of multivariate densities.
      *Technometrics* 19, for the local factors.
    - Greengard, L. and Strain, J. (1991). The fast Gauss transform. *SIAM J. Sci. Stat. Comput.* 12.
    - Silverman, B. W. (1986). *Density Estimation for Statistics and Data Analysis*, section 2.10, for reflection.
    - Gray, A. G. and Moore, A. W. (2003). Nonparametric density estimation: toward computational tractability. *SIAM
      International Conference on Data Mining*, for boxes of data that bound what they add.
    """
    log = core_check.flag("log", log)
    options = weights, precision, deterministic, check_finite, bounds, periods
    more: dict[str, Any] = {"local_factors": local_factors, "leave_one_out": leave_one_out, "devices": devices}
    problem = _posed(X, Y, h, *options, rtol=rtol, may_be_unchecked=True, takes_factors=True, **more)
    with problem.device:
        return problem.density(log=log)


@declare(cost_formulas.score, cost_calls.of_queries, observed=cost_calls.taken("moments"))
@public_call(returned.rows("Y", "score"), shape=shapes.of_points)
@_over_dask
def score(
    X: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    *,
    weights: ArrayLike | None = None,
    local_factors: ArrayLike | None = None,
    rtol: float | None = None,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    bounds: Domain | None = None,
    periods: Domain | None = None,
    leave_one_out: bool = False,
    devices: Devices | None = None,
    nan_policy: Literal["raise", "omit"] = "raise",
    out: ArrayLike | None = None,
) -> Array:
    r"""Gradient of the log density: :math:`s(y) = \nabla \log \hat p(y)`.

    .. math:: s(y) = \Big(\frac{\sum_j w_j \phi_j(y) x_j}{\sum_j w_j \phi_j(y)} - y\Big) / h^2

    Parameters are those of :func:`kde`.

    Returns
    -------
    array or frame, shape of ``Y``
        In units of 1/length. It is finite also far from the data, where it points to the nearest of them. It is NaN
        outside the bounds; at a bound the component in that column is 0.

    Raises
    ------
    TypeError, ValueError
        As :func:`kde`.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.score(np.array([0.0]), np.array([2.0]), 2.0)
    array([-0.5])

    Notes
    -----
    Cost: that of :func:`kde` and another 2 d n m flops. The error, in units of 1/h, is at most the density's relative
    error times r/h, where r is the largest distance of points that contribute; ``rtol`` is part of that error. A
    published formula of this score has a surplus factor 1/h, which is left out here.

    With ``local_factors`` :math:`\lambda_j` the score is the gradient of the logarithm of the density with factors:

    .. math:: s(y) = \sum_j K_j (x_j - y) / (\lambda_j^2 h^2) \Big/ \sum_j K_j,
        \qquad K_j = w_j \lambda_j^{-d} \exp(-|y - x_j|^2 / (2 \lambda_j^2 h^2)),

    It takes one pass. Its error, in units of 1/h, is the density's relative error times the mean of
    :math:`r_j / (\lambda_j^2 h)` (``tests/density/test_local_scores.py``).
    """
    options = weights, precision, deterministic, check_finite, bounds, periods
    more: dict[str, Any] = {"local_factors": local_factors, "leave_one_out": leave_one_out, "devices": devices}
    problem = _posed(X, Y, h, *options, rtol=rtol, may_be_unchecked=True, takes_factors=True, **more)
    with problem.device:
        return problem.score()


@declare(cost_formulas.density_and_score, cost_calls.of_queries, observed=cost_calls.taken("moments"))
@public_call(returned.each_rows("Y", "log_density", "score"))
@_over_dask
def density_and_score(
    X: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    *,
    weights: ArrayLike | None = None,
    local_factors: ArrayLike | None = None,
    rtol: float | None = None,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    bounds: Domain | None = None,
    periods: Domain | None = None,
    leave_one_out: bool = False,
    devices: Devices | None = None,
    nan_policy: Literal["raise", "omit"] = "raise",
) -> tuple[Array, Array]:
    """Log density and its gradient, in a single pass, which costs as much as :func:`score`.

    Parameters are those of :func:`kde`. Exceptions and accuracy are those of :func:`kde` and :func:`score`.

    Returns
    -------
    log_density : array, shape (m,)
        In units of log(1/volume).
    gradient : array, shape of ``Y``
        In units of 1/length.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> log_p, s = cukde.density_and_score(np.array([0.0]), np.array([0.0, 1.0]), 1.0)
    >>> log_p.round(4), s
    (array([-0.9189, -1.4189]), array([ 0., -1.]))
    """
    options = weights, precision, deterministic, check_finite, bounds, periods
    more: dict[str, Any] = {"local_factors": local_factors, "leave_one_out": leave_one_out, "devices": devices}
    problem = _posed(X, Y, h, *options, rtol=rtol, may_be_unchecked=True, takes_factors=True, **more)
    with problem.device:
        return problem.log_density_and_score()


@declare(cost_formulas.debias, cost_calls.of_debias, observed=cost_calls.taken("moments"))
@public_call(returned.rows("X", "debiased"), shape=shapes.of_data)
@_over_dask
def debias(
    X: ArrayLike,
    h: Bandwidth,
    *,
    score_bandwidth: Bandwidth | None = None,
    steps: int = 1,
    own_point: bool = True,
    weights: ArrayLike | None = None,
    local_factors: ArrayLike | None = None,
    rtol: float | None = None,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    bounds: Domain | None = None,
    periods: Domain | None = None,
    devices: Devices | None = None,
    nan_policy: Literal["raise", "omit"] = "raise",
    out: ArrayLike | None = None,
) -> Array:
    r"""Debias the data by their score: move each point by half a squared bandwidth along the score.

    .. math:: x_i + \frac{h^2}{2} s(x_i)

    The score :math:`s` is that of the data at the data (Y = X), with each point's own kernel; for a covariance H the
    step is H/2. With ``local_factors`` the step is half of another mean shift: see the notes.

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Data.
    h : float, array_like or str
        Bandwidth of the density that the result is meant for; forms as in :func:`kde`.
    score_bandwidth : float, array_like or str, optional
        Bandwidth of the score, in the same forms; default ``h``. "cross_validate" means cross-validation of :func:`kde`
        here.
    steps : int
        Number of steps, at least 1. Each further step uses the score of the points that the last one moved; see the
        notes.
    own_point : bool
        Whether a point's own kernel counts in its score. Without it, a few rows with many columns move as far as many
        rows would; see the notes.
    weights, local_factors, rtol, precision, deterministic, check_finite, bounds, periods, devices, nan_policy
        As in :func:`kde`. Rows that are left out are NaN in the result.
    out : array, shape of ``X``, optional
        As in :func:`kde`.

    Returns
    -------
    array or frame, shape of ``X``
        The moved points. They stay within bounds, and from 0 to the period: a point that moves over an end is reflected
        or wrapped.

    Raises
    ------
    TypeError, ValueError
        As :func:`kde`, also for ``score_bandwidth``; for ``steps`` that is not an integer of at least 1; and for
        ``own_point=False`` with a stack, or with fewer than two rows that have a weight.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.debias(np.array([-1.0, 1.0]), 1.0).round(4)
    array([-0.8808,  0.8808])

    Notes
    -----
    Cost: one pass of the score with Y = X, n^2 exponentials. The result is rounded to its dtype; :func:`sd_kde` keeps
    the moved points in float64, so an offset of the data costs no accuracy there.

    The error of a point, in bandwidths and apart from that rounding, is 1e-5 in float32 and 1e-12 in float64, times the
    mean distance of the data that count. On a GPU in float32 without weights, tensor cores use coordinates of 11 bits.
    There the error is half of 2^-12 times the distance of the farthest point from the mean, in bandwidths of the score
    (measured: half of that).

    *Steps.* Each step moves the original data, by the score :math:`s_k` of the points :math:`x^{(k)}` with the same
    bandwidth:

    .. math:: x^{(0)}_i = x_i, \qquad x^{(k+1)}_i = x_i + \frac{h^2}{2} s_k(x_i).

    The score of the data is smoothed too much, so one step is too short; the score of moved points is less smoothed.
    For normal data the estimated density has the variance :math:`1 + \frac54 h^4` after one step and
    :math:`1 + \frac14 h^4` after two or more, to order :math:`h^4` and in units of the variance of the data. The bias
    falls to a fifth, and the sampling variance of the estimate rises by a tenth to a third. Each further step costs a
    pass over all pairs, n^2 exponentials, each in full. :func:`sd_kde` says what it gains.

    *Local factors.* With factors :math:`\lambda_j`, a point moves by half of its mean shift with the kernels
    :math:`K_j` of :func:`score`, but without the factor :math:`1/\lambda_j^2` there:

    .. math:: x_i + \frac{1}{2} \sum_j K_j(x_i) (x_j - x_i) \Big/ \sum_j K_j(x_i),

    With a ``score_bandwidth`` :math:`h_s` the shift is multiplied by :math:`h^2 / h_s^2`. This cancels the leading
    bias. For data of the density f, the mean of the estimate is :math:`f + (h^2/2) \Delta(\lambda^2 f) + O(h^4)`, and
    moving points by :math:`\delta` changes it by :math:`-\nabla \cdot (f \delta)`. Both terms cancel for
    :math:`\delta = (h^2/2) \nabla(\lambda^2 f) / f`. The numerator above is :math:`h^2` times the gradient of
    :math:`\sum_j \lambda_j^2 K_j`, the estimate of :math:`\lambda^2 f`, and the denominator that of f. Equal factors
    give the formula at the top.

    With factors by Abramson's square-root law of f itself, :math:`\lambda^2 f` is constant: there is nothing to cancel,
    and points hardly move. Other factors, such as those from a smooth pilot or with ``alpha`` below 1/2, leave a bias
    of order :math:`h^2`, which the shift removes.

    *Own point.* A point's own kernel holds it back. Where few others are near, as in many dimensions, the score then
    hardly depends on the density. With ``own_point=False`` the sums at :math:`x_i` leave out point i (in further steps,
    the moved one). The mean shift :math:`m = h s` of a point without neighbours would then lead to the nearest point,
    however far. It is therefore reduced to :math:`m\, d / \max(d, |m|^2)`, so that such a point stays; the score of a
    density smoothed by h has :math:`E|h s|^2 \le d`. This costs the same pass, and a second one where own terms were
    more than half of the sums.

    References
    ----------
    - Epstein, E. L., Dwaraknath, R. V., Sornwanee, T., Winnicki, J. and Liu, J. W. (2025). SD-KDE: Score-debiased
      kernel density estimation. *NeurIPS*.
    """
    steps, own_point = check.steps(steps), core_check.flag("own_point", own_point)
    check.one_step(h, steps, own_point=own_point)
    options = weights, precision, deterministic, check_finite, bounds, periods
    of_sd: dict[str, Any] = {"method": "sd", "steps": steps, "may_be_unchecked": steps == 1 and own_point}
    problem = _posed(X, X, h, *options, local_factors=local_factors, rtol=rtol, devices=devices, **of_sd)
    estimate = _of_score(problem, score_bandwidth, X, weights, bounds, periods, own_point=own_point)
    with problem.device:
        return problem.moved_rows(estimate, steps)


def _score_bandwidth(h: Any, X: Any, weights: Any, bounds: Any, periods: Any) -> Any:
    """A bandwidth of the score, or what the rule of that name makes of the data."""
    return rules_by_name.bandwidth(h, X, weights, bounds=bounds, periods=periods, name="score_bandwidth")


def _of_score(problem: Any, h: Any, X: Any, *options: Any, own_point: bool) -> Any:
    """The problem of the score of the data at the data, or of a stack, by a bandwidth or the rule of that name."""
    if isinstance(problem, stacks.Stack):
        stacks_check.own_point(own_point)
        return problem.of_score_bandwidth(h)
    return score_problem(problem, _score_bandwidth(h, X, *options), own_point=own_point)


@public_call(lambda given, stages: stages)
def _stages_of_sd_kde(
    X: Any,
    Y: Any,
    h: Any,
    *,
    score_bandwidth: Any = None,
    steps: int = 1,
    own_point: bool = True,
    weights: Any = None,
    local_factors: Any = None,
    rtol: float | None = None,
    log: bool = False,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    bounds: Any = None,
    periods: Any = None,
    nan_policy: str = "raise",
    **of_entry: Any,
) -> Mapping[str, Callable[[], Any]]:
    """The stages of SD-KDE, each a call ready to be timed: score, shift and density.

    The score is computed once for the shift, and the shift for the density.
    """
    options = {"weights": weights, "rtol": rtol, "precision": precision, "deterministic": deterministic}
    options |= {"check_finite": check_finite, "bounds": bounds, "periods": periods, "local_factors": local_factors}
    h = rules_by_name.bandwidth(h, X, weights, "sd", steps=steps, bounds=bounds, periods=periods)
    score_h = h if score_bandwidth is None else _score_bandwidth(score_bandwidth, X, weights, bounds, periods)

    def gradient() -> Any:
        return score(X, X, score_h, **options)

    scores = gradient()
    backend = dispatch.backend(X)
    points = backend.asarray(X)
    width = np.asarray(h, np.float64)
    # Half of the squared deviations, or of the covariance.
    step = 0.5 * (width if width.ndim == 2 else width * width)
    if step.ndim == 2 and scores.ndim == 1:
        step = step[0]
    along = float(step) if step.ndim == 0 else backend.asarray(step)

    def shift() -> Any:
        return points + (scores @ along if step.ndim == 2 else scores * along)

    # Beyond the ends of a domain points are folded back, local factors are another shift, and further steps take other
    # scores.
    once = steps == 1 and own_point
    plain = bounds is None and periods is None and local_factors is None and once
    of_sd = {"score_bandwidth": score_bandwidth, "steps": steps, "own_point": own_point}
    debiased = functools.partial(debias, X, h, **of_sd, **options)
    moved = shift() if plain else debiased()
    first = {"score": gradient, "shift": shift} if once else {"debias": debiased}
    return {
        **first,
        "kde": lambda: kde(moved, moved if Y is None else Y, h, log=log, **options),
    }


@declare(
    cost_formulas.sd_kde,
    cost_calls.of_sd_kde,
    stages=_stages_of_sd_kde,
    observed=cost_calls.taken("moments", "sum"),
)
@public_call(returned.rows("Y", "density"), shape=shapes.of_queries)
@_over_dask
def sd_kde(
    X: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    *,
    score_bandwidth: Bandwidth | None = None,
    steps: int = 1,
    own_point: bool = True,
    weights: ArrayLike | None = None,
    local_factors: ArrayLike | None = None,
    rtol: float | None = None,
    log: bool = False,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    bounds: Domain | None = None,
    periods: Domain | None = None,
    leave_one_out: bool = False,
    devices: Devices | None = None,
    nan_policy: Literal["raise", "omit"] = "raise",
    out: ArrayLike | None = None,
) -> Array:
    """Score-debiased density estimate: :func:`kde` of the data moved by :func:`debias`.

    The result is a density (not negative, with integral 1). Its bias is of order h^4, that of :func:`kde` of order h^2.

    Parameters
    ----------
    score_bandwidth : float, array_like or str, optional
        Bandwidth of the score, as in :func:`debias`; default ``h``.
    steps : int
        Number of steps that move the points, as in :func:`debias`. More steps need a wider bandwidth; see the notes.
    own_point : bool
        Whether a point's own kernel counts in its score, as in :func:`debias`; see the notes.
    X, Y, h, weights, local_factors, rtol, log, precision, deterministic, check_finite, bounds, periods
        As in :func:`kde`.
    leave_one_out, devices, nan_policy, out
        As in :func:`kde`. :func:`cukde.bandwidth.sd` is the matching reference rule for ``h``.

    Returns
    -------
    array, shape (m,)
        Density in units of 1/volume (or its logarithm), as of :func:`kde`.

    Raises
    ------
    TypeError, ValueError
        As :func:`kde` and :func:`debias`.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.sd_kde(np.array([-1.0, 1.0]), np.array([0.0]), 1.0).round(4)
    array([0.2707])

    Notes
    -----
    Cost: n^2 + n m exponentials, and n^2 for each step after the first. In float32 at d = 16 the density is accurate to
    3e-4.

    Both the score and the density leave out pairs by ``rtol``. The error of the score moves the points, and so adds to
    the error of their density.

    *Steps.* The second step leaves a fifth of the bias, and a third gains a little more. Bandwidths are then wider:
    :func:`cukde.bandwidth.sd` takes ``steps``, and ``h="sd"`` uses those of the call. With the best bandwidth of each,
    two steps have 0.66 to 0.93 times the squared error of one, and three steps 0.59 to 0.92 times, for 1,000 rows of a
    normal distribution, a mixture of two and Student's t in 1 to 8 dimensions.

    The mean log density of held-out rows rises on each of 21 sets: little in one dimension (0.0003 nats a row for a
    normal distribution), by 0.01 to 0.02 in 4, and by 0.02 to 0.06 in 8. In 16 dimensions the squared error falls by
    less than 1% (``sd_steps.json``).

    *Own point.* With ``own_point=False`` and one step the squared error of such rows in 8 and 16 dimensions is 0.54 to
    0.80 times as large, and held-out rows of a normal distribution gain 0.1 and 0.8 nats. Up to 4 dimensions there is
    little to gain. With heavy tails it loses: 0.004 to 0.03 nats for held-out rows of Student's t in 2 to 8 dimensions.
    The same bandwidths suit both.

    With ``leave_one_out`` the density at a row leaves out the row's own moved kernel. The others have moved by the
    score of all data.

    With ``local_factors`` moved points keep their factors. Debiasing gains if the factors are weaker than Abramson's
    law of the true density, as those from a pilot density are, or have another shape; see :func:`debias`. For 300
    points from Student's t with 3 degrees of freedom the squared error is 0.6 times that of :func:`kde` with factors
    (``tests/density/test_local_scores.py``).

    With ``bounds`` or ``periods`` both the score and the density are those of the domain. At a bound every reflected
    estimate is flat, so the score across it is 0. If the true density is not flat there, a bias of order h remains.

    References
    ----------
    - Epstein et al. (2025), as in :func:`debias`; Epstein, E. L., Flash-SD-KDE: Accelerating SD-KDE with Tensor Cores.
    """
    log = core_check.flag("log", log)
    steps, own_point = check.steps(steps), core_check.flag("own_point", own_point)
    check.one_step(h, steps, own_point=own_point)
    options = weights, precision, deterministic, check_finite, bounds, periods
    of_sd: dict[str, Any] = {"method": "sd", "steps": steps, "may_be_unchecked": steps == 1 and own_point}
    of_sd |= {"local_factors": local_factors, "leave_one_out": leave_one_out, "devices": devices}
    problem = _posed(X, Y, h, *options, rtol=rtol, **of_sd)
    estimate = _of_score(problem, score_bandwidth, X, weights, bounds, periods, own_point=own_point)
    with problem.device:
        return problem.density_of_moved(estimate, log=log, steps=steps)


@declare(cost_formulas.laplace_kde, cost_calls.of_queries, observed=cost_calls.taken("laplace"))
@public_call(returned.rows("Y", "density"), shape=shapes.of_queries)
@_over_dask
def laplace_kde(
    X: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    *,
    negative: Literal["keep", "clip"] = "keep",
    weights: ArrayLike | None = None,
    local_factors: ArrayLike | None = None,
    rtol: float | None = None,
    log: bool = False,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    bounds: Domain | None = None,
    periods: Domain | None = None,
    leave_one_out: bool = False,
    devices: Devices | None = None,
    nan_policy: Literal["raise", "omit"] = "raise",
    out: ArrayLike | None = None,
) -> Array:
    r"""Laplace-corrected density estimate: a fourth-order kernel, in one pass and without a score.

    .. math:: \hat p(y) = (2\pi h^2)^{-d/2} \sum_j w_j \phi_j (1 + d/2 - |y - x_j|^2/(2 h^2))

    The kernel is :math:`K_h - (h^2/2) \Delta K_h`. It cancels the leading bias term of :func:`kde`, and is the
    linearisation of :func:`sd_kde`. The kernel is negative far from its point, so the estimate may be negative, too.

    Parameters
    ----------
    negative : {"keep", "clip"}
        "keep" returns negative values as they are; they still rank queries. "clip" sets them to 0, with a
        :class:`NegativeDensityWarning` of their number and their share of the absolute sum. On the GPU the warning
        waits for the result; for Dask arrays it comes with each block that is computed.
    X, Y, h, weights, local_factors, rtol, log, precision, deterministic, check_finite, bounds, periods
        As in :func:`kde`.
    leave_one_out, devices, nan_policy, out
        As in :func:`kde`. With ``log`` a negative density gives NaN, and a density of 0 gives -inf.
        :func:`cukde.bandwidth.laplace` is the matching reference rule for ``h``.

    Returns
    -------
    array, shape (m,)
        Density in units of 1/volume (or its logarithm), as of :func:`kde`.

    Raises
    ------
    TypeError, ValueError
        As :func:`kde`, and for an unknown ``negative``.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.laplace_kde(np.array([0.0]), np.array([0.0, 3.0]), 1.0).round(4)
    array([ 0.5984, -0.0133])

    Notes
    -----
    Cost: that of :func:`kde`. Errors are those of :func:`kde`, relative to the sum of the absolute terms, since terms
    of opposite signs cancel.

    With ``local_factors`` each kernel is corrected with its own width, in the same form:
    :math:`K_j - (\lambda_j^2 h^2 / 2) \Delta K_j = K_j (1 + d/2 - |y - x_j|^2 / (2 \lambda_j^2 h^2))`, with the
    :math:`K_j` of :func:`score`. It cancels :math:`(h^2/2) \Delta (\lambda^2 f)`, the bias that :func:`debias` derives.

    References
    ----------
    - Epstein, E. L., Flash-SD-KDE, section 5; Jones, M. C. and Signorini, D. F. (1997). A comparison of higher-order
      bias kernel density estimators. *JASA* 92.
    """
    check.negative(negative)
    log = core_check.flag("log", log)
    options = weights, precision, deterministic, check_finite, bounds, periods
    of_laplace: dict[str, Any] = {
        "method": "laplace",
        "may_be_unchecked": negative != "clip",
        "leave_one_out": leave_one_out,
        "devices": devices,
    }
    problem = _posed(X, Y, h, *options, local_factors=local_factors, rtol=rtol, **of_laplace)
    with problem.device:
        if negative != "clip":
            return problem.laplace_density(log=log)
        epilogue: Epilogue = problem.epilogue(log=log)
        density, report = results.laplace(problem.sums("laplace"), *epilogue, problem.xp, clip=True)
    if report is not None:
        of_user(report, NegativeDensityWarning)
    return density


@declare(cost_formulas.kernel_sum, cost_calls.of_values, observed=cost_calls.taken("values"))
@public_call(_sums_with_names, shape=shapes.of_values)
@_over_dask
def kernel_sum(
    X: ArrayLike,
    V: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    *,
    rtol: float | None = None,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    devices: Devices | None = None,
    nan_policy: Literal["raise", "omit"] = "raise",
    out: ArrayLike | None = None,
) -> Array:
    r"""Gaussian kernel sum of values, not normalised: :math:`\sum_j \exp(-|y_i - x_j|^2 / (2 h^2)) V_j`.

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Points.
    V : array_like, shape (n,) or (n, k)
        Values of any sign, a row for each point.
    Y, h, rtol, precision, deterministic, check_finite, devices, nan_policy
        As in :func:`kde`. "omit" also leaves out rows with a missing value in ``V``.
    out : array, shape (m,) or (m, k), optional
        As in :func:`kde`.

    Returns
    -------
    array, shape (m,) or (m, k)
        In the units of ``V``, of dtype ``result_type(X, V, Y)``.

    Raises
    ------
    TypeError, ValueError
        As :func:`kde`, also for ``V``; for ``V`` with another number of rows than ``X``, and for stacks.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.kernel_sum(np.array([0.0, 1.0]), np.array([1.0, -1.0]), np.array([0.0]), 1.0).round(4)
    array([0.3935])

    Notes
    -----
    Cost: n m exponentials and 2 (d + k) n m flops. If ``Y`` is ``X`` itself, in float32 on the GPU, half of the
    exponentials for up to 32 values, or in more than 64 dimensions. Errors are those of :func:`kde`, relative to the
    sum of the absolute terms.

    *Tolerance.* In two dimensions and more, and with up to 32 columns of values, pairs are left out as in :func:`kde`:
    in each column at most ``rtol`` times the sum of its own absolute terms
    (``tests/density/test_skipping_values_cpu.py``, ``tests/density/test_skipping_values_gpu.py``). If a column is zero
    near a query, more pairs are needed. A GPU sums the columns one after the other, over the points where they are not
    zero, if that is faster than all columns at once over all pairs: mostly with few columns, or with data that spread
    over many bandwidths. With more than 32 columns all pairs are taken.
    """
    core_check.given("V", V)
    problem, v = prepare(X, Y, h, None, precision, deterministic, check_finite, V=V, rtol=rtol, devices=devices)
    with problem.device:
        columns = v[:, None] if v.ndim == 1 else v
        sums = problem.sums("values", columns)
        weighted = results.values(sums, problem.dtype, problem.xp)
        return weighted[:, 0] if v.ndim == 1 else weighted
