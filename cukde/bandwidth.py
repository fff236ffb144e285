"""Rules for the bandwidth: standard deviations, one per dimension, made from the data.

``scott``, ``silverman``, ``sd`` and ``laplace`` are reference rules, the best bandwidth were the data normal: a factor
times the standard deviation of each column. The factor depends only on the dimension and the effective number of rows;
it minimises the leading terms of the mean integrated squared error (MISE) that one estimator has for independent normal
columns (Scott's rounds that factor).

``isj``, the improved Sheather-Jones rule for :func:`cukde.kde` in one dimension, takes no shape for granted: it
estimates from the data how much their density bends, and serves data of several modes, on which the reference rules
oversmooth.

docs/bandwidths.md says which rule is for which method, and what other libraries call the same things.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cukde import _dispatch, _improved_sheather_jones, _validate
from cukde.perf import declare
from cukde.perf.costs._density_calls import of_bandwidth
from cukde.perf.costs.density import bandwidth as cost
from cukde.perf.costs.improved_sheather_jones import isj as isj_cost

_PARTS = 1024  # that many rows are cut into


@declare(cost, of_bandwidth, name="bandwidth.scott")
def scott(X: Any, *, weights: Any = None) -> Any:
    r"""Scott's rule for :func:`cukde.kde`.

    .. math:: h_k = \sigma_k \, n_\mathrm{eff}^{-1/(d+4)}

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Data, at least two rows; (n,) means d = 1. A GPU array computes on the GPU.
    weights : array_like, shape (n,), optional
        Non-negative weights; only their ratios matter. Default 1 each.

    Returns
    -------
    array, shape (d,)
        A standard deviation a column, in that column's units: what ``h`` takes. (1,) for d = 1. Always
        float64, for float32 data too. NumPy in, NumPy out; CuPy in, CuPy out.

    Raises
    ------
    TypeError
        For complex, string or object data, and for ``weights`` on the GPU beside ``X`` on the CPU.
    ValueError
        For shapes that do not fit, fewer than two rows, weights that leave a single row, a constant column,
        NaN or infinity, negative or all-zero weights.

    Notes
    -----
    With weights :math:`w_j` normalised to sum to 1, :math:`n_\mathrm{eff} = 1 / \sum w_j^2` and
    :math:`\sigma_k^2 = \sum_j w_j (x_{jk} - \bar x_k)^2 / (1 - \sum w_j^2)`, which is n and the sample
    variance (divisor n - 1) where there are none. The sums run over centred and scaled float64 data:
    neither an offset nor huge weights cost accuracy. Cost: a few passes over the data.

    The result equals the square root of the diagonal of ``scipy.stats.gaussian_kde(X.T).covariance``
    to 1e-12 (``tests/test_bandwidth.py``).

    References
    ----------
    Scott, D. W. (1992). *Multivariate Density Estimation: Theory, Practice, and Visualization*. Wiley.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.bandwidth.scott(np.array([1.0, 2.0, 3.0, 4.0])).round(4)
    array([0.9784])
    """
    return _scaled_deviations(X, weights, lambda n, d: n ** (-1 / (d + 4)))


@declare(cost, of_bandwidth, name="bandwidth.silverman")
def silverman(X: Any, *, weights: Any = None) -> Any:
    r"""Silverman's rule for :func:`cukde.kde`: the best bandwidth for normal data, to leading order.

    .. math:: h_k = \sigma_k \, [n_\mathrm{eff} (d + 2) / 4]^{-1/(d+4)}

    Parameters, result and errors are those of :func:`scott`.

    References
    ----------
    Silverman, B. W. (1986). *Density Estimation for Statistics and Data Analysis*. Chapman and Hall,
    section 4.3.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.bandwidth.silverman(np.array([1.0, 2.0, 3.0, 4.0])).round(4)
    array([1.0363])
    """
    return _scaled_deviations(X, weights, lambda n, d: (n * (d + 2) / 4) ** (-1 / (d + 4)))


@declare(cost, of_bandwidth, name="bandwidth.sd")
def sd(X: Any, *, weights: Any = None) -> Any:
    r"""Normal-reference rule for :func:`cukde.sd_kde`, with the score's bandwidth equal to the density's.

    .. math::

        h_k = \sigma_k \left[\frac{32\, r}{25\, (d + 2)}\right]^{1/(d+8)} n_\mathrm{eff}^{-1/(d+8)}, \qquad
        r = 1 + \frac{d}{3} \left(\frac{2}{3}\right)^{d/2} + \frac{d (d + 2)}{64}\, 2^{-d/2}

    Parameters, result and errors are those of :func:`scott`.

    Notes
    -----
    Derivation, for data from :math:`p = N(0, \sigma^2 I)`; :math:`K_h` is the density of
    :math:`N(0, h^2 I)`.

    *Bias.* The score of the smoothed density is :math:`-x / (\sigma^2 + h^2)`, so the moved points have
    standard deviation :math:`\sigma (1 - h^2 / (2 (\sigma^2 + h^2)))`, and smoothing adds :math:`h^2` to
    their variance: the mean of the estimate is normal with variance
    :math:`\sigma^2 + (5/4) h^4 / \sigma^2 + O(h^6)`. A normal density changes by :math:`\Delta p / 2` per
    unit of variance, so the bias is :math:`(5 h^4 / (8 \sigma^2)) \Delta p`. With
    :math:`\int (\Delta p)^2 = \frac{d (d+2)}{4} (4\pi)^{-d/2} \sigma^{-d-4}` its integrated square is

    .. math:: \frac{25\, d (d + 2)}{256} \frac{h^8}{\sigma^8} (4\pi)^{-d/2} \sigma^{-d}.

    *Variance.* To first order in the noise of the score the estimate is a linear one with the kernel
    :math:`K_h - \frac{h^2}{2} \Delta K_{\sqrt 2 h}`, since :math:`K_h * \nabla K_h = \nabla K_{\sqrt 2 h}`.
    Its integrated square is :math:`K_{\sqrt 2 h}(0) - h^2 \Delta K_{\sqrt 3 h}(0)
    + \frac{h^4}{4} \Delta^2 K_{2h}(0)`. With :math:`\Delta K_s(0) = -d K_s(0) / s^2` and
    :math:`\Delta^2 K_s(0) = d (d+2) K_s(0) / s^4` that is :math:`r\, (4\pi)^{-d/2} h^{-d}`, and the
    integrated variance is this over n.

    *Minimum.* The derivative of the sum in h vanishes where
    :math:`h^{d+8} = \frac{32\, r}{25 (d+2)} \sigma^{d+8} / n`.

    The rule is a leading-order one: the squared bias carries a factor
    :math:`1 - \frac{12}{5} h^2/\sigma^2 + \dots`, so the best bandwidth is larger, by a fraction of about
    :math:`3 h^2 / ((d + 8) \sigma^2)`. On normal data at d = 1 the MISE at the rule is above the least by
    2.3% at n = 1,000, 1.7% at 2,000, 1.4% at 3,000 (``tests/test_bandwidth.py`` simulates this one) and 1.1%
    at 5,000, with a standard error below 0.1%; at n = 2,000 by 4% for d = 2 and 3, 8% for d = 8, 30% for
    d = 16.

    References
    ----------
    Epstein et al. (2025), as in :func:`cukde.debias`, for the estimator and, with the exact score, the order
    :math:`n^{-1/(d+8)}`; the constant is derived above.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.bandwidth.sd(np.array([1.0, 2.0, 3.0, 4.0])).round(4)
    array([1.037])
    """
    return _scaled_deviations(X, weights, _sd_factor)


@declare(cost, of_bandwidth, name="bandwidth.laplace")
def laplace(X: Any, *, weights: Any = None) -> Any:
    r"""Normal-reference rule for :func:`cukde.laplace_kde`.

    .. math::

        h_k = \sigma_k \left[\frac{8 (d + 8)}{(d + 4)(d + 6)}\right]^{1/(d+8)} n_\mathrm{eff}^{-1/(d+8)}

    Parameters, result and errors are those of :func:`scott`.

    Notes
    -----
    Derivation, for data from :math:`p = N(0, \sigma^2 I)`.

    *Bias.* At h = 1 the kernel is :math:`K - \frac12 \Delta K`, whose Fourier transform is
    :math:`(1 + k^2/2)\, e^{-k^2/2} = 1 - k^4/8 + \dots`: the bias is :math:`-(h^4/8) \Delta^2 p`. With
    :math:`\int (\Delta^2 p)^2 = \frac{d (d+2) (d+4) (d+6)}{16} (4\pi)^{-d/2} \sigma^{-d-8}` its integrated
    square is

    .. math:: \frac{d (d+2) (d+4) (d+6)}{1024} \frac{h^8}{\sigma^8} (4\pi)^{-d/2} \sigma^{-d}.

    *Variance.* The moments of :math:`k^2` under :math:`e^{-k^2}` give the integrated square of the kernel,
    :math:`(1 + \frac d2 + \frac{d (d+2)}{16}) (4\pi)^{-d/2} h^{-d}
    = \frac{(d+2)(d+8)}{16} (4\pi)^{-d/2} h^{-d}`, and the integrated variance is this over n.

    *Minimum.* The derivative of the sum in h vanishes where
    :math:`h^{d+8} = \frac{8 (d+8)}{(d+4)(d+6)} \sigma^{d+8} / n`.

    The rule is a leading-order one: the squared bias carries a factor
    :math:`1 - \frac{d+8}{3} h^2/\sigma^2 + \dots`, so the best bandwidth is larger, by a fraction of about
    :math:`(5/12) h^2/\sigma^2`. On normal data the exact MISE at the rule is above the least by 4.8% at
    n = 1,000, 2.3% at 5,000, 1.7% at 10,000 and 0.6% at 100,000 for d = 1, but at n = 100,000 by 27% for
    d = 8 and 188% for d = 16 (``tests/test_bandwidth.py`` computes it): there a larger bandwidth pays.

    References
    ----------
    Epstein, E. L., Flash-SD-KDE, section 5, for the estimator; Wand, M. P. and Jones, M. C. (1995). *Kernel
    Smoothing*. Chapman and Hall, for the method; the constant is derived above.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.bandwidth.laplace(np.array([1.0, 2.0, 3.0, 4.0])).round(4)
    array([1.199])
    """
    return _scaled_deviations(X, weights, _laplace_factor)


@declare(isj_cost, of_bandwidth, name="bandwidth.isj")
def isj(X: Any, *, weights: Any = None) -> Any:
    r"""Improved Sheather-Jones rule for :func:`cukde.kde` in one dimension: for data of any shape.

    .. math:: h^2 = \left[2 \sqrt\pi \, n_\mathrm{eff} \, \lVert \hat f'' \rVert^2\right]^{-2/5}

    The norm is estimated from the data, each derivative's with the help of the next one's up to the seventh, whose
    bandwidth is again ``h``: nowhere is the density taken to be normal.

    Parameters
    ----------
    X : array_like, shape (n,) or (n, 1)
        Data, at least two rows. A GPU array computes on the GPU.
    weights : array_like, shape (n,), optional
        Non-negative weights; only their ratios matter. Default 1 each.

    Returns
    -------
    array, shape (1,)
        A standard deviation in the units of the data: what ``h`` takes. Always float64. NumPy in, NumPy out; CuPy in,
        CuPy out.

    Raises
    ------
    TypeError
        As :func:`scott`.
    ValueError
        As :func:`scott`; for more than one column; and where the data leave no bandwidth, because they are discrete
        (many rows of few values, further apart than the bandwidth would be), next to none, or of so many clusters, so
        much tighter than far apart, that no grid of 2^24 steps resolves them.

    Notes
    -----
    ``h`` is the fixed point described in ``cukde/_improved_sheather_jones.py``: of several the smallest that iteration
    leads to from below. It does not change when the data are shifted, and scales with them. Rows may share values: data
    that are rounded to less than about their bandwidth serve as well as those that are not, for
    :math:`n_\mathrm{eff} = 1 / \sum w_j^2` counts rows. The authors' program and KDEpy count distinct values, which is
    the same without ties, and with ties is ``isj(values, weights=counts)`` but for the uneven weights' smaller number.
    They also mirror the data at the ends of their grid; here the line is open, as for :func:`cukde.kde`.

    Accuracy: the functionals come from one Fourier transform of linearly binned data, on a grid of 16 or more steps a
    bandwidth; against sums over all pairs of 500 rows ``h`` is right to 1e-5 (normal, skewed, bimodal and heavy-tailed
    samples, distant clusters and outliers), and to 2e-4 where only a dozen rows are within reach of each other
    (``tests/test_bandwidth_isj.py``).

    Cost: a few passes over the data, and 5 ms on the host for transform and root. Data that span more than some 500
    bandwidths (heavy tails, outliers, far clusters) cost a pass and a transform for each factor of 4, and a sort: on
    two CPU cores 0.3 s for 10,000,000 rows of a normal distribution, 7 s of a Cauchy distribution.

    For a handful of rows, below about 20, the rule is erratic, and often wider than :func:`silverman`.

    References
    ----------
    Botev, Z. I., Grotowski, J. F. and Kroese, D. P. (2010). Kernel density estimation via diffusion. *Annals of
    Statistics* 38, 2916-2957.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = np.random.default_rng(0).normal(size=1000)
    >>> X[500:] += 20  # two modes
    >>> cukde.bandwidth.isj(X).round(2), cukde.bandwidth.silverman(X).round(2)
    (array([0.32]), array([2.67]))
    """
    backend = _dispatch.backend(X, weights=weights)
    with backend.device_of(X):
        sample = _sample(X, weights, backend, line=True)
        w = None if weights is None else sample.weights / sample.total
        h = _improved_sheather_jones.solve(
            sample.deviations[:, 0], w, sample.effective_rows, backend.xp, backend.asnumpy
        )
        return sample.ranges * _validate.plug_in(h)


def _sd_factor(n: float, d: int) -> float:
    roughness = 1 + d / 3 * (2 / 3) ** (d / 2) + d * (d + 2) / 64 * 2 ** (-d / 2)
    return float((32 * roughness / (25 * (d + 2) * n)) ** (1 / (d + 8)))


def _laplace_factor(n: float, d: int) -> float:
    return float((8 * (d + 8) / ((d + 4) * (d + 6) * n)) ** (1 / (d + 8)))


def _largest(a: Any, xp: Any) -> Any:
    """Largest entry of each column, in two steps: CuPy takes a column by one block, which of many rows takes long."""
    rows = len(a) // _PARTS * _PARTS
    parts = [a[:rows].reshape(_PARTS, -1, a.shape[1]).max(axis=1)] if rows else []
    return xp.concatenate([*parts, a[rows:]]).max(axis=0)


class _Sample(NamedTuple):
    """Checked data, brought to a size of 1."""

    deviations: Any  # (n, d) float64: from a row that counts, over the ranges; 0 where a row has no weight
    ranges: Any  # (d,) float64
    weights: Any  # (n,) float64, the largest 1
    rest: float  # sum of the weights but the largest
    squares: float  # sum of their squares

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return 1 + self.rest

    @property
    def effective_rows(self) -> float:
        """Squared sum of the weights over the sum of their squares."""
        return self.total**2 / (1 + self.squares)


def _sample(X: Any, weights: Any, backend: ModuleType, *, line: bool = False) -> _Sample:
    """Check the arguments and centre the data; ``line`` says that there must be one column."""
    xp = backend.xp
    x, _ = _validate.data(X, backend)
    n, d = x.shape
    _validate.two_rows(n)
    if line:
        _validate.one_column(d)
    x = xp.ascontiguousarray(x, dtype=xp.float64)
    if weights is None:
        w = xp.ones(n)
    else:
        w = _validate.weights(weights, n, backend).astype(xp.float64, copy=False)
    _, (x_finite, w_finite) = backend.look(x, None, None, [w])
    _validate.finite({"X": x_finite, "weights": w_finite})
    most = float(w.max())
    _validate.weight_range(float(w.min()), most)

    w = w / most  # the sum of huge weights must not overflow
    heaviest = w.argmax()
    others = w.copy()
    others[heaviest] = 0
    rest, squares = float(others.sum()), float((others * others).sum())
    _validate.two_rows(n, (1 + rest) ** 2 / (1 + squares))

    # Offsets go before anything is squared, taken from a row that counts; ranges are scaled to 1.
    with np.errstate(over="ignore"):  # the ranges are checked next
        deviations = xp.where((w > 0)[:, None], x - x[heaviest], 0)
    ranges = _largest(abs(deviations), xp)
    _validate.ranges(backend.asnumpy(ranges))
    deviations /= ranges
    return _Sample(deviations, ranges, w, rest, squares)


def _scaled_deviations(X: Any, weights: Any, factor: Callable[[float, int], float]) -> Any:
    """Check the arguments; return ``factor(effective rows, d)`` times each column's standard deviation."""
    backend = _dispatch.backend(X, weights=weights)
    with backend.device_of(X):
        sample = _sample(X, weights, backend)
        w, deviations, total, rest = sample.weights, sample.deviations, sample.total, sample.rest
        deviations -= w @ deviations / total
        deviations *= deviations
        # total^2 - sum w^2, without the cancellation where one row has nearly all the weight
        distinct_pairs = 2 * rest + (rest**2 - sample.squares)
        variances = w @ deviations * (total / distinct_pairs)
        return sample.ranges * backend.xp.sqrt(variances) * factor(sample.effective_rows, deviations.shape[1])
