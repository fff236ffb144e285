"""The errors a user can cause who asks for information, raised before anything is summed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cukde.density.compositions import check, columns as compositions_columns

Labels = Sequence[Any] | None


def disjoint(groups: dict[str, list[int]], labels: Labels) -> None:
    """Raise for a column that two arguments name."""
    owner: dict[int, str] = {}
    for name, chosen in groups.items():
        for column in chosen:
            if (first := owner.setdefault(column, name)) != name:
                raise ValueError(
                    f"{first} and {name} must have no column in common; both have {check.label(column, labels)}"
                )


def groups(d: int, labels: Labels, given: Any, *arguments: tuple[str, Any]) -> tuple[list[int], list[list[int]]]:
    """Positions of the columns that are ``given``, and of those of other arguments, by name and value.

    The last of these may be None: all columns that the others leave.
    """
    for name, value in arguments[:-1]:
        if value is None:
            raise TypeError(f"{name} must be columns of X, by position or name; got None")
    of_given = [] if given is None else check.positions("given", given, labels, d)
    found = {name: check.positions(name, value, labels, d) for name, value in arguments if value is not None}
    taken = {"given": of_given} | found
    disjoint(taken, labels)
    last, value = arguments[-1]
    if value is None:
        rest = compositions_columns.others({column for chosen in taken.values() for column in chosen}, d)
        if not rest:
            raise ValueError(f"{last} must name columns where the other arguments leave none; they have all {d} of X")
        found[last] = rest
    return of_given, [found[name] for name, _ in arguments]
