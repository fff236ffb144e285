"""A limit of one BLAS thread while several threads compute blocks, so that the two do not multiply."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from threadpoolctl import ThreadpoolController


class SingleThreadedBlas:
    """Limits BLAS to one thread while any call is inside, which also makes its sums the same on every run.

    The limit belongs to the process. If calls overlap, the first to enter sets it and the last to leave removes it.
    threadpoolctl lets only the thread that set a limit remove it, so one thread must call both methods.
    """

    def __init__(self) -> None:
        self._inside = 0
        self._limit: Any = None

    def enter(self) -> None:
        """Limit BLAS until as many calls have left as entered."""
        if self._inside == 0:
            limit = controller().limit(limits=1, user_api="blas")
            limit.__enter__()
            self._limit = limit
        self._inside += 1

    def leave(self) -> None:
        """Remove the limit if no other call is inside."""
        self._inside -= 1
        if self._inside == 0:
            limit, self._limit = self._limit, None
            limit.__exit__(None, None, None)

    def restore(self) -> None:
        """Remove the limit in a forked child, where the thread that set it is gone."""
        if self._limit is not None:
            self._limit.restore_original_limits()


@functools.cache
def controller() -> ThreadpoolController:
    """Return the controller of the process's threaded libraries, cached because the search for them takes long.

    Matrix products in compiled loops call SciPy's BLAS, which Numba would load at the first product; it is loaded here
    so that the search finds it.
    """
    importlib.import_module("scipy.linalg.cython_blas")
    return ThreadpoolController()
