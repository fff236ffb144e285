"""Which kernels a piece of code asks for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from cukde import _compile

Kernel = tuple[str, str, _compile.Defines]  # stem, name, macros


@contextlib.contextmanager
def noted() -> Iterator[set[Kernel]]:
    """Collect the kernels that are asked for within the block."""
    found: set[Kernel] = set()
    kernel = _compile.kernel

    def noting(stem: str, name: str, defines: _compile.Defines, *others: Any, **named: Any) -> Any:
        found.add((stem, name, defines))
        return kernel(stem, name, defines, *others, **named)

    _compile.kernel = noting
    try:
        yield found
    finally:
        _compile.kernel = kernel
