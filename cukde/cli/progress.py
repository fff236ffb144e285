"""Progress bars on a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


@contextlib.contextmanager
def progress(total: int, *, worth_it: bool) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal's stderr during long work; yield the function that advances it."""
    if not (worth_it and sys.stderr.isatty()):
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TimeRemainingColumn

    time = TimeRemainingColumn(elapsed_when_finished=True)
    columns = SpinnerColumn(), BarColumn(), TaskProgressColumn(), time
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.advance(task, done)


def stages(width: int) -> Progress:
    """Return a bar on stderr with a description of so many characters and the elapsed time."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    description = TextColumn(f"{{task.description:<{width}}}")
    return Progress(description, BarColumn(), TimeElapsedColumn(), console=Console(stderr=True), transient=True)
