"""Names of the rules, for arguments that take a bandwidth or a name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cukde.bandwidth import rules, selection
from cukde.bandwidth.search import CrossValidation
from cukde.density import rules_by_name
from cukde.density.estimates import ESTIMATES, NOT_NEGATIVE

CROSS_VALIDATE, SELECT = "cross_validate", "select"

OF_RULES: dict[Callable[..., Any], str] = {
    rules.scott: "scott_deviations",
    rules.silverman: "silverman_deviations",
    rules.sd: "sd",
    rules.laplace: "laplace",
    rules.positive: "positive",
    rules.isj: "isj",
    rules.cross_validate: CROSS_VALIDATE,
    selection.select: SELECT,
}
"""By the functions of :mod:`cukde.bandwidth`: names that mean the same in every argument."""


def _by(rule: Callable[..., Any], X: Any, weights: Any, method: str, steps: int, factors: bool, **domain: Any) -> Any:
    return rule(X, weights=weights, **domain)


def _sd(X: Any, weights: Any, method: str, steps: int, factors: bool, **domain: Any) -> Any:
    return rules.sd(X, weights=weights, steps=steps, **domain)


def _cross_validated(X: Any, weights: Any, method: Any, steps: int, factors: bool, **domain: Any) -> Any:
    """Choose by likelihood where densities have logarithms."""
    objective: Any = "least_squares" if ESTIMATES[method].negative else "likelihood"
    return rules.cross_validate(X, method, objective=objective, weights=weights, **domain)


def _selected(X: Any, weights: Any, method: str, steps: int, factors: bool, **domain: Any) -> Any:
    """Choose among the methods that the density has: with local factors or without, where it takes any."""
    if method not in NOT_NEGATIVE:
        raise ValueError(
            f'"select" is not for method={method!r}, whose densities can be negative and have no logarithm there: '
            'write "cross_validate"'
        )
    methods = [method, rules_by_name.ABRAMSON] if factors and method == "kde" else [method]
    return selection.select(X, methods, weights=weights, **domain)


def _search(method: str) -> str:
    """The call that searches for the bandwidth of a method."""
    if method in NOT_NEGATIVE:
        return f"cukde.bandwidth.select(X, [{method!r}])"
    return f'cukde.bandwidth.cross_validate(X, "{method}", objective="least_squares")'


rules_by_name.add("scott", partial(_by, rules.scott))
rules_by_name.add("silverman", partial(_by, rules.silverman))
_OF_METHOD = {"sd": _sd, CROSS_VALIDATE: _cross_validated, SELECT: _selected}
for _rule, _name in OF_RULES.items():
    rules_by_name.add(_name, _OF_METHOD.get(_name, partial(_by, _rule)))
rules_by_name.add("scott_covariance", partial(_by, partial(rules.scott, covariance=True)))
rules_by_name.add("silverman_covariance", partial(_by, partial(rules.silverman, covariance=True)))
rules_by_name.add_results(CrossValidation, selection.Selection, factors=rules.abramson, search=_search)
