"""Entropy, mutual information and divergence of data, by kernel density estimates at the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cost.registry import declare
from cukde.core.entry import returned
from cukde.core.entry.given import Given
from cukde.core.entry.public_call import public_call
from cukde.core.types import ArrayLike, Bandwidth, Columns
from cukde.density import check as density_check, rules_by_name
from cukde.density.arguments import problem_of
from cukde.density.compositions import columns as compositions_columns, ratio
from cukde.density.compositions.columns import Widths
from cukde.density.cost import calls as cost_calls
from cukde.density.domains.domain import arguments_of, domain_of
from cukde.density.information import check, cost, estimate
from cukde.density.information.estimate import OF_ANOTHER, OF_ITSELF, PLAIN, Drawn, Information, Terms
from cukde.density.keywords import InDomain, OfData, taken, takes
from cukde.density.problem import Problem

Signs = Sequence[tuple[int, list[int]]]
"""Densities of some columns, with the signs of their logarithms; the first is that of all columns that are named."""


def _with_names(given: Given, found: Information) -> Information:
    return found._replace(terms=returned.as_rows(given, found.terms, "X", "terms"))


def _no_queries(arguments: Mapping[str, Any], labels: Sequence[Any], d: int) -> Sequence[int]:
    """Columns are named, but no queries have them."""
    return range(d)


@declare(cost.entropy, cost_calls.of_entropy)
@public_call(_with_names, chosen=_no_queries)
@takes(OfData)
def entropy(
    X: ArrayLike,
    h: Bandwidth,
    columns: Columns | None = None,
    *,
    given: Columns | None = None,
    bias_correction: bool = True,
    **options: Unpack[OfData],
) -> Information:
    r"""Differential entropy of data, or of some columns given others, with its standard error.

    .. math:: \hat H = -\sum_i w_i \log \hat p_{-i}(x_i)

    Here :math:`\hat p_{-i}` is :func:`cukde.kde` without row i. The conditional entropy is :math:`H(A \mid C) = H(A, C)
    - H(C)`.

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Data, as for :func:`cukde.kde`, of a continuous distribution; a data frame gives its columns names.
    h : float, array_like or str
        Bandwidth of all ``d`` columns, in any form that :func:`cukde.kde` takes; the name of a rule, which counts the
        columns that are named. "cross_validate" is the best for densities that are far from normal. A rule's local
        factors count, too.
    columns : int, str or sequence of them, optional
        The columns, by position or name, as in :func:`cukde.marginal`. Default: all that are not given.
    given : int, str or sequence of them, optional
        Columns that the entropy is conditional on.
    bias_correction : bool
        Correct the mean for rows with few neighbours, and for smoothing. False: the formula above, of one pass.

    Returns
    -------
    Information
        A named tuple of ``value`` and ``standard_error``, numbers in nats, and ``terms``, (n,): what each row
        contributes, of the dtype of ``X``.

    Raises
    ------
    TypeError, ValueError
        As :func:`cukde.kde`; for columns that ``X`` does not have or that are named twice; for fewer than two rows with
        a weight, and for Dask collections.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = np.random.default_rng(0).normal(size=5_000)
    >>> found = cukde.entropy(X, "silverman")  # log(2 pi e) / 2 is 1.419
    >>> round(found.value, 3), round(found.standard_error, 3)
    (1.414, 0.01)

    Notes
    -----
    *Bias.* The formula is too high in the mean, by the divergence of the estimate from the density. The correction
    takes off its largest parts: what few neighbours take from a logarithm, and powers 2 and 3 of h^2, by three
    bandwidths from ``h`` to twice that. Of three columns or more it also takes off what that leaves of rows drawn from
    a smooth estimate, whose density is known; they are the same on every call. ``docs/information.md`` has the method.

    *What is left.* Of 1,000 rows of normals, of a mixture or of Student's t in one to five columns, 82 to 97% of values
    are within two standard errors. Columns with a steep edge keep values that are too high, and so do rows with
    ``local_factors``, ``bounds`` or ``periods``, for which none are drawn. Equal rows are no sample of a density.

    *Error.* The standard error is the deviation of the terms over :math:`\sqrt n`, which is right to first order
    however the density is estimated (Hall and Morton), and the noise of the sums of pairs beside it.

    Cost: four passes with Y = X, of h / sqrt(2) to 2 h, n^2 exponentials each, and six with weights or factors; of
    three columns or more nine and 13; one without the correction. With ``given`` twice that.

    References
    ----------
    - Hall, P. and Morton, S. C. (1993). On the estimation of entropy. *Ann. Inst. Statist. Math.* 45, 69-88.
    - Joe, H. (1989). Estimation of entropy and other functionals of a multivariate density. *Ann. Inst. Statist. Math.*
      41, 683-697.
    """
    data = _Data.of(X, options)
    of_given, (chosen,) = check.groups(data.d, data.labels, given, ("columns", columns))
    signs = [(-1, [*chosen, *of_given])]
    return data.information(signs + ([(1, of_given)] if of_given else []), h, bias_correction)


@declare(cost.mutual_information, cost_calls.of_mutual_information)
@public_call(_with_names, chosen=_no_queries)
@takes(OfData)
def mutual_information(
    X: ArrayLike,
    columns_a: Columns,
    columns_b: Columns | None,
    h: Bandwidth,
    *,
    given: Columns | None = None,
    bias_correction: bool = True,
    **options: Unpack[OfData],
) -> Information:
    r"""Mutual information of some columns and others, or given further ones, with its standard error.

    .. math:: \hat I(A; B) = \sum_i w_i \log \frac{\hat p_{-i}(a_i, b_i)}{\hat p_{-i}(a_i)\, \hat p_{-i}(b_i)}

    It is 0 where the columns are independent, and measures dependence of any kind. Given C it is :math:`H(A, C) + H(B,
    C) - H(A, B, C) - H(C)`.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Data, as for :func:`cukde.entropy`.
    columns_a : int, str or sequence of them
        The first columns, by position or name, as in :func:`cukde.marginal`.
    columns_b : int, str or sequence of them, or None
        The others. None: all that are left.
    h : float, array_like or str
        Bandwidth of all ``d`` columns, or the name of a rule, as for :func:`cukde.entropy`. Densities of fewer columns
        have that block of it, so that most of what smoothing changes cancels.
    given : int, str or sequence of them, optional
        Columns that the information is conditional on.
    bias_correction : bool
        As in :func:`cukde.entropy`.

    Returns
    -------
    Information
        A named tuple of ``value`` and ``standard_error``, numbers in nats, and ``terms``, (n,), as of
        :func:`cukde.entropy`. Independent columns may have a negative value.

    Raises
    ------
    TypeError, ValueError
        As :func:`cukde.entropy`, and for a column that two arguments name.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> x, e = np.random.default_rng(0).normal(size=(2, 4_000))
    >>> X = np.column_stack([x, 0.6 * x + 0.8 * e])  # -log(1 - 0.6**2) / 2 is 0.223
    >>> found = cukde.mutual_information(X, 0, 1, "silverman")
    >>> round(found.value, 3), round(found.standard_error, 3)
    (0.217, 0.009)

    Notes
    -----
    Biases, errors and limits are those of :func:`cukde.entropy`; of few rows, what is left of the bias may
    have either sign. ``docs/information.md`` has figures, beside those of nearest neighbours.

    For independent columns the first-order error vanishes, and the standard error is that of the sums of pairs, which
    errs on the high side. As a test of independence take permutations of a column.

    Cost: that of :func:`cukde.entropy` of all columns, and of each group by itself; one column takes O(n).

    References
    ----------
    - Joe, H. (1989). Relative entropy measures of multivariate dependence. *JASA* 84, 157-164.
    - Moon, Y.-I., Rajagopalan, B. and Lall, U. (1995). Estimation of mutual information using kernel density
      estimators. *Physical Review E* 52, 2318-2321.
    """
    data = _Data.of(X, options)
    of_given, (a, b) = check.groups(data.d, data.labels, given, ("columns_a", columns_a), ("columns_b", columns_b))
    signs = [(1, [*a, *b, *of_given]), (-1, [*a, *of_given]), (-1, [*b, *of_given])]
    return data.information(signs + ([(1, of_given)] if of_given else []), h, bias_correction)


@declare(cost.kl_divergence, cost_calls.of_divergence)
@public_call(_with_names)
@takes(InDomain)
def kl_divergence(
    X: ArrayLike,
    Z: ArrayLike,
    h: Bandwidth,
    *,
    denominator_bandwidth: Bandwidth | None = None,
    denominator_weights: ArrayLike | None = None,
    bias_correction: bool = True,
    **options: Unpack[InDomain],
) -> Information:
    r"""Kullback-Leibler divergence of the distribution of ``X`` from that of ``Z``, with its standard error.

    .. math:: \hat D = \sum_i w_i \left(\log \hat p_{-i}(x_i) - \log \hat q(x_i)\right)

    Here :math:`\hat p_{-i}` is the density :func:`cukde.kde` of ``X`` without row i, and :math:`\hat q` that of ``Z``.

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Sample of the distribution that the mean is over, as for :func:`cukde.entropy`.
    Z : array_like, shape (k, d) or (k,)
        Sample of the other, in the same columns.
    h : float, array_like or str
        Bandwidth of both densities, in any form that :func:`cukde.kde` takes; a rule is applied to ``X``.
    denominator_bandwidth : float, array_like or str, optional
        Bandwidth of ``Z``; default ``h``. A rule is applied to ``Z``.
    weights, denominator_weights : array_like, shapes (n,) and (k,), optional
        Non-negative weights of each sample, each normalised to sum to 1. Default 1/n and 1/k.
    bias_correction : bool
        As in :func:`cukde.entropy`; powers 1 and 2 of h^2 are taken off, and rows drawn of four columns or more.

    Returns
    -------
    Information
        A named tuple of ``value`` and ``standard_error``, numbers in nats, and ``terms``, (n,), as of
        :func:`cukde.entropy`. Samples of one distribution may have a negative value.

    Raises
    ------
    TypeError, ValueError
        As :func:`cukde.kde`, of both samples; for fewer than two rows of ``X`` with a weight, and for Dask collections.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> rng = np.random.default_rng(0)
    >>> found = cukde.kl_divergence(rng.normal(size=4_000), rng.normal(0.5, 1, 4_000), "silverman")  # 0.125
    >>> round(found.value, 2), round(found.standard_error, 2)
    (0.14, 0.01)

    Notes
    -----
    *Where it fails.* Rows of ``X`` must have neighbours among ``Z``. Where they have none, the log density of ``Z``
    falls with the squared distance to the nearest row, and so grows the value: it is finite, and tells the distance
    rather than the divergence. The standard error does not show that; ``terms`` do, by their largest entries.

    *Error.* The standard error has the deviation of the terms, and the influence of the rows of ``Z``: 1 less the
    density of ``X`` over that of ``Z``, smoothed by ``h``. The latter is taken from one pass.

    Biases and limits are those of :func:`cukde.entropy`, of both densities; ``docs/information.md`` has figures.

    Cost: four passes each of (n, n) and (k, n) pairs, six of a sample with weights, and one of (n, k) pairs; of four
    columns or more twice that, and one of each.

    References
    ----------
    - Hall, P. (1987). On Kullback-Leibler loss and density estimation. *Annals of Statistics* 15, 1491-1519.
    - Kandasamy, K., Krishnamurthy, A., Poczos, B., Wasserman, L. and Robins, J. M. (2015). Nonparametric von Mises
      estimators for entropies, divergences and mutual informations. *NeurIPS*, for the influence.
    """
    factors = OF_ANOTHER if core_check.flag("bias_correction", bias_correction) else PLAIN
    both = ratio.problems(X, Z, None, h, denominator_bandwidth, denominator_weights, {**options, "leave_one_out": True})
    above, below = (each._replace(dtype=np.dtype(np.float64)) for each in both[:2])
    of_drawn = None
    with above.device:
        if estimate.draws(above, factors, 4):
            columns, origin = [*range(above.X.shape[1])], above.X.mean(axis=0)
            x, z = Drawn.of(above, origin), Drawn.of(below, origin)
            (p, known_p), (q, known_q) = x.problems(columns), z.problems(columns, x.rows)
            of_drawn = (
                _divergence(p, q, factors)
                .plus(-1, estimate.logs(known_p, PLAIN))
                .plus(1, estimate.logs(known_q, PLAIN))
            )
    return estimate.information(above._replace(dtype=both.dtype), _divergence(above, below, factors), of_drawn)


def _divergence(above: Problem, below: Problem, factors: tuple[float, ...]) -> Terms:
    found = estimate.logs(above, factors)._replace(more=_of_others(above, below))
    with above.device:
        return found.plus(-1, estimate.logs(below, factors))


def _of_others(above: Problem, below: Problem) -> Any:
    """What the data of a density vary a mean logarithm of it by, over the data of another: a variance."""
    xp = below.xp
    with below.device:
        log_q = estimate.logs(below, PLAIN).terms
        log_w, log_sum = estimate.log_of_mean(xp.log(estimate.shares(above)), -log_q, xp)
        options = below.options._replace(log_weights=log_w, local_factors=None)
        X = below.X if below.Y is None else below.Y
        swapped = below._replace(X=X, Y=below.X, options=options, outside=None, query_shape=below.X.shape)
        quotients = xp.exp(swapped.density(log=True) + log_sum)
        return (estimate.shares(below) ** 2 * (quotients - 1) ** 2).sum()


class _Data(NamedTuple):
    """Checked data, before a bandwidth is known."""

    x: Any
    labels: check.Labels
    ends: dict[str, Any]  # bounds and periods
    options: dict[str, Any]

    @property
    def d(self) -> int:
        return int(self.x.shape[1])

    @classmethod
    def of(cls, X: Any, options: Any) -> _Data:
        ends: dict[str, Any] = {"bounds": options.pop("bounds", None), "periods": options.pop("periods", None)}
        backend = dispatch.backend(X, weights=options.get("weights"), local_factors=options.get("local_factors"))
        with backend.device_of(X):
            x, _ = density_check.data(X, backend)
            return cls(x, compositions_columns.labels(X, x.shape[1]), ends, options)

    def _by_rule(self, signs: Signs) -> tuple[_Data, Signs]:
        """Data of the columns that are named, which a rule then counts; the others do not matter."""
        used = sorted(signs[0][1])
        if len(used) == self.d:
            return self, signs
        domain = domain_of(**self.ends, d=self.d)
        ends = arguments_of(None if domain is None else domain.of_columns(used))
        part = self._replace(x=self.x[:, used], ends={name: ends.get(name) for name in self.ends})
        return part, [(sign, [used.index(column) for column in chosen]) for sign, chosen in signs]

    def widths(self, h: Any) -> tuple[Widths, dict[str, Any]]:
        """The bandwidths of the columns, and options with local factors, their own or those of a rule."""
        options = dict(self.options)
        factors = taken(options, "local_factors")
        backend = dispatch.backend(self.x)
        with backend.device_of(self.x):
            takes_factors = factors is None
            weights = options.get("weights")
            h, own = rules_by_name.with_factors(h, self.x, weights, takes_factors=takes_factors, **self.ends)
            widths = Widths.of(h, **self.ends, d=self.d)
        return widths, {**options, "local_factors": own if takes_factors else factors, "leave_one_out": True}

    def information(self, signs: Signs, h: Any, corrected: Any) -> Information:
        """The mean of log densities of some columns, with their signs, the joint density first."""
        factors = OF_ITSELF if core_check.flag("bias_correction", corrected) else PLAIN
        data, signs = self._by_rule(signs) if isinstance(h, str) else (self, signs)
        widths, options = data.widths(h)
        problems = [
            problem_of(data.x[:, chosen], None, options=options, **widths.of_columns(chosen)) for _, chosen in signs
        ]
        found, of_drawn, whole = Terms(0.0, None), Terms(0.0, None), signs[0][1]
        with problems[0].device:
            drawn = Drawn.of(problems[0], 0.0) if estimate.draws(problems[0], factors, 3) else None
            for (sign, chosen), problem in zip(signs, problems, strict=True):
                found = found.plus(sign, estimate.logs(problem, factors))
                if drawn is not None:
                    of_rows, known = drawn.problems([whole.index(column) for column in chosen])
                    of_drawn = of_drawn.plus(sign, estimate.logs(of_rows, factors))
                    of_drawn = of_drawn.plus(-sign, estimate.logs(known, PLAIN))
        return estimate.information(problems[0], found, None if drawn is None else of_drawn)
