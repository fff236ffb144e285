"""Names of the rules, for arguments that take a bandwidth or a name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cukde.bandwidth import rules, selection
from cukde.bandwidth.search import CovarianceValidation, CrossValidation
from cukde.density import rules_by_name
from cukde.density.estimates import ESTIMATES, NOT_NEGATIVE
from cukde.density.rules_by_name import ABRAMSON, Asked


def _steps(of: Asked) -> dict[str, Any]:
    return {"steps": of.steps}


def _method(of: Asked) -> dict[str, Any]:
    """By likelihood where densities have logarithms."""
    objective = "least_squares" if ESTIMATES[of.method].negative else "likelihood"
    return {"method": of.method, "objective": objective}


def _methods(of: Asked) -> dict[str, Any]:
    """Among the methods that the density has: with local factors or without, where it takes any."""
    if of.method not in NOT_NEGATIVE:
        raise ValueError(
            f'"select" is not for method={of.method!r}, whose densities can be negative and have no logarithm there: '
            'write "cross_validate"'
        )
    return {"methods": [of.method, ABRAMSON] if of.takes_factors and of.method == "kde" else [of.method]}


def _search(method: str) -> str:
    """The call that searches for the bandwidth of a method."""
    if method in NOT_NEGATIVE:
        return f"cukde.bandwidth.select(X, [{method!r}])"
    return f'cukde.bandwidth.cross_validate(X, "{method}", objective="least_squares")'


OF_RULES: dict[Callable[..., Any], str] = {
    rules.scott: "scott_deviations",
    rules.silverman: "silverman_deviations",
    rules.sd: "sd",
    rules.laplace: "laplace",
    rules.positive: "positive",
    rules.isj: "isj",
    rules.cross_validate: "cross_validate",
    selection.select: "select",
}
"""By the functions of :mod:`cukde.bandwidth`: names that mean the same in every argument."""

_OPTIONS = {rules.sd: _steps, rules.cross_validate: _method, selection.select: _methods}

rules_by_name.add("scott", rules.scott)
rules_by_name.add("silverman", rules.silverman)
for _rule, _name in OF_RULES.items():
    rules_by_name.add(_name, _rule, _OPTIONS.get(_rule))
rules_by_name.add("scott_covariance", partial(rules.scott, covariance=True))
rules_by_name.add("silverman_covariance", partial(rules.silverman, covariance=True))
rules_by_name.add_results(
    CrossValidation, CovarianceValidation, selection.Selection, factors=rules.abramson, search=_search
)
