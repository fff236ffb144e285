"""The first small calls of a process, which need no compiled code: it would take longer to load than they do."""

from __future__ import annotations

import sys


class FirstCalls:
    """Says of each small call whether it is one of the first ``most``, and the module of compiled code is not loaded.

    Both ways must give the same bits.
    """

    def __init__(self, module: str, most: int) -> None:
        self._module, self._left = module, most

    def __call__(self) -> bool:
        """Count a call."""
        if self._left <= 0 or self._module in sys.modules:
            return False
        self._left -= 1
        return True
