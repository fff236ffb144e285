"""Keywords that many public functions take, each declared once: its default, its type and its sentence."""

from __future__ import annotations

import inspect
import textwrap
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from cukde.core import check as core_check

T = TypeVar("T", bound=Callable[..., Any])

_WIDTH, _INDENT = 120, 4
_REST = inspect.Parameter.VAR_KEYWORD


class Keyword(NamedTuple):
    """A keyword, as a Parameters section has it: ``name : form``, and what it means in a sentence or two.

    Forms of a function that do not take it say what to do instead.
    """

    default: Any
    form: str
    meaning: str
    not_of: Mapping[str, str] = {}


def refuse(options: Mapping[str, Any], table: Mapping[str, Keyword], form: str) -> None:
    """Raise for a keyword that a form of functions, such as "stacks", does not take, unless it is as if left out."""
    for name, value in options.items():
        keyword = table.get(name)
        if keyword is not None and form in keyword.not_of:
            given = core_check.flag(name, value) if isinstance(keyword.default, bool) else value
            if given is not keyword.default:
                raise ValueError(f"{name} must be {keyword.default} for {form}: {keyword.not_of[form]}")


def takes(kind: Any, table: Mapping[str, Keyword], *, described: bool = False) -> Callable[[T], T]:
    """Say of a function with ``**options`` that it takes the keywords of ``kind``, a TypedDict, and no others.

    Its signature, its type hints and the Parameters section of its docstring get them, in the order of the table.
    Keywords that a caller leaves out are not among the options. The public call refuses others.

    Parameters
    ----------
    kind : type
        A TypedDict, by which mypy and editors know the types (PEP 692).
    table : mapping
        The keywords by name.
    described : bool
        Whether the docstring gives the sentence of each, or says that they are as in ``kde``.
    """

    def decorated(function: T) -> T:
        hints = typing.get_type_hints(kind)
        names = [name for name in table if name in hints]
        own = inspect.signature(function)
        parameters = [each for each in own.parameters.values() if each.kind is not _REST]
        for name in names:
            said = kind.__annotations__[name]
            more = {"default": table[name].default, "annotation": getattr(said, "__forward_arg__", said)}
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, **more))
        function.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        rest = next(name for name, each in own.parameters.items() if each.kind is _REST)
        kept = {name: hint for name, hint in function.__annotations__.items() if name != rest}
        function.__annotations__ = kept | {name: hints[name] for name in names}
        if function.__doc__:  # python -OO takes it away
            function.__doc__ = _documented(function.__doc__, names, table if described else None)
        return function

    return decorated


def _documented(docstring: str, names: Sequence[str], table: Mapping[str, Keyword] | None) -> str:
    """Put keywords at the end of the Parameters section, but for those that have an entry of their own there."""
    before, title, section = docstring.partition("    Parameters\n    ----------\n")
    entries, blank, after = section.partition("\n\n")  # there are no blank lines between entries
    if not title:
        raise ValueError(f"a docstring needs a Parameters section: {docstring.splitlines()[0]}")
    heads = [line.split(" : ")[0] for line in entries.splitlines() if line[: _INDENT + 1].strip()]
    written = {name.strip() for head in heads for name in head.split(",")}
    others = [name for name in names if name not in written]
    lines = _named(others) if table is None else [line for name in others for line in _described(name, table[name])]
    return before + title + "\n".join([entries, *(" " * _INDENT + line for line in lines)]) + blank + after


def _described(name: str, keyword: Keyword) -> list[str]:
    """The entry of a keyword."""
    return [f"{name} : {keyword.form}", *_below(textwrap.wrap(keyword.meaning, _WIDTH - 2 * _INDENT))]


def _named(names: Sequence[str]) -> list[str]:
    """Entries that name keywords, and leave their sentences to another function's docstring."""
    lines = textwrap.wrap(", ".join(names), _WIDTH - _INDENT)
    return [part for line in lines for part in (line.rstrip(","), *_below(["As in :func:`cukde.kde`."]))]


def _below(lines: Sequence[str]) -> list[str]:
    return [" " * _INDENT + line for line in lines]
