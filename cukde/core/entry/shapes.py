"""Shapes of results that may be written into an output array, and the arrays whose dtypes are promoted to theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cukde.core.cost.arguments import shape

Found = tuple[tuple[int, ...], list[Any]]


def of_queries(a: Mapping[str, Any]) -> Found:
    """A number for each query: (m,), of a stack (b, m)."""
    queries = _queries(a)
    return (*_members(a), *(queries[-2:-1] if len(queries) > 1 else queries)), [a["X"], a.get("Y")]


def of_points(a: Mapping[str, Any]) -> Found:
    """A number for each coordinate of the queries: (m, d) or (m,), of a stack (b, m, d)."""
    queries = _queries(a)
    return (*_members(a), *(queries[-2:])), [a["X"], a.get("Y")]


def of_data(a: Mapping[str, Any]) -> Found:
    """A number for each coordinate of the data."""
    return shape(a["X"]), [a["X"]]


def of_values(a: Mapping[str, Any]) -> Found:
    """A number for each query and column of values: (m, k) or (m,)."""
    return (*_queries(a)[:1], *shape(a["V"])[1:]), [a["X"], a["V"], a.get("Y")]


def _queries(a: Mapping[str, Any]) -> tuple[int, ...]:
    return shape(a["X"] if a.get("Y") is None else a["Y"])


def _members(a: Mapping[str, Any]) -> tuple[int, ...]:
    of_data = shape(a["X"])
    return of_data[:1] if len(of_data) == 3 else ()
