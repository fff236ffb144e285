"""Which kernels a piece of code asks for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from cukde.core.gpu import compile as core_compile, launch as core_launch, numba_cuda

Kernel = tuple[str, str, core_compile.Defines]  # stem, name, macros


class _Forgetful(dict[Any, Any]):
    """Keeps nothing."""

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


@contextlib.contextmanager
def noted() -> Iterator[set[Kernel]]:
    """Collect the kernels that are asked for within the block."""
    found: set[Kernel] = set()
    kernel, launch, loaded = core_compile.kernel, numba_cuda.launch, core_launch._loaded

    def noting(stem: str, name: str, defines: core_compile.Defines, *others: Any, **named: Any) -> Any:
        found.add((stem, name, defines))
        return kernel(stem, name, defines, *others, **named)

    def noting_launch(chosen: numba_cuda.Specialisation, *others: Any) -> None:
        found.add(chosen.kernel[:3])
        launch(chosen, *others)

    core_compile.kernel, numba_cuda.launch = noting, noting_launch
    core_launch._loaded = _Forgetful()  # so that each launch asks
    try:
        yield found
    finally:
        core_compile.kernel, numba_cuda.launch, core_launch._loaded = kernel, launch, loaded
