"""Keywords that many public functions take, each declared once: its default, its type and its sentence."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

T = TypeVar("T", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

_WIDTH, _INDENT = 116, 4  # of a section
_hints = functools.cache(typing.get_type_hints)
_REST = inspect.Parameter.VAR_KEYWORD
_TITLE = "Parameters\n----------\n"
_SECTION = re.compile(r"^\w[\w ]*\n-{3,}\n", re.MULTILINE)


class Keyword(NamedTuple):
    """A keyword, as a Parameters section has it: ``name : form``, and what it means in a sentence or two.

    Forms of a function that do not take it say what to do instead. One that passes over the data take as it is has its
    check, which returns it.
    """

    default: Any
    form: str
    meaning: str
    not_of: Mapping[str, str] = {}
    of_passes: Callable[[Any], Any] | None = None

    @property
    def choices(self) -> list[str]:
        """The words that it may be; none of one that is no word."""
        return re.findall(r'"(\w+)"', self.form)


def refuse(options: Mapping[str, Any], table: Mapping[str, Keyword], form: str) -> None:
    """Raise for a keyword that a form of functions, such as "stacks", does not take, unless it is as if left out."""
    for name, value in options.items():
        keyword = table.get(name)
        if keyword is not None and form in keyword.not_of:
            given = bool(value) if isinstance(value, np.bool_) else value
            if given is not keyword.default:
                raise ValueError(f"{name} must be {keyword.default} for {form}: {keyword.not_of[form]}")


def taken(options: Any, name: str, table: Mapping[str, Keyword]) -> Any:
    """Take a keyword out of the options of a call; return its value, or the default of one that was left out."""
    return options.pop(name, table[name].default)


def takes(
    kind: Any, table: Mapping[str, Keyword], *, described: bool | Collection[str] = False, like: str = "cukde.kde"
) -> Callable[[T], T]:
    """Say of a function with ``**options`` that it takes the keywords of ``kind``, a TypedDict, and no others.

    Its signature, its type hints and the Parameters section of its docstring get them, in the order of the table. The
    section also gets other parameters that it lacks, as in the function ``like``. Keywords that a caller leaves out are
    not among the options. The public call refuses others.

    Parameters
    ----------
    kind : type
        A TypedDict, by which mypy and editors know the types (PEP 692).
    table : mapping
        The keywords by name.
    described : bool or collection of str
        Those of which the docstring gives the sentence: all, none or some.
    like : str
        Of the others the docstring says that they are as in this function.
    """

    def decorated(function: T) -> T:
        hints = _hints(kind)
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
        some = (table if described else ()) if isinstance(described, bool) else described
        sentences = {name: table[name] for name in names if name in some}
        function.__doc__ = documented(function.__doc__, [each.name for each in parameters], sentences, like=like)
        return function

    return decorated


def as_in(like: str, *names: str) -> Callable[[C], C]:
    """Say of a class that keywords, which its ``__init__`` states as scikit-learn asks, are as in a function."""

    def decorated(cls: C) -> C:
        cls.__doc__ = documented(cls.__doc__, names, like=like)
        return cls

    return decorated


def documented(
    docstring: str | None, names: Sequence[str], described: Mapping[str, Keyword] = MappingProxyType({}), *, like: str
) -> str | None:
    """Put parameters at the end of the Parameters section, but for those that have an entry of their own there.

    Those that are ``described`` have their sentences, others are as in the function ``like``. A docstring without
    sections, of a function that is not public, stays, and so does None, which ``python -OO`` leaves.
    """
    text = inspect.cleandoc(docstring or "")  # Python 3.13 has done so
    first = _SECTION.search(text)
    if first is None:
        return docstring
    if _TITLE not in text:
        text = text[: first.start()] + _TITLE + "\n" + text[first.start() :]
    before, _, section = text.partition(_TITLE)
    entries, blank, after = ("\n" + section).partition("\n\n")  # there are no blank lines between entries
    lines = entries.splitlines()[1:]
    heads = [line.split(" : ")[0] for line in lines if not line.startswith(" ")]
    written = {name.strip() for head in heads for name in head.split(",")}
    others = [name for name in names if name not in written]
    lines += [line for name in others if name in described for line in _described(name, described[name])]
    lines += _named([name for name in others if name not in described], like)
    return before + _TITLE + "\n".join(lines) + blank + after


def _described(name: str, keyword: Keyword) -> list[str]:
    """The entry of a keyword."""
    return [f"{name} : {keyword.form}", *_below(textwrap.wrap(keyword.meaning, _WIDTH - _INDENT))]


def _named(names: Sequence[str], like: str) -> list[str]:
    """Entries that name keywords, and leave their sentences to another function's docstring."""
    lines = textwrap.wrap(", ".join(names), _WIDTH)
    return [part for line in lines for part in (line.rstrip(","), *_below([f"As in :func:`{like}`."]))]


def _below(lines: Sequence[str]) -> list[str]:
    return [" " * _INDENT + line for line in lines]
