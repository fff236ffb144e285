"""The public rules for the bandwidth."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, Literal, Unpack

import numpy as np

from cukde.bandwidth import check, circular, data, improved_sheather_jones, search
from cukde.bandwidth.cost import cross_validation as cross_validation_cost, isj as isj_cost, of_cross_validation
from cukde.bandwidth.data import Question, Rows
from cukde.bandwidth.factors import FACTORS, Factor, of_steps
from cukde.bandwidth.in_domain import LeaveOneOutInDomain
from cukde.bandwidth.positive_scores import LeaveOneOutPositive
from cukde.bandwidth.scores import LeaveOneOut
from cukde.bandwidth.search import CovarianceValidation, Criterion, CrossValidation
from cukde.bandwidth.thinned import Thinned
from cukde.core import check as core_check, dispatch
from cukde.core.cost.registry import declare
from cukde.core.entry import returned
from cukde.core.entry.public_call import public_call
from cukde.core.types import Array, ArrayLike, Bandwidth
from cukde.core.warnings import BandwidthRangeWarning, of_user
from cukde.density import check as density_check
from cukde.density.arguments import problem_of
from cukde.density.cost.calls import of_abramson, of_bandwidth
from cukde.density.cost.formulas import abramson as abramson_cost, bandwidth as cost
from cukde.density.domains.domain import Domain as Ends
from cukde.density.estimates import ESTIMATES, Method
from cukde.density.keywords import OfReference, OfRule, OfSearch, takes
from cukde.density.rules_by_name import ABRAMSON


@declare(cost, of_bandwidth, name="bandwidth.scott")
@public_call()
@takes(OfReference, described=True)
def scott(X: ArrayLike, *, covariance: bool = False, **options: Unpack[OfReference]) -> Array:
    r"""Scott's normal-reference rule for the bandwidth of :func:`cukde.kde`.

    .. math:: h_k = \sigma_k \, n_\mathrm{eff}^{-1/(d+4)}

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Data, at least two rows; (n,) means d = 1. A GPU array computes on the GPU.
    covariance : bool
        Return a covariance, which follows correlations of the columns, as SciPy's rule does; not with periods.
    bounds, periods : sequence of length d or mapping, optional
        As for :func:`cukde.kde`. The standard deviation of a column with a period is measured around it; see the notes.
        Bounds are checked, but have no effect.

    Returns
    -------
    array, shape (d,)
        A standard deviation for each column, in its units, to be given as ``h``; shape (1,) for d = 1. With
        ``covariance`` the shape is (d, d): the weighted covariance of the columns times the square of the same factor.
        Always float64, also for float32 data. NumPy in, NumPy out; CuPy in, CuPy out.

    Raises
    ------
    TypeError
        For complex, string or object data, and for ``weights`` on the GPU with ``X`` on the CPU.
    ValueError
        For shapes that do not fit, fewer than two rows, weights that leave a single row, a constant column, NaN or
        infinity, negative or all-zero weights, bounds and periods that do not fit, data outside their bounds; and with
        ``covariance`` for periods, for variances outside the range of float64, and for linearly dependent columns, such
        as those of no more rows than columns.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.bandwidth.scott(np.array([1.0, 2.0, 3.0, 4.0])).round(4)
    array([0.9784])

    Notes
    -----
    With weights :math:`w_j` normalised to sum to 1, :math:`n_\mathrm{eff} = 1 / \sum w_j^2` and
    :math:`\sigma_k^2 = \sum_j w_j (x_{jk} - \bar x_k)^2 / (1 - \sum w_j^2)`, which is n and the sample variance
    (divisor n - 1) without weights. The sums run over centred and scaled float64 data, so neither an offset nor huge
    weights cost accuracy. Cost: a few passes over the data.

    With ``covariance`` the result equals ``scipy.stats.gaussian_kde(X.T, weights=weights).covariance`` to 1e-12,
    otherwise the square root of its diagonal (``tests/bandwidth/test_rules.py``).

    *Periods.* With :math:`R = |\sum w_j e^{2 \pi i x_j / T}|` for a period T,

    .. math:: \sigma = \frac{T}{2\pi} \sqrt{-\log \rho^2}, \qquad \rho^2 = \frac{R^2 - \sum w_j^2}{1 - \sum w_j^2},

    where :math:`\rho^2` is at least :math:`1 / n_\mathrm{eff}`. This is the standard deviation of a normal distribution
    wrapped around the period. For narrow data it is the sample's standard deviation, wherever the period begins
    (``tests/bandwidth/test_domains.py``).

    References
    ----------
    - Scott, D. W. (1992). *Multivariate Density Estimation: Theory, Practice, and Visualization*. Wiley.
    - Mardia, K. V. and Jupp, P. E. (2000). *Directional Statistics*. Wiley, sections 2.3.4 and 3.5.7.
    """
    return _scaled_deviations(X, options, FACTORS["scott"], covariance=covariance)


@declare(cost, of_bandwidth, name="bandwidth.silverman")
@public_call()
@takes(OfReference, like="cukde.bandwidth.scott")
def silverman(X: ArrayLike, *, covariance: bool = False, **options: Unpack[OfReference]) -> Array:
    r"""Silverman's normal-reference rule for :func:`cukde.kde`: to leading order the best bandwidth for normal data.

    .. math:: h_k = \sigma_k \, [n_\mathrm{eff} (d + 2) / 4]^{-1/(d+4)}

    Result, exceptions, accuracy and cost are those of :func:`scott`. With ``covariance`` the result equals SciPy's
    ``gaussian_kde(X.T, bw_method="silverman").covariance``.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.bandwidth.silverman(np.array([1.0, 2.0, 3.0, 4.0])).round(4)
    array([1.0363])

    References
    ----------
    - Silverman, B. W. (1986). *Density Estimation for Statistics and Data Analysis*. Chapman and Hall, section 4.3.
    """
    return _scaled_deviations(X, options, FACTORS["silverman"], covariance=covariance)


@declare(cost, of_bandwidth, name="bandwidth.sd")
@public_call()
@takes(OfReference, like="cukde.bandwidth.scott")
def sd(X: ArrayLike, *, steps: int = 1, **options: Unpack[OfReference]) -> Array:
    r"""Normal-reference rule for :func:`cukde.sd_kde`, with the score's bandwidth equal to the density's.

    .. math::

        h_k = \sigma_k \arg\min_h \Big\{ \int (\bar p - p)^2 + \frac{V(h)}{n_\mathrm{eff}} \Big\}, \qquad
        p = N(0, I), \quad \bar p = N(0, v(h) I)

    Result, exceptions and accuracy are those of :func:`scott`. So is the cost, plus 2 to 30 ms for the minimum, which
    is kept for further calls.

    Parameters
    ----------
    steps : int
        Steps of the estimate, at least 1. More steps leave less bias, and need a wider bandwidth.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.bandwidth.sd(np.array([1.0, 2.0, 3.0, 4.0])).round(4)
    array([1.4041])

    Notes
    -----
    The derivation is for data from :math:`N(0, \sigma^2 I)`, in units of :math:`\sigma`.

    *Bias.* Scores of a smoothed normal density are linear, so moved points stay normal. Their standard deviation after
    k steps is :math:`a_{k+1} = 1 - h^2 / (2 (a_k^2 + h^2))`, from :math:`a_0 = 1`, and the estimate from infinite data
    is exactly normal with variance :math:`v = a_k^2 + h^2`. This is :math:`1 + \frac54 h^4 + O(h^6)` after one step and
    :math:`1 + \frac14 h^4 + O(h^6)` after more. The second step leaves 1/25 of the leading term of the squared bias,
    :math:`\frac{25\, d (d + 2)}{256} h^8 (4\pi)^{-d/2}`.

    *Variance.* V is the integrated variance of the estimate to first order in the noise of the data, exact at any h. A
    row contributes its own kernel, and moves all other points. As h goes to 0 the variance is
    :math:`r\, h^{-d} (4\pi)^{-d/2}`, for one step with
    :math:`r = 1 + \frac d3 (\frac23)^{d/2} + \frac{d (d+2)}{64} 2^{-d/2}`. More than two steps use V of two, which
    increases their error by less than 0.03%. ``cukde/bandwidth/normal_reference.py`` and ``moved_normal.py`` have the
    formulas.

    For normal data of 500 and 2,000 rows in 1, 2, 4, 8 and 16 dimensions, the MISE at the rule exceeds the least by at
    most 0.6%, with 1, 2 and 3 steps, and with ``own_point`` or without (simulated, ``reference_rules.json``). The
    leading terms of one step alone, :math:`h^{d+8} = \frac{32\, r}{25 (d+2)\, n}`, lose 2 to 9% up to 8 dimensions, and
    31% and 54% in 16.

    References
    ----------
    - Epstein et al. (2025), as in :func:`cukde.debias`, for the estimator and, with the exact score, the order
      :math:`n^{-1/(d+8)}` of the best bandwidth; the rule is derived above.
    """
    steps = density_check.steps(steps)
    return _scaled_deviations(X, options, of_steps(steps))


@declare(cost, of_bandwidth, name="bandwidth.laplace")
@public_call()
@takes(OfReference, like="cukde.bandwidth.scott")
def laplace(X: ArrayLike, **options: Unpack[OfReference]) -> Array:
    r"""Normal-reference rule for :func:`cukde.laplace_kde`: the best bandwidth for normal data.

    .. math::

        h_k = \sigma_k \arg\min_h \Big\{ \int (\bar p - p)^2 + \frac{1}{n_\mathrm{eff}}
        \Big(\int \kappa^2 - \int \bar p^2\Big) \Big\}, \qquad p = N(0, I), \quad \bar p = \kappa * p

    Result, exceptions and accuracy are those of :func:`scott`. So is the cost, plus 2 ms for the minimum, which is kept
    for further calls.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.bandwidth.laplace(np.array([1.0, 2.0, 3.0, 4.0])).round(4)
    array([1.8983])

    Notes
    -----
    The expression in braces is exactly the mean integrated squared error of the estimate from n rows of :math:`p`, for
    every h, n and d, because the estimate is linear in the data. Its kernel :math:`\kappa = K - \frac{h^2}{2} \Delta K`
    has the Fourier transform :math:`(1 + h^2 k^2/2)\, e^{-h^2 k^2/2}`, so all integrals are moments of Gaussians
    (``cukde/bandwidth/normal_reference.py``). As n grows the rule becomes

    .. math:: \left[\frac{8 (d + 8)}{(d + 4)(d + 6)\, n}\right]^{1/(d+8)} \Big(1 + \frac{5}{12} h^2 + \dots\Big),

    which minimises the sum of :math:`\frac{d (d+2) (d+4) (d+6)}{1024} h^8 (4\pi)^{-d/2}`, the integrated square of the
    bias :math:`-\frac{h^4}{8} \Delta^2 p`, and :math:`\frac{(d+2)(d+8)}{16} h^{-d} (4\pi)^{-d/2} / n`, the variance.
    The leading factor alone is too narrow: its error exceeds the least by 2.3% at n = 5,000 for d = 1, and at n =
    100,000 by 27% for d = 8 and 188% for d = 16 (``tests/bandwidth/test_rules.py``).

    References
    ----------
    - Epstein, E. L., Flash-SD-KDE, section 5, for the estimator; Marron, J. S. and Wand, M. P. (1992). Exact mean
      integrated squared error. *Annals of Statistics* 20, 712-736, for the method.
    """
    return _scaled_deviations(X, options, FACTORS["laplace"])


@declare(cost, of_bandwidth, name="bandwidth.positive")
@public_call()
@takes(OfReference, like="cukde.bandwidth.scott")
def positive(X: ArrayLike, **options: Unpack[OfReference]) -> Array:
    r"""Normal-reference rule for :func:`cukde.positive_kde`, the Laplace correction that stays positive.

    .. math::

        h_k = \sigma_k \arg\min_h \Big\{ \int (\bar p - p)^2 + \frac{V(h)}{n_\mathrm{eff}} \Big\}, \qquad
        p = N(0, I), \quad \bar p = \tfrac1M\, p_h\, g(t)

    Result, exceptions and accuracy are those of :func:`scott`. So is the cost, plus 5 ms for the minimum, which is kept
    for further calls.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.bandwidth.positive(np.array([1.0, 2.0, 3.0, 4.0])).round(4)
    array([1.8419])

    Notes
    -----
    The estimate is :math:`\hat p\, g(t) / M` with :math:`g(t) = t + \sqrt{1 + t^2}`. Here
    :math:`t = -\frac{h^2}{2} \Delta \hat p / \hat p` is the Laplace correction relative to the density :math:`\hat p`,
    and M normalises the result. The derivation is for data from :math:`N(0, \sigma^2 I)`, in units of :math:`\sigma`.

    *Bias.* For a density p the bias is
    :math:`\frac{h^4}{8} \big[\frac{(\Delta p)^2}{p} - \Delta^2 p - p \int \frac{(\Delta p)^2}{p}\big] + O(h^6)`. For a
    normal density it is :math:`\frac{h^4}{2} \Delta p`, with the integrated square
    :math:`\frac{d (d+2)}{16} h^8 (4\pi)^{-d/2}`. The rule uses the exact estimate from infinite data, for any h:
    :math:`p_h = N(0, 1 + h^2)` and :math:`t = \frac{h^2}{2 (1 + h^2)} \big(d - \frac{|y|^2}{1 + h^2}\big)`.

    *Variance.* V is the integrated variance of the estimate to first order in the noise of the data, exact at any h. A
    row at z adds :math:`[K (g - g' (1 + t)) + g' L] / M` to the density at y, with the kernels :math:`K = K_h(y - z)`
    and :math:`L = K (1 + \frac d2 - \frac{|y - z|^2}{2 h^2})`. The mass M is that of infinite data. As h goes to 0 this
    is the variance of the Laplace-corrected estimate, :math:`\frac{(d+2)(d+8)}{16} h^{-d} (4\pi)^{-d/2}`, and the rule
    is

    .. math:: \left[\frac{d + 8}{8 n}\right]^{1/(d+8)} (1 + \dots).

    ``cukde/bandwidth/normal_reference.py`` has the formulas; the part that is not Gaussian is one radial integral.

    For normal data of 500 and 2,000 rows in 1, 2, 4, 8 and 16 dimensions, the MISE at the rule exceeds the least by at
    most 0.5% (simulated, ``reference_rules.json``). The leading factor alone loses 5 to 32% up to 8 dimensions, and 20%
    and 67% in 16.

    References
    ----------
    - Jones, M. C. and Foster, P. J. (1996). A simple nonnegative boundary correction method for kernel density
      estimation. *Statistica Sinica* 6, 1005-1013, for estimates that a function of such a ratio makes positive; the
      rule is derived above.
    """
    return _scaled_deviations(X, options, FACTORS["positive"])


@declare(isj_cost, of_bandwidth, name="bandwidth.isj")
@public_call()
@takes(OfReference, like="cukde.bandwidth.scott")
def isj(X: ArrayLike, **options: Unpack[OfReference]) -> Array:
    r"""Improved Sheather-Jones rule for :func:`cukde.kde` in one dimension, for any number of modes.

    .. math:: h^2 = \left[2 \sqrt\pi \, n_\mathrm{eff} \, \lVert \hat f'' \rVert^2\right]^{-2/5}

    The norm is estimated from the data: that of each derivative with the help of the next one, up to the seventh, whose
    bandwidth is again ``h``. The density is never presumed to be normal.

    Parameters
    ----------
    X : array_like, shape (n,) or (n, 1)
        Data, at least two rows. A GPU array computes on the GPU.
    bounds, periods : sequence of length 1 or mapping, optional
        As for :func:`cukde.kde`. The norm is then that of the density on the domain, where data are reflected or lie on
        a circle.

    Returns
    -------
    array, shape (1,)
        A standard deviation in the units of the data, to be given as ``h``. Always float64. NumPy in, NumPy out; CuPy
        in, CuPy out.

    Raises
    ------
    TypeError
        As :func:`scott`.
    ValueError
        As :func:`scott`; for more than one column; and for data that determine no bandwidth. These are discrete data
        (many rows of few values, farther apart than the bandwidth would be), data spread evenly between two bounds or
        around a period, and clusters so tight and far apart that no grid of 2^24 steps resolves them.

    Warns
    -----
    BandwidthRangeWarning
        For fewer than 2.5 effective rows, if they have no bandwidth. The result is then
        :math:`\sigma [243 / (70 \sqrt\pi \, n_\mathrm{eff})]^{1/5}`, the widest that a density of this standard
        deviation needs (Terrell 1990).

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = np.random.default_rng(0).normal(size=1000)
    >>> X[500:] += 20  # two modes
    >>> cukde.bandwidth.isj(X).round(2), cukde.bandwidth.silverman(X).round(2)
    (array([0.32]), array([2.67]))

    Notes
    -----
    ``h`` is the fixed point described in ``cukde/bandwidth/improved_sheather_jones.py``; if there are several, the
    smallest that an iteration from below reaches. It does not change when the data are shifted, and scales with them.

    Rows may share values. Rounding does no harm if it is finer than about the bandwidth, because
    :math:`n_\mathrm{eff} = 1 / \sum w_j^2` counts rows. The authors' program and KDEpy count distinct values. Without
    ties this is the same; with ties it resembles ``isj(values, weights=counts)``, where uneven weights give a smaller
    effective number. They also mirror the data at the ends of their grid; here the line is open, as for
    :func:`cukde.kde`.

    *Accuracy.* The functionals come from one Fourier transform of linearly binned data, on a grid of 16 or more steps a
    bandwidth. Compared with sums over all pairs of 500 rows, ``h`` is accurate to 1e-5 for normal, skewed, bimodal and
    heavy-tailed samples, distant clusters and outliers. If only a dozen rows are within reach of each other, it is
    accurate to 2e-4 (``tests/bandwidth/test_improved_sheather_jones.py``).

    *Cost.* A few passes over the data, and 5 ms on the host for transform and root. Data that span more than about 500
    bandwidths (heavy tails, outliers, far clusters) cost a pass and a transform for each factor of 4, and a sort. On
    two CPU cores 10,000,000 rows of a normal distribution take 0.3 s, and of a Cauchy distribution 7 s.

    With fewer than about 20 rows the rule is erratic, and often wider than :func:`silverman`. The finest structure
    decides: for data of several scales take the factors of :func:`abramson`.

    References
    ----------
    - Botev, Z. I., Grotowski, J. F. and Kroese, D. P. (2010). Kernel density estimation via diffusion. *Annals of
      Statistics* 38, 2916-2957. Terrell, G. R. (1990). The maximal smoothing principle in density estimation. *JASA*
      85, 470-477.
    """
    weights = options.get("weights")
    backend = dispatch.backend(X, weights=weights)
    with backend.device_of(X):
        rows = data.rows_of(X, options, backend, line=True)
        w = None if weights is None else rows.weights / rows.total
        domain = data.domain(X, rows, options, backend)
        unit = 1.0 if rows.chain is None else float(deviations(rows, backend, domain)[0])
        asked = rows.effective  # the number of rows that the last bandwidth is for

        def of_rows(n: float) -> float | None:
            nonlocal asked
            asked = n
            if line is not None:
                h = line.of_rows(n).solve(backend.xp, backend.asnumpy)
            else:
                h = improved_sheather_jones.solve(z, w, n, backend.xp, backend.asnumpy)
            return None if h is None else h * scale / unit

        if domain is None:
            sample, line = data.sample(rows, backend), None
            z, scale = sample.deviations[:, 0], float(sample.ranges[0])
        else:
            line, scale = improved_sheather_jones.LineInDomain.of(rows, domain, w, backend.xp), 1.0
        # Rows that stay are ties, of which the rule finds no bandwidth for as many rows as there are.
        h = rows.settled(of_rows, 0.0 if rows.chain is None else _settled(rows, FACTORS["silverman"], 1))
        if h is None and domain is None and asked < improved_sheather_jones.LEAST_ROWS:
            of_user(check.WIDEST.format(asked), BandwidthRangeWarning)
            return _scaled(rows, backend, _widest_factor)
        return backend.asarray(np.array([unit * check.plug_in(h, in_domain=domain is not None)]))


@declare(cross_validation_cost, of_cross_validation, name="bandwidth.cross_validate")
@public_call(returned.with_columns)
@takes(OfSearch, described=["n_eff"])
def cross_validate(
    X: ArrayLike,
    method: Method = "kde",
    bandwidths: ArrayLike | None = None,
    objective: Literal["likelihood", "least_squares"] = "likelihood",
    *,
    per_dimension: bool = False,
    covariance: bool = False,
    **options: Unpack[OfSearch],
) -> CrossValidation | CovarianceValidation:
    r"""Choose a bandwidth by leave-one-out cross-validation, for any of the density estimates.

    Each row is scored by the density that the other rows give there, so a bandwidth cannot gain from a row's own
    kernel. No shape of the density is presumed.

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Data, at least two rows; (n,) means d = 1. A GPU array computes on the GPU.
    method : {"kde", "sd", "laplace", "positive"}
        The estimate that the bandwidth is for: :func:`cukde.kde`, :func:`cukde.sd_kde` (whose score has the same
        bandwidth), :func:`cukde.laplace_kde` or :func:`cukde.positive_kde`.
    bandwidths : array_like, shape (B,) or (B, d), optional
        Candidates, in units of the data: standard deviations for all columns, or one for each. Default: 32 multiples of
        the method's reference rule (:func:`silverman`, :func:`sd`, :func:`laplace`, :func:`positive`), from 1/8 to 1.83
        in steps of 9%. While the best is at an end, 16 more are added there, but where rows share values none below
        2^-15.
    objective : {"likelihood", "least_squares"}
        The score, which is to be large: the mean log density, :math:`\sum_j w_j \log \hat p_{-j}(x_j)`, or minus the
        integrated squared error up to a constant, :math:`-(\int \hat p^2 - 2 \sum_j w_j \hat p_{-j}(x_j))`. Method
        "laplace" has only the latter, because its densities can be negative.
    per_dimension : bool
        Whether to search further for a standard deviation for each column: from the best candidate by gradients to a
        local maximum, within a factor of 256 of the start.
    covariance : bool
        Whether to search further for a covariance, for ``method="kde"`` by likelihood without bounds and periods: from
        the best deviations, or the scaled covariance of the data, by gradients over Cholesky factors.
    bounds, periods : sequence of length d or mapping, optional
        As for :func:`cukde.kde`, for ``method="kde"`` and ``"positive"``. Sums are then in float64.
    kinds : sequence of length d or mapping, optional
        As for :func:`cukde.kde`. With categories ``bandwidth`` is that of each column, for ``method="kde"`` alone.

    Returns
    -------
    CrossValidation or CovarianceValidation
        A named tuple: ``bandwidth``, (d,) or with ``covariance`` (d, d), the best, to be given as ``h``, as the result
        itself may be; ``score``, its score; ``bandwidths``, (B, d), the candidates, and ``scores``, (B,), theirs; with
        ``covariance`` also ``gain``, what it adds over the best deviations to the mean log density of rows that were
        held out of both searches, and ``gain_error``, its standard error. Arrays are float64, where the data are.

    Raises
    ------
    TypeError, ValueError
        As :func:`scott`, but a column may be constant if ``bandwidths`` are given without ``per_dimension``. For an
        unknown or unsupported option; for bandwidths that are no numbers, empty, not positive, of another shape, or
        1e12 times each other; for data that span more than 1e18 (float64: 1e150) of the smallest bandwidth; and for
        densities beyond the range of float64 with ``"least_squares"``.

    Warns
    -----
    BandwidthRangeWarning
        If the best bandwidth is the smallest or the largest of candidates that are multiples of each other, or with
        ``per_dimension`` lies at the edge of its range: the maximum may lie beyond.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = np.random.default_rng(0).normal(size=400)
    >>> X[200:] += 8  # two modes
    >>> found = cukde.bandwidth.cross_validate(X)
    >>> found.bandwidth.round(2), cukde.bandwidth.silverman(X).round(2)
    (array([0.33]), array([1.3]))
    >>> p = cukde.kde(X, X, found.bandwidth)

    Notes
    -----
    Rows of weight 0 do not count; without row j the others have the weights :math:`w_i / (1 - w_j)`. The precisions
    "tf32" and "ieee" mean "float32" here. Mean logarithms, and least squares relative to the mean density, are accurate
    to 1e-12 (sd: 3e-11) in float64 and to 3e-5 (sd: 3e-4) in float32.

    Cost: n (n - 1) / 2 distances, and an exponential for each pair and bandwidth; for sd a pass of the score and 2 n^2
    exponentials for each. Memory is O(n d), and at most 256 MiB or one row of n numbers. ``docs/bandwidths.md`` says
    which objective to take and what ties do.

    References
    ----------
    - Habbema, J. D. F., Hermans, J. and van den Broek, K. (1974). A stepwise discriminant analysis program using
      density estimation. *Compstat 1974*, 101-110: the likelihood.
    - Rudemo, M. (1982). Empirical choice of histograms and kernel density estimators. *Scand. J. Statist.* 9, 65-78:
      least squares.
    """
    if (kinds := options.pop("kinds", None)) is not None:
        check.of_kinds(method, bandwidths, objective, covariance)
        from cukde.bandwidth import mixed  # which few calls need

        if (of_mixed := mixed.cross_validate(X, kinds, options, silverman)) is not None:
            return of_mixed
    in_domain = options.get("bounds") is not None or options.get("periods") is not None
    check.options(method, objective, per_dimension, covariance, in_domain=in_domain)
    weights = options.get("weights")
    backend = dispatch.backend(X, weights=weights)
    with backend.device_of(X):
        rows = data.rows_of(X, options, backend)
        chosen = density_check.precision(options.get("precision"), rows.points.dtype)
        domain = data.domain(X, rows, options, backend)
        if bandwidths is None:
            tried = backend.asnumpy(_scaled(rows, backend, FACTORS[ESTIMATES[method].rule], domain))
        else:
            tried = check.bandwidths(dispatch.to_host(bandwidths), rows.points.shape[1])
        kind: Callable[[Question], Criterion] = LeaveOneOut if domain is None else LeaveOneOutInDomain
        if ESTIMATES[method].mass is not None:
            kind = LeaveOneOutPositive
        of = Question(rows, domain, weights is not None, method, objective, chosen, backend)
        criterion = kind(of) if rows.step == 1 else Thinned(kind, of)
        tied = functools.partial(rows.every(rows.step, 0, backend.xp).tied, objective, backend)
        alone = search.search(criterion, tried, tied, per_dimension=bool(per_dimension or covariance))
        best, d = alone.bandwidth, len(alone.bandwidth)
        found = _with_covariance(alone, of, backend) if covariance else alone
        if rows.step > 1:
            more = rows.widened(best / deviations(rows, backend, domain), 1 / (d + 2 * ESTIMATES[method].order))
            found = found._replace(bandwidth=found.bandwidth * more**found.bandwidth.ndim)
        arrays = {name: backend.asarray(a) for name, a in found._asdict().items() if isinstance(a, np.ndarray)}
        return found._replace(**arrays)


def _with_covariance(alone: CrossValidation, of: Question, backend: ModuleType) -> CovarianceValidation:
    """Search on from the best deviations for a covariance; of one column it is the square."""
    from cukde.bandwidth import covariances  # which few calls need

    if len(alone.bandwidth) == 1:
        check.variances(alone.bandwidth**2)
        found = covariances.Found(alone.bandwidth[:, None] ** 2, alone.score, 0.0, 0.0)
    else:
        of = of._replace(rows=of.rows.every(of.rows.step, 0, backend.xp))
        reference = backend.asnumpy(_scaled_covariance(of.rows, backend, FACTORS["silverman"]))
        found = covariances.search(of, alone.bandwidth, reference)
    return CovarianceValidation(found.bandwidth, found.score, *alone[2:], found.gain, found.error)


def deviations(rows: Rows, backend: ModuleType, domain: Ends | None) -> np.ndarray:
    """Return the standard deviation of each column of checked data, on the host."""
    out: np.ndarray = backend.asnumpy(_scaled(rows._replace(chain=None, share=1.0), backend, lambda n, d: 1.0, domain))
    return out


def _widest_factor(n: float, d: int) -> float:
    return float((243 / (70 * math.sqrt(math.pi) * n)) ** 0.2)


@declare(abramson_cost, of_abramson, name="bandwidth.abramson")
@public_call(returned.rows("X", "local_factors"))
@takes(OfRule)
def abramson(X: ArrayLike, h: Bandwidth, *, alpha: float = 0.5, **options: Unpack[OfRule]) -> Array:
    r"""Factors of the bandwidth for :func:`cukde.kde`, one for each row, by Abramson's square-root law.

    .. math:: \lambda_j = (\hat p(x_j) / g)^{-\alpha}, \qquad \log g = \sum_j w_j \log \hat p(x_j)

    The pilot density is that of the data at the data (Y = X), with bandwidth ``h``. The kernels of
    ``cukde.kde(X, Y, h, weights=weights, local_factors=factors)`` are then narrow where data are dense, and wide in the
    tails. The other functions of that family take the factors, too.

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Data; (n,) means d = 1. A GPU array computes on the GPU.
    h : float, array_like or str
        Bandwidth of the pilot density, in any form that :func:`cukde.kde` takes.
    alpha : float
        Exponent from 0 to 1. With 0 all factors are 1; 1/2 is Abramson's law; with 1/d factors grow like the distance
        to the nearest neighbours.

    Returns
    -------
    array, shape (n,)
        Positive factors without a unit, in float64. Their weighted geometric mean is 1; rows of weight 0 do not count
        and have the factor 1. NumPy in, NumPy out; CuPy in, CuPy out; for a frame a series with its index. NaN for rows
        that are left out.

    Raises
    ------
    TypeError, ValueError
        As :func:`cukde.kde`, and for an ``alpha`` that is not a number from 0 to 1.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = np.array([0.0, 0.1, 0.2, 3.0])  # three neighbours and an outlier
    >>> factors = cukde.bandwidth.abramson(X, 0.5)
    >>> factors.round(2)
    array([0.88, 0.87, 0.88, 1.5 ])
    >>> cukde.kde(X, [3.0], 0.5, local_factors=factors).round(3)
    array([0.133])

    Notes
    -----
    With alpha = 1/2 the bias is of order h^4 where the density is smooth and not near 0, as Abramson shows for factors
    from the true density. The estimate is still a density: not negative, with integral 1. Dividing by the geometric
    mean makes ``h`` comparable with a fixed bandwidth. The estimate depends little on the pilot, whose bandwidth may be
    the final one or that of a reference rule (Silverman).

    Cost: one density with Y = X, n^2 exponentials (O(n) in one dimension), less the pairs that :func:`cukde.kde` leaves
    out by its default ``rtol``. Log densities are used throughout, so nothing underflows or overflows. The relative
    error of a factor is ``alpha`` times that of the density and of ``g``: 1e-12 for float64 data, for float32 1e-5 on
    the CPU and 3e-5 on the GPU (``tests/density/test_local_factors.py``).

    References
    ----------
    - Abramson, I. S. (1982). On bandwidth variation in kernel estimates: a square root law. *Annals of Statistics* 10,
      1217-1223.
    - Silverman, B. W. (1986). *Density Estimation for Statistics and Data Analysis*. Chapman and Hall, section 5.3.
    """
    exponent = core_check.proportion("alpha", alpha)
    if getattr(h, "method", None) == ABRAMSON:  # a selection, whose pilot has its own bandwidth
        h = h.bandwidth  # type: ignore[union-attr]
    problem = problem_of(X, X, h, options)
    xp = problem.xp
    with problem.device:
        log_p = problem._replace(dtype=np.dtype(np.float64)).density(log=True)
        if problem.options.log_weights is None:
            return xp.exp(exponent * (log_p.mean() - log_p))
        w = xp.exp(problem.options.log_weights)
        return xp.exp(xp.where(w > 0, exponent * (w @ log_p - log_p), 0.0))


def _scaled_deviations(X: Any, options: OfReference, factor: Factor, *, covariance: bool = False) -> Any:
    """Check the arguments; return ``factor(effective rows, d)`` times each column's standard deviation.

    With ``covariance`` its square times the covariance of the columns.
    """
    covariance, weights = core_check.flag("covariance", covariance), options.get("weights")
    backend = dispatch.backend(X, weights=weights)
    with backend.device_of(X):
        rows = data.rows_of(X, options, backend)
        domain = data.domain(X, rows, options, backend)
        if not covariance:
            return _scaled(rows, backend, factor, domain)
        check.on_a_line(domain is not None and bool(domain.periodic.any()))
        return _scaled_covariance(rows, backend, factor)


def _scaled(rows: Rows, backend: ModuleType, factor: Factor, domain: Ends | None = None) -> Any:
    """Return deviations of checked data."""
    deviations, ranges, share = _centred(rows, backend)
    deviations *= deviations
    variances = rows.weights @ deviations * share
    out = ranges * backend.xp.sqrt(variances)
    if domain is not None and domain.periodic.any():
        around = backend.asnumpy(out)
        for k in map(int, np.flatnonzero(domain.periodic)):
            around[k] = circular.deviation(rows, k, float(domain.period[k]), backend.xp)
        check.varies(around, ", but for whole periods")
        out = backend.asarray(around)
    return out * _settled(rows, factor, deviations.shape[1])


def _scaled_covariance(rows: Rows, backend: ModuleType, factor: Factor) -> Any:
    """Return the covariance of checked data."""
    deviations, ranges, share = _centred(rows, backend)
    products = (deviations * rows.weights[:, None]).T @ deviations * share
    places = rows.points[rows.heaviest].astype(backend.xp.float64) / ranges  # the mean is within a range of it
    check.independent(backend.asnumpy(products), backend.asnumpy(places), rows.points.dtype)
    widths = ranges * _settled(rows, factor, deviations.shape[1])
    narrow, wide = backend.xp.minimum(widths[:, None], widths), backend.xp.maximum(widths[:, None], widths)
    out = (products + products.T) / 2 * wide * narrow  # in this order no product leaves the range that the result keeps
    check.variances(backend.asnumpy(out).diagonal())
    return out


def _settled(rows: Rows, factor: Factor, d: int) -> float:
    """The factor of the number of rows that count."""
    out = rows.settled(lambda n: factor(n, d))
    assert out is not None
    return out


def _centred(rows: Rows, backend: ModuleType) -> tuple[Any, Any, float]:
    """Return deviations from the mean over ranges, the ranges, and what makes weighted sums of squares variances."""
    deviations, ranges, _ = data.sample(rows, backend)
    deviations -= rows.weights @ deviations / rows.total
    # total^2 - sum w^2, without the cancellation where one row has nearly all the weight
    distinct_pairs = 2 * rows.rest + (rows.rest**2 - rows.squares)
    return deviations, ranges, rows.total / distinct_pairs
