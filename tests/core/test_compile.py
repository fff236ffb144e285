"""Every specialisation compiles for every supported architecture, without a GPU and without spills.

Of 8.6 and 8.9, which run the code of 8.0, one in 16 is compiled but in what is marked ``crossed``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import compilation
from tests.compilation import ARCHITECTURES, Resources, compile_all_for, compile_for
from tests.private import core_compile, kernels_folder

pytest.importorskip("cupy", reason="compiling CUDA sources needs CuPy and NVRTC: install the test extra")

Kernel = compilation.Kernel


@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.crossed)], ids=["most", "every"])
def compilations(request: pytest.FixtureRequest) -> dict[tuple[Kernel, int], Resources]:
    try:
        from cukde import catalogue  # noqa: F401
    except Exception as error:  # whatever keeps CuPy from loading on this machine
        pytest.skip(f"the GPU backend does not import here: {error!r}")
    return {
        (kernel, architecture): future.result()[kernel[1]]
        for (kernel, architecture), future in compilation.started(request.param).items()
    }


@pytest.fixture(scope="module")
def kernels(compilations: dict[tuple[Kernel, int], Resources]) -> list[Kernel]:
    return list(dict.fromkeys(kernel for kernel, _ in compilations))


@pytest.fixture(scope="module")
def table(kernels: list[Kernel], compilations: dict[tuple[Kernel, int], Resources]) -> list[str]:
    """Registers and bytes of shared memory, a line a specialisation and a column an architecture."""
    width = max(len(_title(k)) for k in kernels)
    head = "kernel: registers / shared memory in bytes".ljust(width)
    lines = [head + "".join(f"{f'sm_{a}':>11}" for a in ARCHITECTURES)]
    for k in kernels:
        cells = (compilations.get((k, a)) for a in ARCHITECTURES)
        lines.append(
            _title(k).ljust(width) + "".join(f"{f'{c.registers}/{c.shared}' if c else '-':>11}" for c in cells)
        )
    return lines


def _title(kernel: Kernel) -> str:
    _, name, defines = kernel
    return " ".join([name, *(f"{k}={v}" for k, v in defines if k not in ("KERNEL", "OUTPUT"))])


def _fits(r: Resources) -> bool:
    return not r.spills and not r.stack and r.shared <= 48 * 1024 and r.registers > 0


def test_every_kernel_compiles_without_spills(
    compilations: dict[tuple[Kernel, int], Resources], table: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print("\n" + "\n".join(table))
    wrong = {(_title(k), a): r for (k, a), r in compilations.items() if not _fits(r)}
    assert not wrong


def test_a_kernel_of_each_source_compiles_without_spills() -> None:
    """What every run has of the test above."""
    catalogue = pytest.importorskip("cukde.catalogue", exc_type=ImportError)
    first = {kernel[0]: kernel for kernel in reversed(list(catalogue.kernels()))}
    for stem, name, defines in first.values():
        assert _fits(compilation.resources(90, stem, defines, name)), (name, defines)


def test_no_source_tells_architectures_8_apart() -> None:
    """Or all kernels would have to be compiled for each of them."""
    for path in kernels_folder().rglob("*.cu*"):
        asked = {int(value) for value in re.findall(r"__CUDA_ARCH__\s*[<>=!]+\s*(\d+)", path.read_text())}
        assert not asked & set(range(801, 900)), path


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
    assert compile_all_for(90, source, ())["hungry"].spills > 0


def test_names_tell_specialisations_apart() -> None:
    catalogue = pytest.importorskip("cukde.catalogue", exc_type=ImportError)
    kernels = list(catalogue.kernels())
    assert len(set(kernels)) == len(kernels)
    for stem, name, defines in kernels:
        assert dict(defines).get("KERNEL", name) == name
        assert name in core_compile.source(stem) or "KERNEL" in dict(defines)


def test_every_source_is_listed() -> None:
    """By some launcher; sources of the study are launched from benchmarks alone."""
    catalogue = pytest.importorskip("cukde.catalogue", exc_type=ImportError)
    root = kernels_folder()
    sources = {path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.cu")}
    listed = {stem for stem, _, _ in catalogue.kernels()}
    assert listed == {stem for stem in sources if not stem.startswith("study/")}


def test_includes_are_in_the_source_once() -> None:
    text = core_compile.source("density/pairs")
    assert "#include" not in text
    assert text.count("float exp2_approx(float x)") == 1


def test_an_include_in_a_branch_not_taken_does_not_hide_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "a.cuh").write_text("#pragma once\n__device__ int a() { return 1; }\n")
    (tmp_path / "two.cu").write_text(
        '#ifdef NEVER\n#include "a.cuh"\n#endif\n#include "a.cuh"\n#include "a.cuh"\n'
        'extern "C" __global__ void k(int* x) { *x = a(); }\n'
    )
    monkeypatch.setattr(core_compile, "_FOLDERS", (tmp_path,))
    core_compile.source.cache_clear()
    try:
        assert compile_for(90, core_compile.source("two"), ()).registers > 0
    finally:
        core_compile.source.cache_clear()


def test_a_missing_source_or_include_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one.cu").write_text('#include "absent.cuh"\n')
    monkeypatch.setattr(core_compile, "_FOLDERS", (tmp_path,))
    core_compile.source.cache_clear()
    try:
        with pytest.raises(FileNotFoundError, match=r"absent\.cuh"):
            core_compile.source("one")
        with pytest.raises(FileNotFoundError, match=r"other\.cu"):
            core_compile.source("other")
    finally:
        core_compile.source.cache_clear()


def test_no_sources_at_all_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_compile, "_FOLDERS", (tmp_path / "nowhere",))
    with pytest.raises(FileNotFoundError, match="reinstall"):
        kernels_folder()
