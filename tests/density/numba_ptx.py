"""Compile the Numba kernels of one dimension without a GPU, in a process where Numba does not simulate."""

from __future__ import annotations

import itertools
import re
from typing import Any

from cuda.bindings import nvjitlink
from numba import cuda, types
from numba.cuda.codegen import CUDACodeLibrary

from cukde.core.gpu.numba_cuda import Specialisation
from cukde.density.one_dimension.gpu import passes as one_dimension_passes

ARCHITECTURES = (80, 90, 120)

_NUMBER = {"float32": types.float32, "float64": types.float64}


def _array(dtype: Any, dimensions: int = 1) -> types.Array:
    return types.Array(dtype, dimensions, "C")


_INT, _REAL, _FLAG = types.int64, types.float64, types.boolean
_LINE, _INDICES, _CUBE = _array(_REAL), _array(_INT), _array(_REAL, 3)


def signature(chosen: Specialisation) -> tuple[Any, ...]:
    """Types of the arguments that :mod:`cukde.density.one_dimension.gpu.passes` launches a kernel with."""
    name, arguments = chosen.make.__name__, chosen.arguments
    dtypes = [_NUMBER[a] for a in arguments if a in _NUMBER]
    if name == "bounds":
        return (_array(dtypes[0]), _LINE, _INDICES, _INT, _REAL, _REAL, _FLAG)
    if name == "moments":
        x, values = _array(dtypes[0]), _array(dtypes[0], 2)
        return (x, _LINE, values, _LINE, _INDICES, _CUBE, _INT, _INT, _REAL, _REAL, _FLAG, _FLAG)
    if name == "translate":
        arrays = (_CUBE, _LINE, _INDICES, _LINE, _LINE, _LINE, _CUBE)
        return (*arrays, _INT, _INT, _INT, _REAL, _REAL, _INT, _REAL, _REAL, *(_FLAG,) * 3)
    if name == "evaluate":
        x, values, out = _array(dtypes[0]), _array(dtypes[0], 2), _array(dtypes[1], 2)
        return (x, x, _LINE, values, _LINE, _LINE, _CUBE, out, *(_REAL,) * 8, _INT, *(_FLAG,) * 3)
    x, values = _array(dtypes[1]), _array(dtypes[1], 2)
    return (x, x, _LINE, values, _CUBE, _INT, _REAL)


def texts(chosen: Specialisation) -> dict[int, str]:
    """PTX by architecture; of a kernel, what depends on that is the last step alone, so the others are made once."""
    libraries = []
    kernel = chosen.make(*chosen.arguments)
    of_library = CUDACodeLibrary.get_asm_strs
    CUDACodeLibrary.get_asm_strs = lambda self, cc: libraries.append(self) or of_library(self, cc=cc)
    try:
        fast = bool(kernel.targetoptions["fastmath"])
        cuda.compile_ptx(kernel.py_func, signature(chosen), cc=(8, 0), fastmath=fast)
    finally:
        CUDACodeLibrary.get_asm_strs = of_library
    return {architecture: libraries[0].get_asm_str(cc=divmod(architecture, 10)) for architecture in ARCHITECTURES}


def assembled(ptx: str, architecture: int) -> tuple[int, int, int]:
    """Registers, and bytes of stack and of spills, of the only kernel of a text."""
    link = nvjitlink.create(2, [f"-arch=sm_{architecture}", "-Xptxas=-v"])
    text = ptx.encode() + b"\0"
    nvjitlink.add_data(link, nvjitlink.InputType.PTX, text, len(text), "kernel")
    nvjitlink.complete(link)
    log = bytearray(nvjitlink.get_info_log_size(link))
    nvjitlink.get_info_log(link, log)
    report = log.decode()
    stack, stores, loads = map(
        int, re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", report).groups()
    )
    return int(re.search(r"Used (\d+) registers", report)[1]), stack, stores + loads


def report(index: int) -> list[dict[str, Any]]:
    """What came of one of :func:`cukde.density.one_dimension.gpu.passes.specialisations` on each architecture."""
    chosen = next(itertools.islice(one_dimension_passes.specialisations(), index, None))
    found = []
    for architecture, ptx in texts(chosen).items():
        registers, stack, spills = assembled(ptx, architecture)
        found.append(
            {
                "kernel": chosen.kernel.name,
                "defines": dict(chosen.kernel.defines),
                "architecture": int(re.search(r"\.target sm_(\d+)", ptx)[1]),
                "local": ".local" in ptx or "__local_depot" in ptx,
                "registers": registers,
                "stack": stack,
                "spills": spills,
                "exponentials": len(re.findall(r"\bex2\.approx\.ftz\.f32", ptx)),
                "double": len(re.findall(r"\b(?:add|mul|fma|sub)\.(?:rn\.)?f64", ptx)),
            }
        )
    return found
