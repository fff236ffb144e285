"""Progress of long work: a line of the terminal that is written over, and nothing elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress(total: int, *, worth_it: bool) -> Iterator[Callable[[int], None]]:
    """Show the part that is done and the time left during long work; yield the function that advances it."""
    begun, done = time.perf_counter(), 0
    with stages() as say:

        def advance(more: int) -> None:
            nonlocal done
            done += more
            if worth_it:
                left = (time.perf_counter() - begun) * (total / done - 1)
                say(f"{done / total:4.0%}, {left:.0f} s left")

        if worth_it:
            say("  0%")
        yield advance


@contextlib.contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """Yield the function that says what is being done, in place of what it said before, and at the end nothing."""
    terminal = sys.stderr.isatty()
    shown = 0

    def say(text: str) -> None:
        nonlocal shown
        if terminal:
            # The cursor stays at the beginning of the line, where a warning would be printed over it.
            print(f"{text:<{shown}}", end="\r", file=sys.stderr, flush=True)
            shown = len(text)

    try:
        yield say
    finally:
        say("")
