"""Errors of mixed columns that a user can cause, raised before anything is summed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from cukde.core import dispatch
from cukde.core.frames import categories
from cukde.core.frames.categories import Kinds, Levels
from cukde.density import check as density_check, rules_by_name
from cukde.density.domains.domain import Domain
from cukde.density.mixed import kernels

_RULE = "cross_validate"


def bandwidth(h: Any, kinds: Kinds, name: str = "h") -> np.ndarray:
    """Check one bandwidth for each column, on the host; return them, (d,) float64."""
    d = len(kinds)
    out = density_check.real_numbers(name, h)
    if d == 1 and out.ndim == 0:
        out = out[None]
    if out.shape != (d,):
        raise ValueError(
            f"{name} must be {d} numbers, one for each column, where some have categories (columns "
            f"{', '.join(str(k) for k, of in enumerate(kinds) if of)}); got shape {out.shape}: write them by name, as "
            f'{{column: number}}, or {name}="{_RULE}"'
        )
    for k, (of, width) in enumerate(zip(kinds, out.tolist(), strict=True)):
        if of is None and not 0 < width < np.inf:
            raise ValueError(f"{name} must be positive and finite for columns of numbers; got {width:g} for column {k}")
        if of is None:
            continue
        # Of a part of a table one level may be left, which has no others to share with.
        c = len(of.values)
        most = kernels.largest(of) if c > 1 else 1.0
        if not 0 <= width <= most * (1 + 1e-12):
            kind, levels = "ordered" if of.ordered else "categorical", "levels" if c > 1 else "level"
            raise ValueError(
                f"{name} must lie from 0 to {most:g} for column {k}, {kind} with {c} {levels}; got {width:g}"
            )
    return out


def found(h: Any, X: Any, kinds: Any, weights: Any, name: str = "h", **others: Any) -> Any:
    """Return bandwidths on the host: numbers as they are, and those that the search of that name finds."""
    if isinstance(h, str):
        if h != _RULE:
            raise ValueError(f'{name} must be numbers or "{_RULE}" where columns have categories; got {h!r}')
        h = rules_by_name.applied(h, X, weights, "kde", kinds=kinds, **others)
    return dispatch.to_host(h.bandwidth if rules_by_name.is_result(h) else h)


def options(given: Mapping[str, Any]) -> None:
    """Raise for options that densities of mixed columns do not have."""
    if given.get("local_factors") is not None:
        raise ValueError(
            "local_factors must be None where columns have categories: they are factors of a Gaussian's bandwidth"
        )
    if given.get("boundary", "reflect") != "reflect":
        raise ValueError(f'boundary must be "reflect" where columns have categories; got {given["boundary"]!r}')


def domain(ends: Domain, kinds: Kinds, *, leave_one_out: bool) -> None:
    """Raise for bounds or periods of columns of categories, and where each row leaves out its own kernel."""
    if leave_one_out:
        raise ValueError("leave_one_out must be False beside bounds and periods where columns have categories")
    for k, of in enumerate(kinds):
        for name, flags in (("bounds", ends.bounded), ("periods", ends.periodic)):
            if of is not None and flags[k]:
                raise ValueError(f"{name} must be None for columns of categories; got some for column {k}")


def of_array(kinds: Any, x: Any, backend: ModuleType) -> tuple[Kinds | None, Any]:
    """Levels of the columns of an array, the numbers that occur, and the array with codes; as it is without levels.

    Levels that are given already belong to codes.
    """
    found = list(categories.words_of(kinds, x.shape[1]))
    for k, each in enumerate(found):
        if isinstance(each, str):
            values = [] if each == "number" else backend.asnumpy(backend.xp.unique(x[:, k])).tolist()
            found[k] = None if each == "number" else categories.levels("X", values, each, f"its column {k}")
    out = tuple(found)
    return (out, coded("X", x, out, kinds, backend)) if any(out) else (None, x)


def coded(name: str, a: Any, kinds: Sequence[Levels | None], words: Sequence[Any], backend: ModuleType) -> Any:
    """Return points (m, d) with codes in place of the numbers of levels, but of columns that have them already."""
    columns = [k for k, of in enumerate(kinds) if of is not None and not isinstance(words[k], Levels)]
    out = backend.xp.array(a, dtype=density_check.result_dtype(a)) if columns else a
    for k in columns:
        of: Any = kinds[k]
        out[:, k] = backend.asarray(of.codes(name, backend.asnumpy(a[:, k]).tolist(), f"its column {k}"))
    return out
