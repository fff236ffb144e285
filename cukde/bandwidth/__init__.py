"""Rules for the bandwidth: standard deviations, one per dimension, made from the data.

``scott``, ``silverman``, ``sd``, ``laplace`` and ``positive`` are reference rules, the best bandwidth were the data
normal: a factor times the standard deviation of each column. The factor depends only on the dimension and the effective
number of rows. It minimises the mean integrated squared error (MISE) that one estimator has for independent normal
columns: Silverman's the leading terms for large n (Scott's rounds that factor), the last three the error at any n.

``isj``, the improved Sheather-Jones rule for :func:`cukde.kde` in one dimension, takes no shape for granted: it
estimates from the data how much their density bends, and serves data of several modes, on which the reference rules
oversmooth. ``cross_validate`` chooses by scores that each row has from the others, for each of the estimates, in any
number of dimensions.

Arguments that take a bandwidth take the names of the rules, too: ``cukde.kde(X, Y, "isj")``.

``select`` chooses the method as well as the bandwidth, by the likelihood of rows that are left out.

``abramson`` gives factors of the bandwidth, one a row: narrower where data are dense, wider in the tails.

docs/bandwidths.md says which rule is for which method, and what other libraries call the same things.
"""

from cukde.bandwidth import names as _names  # noqa: F401, it gives the rules their names
from cukde.bandwidth.rules import abramson, cross_validate, isj, laplace, positive, scott, sd, silverman
from cukde.bandwidth.search import CrossValidation as CrossValidation
from cukde.bandwidth.selection import Selection as Selection, select

__all__ = ["abramson", "cross_validate", "isj", "laplace", "positive", "scott", "sd", "select", "silverman"]


def __dir__() -> list[str]:
    return sorted(__all__)
