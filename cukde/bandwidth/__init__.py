"""Rules that compute a bandwidth from the data: standard deviations, one for each column.

``scott``, ``silverman``, ``sd``, ``laplace`` and ``positive`` are reference rules, which presume normal data. They
return a factor times the standard deviation of each column. The factor depends only on the dimension and the effective
number of rows. It minimises the mean integrated squared error (MISE) of one estimator for independent normal columns:
``silverman`` its leading terms for large n (``scott`` rounds that factor), the other three the error at any n.

``isj``, the improved Sheather-Jones rule for :func:`cukde.kde` in one dimension, presumes no shape. It estimates the
curvature of the density from the data, and suits data of several modes, which the reference rules oversmooth, but not
of several scales.

``cross_validate`` scores bandwidths by the density that the other rows give at each row, for each of the estimates and
in any number of dimensions. ``select`` chooses the method as well as the bandwidth, by the likelihood of held-out rows.

``abramson`` gives factors of the bandwidth, one for each row: small where data are dense, large in the tails.

``effective_size`` counts independent rows of a Markov chain. All rules but ``abramson`` take ``n_eff``, for rows that
depend on each other.

Arguments that take a bandwidth also take the names of the rules: ``cukde.kde(X, Y, "isj")``. docs/bandwidths.md says
which rule is for which method, and how other libraries call the same rules.
"""

from cukde.bandwidth import names as _names  # noqa: F401, it gives the rules their names
from cukde.bandwidth.chain_sizes import effective_size
from cukde.bandwidth.rules import abramson, cross_validate, isj, laplace, positive, scott, sd, silverman
from cukde.bandwidth.search import CovarianceValidation as CovarianceValidation, CrossValidation as CrossValidation
from cukde.bandwidth.selection import Selection as Selection, select

__all__ = [
    "abramson",
    "cross_validate",
    "effective_size",
    "isj",
    "laplace",
    "positive",
    "scott",
    "sd",
    "select",
    "silverman",
]


def __dir__() -> list[str]:
    return sorted(__all__)
