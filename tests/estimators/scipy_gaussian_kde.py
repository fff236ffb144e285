"""A pytest plugin: SciPy's tests of ``gaussian_kde`` collected and run with cukde's in its place.

It reports how many tests passed in which cukde's was made or was refused to be.
"""

from __future__ import annotations

import scipy.stats

import cukde
from tests.estimators.counted import Counted, pytest_runtest_call, pytest_sessionfinish

__all__ = ["pytest_runtest_call", "pytest_sessionfinish"]  # pytest finds the hooks here


class gaussian_kde(Counted, cukde.gaussian_kde):
    """cukde's, counted."""


# Before anything is collected: the tests derive classes from it.
scipy.stats.gaussian_kde = gaussian_kde
