"""Rules for the bandwidth by their names. :mod:`cukde.bandwidth`, a floor above, adds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cukde.core import dispatch, words

Rule = Callable[..., Any]
"""Takes data, weights or None, the method of the density ("kde", "sd" or "laplace") and the number of its steps, and
bounds and periods by name."""

_RULES: dict[str, Rule] = {}


def add(name: str, rule: Rule) -> None:
    """Add a rule."""
    _RULES[name] = rule


def names() -> tuple[str, ...]:
    """Names of all rules."""
    return tuple(_RULES)


def bandwidth(
    h: Any,
    X: Any,
    weights: Any = None,
    method: str = "kde",
    *,
    steps: int = 1,
    bounds: Any = None,
    periods: Any = None,
    name: str = "h",
) -> Any:
    """Return a bandwidth on the host: ``h`` itself, or what the rule of that name makes of the data."""
    if not isinstance(h, str):
        return dispatch.to_host(h)
    if h not in _RULES:
        raise ValueError(
            f"{name} must be a number, an array or one of {', '.join(map(repr, _RULES))}; got {h!r}"
            f"{words.meant(h, _RULES)}"
        )
    return dispatch.to_host(_RULES[h](X, weights, method, steps, bounds=bounds, periods=periods))
