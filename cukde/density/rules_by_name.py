"""Bandwidths that are no numbers: names of rules, and results of searches. :mod:`cukde.bandwidth`, above, adds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cukde.core import dispatch, words


class Asked(NamedTuple):
    """What a rule is told of the density that its bandwidth is for."""

    method: str
    steps: int
    takes_factors: bool  # whether the density may have local factors


ABRAMSON = "abramson"
"""The method of a result that is of "kde" with local factors."""

_RULES: dict[str, tuple[Callable[..., Any], Callable[[Asked], dict[str, Any]]]] = {}
_RESULTS: tuple[type, ...] = ()
_FACTORS: list[Callable[..., Any]] = []
_SEARCHES: list[Callable[[str], str]] = []


def add(name: str, rule: Callable[..., Any], options: Callable[[Asked], dict[str, Any]] | None = None) -> None:
    """Add a rule, which takes data, weights, bounds and periods, and ``options`` by what is asked."""
    _RULES[name] = rule, options or (lambda of: {})


def add_results(*types: type, factors: Callable[..., Any], search: Callable[[str], str]) -> None:
    """Add types of results, which have a ``bandwidth`` and may have a ``method``.

    ``factors`` is the function of local factors, and ``search`` tells the call that makes a result of a method.
    """
    global _RESULTS
    _RESULTS += types
    _FACTORS[:], _SEARCHES[:] = [factors], [search]


def names() -> tuple[str, ...]:
    """Names of all rules."""
    return tuple(_RULES)


def is_result(h: Any) -> bool:
    """Whether a bandwidth is the result of a search."""
    return isinstance(h, _RESULTS)


def applied(name: str, X: Any, weights: Any, method: str, steps: int = 1, factors: bool = True, **domain: Any) -> Any:
    """Return what a rule makes of the data: a bandwidth, or a result that may bring local factors with it."""
    rule, options = _RULES[name]
    return rule(X, weights=weights, **domain, **options(Asked(method, steps, factors)))


def bandwidth(h: Any, X: Any, weights: Any = None, method: str = "kde", **options: Any) -> Any:
    """Return a bandwidth on the host: ``h`` itself, or what the rule of that name makes of the data."""
    return with_factors(h, X, weights, method, takes_factors=False, **options)[0]


def with_factors(
    h: Any,
    X: Any,
    weights: Any = None,
    method: str = "kde",
    *,
    steps: int = 1,
    bounds: Any = None,
    periods: Any = None,
    name: str = "h",
    takes_factors: bool = True,
) -> tuple[Any, Any | None]:
    """Return a bandwidth on the host, and the local factors of a density that was chosen with them, or None."""
    if isinstance(h, str):
        if h not in _RULES:
            raise ValueError(
                f"{name} must be a number, an array or one of {', '.join(map(repr, _RULES))}; got {h!r}"
                f"{words.meant(h, _RULES)}"
            )
        h = applied(h, X, weights, method, steps, takes_factors, bounds=bounds, periods=periods)
    if not is_result(h):
        return dispatch.to_host(h), None
    of, width = getattr(h, "method", method), dispatch.to_host(h.bandwidth)
    if of == ABRAMSON and method == "kde" and takes_factors:
        return width, factors(X, width, weights, bounds=bounds, periods=periods)
    if of != method:
        raise _of_other_method(name, h, of, method)
    return width, None


def factors(X: Any, width: Any, weights: Any = None, **domain: Any) -> Any:
    """Return the local factors of a density with this bandwidth."""
    return _FACTORS[0](X, width, weights=weights, **domain)


def _of_other_method(name: str, h: Any, of: str, method: str) -> ValueError:
    """Return the error for a result of another method than that of the density."""
    what = 'method "kde" with local factors' if of == ABRAMSON else f"method {of!r}"
    here = 'method "kde" without local factors' if of == ABRAMSON and method == "kde" else f"method {method!r}"
    write = _SEARCHES[0](method)
    return ValueError(
        f"{name} must be a bandwidth of {here}; got a {type(h).__name__} of {what}: write {name}={write}; "
        "the density of this result is found.density(X, Y)"
    )
