"""Progress of long work: a line of the terminal that is written over; elsewhere a line now and then."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

_SECONDS = {True: 1.0, False: 10.0}  # between two lines, on a terminal and elsewhere


@contextlib.contextmanager
def progress() -> Iterator[None]:
    """Say how long the block has taken, and which part of the pass that it is in is done.

    The work is one call: in parts it would take longer. So another thread looks at the tasks of that call.
    """
    over = threading.Event()
    begun = time.perf_counter()
    with stages() as say:

        def tell() -> None:
            while not over.wait(_SECONDS[sys.stderr.isatty()]):
                threads = sys.modules.get("cukde.core.cpu.threads")
                part = threads.part_done() if threads is not None else None
                share = "" if part is None else f", {part:.0%} of this pass"
                say(f"{time.perf_counter() - begun:.0f} s{share}")

        teller = threading.Thread(target=tell, name="cukde-progress", daemon=True)
        teller.start()
        try:
            yield
        finally:
            over.set()
            teller.join()


@contextlib.contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """Yield the function that says what is being done, in place of what it said before, and at the end nothing."""
    terminal = sys.stderr.isatty()
    shown, last = 0, time.perf_counter()

    def say(text: str) -> None:
        nonlocal shown, last
        if terminal:
            # The cursor stays at the beginning of the line, where a warning would be printed over it.
            print(f"{text:<{shown}}", end="\r", file=sys.stderr, flush=True)
            shown = len(text)
        elif text and time.perf_counter() - last >= _SECONDS[False]:
            print(f"cukde: {text}", file=sys.stderr, flush=True)
            last = time.perf_counter()

    try:
        yield say
    finally:
        if shown:
            say("")
