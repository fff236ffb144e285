"""Every specialisation compiles for every supported architecture, without a GPU and without spills."""

from __future__ import annotations

import multiprocessing
import os
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from cukde import _compile

pytest.importorskip("cupy", reason="compiling CUDA sources needs CuPy and NVRTC: install the test extra")

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)


class Resources(NamedTuple):
    """What one kernel takes on one architecture."""

    registers: int
    shared: int  # bytes
    stack: int  # bytes, local memory of indexed arrays and spills
    spills: int  # bytes


_OF_ALL_ENGINES = ("column_means", "survey", "merge_splits")

Kernel = tuple[str, str, _compile.Defines]  # stem, name, macros


def supported(kernel: Kernel, architecture: int) -> bool:
    """Whether a kernel can be asked for: below compute capability 8.0, by differences and in float64 by a library."""
    return architecture >= 80 or kernel[1].endswith(("_ieee", "_f64")) or kernel[1] in _OF_ALL_ENGINES


def compile_for(architecture: int, source: str, options: tuple[str, ...], name: str | None = None) -> Resources:
    """Compile as CuPy does (it adds ``-ftz=true``) and read the report on a kernel, by default the only one."""
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(source, "kernel.cu", (), ())
    flags = (*options, "-ftz=true", f"--gpu-architecture=sm_{architecture}", "--ptxas-options=-v")
    try:
        nvrtc.compileProgram(program, flags)
    except Exception as error:
        raise AssertionError(f"sm_{architecture} {options}: {nvrtc.getProgramLog(program)}") from error
    log = nvrtc.getProgramLog(program)
    assert len(nvrtc.getCUBIN(program)) > 0
    reports = dict(re.findall(r"Compiling entry function '(\w+)'(.*?)(?=Compiling entry function|\Z)", log, re.DOTALL))
    (report,) = reports.values() if name is None else [reports[name]]
    stack, stores, loads = map(
        int,
        re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", report).groups(),  # type: ignore[union-attr]
    )
    registers = re.search(r"Used (\d+) registers", report)
    shared = re.search(r"(\d+) bytes smem", report)
    assert registers is not None, log
    return Resources(int(registers[1]), int(shared[1]) if shared else 0, stack, stores + loads)


def _compile_task(task: tuple[int, str, tuple[str, ...], str]) -> Resources:
    return compile_for(*task)


@pytest.fixture(scope="module")
def kernels() -> list[Kernel]:
    try:
        from cukde.gpu import _specialise
    except Exception as error:  # whatever keeps CuPy from loading on this machine
        pytest.skip(f"the GPU backend does not import here: {error!r}")
    return list(_specialise.kernels())


@pytest.fixture(scope="module")
def compiled(kernels: list[Kernel]) -> dict[tuple[Kernel, int], Resources]:
    keys = [(k, a) for k in kernels for a in ARCHITECTURES if supported(k, a)]
    tasks = [(a, _compile.code(stem, defines), _compile.options(), name) for (stem, name, defines), a in keys]
    # NVRTC takes one program at a time in a process.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        return dict(zip(keys, pool.map(_compile_task, tasks, chunksize=8), strict=True))


@pytest.fixture(scope="module")
def table(kernels: list[Kernel], compiled: dict[tuple[Kernel, int], Resources]) -> list[str]:
    """Registers and bytes of shared memory, a line a specialisation and a column an architecture."""
    width = max(len(_title(k)) for k in kernels)
    head = "kernel: registers / shared memory in bytes".ljust(width)
    lines = [head + "".join(f"{f'sm_{a}':>11}" for a in ARCHITECTURES)]
    for k in kernels:
        cells = (compiled.get((k, a)) for a in ARCHITECTURES)
        lines.append(
            _title(k).ljust(width) + "".join(f"{f'{c.registers}/{c.shared}' if c else '-':>11}" for c in cells)
        )
    return lines


def _title(kernel: Kernel) -> str:
    _, name, defines = kernel
    return " ".join([name, *(f"{k}={v}" for k, v in defines if k not in ("KERNEL", "OUTPUT", "TF32"))])


def test_every_kernel_compiles_without_spills(
    compiled: dict[tuple[Kernel, int], Resources], table: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print("\n" + "\n".join(table))
    wrong = {
        (_title(k), a): r
        for (k, a), r in compiled.items()
        if r.spills or r.stack or r.shared > 48 * 1024 or not r.registers
    }
    assert not wrong


def test_a_source_that_does_not_compile_fails() -> None:
    with pytest.raises(AssertionError, match="undefined"):
        compile_for(90, 'extern "C" __global__ void broken() { undefined(); }', ())


def test_spills_are_seen() -> None:
    """The reading of the report notices a kernel that needs more registers than it may have."""
    source = """
    extern "C" __global__ void __launch_bounds__(1024, 2) hungry(float* x, int n) {
        float a[96];
        #pragma unroll
        for (int i = 0; i < 96; i++) a[i] = x[i * n];
        for (int k = 0; k < n; k++)
            #pragma unroll
            for (int i = 0; i < 96; i++) a[i] = a[i] * a[(i + 7) % 96] + x[k];
        #pragma unroll
        for (int i = 0; i < 96; i++) x[i * n] = a[i];
    }"""
    assert compile_for(90, source, ()).spills > 0


def test_names_tell_specialisations_apart(kernels: list[Kernel]) -> None:
    assert len(set(kernels)) == len(kernels)
    for stem, name, defines in kernels:
        assert dict(defines).get("KERNEL", name) == name
        assert name in _compile.source(stem) or "KERNEL" in dict(defines)


def test_includes_are_in_the_source_once() -> None:
    text = _compile.source("density")
    assert "#include" not in text
    assert text.count("float exp2_approx(float x)") == 1


def test_an_include_in_a_branch_not_taken_does_not_hide_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "a.cuh").write_text("#pragma once\n__device__ int a() { return 1; }\n")
    (tmp_path / "two.cu").write_text(
        '#ifdef NEVER\n#include "a.cuh"\n#endif\n#include "a.cuh"\n#include "a.cuh"\n'
        'extern "C" __global__ void k(int* x) { *x = a(); }\n'
    )
    monkeypatch.setattr(_compile, "_FOLDERS", (tmp_path,))
    _compile.source.cache_clear()
    try:
        assert compile_for(90, _compile.source("two"), ()).registers > 0
    finally:
        _compile.source.cache_clear()


def test_a_missing_source_or_include_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one.cu").write_text('#include "absent.cuh"\n')
    monkeypatch.setattr(_compile, "_FOLDERS", (tmp_path,))
    _compile.source.cache_clear()
    try:
        with pytest.raises(FileNotFoundError, match=r"absent\.cuh"):
            _compile.source("one")
        with pytest.raises(FileNotFoundError, match=r"other\.cu"):
            _compile.source("other")
    finally:
        _compile.source.cache_clear()


def test_no_sources_at_all_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compile, "_FOLDERS", (tmp_path / "nowhere",))
    with pytest.raises(FileNotFoundError, match="reinstall"):
        _compile.folder()
