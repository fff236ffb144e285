"""Calls that are answered without compiled code, while that is compiled in the background.

A process that finds nothing in Numba's cache would wait seconds for the compiler. A pass that NumPy alone can take in
less says so by :func:`answered_by`. Its compiled form is then tried first, and refuses to compile: in this mode
:mod:`cukde.core.cpu.jit` raises :class:`NotCompiledError`. NumPy answers, and a thread makes the call again on copies
of its arrays, which compiles exactly what it needs. Answers differ in rounding alone, within the promised accuracy.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import functools
import itertools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from cukde.core.cpu.workers import WorkerPool

T = TypeVar("T", bound=Callable[..., Any])

FREE, WAITING, COMPILED_ONLY, IN_BACKGROUND = range(4)

mode: contextvars.ContextVar[int] = contextvars.ContextVar("mode", default=FREE)
"""Whether calls of this thread may be answered by NumPy, wait for the compiler, take only what is compiled, or compile
for later ones."""

_PATIENCE = 2.0
"""Seconds that NumPy's answers for a pass take together before a call waits for the compiler, which takes a few."""

enabled = True
"""Whether NumPy answers for any call; tests and benchmarks, which call twice and compare, set it to False."""


class NotCompiledError(Exception):
    """Code is missing that this thread is not to compile."""


def answered_by(plain: Callable[..., Any], *, from_call: int = 1) -> Callable[[T], T]:
    """Let NumPy answer for a pass whose compiled code is missing.

    ``plain`` takes the same arguments. It returns None where compiling takes no longer: the pass then compiles, and so
    it does where many answers have taken as long, as of a search. Where NumPy hardly takes longer, it is compiled from
    a later call of the process on, lest others wait at the compiler.
    """

    def decorated(compiled: T) -> T:
        answers = itertools.count(1)

        @functools.wraps(compiled)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not enabled or mode.get() != FREE:
                return compiled(*args, **kwargs)
            try:
                return _if_compiled(compiled, args, kwargs)
            except NotCompiledError:
                pass
            spent, begun = _background.spent, time.perf_counter()
            may = _background.may_ask() and spent.get(plain, 0.0) < _PATIENCE
            out = plain(*args, **kwargs) if may else None
            if out is None:
                return compiled(*args, **kwargs)
            spent[plain] = spent.get(plain, 0.0) + time.perf_counter() - begun
            if next(answers) >= from_call:
                _background.ask(compiled, args, kwargs)
            return out

        return call  # type: ignore[return-value]

    return decorated


def _if_compiled(compiled: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    token = mode.set(COMPILED_ONLY)
    try:
        return compiled(*args, **kwargs)
    finally:
        mode.reset(token)


class Attempt(contextlib.AbstractContextManager["Attempt"]):
    """A way to a result that is left where its code is missing, if there is another one."""

    def __init__(self, other: bool) -> None:
        """``other``: whether another way takes less than compiling does."""
        self._refuses = other and enabled and mode.get() == FREE and _background.may_ask()
        self._missing = False

    def __enter__(self) -> Attempt:
        self._token = mode.set(COMPILED_ONLY) if self._refuses else None
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        if self._token is not None:
            mode.reset(self._token)
        self._missing = self._refuses and kind is NotCompiledError
        return self._missing

    def later(self, compiled: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Where it was left, make the call again in the background."""
        if self._missing:
            _background.ask(compiled, args, kwargs)


@contextlib.contextmanager
def within(given: int) -> Iterator[None]:
    """Set the mode of this thread."""
    token = mode.set(given)
    try:
        yield
    finally:
        mode.reset(token)


def refuse() -> None:
    """Raise where this thread is not to compile what it lacks, or the process ends."""
    own = mode.get()
    if own == COMPILED_ONLY or (own == IN_BACKGROUND and _background.ending):
        raise NotCompiledError


def compiles() -> bool:
    """Whether the thread in the background is at work."""
    return _background.waiting > 0


class _Background:
    """The thread that compiles, and what it has to do.

    Calls that it made may leave code missing, of arrays in another order in memory for one. So it is not asked without
    end: after some calls, the next ones compile what they need.
    """

    _MOST = 64  # calls that it makes for a process

    def __init__(self) -> None:
        self._pool = WorkerPool(lambda: 1, "cukde-compiler")
        self._asked = self._done = 0
        self.ending = False
        self.spent: dict[Callable[..., Any], float] = {}  # seconds, by what NumPy has answered by

    @property
    def waiting(self) -> int:
        """Calls that are still to be made."""
        return self._asked - self._done

    def may_ask(self) -> bool:
        return self._asked < self._MOST

    def ask(self, compiled: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Make a call later, unless one waits already: the code of the next call may be that of this one."""
        if self.waiting < 2:
            self._asked += 1
            args, kwargs = tuple(map(_copy, args)), {name: _copy(a) for name, a in kwargs.items()}
            self._pool.put(lambda: self._make(compiled, args, kwargs))

    def _make(self, compiled: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # Whatever comes of it comes again in a call that a user sees.
        with (
            contextlib.suppress(Exception),
            within(IN_BACKGROUND),
            np.errstate(all="ignore"),
        ):
            compiled(*args, **kwargs)
        self._done += 1

    def end(self) -> None:
        """Let the function that is being compiled be the last one, and wait for it."""
        self.ending = True
        self._pool.close()


def _copy(a: Any) -> Any:
    """Copy an array, for the caller may change it; of another tuple its arrays. It has the same type for Numba."""
    if isinstance(a, tuple) and hasattr(a, "_replace"):  # options, without what they keep
        kept_apart = {name: None if name == "kept" else _copy(getattr(a, name)) for name in getattr(a, "_fields", ())}
        return type(a)(**kept_apart)
    if not isinstance(a, np.ndarray):
        return a
    out = a.copy(order="K")
    if not (a.flags.c_contiguous or a.flags.f_contiguous):
        wide = np.empty((*a.shape, 2), a.dtype)
        wide[..., 0] = a
        out = wide[..., 0]
    out.flags.writeable = a.flags.writeable
    return out


def _fresh() -> None:
    """Create the objects of this process; a forked child has no threads of its parent."""
    global _background
    _background = _Background()


_background: _Background
_fresh()
atexit.register(lambda: _background.end())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fresh)
