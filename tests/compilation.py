"""What NVRTC makes of the CUDA sources, and Numba of its kernels, without a GPU: registers, shared memory, spills.

NVRTC's reports are kept: the same compiler says the same of the same text.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import multiprocessing
import os
import re
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tests import compiled, host_emulation
from tests.private import compiler_options, core_compile, kernel_code

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)

# No source tells these from 8.0, whose code they run as it is. Every sixteenth kernel is compiled for them, to save
# two minutes; where cases marked crossed are wanted, all are.
LIKE_80 = (86, 89)
_ONE_IN = 16


class Resources(NamedTuple):
    """What one kernel takes on one architecture."""

    registers: int
    shared: int  # bytes
    stack: int  # bytes, local memory of indexed arrays and spills
    spills: int  # bytes


_OF_ALL_ENGINES = ("column_means", "survey", "range", "part_sums", "log_weights", "merge_splits", "morton_codes")
_OF_ALL_ARCHITECTURES = (  # stems
    *("core/merge_sort", "kendall/order_keys", "kendall/ranks", "kendall/inversions", "kendall/statistics"),
    *("piecewise/piecewise", "piecewise/columns", "piecewise/knots", "piecewise/lookup_f16"),
    *("conv1d/weight_grad", "conv1d/weight_grad_strided", "conv1d/weight_grad_channels_last"),
    *("conv1d/weight_grad_few_taps", "conv1d/weight_grad_short_rows", "conv1d/weight_grad_finish"),
    *("perf/peaks", "perf/peaks_cache", "density/plane"),
    *(
        "conv1d/rows",
        "conv1d/short_rows",
        "conv1d/few_taps",
        "conv1d/channels_last",
        "conv1d/strided",
        "conv1d/strided_input_grad",
    ),
)

Kernel = tuple[str, str, core_compile.Defines]  # stem, name, macros


def supported(kernel: Kernel, architecture: int) -> bool:
    """Whether a kernel can be asked for.

    Below compute capability 8.0 sorts, differences, and float64 by a library; products of bits below 10.0; four
    groups a warp of a convolution of float32 from 9.0 on; blocks with centres of their own as far as shared memory
    holds them.
    """
    stem, name, defines = kernel
    if architecture >= 100 and {("BITS", "1"), ("PRODUCT", "b1")} & set(defines):
        return False
    if stem == "conv1d/toeplitz" and architecture < 90 and {("STORAGE", "32"), ("GROUPS", "4")} <= set(defines):
        return False
    if stem == "density/skipping_units" and architecture != 90 and ("DIM", "128") in defines:
        return False
    few_steps = {("STEPS", "1")} & set(defines) or {("STEPS", "2"), ("OUTPUT", "SUM")} <= set(defines)
    if stem == "density/centred_sums" and architecture in (86, 89, 120) and not few_steps:
        return False  # a block has 99 KB of shared memory there
    everywhere = stem in _OF_ALL_ARCHITECTURES or name.endswith(("_ieee", "_f64")) or name in _OF_ALL_ENGINES
    return architecture >= 80 or everywhere


def compile_for(architecture: int, source: str, options: tuple[str, ...], name: str | None = None) -> Resources:
    """The report on a kernel, by default the only one of its source."""
    reports = kept_reports(architecture, source, options)
    (report,) = reports.values() if name is None else [reports[name]]
    return report


def resources(architecture: int, stem: str, defines: core_compile.Defines = (), name: str | None = None) -> Resources:
    """The same for a source of the library under these macros."""
    return compile_for(architecture, kernel_code(stem, defines), compiler_options(), name)


def compile_all_for(architecture: int, source: str, options: tuple[str, ...]) -> dict[str, Resources]:
    """Compile as CuPy does (it adds ``-ftz=true``) and read the reports on all kernels of a source, by their names."""
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(source, "kernel.cu", (), ())
    flags = (*options, "-ftz=true", f"--gpu-architecture=sm_{architecture}", "--ptxas-options=-v")
    try:
        nvrtc.compileProgram(program, flags)
    except Exception as error:
        raise AssertionError(f"sm_{architecture} {options}: {nvrtc.getProgramLog(program)}") from error
    log = nvrtc.getProgramLog(program)
    assert len(nvrtc.getCUBIN(program)) > 0
    reports = re.findall(r"Compiling entry function '(\w+)'(.*?)(?=Compiling entry function|\Z)", log, re.DOTALL)
    return {name: _resources(report) for name, report in reports}


def kept_reports(architecture: int, source: str, options: tuple[str, ...]) -> dict[str, Resources]:
    """The reports of an earlier run where there are any."""
    without_folders = [f"-I{_contents(option[2:])}" if option.startswith("-I") else option for option in options]
    text = json.dumps([architecture, source, without_folders, _compilers(), Resources._fields])
    path = compiled.folder() / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"
    if not path.exists():
        reports = compile_all_for(architecture, source, options)
        own = path.with_suffix(f".{os.getpid()}")
        own.write_text(json.dumps(reports))
        os.replace(own, path)
    return {name: Resources(*report) for name, report in json.loads(path.read_text()).items()}


@functools.cache
def _contents(folder: str) -> str:
    """A digest of the names and sizes of a folder's headers, which lie elsewhere in each virtual environment."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    listed = "".join(f"{path.relative_to(folder)} {path.stat().st_size}\n" for path in files)
    return hashlib.sha256(listed.encode()).hexdigest()


@functools.cache
def _compilers() -> list[str]:
    """Versions of whatever holds NVRTC: its package, or the toolkit that CuPy finds."""
    from cupy.cuda import nvrtc

    found = importlib.metadata.distributions()
    packages = sorted({f"{one.name} {one.version}" for one in found if "nvrtc" in one.name or "cupy" in one.name})
    return [str(nvrtc.getVersion()), *packages]


def _resources(report: str) -> Resources:
    stack, stores, loads = map(
        int,
        re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", report).groups(),  # type: ignore[union-attr]
    )
    registers = re.search(r"Used (\d+) registers", report)
    shared = re.search(r"(\d+) bytes smem", report)
    assert registers is not None, report
    return Resources(int(registers[1]), int(shared[1]) if shared else 0, stack, stores + loads)


@functools.cache
def _pool() -> ProcessPoolExecutor:
    # NVRTC takes one program at a time in a process. The tests, in processes beside, come first.
    nice = getattr(os, "nice", None)  # not on Windows
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(os.cpu_count(), mp_context=spawn, initializer=nice, initargs=(10,))


@functools.cache
def started(every: bool = False) -> dict[tuple[Kernel, int], Future[dict[str, Resources]]]:
    """Begin to compile every kernel for every architecture, beside what this process does meanwhile.

    Without ``every``, one in 16 for architectures that run the code of another.
    """
    from cukde import catalogue

    return {
        (kernel, architecture): _begun(architecture, kernel_code(kernel[0], kernel[2]))
        for index, kernel in enumerate(catalogue.kernels())
        for architecture in ARCHITECTURES
        if supported(kernel, architecture) and (every or architecture not in LIKE_80 or index % _ONE_IN == 0)
    }


@functools.cache
def _begun(architecture: int, code: str) -> Future[dict[str, Resources]]:
    """All kernels of one text are compiled at once, as a source with several has them under each set of macros."""
    return _pool().submit(kept_reports, architecture, code, compiler_options())


@functools.cache
def emulation_started() -> None:
    """Begin to build the host emulation of every kernel, which the tests of a whole run launch nearly all of."""
    from cukde import catalogue

    for kernel in catalogue.kernels():
        _pool().submit(host_emulation.prebuild, *kernel)


@functools.cache
def numba_started() -> list[Future[list[dict[str, Any]]]]:
    """The same for the Numba kernels."""
    from cukde.density.one_dimension.gpu import passes as one_dimension_passes

    return [_pool().submit(_numba_task, index) for index, _ in enumerate(one_dimension_passes.specialisations())]


def _numba_task(index: int) -> list[dict[str, Any]]:
    os.environ.pop("NUMBA_ENABLE_CUDASIM", None)  # Numba is imported after this
    from tests.density import numba_ptx

    return numba_ptx.report(index)


def stop() -> None:
    """Give up what has not been compiled."""
    if _pool.cache_info().currsize:
        _pool().shutdown(wait=False, cancel_futures=True)
