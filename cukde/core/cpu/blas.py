"""BLAS held to one thread while blocks are computed on several, so that the two do not multiply."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from threadpoolctl import ThreadpoolController


class SingleThreadedBlas:
    """Holds BLAS to one thread while any call is inside, which also makes its sums the same on every run.

    The limit belongs to the process: of calls that overlap in several Python threads the first to enter sets it and the
    last to leave takes it back. threadpoolctl lets a limit be taken back only by the thread that set it: one thread
    calls both methods.
    """

    def __init__(self) -> None:
        self._inside = 0
        self._limit: Any = None

    def enter(self) -> None:
        """Hold BLAS, until as many calls have left as entered."""
        if self._inside == 0:
            limit = controller().limit(limits=1, user_api="blas")
            limit.__enter__()
            self._limit = limit
        self._inside += 1

    def leave(self) -> None:
        """Let BLAS have its threads again, if no other call is inside."""
        self._inside -= 1
        if self._inside == 0:
            limit, self._limit = self._limit, None
            limit.__exit__(None, None, None)

    def restore(self) -> None:
        """Let BLAS have its threads again, in a forked child, where the thread that held it is gone."""
        if self._limit is not None:
            self._limit.restore_original_limits()


@functools.cache
def controller() -> ThreadpoolController:
    """Return the libraries of the process that have threads: to look through them takes long, and once is enough.

    Products in compiled loops call SciPy's BLAS, which is loaded for it: Numba would load it at the first of them.
    """
    importlib.import_module("scipy.linalg.cython_blas")
    return ThreadpoolController()
