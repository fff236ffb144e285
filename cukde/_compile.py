"""From a CUDA source file to a kernel: includes, macros, NVRTC. The only file that touches ``RawModule``."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

# An installed package carries the sources inside; a checkout has them beside the package.
_FOLDERS = (Path(__file__).parent / "kernels_cu", Path(__file__).parent.parent / "kernels_cu")

Defines = tuple[tuple[str, str], ...]
"""Macros and their values, in an order that is part of what tells specialisations apart."""

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)".*$', re.MULTILINE)


def folder() -> Path:
    """Where the CUDA sources are."""
    for candidate in _FOLDERS:
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(
        f"the CUDA sources of cukde are in neither of {', '.join(map(str, _FOLDERS))}; reinstall the package"
    )


@functools.cache
def source(stem: str) -> str:
    """Return ``<stem>.cu`` with every ``#include "name"`` replaced by that file of ``include/``.

    CuPy's cache on disk knows a kernel by its text alone: with the included files in it, an edit of any of
    them compiles anew. Guards keep a file that is included again from counting twice.
    """
    root = folder()
    return _inlined(root / f"{stem}.cu", root / "include")


def _inlined(path: Path, includes: Path) -> str:
    def included(match: re.Match[str]) -> str:
        name = match[1]
        if not (includes / name).is_file():
            raise FileNotFoundError(f'{path.name} includes "{name}", which is not in {includes}')
        guard = f"CUKDE_INCLUDED_{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}"
        return f"#ifndef {guard}\n#define {guard}\n{_inlined(includes / name, includes)}#endif"

    if not path.is_file():
        raise FileNotFoundError(f"there is no CUDA source {path.name} in {path.parent}")
    return _INCLUDE.sub(included, path.read_text(encoding="utf-8").replace("#pragma once\n", ""))


def options(defines: Defines, headers: Path | None = None) -> tuple[str, ...]:
    """Compiler options of a specialisation; CuPy adds the architecture and ``-ftz=true``."""
    of_headers = () if headers is None else (f"-I{headers}",)
    return ("--std=c++17", *of_headers, *(f"-D{name}={value}" for name, value in defines))


def kernel(stem: str, name: str, defines: Defines, shared_bytes: int = 0, *, headers: Path | None = None) -> Any:
    """Return the kernel ``name`` of ``<stem>.cu`` for the current device, called ``kernel(grid, block, args)``.

    It is compiled at its first use on a device: from CuPy's cache on disk, or by NVRTC in about a second. Each
    block gets ``shared_bytes`` of dynamic shared memory, at most 99 KiB on every device since sm_80. ``headers``
    is a folder of CUDA's own headers; no kernel of the library needs one.
    """
    import cupy

    return _kernel(cupy.cuda.runtime.getDevice(), stem, name, defines, shared_bytes, headers)


@functools.cache
def _kernel(device: int, stem: str, name: str, defines: Defines, shared_bytes: int, headers: Path | None) -> Any:
    import cupy

    compiled = cupy.RawModule(code=source(stem), options=options(defines, headers)).get_function(name)
    if shared_bytes == 0:
        return compiled
    compiled.max_dynamic_shared_size_bytes = shared_bytes  # 48 KiB unless more is asked for
    return functools.partial(compiled, shared_mem=shared_bytes)
