"""What the results of a function come back as, beside arrays."""

from __future__ import annotations

from typing import Any

from cukde.core.entry.public_call import Given, Returned


def rows(argument: str, name: str) -> Returned:
    """A number, or a row, for each row of an argument: a series of this name, or a frame with the data's columns."""

    def returned(given: Given, result: Any) -> Any:
        return given.rows(result, argument, given.named(name))

    return returned


def each_rows(argument: str, *names: str) -> Returned:
    """Several results of that kind."""

    def returned(given: Given, results: Any) -> Any:
        return tuple(given.rows(result, argument, name) for result, name in zip(results, names, strict=True))

    return returned
