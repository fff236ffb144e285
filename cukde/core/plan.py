"""Which pass takes a part of a call, and why: candidates in the order in which they are asked.

A family makes a :class:`Plan` from sizes and options alone. Its passes run by the plan, its cost formulas count what
the plan says, and :func:`cukde.perf.plan` prints it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

from cukde.core.public import public_in


@public_in("cukde.perf")
class Candidate(NamedTuple):
    """A pass that may take a part of a call."""

    name: str
    ms: float | None = None  # about how long it takes by the table of rates; None: nothing compares it
    condition: str = ""  # what the data must be like; nothing: it takes any
    refused: str = ""  # why it does not take such sizes or options; nothing: it does


@public_in("cukde.perf")
class Plan(NamedTuple):
    """Candidates for one pass over the data; the first that serves takes it."""

    subject: str  # what is asked for, in words
    candidates: tuple[Candidate, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the candidates that serve, in order."""
        return tuple(one.name for one in self.candidates if not one.refused)

    @property
    def sure(self) -> str:
        """Name of the first candidate that takes any data."""
        return next(one.name for one in self.candidates if not one.refused and not one.condition)

    def first(self, *holding: str) -> str:
        """Name of the first candidate that takes data for which these conditions hold; see also :func:`only`."""
        serving = (one.name for one in self.candidates if not one.refused and one.condition in ("", *holding))
        if _only.get() is None:
            return next(serving)
        names = tuple(serving)
        return forced(names) or names[0]

    def __str__(self) -> str:
        width = max((len(one.name) for one in self.candidates), default=0)
        lines, number = [self.subject], 0
        for one in self.candidates:
            if one.refused:
                lines.append(f"   -  {one.name:{width}}  not asked: {one.refused}")
                continue
            number += 1
            ms = "" if one.ms is None else f"about {one.ms:.3g} ms"
            lines.append(f"  {number:2}. {one.name:{width}}  {'; '.join(filter(None, (ms, one.condition)))}".rstrip())
        return "\n".join(lines)


_consulted: ContextVar[list[Plan] | None] = ContextVar("consulted", default=None)
_only: ContextVar[Steering | None] = ContextVar("only", default=None)  # and whether others are out
_ran: ContextVar[list[Ran] | None] = ContextVar("ran", default=None)


def consulted(plan: Plan) -> Plan:
    """Return a plan that a cost formula goes by, which :func:`collected` collects."""
    plans = _consulted.get()
    if plans is not None:
        plans.append(plan)
    return plan


@contextlib.contextmanager
def collected() -> Iterator[list[Plan]]:
    """Collect the plans that cost formulas go by, in order."""
    plans: list[Plan] = []
    token = _consulted.set(plans)
    try:
        yield plans
    finally:
        _consulted.reset(token)


@contextlib.contextmanager
def only(*names: str) -> Iterator[None]:
    """Leave all candidates out but these and those that take any data: tests compare passes by this.

    Those that are named need not be faster than others.
    """
    with _steered(names, others=True):
        yield


@contextlib.contextmanager
def without(*names: str) -> Iterator[None]:
    """Leave some candidates out."""
    with _steered(names, others=False):
        yield


@contextlib.contextmanager
def _steered(names: tuple[str, ...], *, others: bool) -> Iterator[None]:
    token = _only.set((frozenset(names), others))
    try:
        yield
    finally:
        _only.reset(token)


def wanted(name: str) -> bool | None:
    """Whether a candidate is asked for, which then need not pay, or is left out; None: it is as the plan says."""
    steered = _only.get()
    if steered is None:
        return None
    names, others = steered
    return name in names if others else (False if name in names else None)


def forced(names: Sequence[str]) -> str | None:
    """The first of some candidates that :func:`only` asks for; None where it asks for none."""
    return next((name for name in names if wanted(name)), None)


Steering = tuple[frozenset[str], bool]
"""Names of candidates, and whether others are left out, or these."""


def asked() -> Steering | None:
    """What :func:`only` or :func:`without` ask for: what a plan decides must not be kept without it."""
    return _only.get()


class Ran(NamedTuple):
    """A pass that has run, and what only the data could tell."""

    name: str
    found: dict[str, Any]


def note(name: str, **found: Any) -> None:
    """Note a pass that runs, for :func:`traced`."""
    ran = _ran.get()
    if ran is not None:
        ran.append(Ran(name, found))


@contextlib.contextmanager
def traced() -> Iterator[list[Ran]]:
    """List the passes that run, in order."""
    ran: list[Ran] = []
    token = _ran.set(ran)
    try:
        yield ran
    finally:
        _ran.reset(token)
