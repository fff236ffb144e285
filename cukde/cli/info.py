"""``cukde info``: versions, backends and devices, and why a backend is missing."""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.util
import os
import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from numpy.lib import NumpyVersion

import cukde
from cukde.cli import peaks
from cukde.core import extras
from cukde.core.gpu import compile as core_compile, kernel_cache

_CPU_PACKAGES = ("numpy", "scipy", "numba", "scikit-learn")
_CUPY_PACKAGES = ("cupy-cuda13x", "cupy-cuda12x", "cupy")
_NVRTC_PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")
_OPTIONAL_PACKAGES = ("numba-cuda", "matplotlib", "pyarrow")


def add_parser(commands: Any) -> None:
    """Add this command to the ``cukde`` parser."""
    parser = commands.add_parser(
        "info",
        help="show versions, backends and devices",
        description="Show versions, backends and devices. If a backend is not available, show why.",
    )
    parser.add_argument(
        "--peaks",
        action="store_true",
        help="measure how fast the CPU computes at most, and the GPU if one works, and keep that for cukde.perf; takes "
        "some seconds",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print one fact on each line, in a form fit for a bug report, or the peaks of the devices."""
    if args.peaks:
        for line in peaks.report():
            print(line)
        return
    sections = {"Versions": versions(), "Backends": backends(), "Notes": known_faults()}
    for title, facts in sections.items():
        lines = list(facts)
        if not lines:
            continue
        print(title)
        width = max(len(name) for name, _ in lines)
        for name, value in lines:
            print(f"  {name:<{width}}  {value}")


def versions() -> Iterator[tuple[str, str]]:
    """Yield the relevant packages and drivers with their versions."""
    yield "cukde", cukde.__version__
    yield "Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    for package in _CPU_PACKAGES:
        yield package, version(package) or "not installed"
    for title, packages in (("CuPy", _CUPY_PACKAGES), ("NVRTC package", _NVRTC_PACKAGES)):
        installed = [f"{package} {version(package)}" for package in packages if version(package)]
        yield title, ", ".join(installed) or "not installed"
    for package in _OPTIONAL_PACKAGES:
        yield package, version(package) or "not installed"
    yield "NVRTC in use", nvrtc_version()
    yield "NVIDIA driver", driver_version() or "not installed"


def backends() -> Iterator[tuple[str, str]]:
    """Yield the backends and the sources of CUDA kernels."""
    yield "CPU", cpu()
    works, state = gpu()
    yield "GPU", state if works else f"not available: {state}"
    yield "CUDA kernel sources", kernel_sources()


def known_faults() -> Iterator[tuple[str, str]]:
    """Yield installed combinations that are known not to work, each with a remedy."""
    numba, numpy = version("numba"), version("numpy")
    if numba == "0.68.0" and numpy and NumpyVersion(numpy) >= "2.5.0.dev0":
        yield (
            f"Numba 0.68.0 with NumPy {numpy}",
            "fails at the first compile: pip install --upgrade 'numba~=0.68.1' (or 'numpy<2.5')",
        )
    cupys = [package for package in _CUPY_PACKAGES if version(package)]
    if len(cupys) > 1:
        yield " and ".join(cupys), "overwrite each other: pip uninstall both, then install the one you need"


def cpu() -> str:
    """Return whether the CPU backend works, and its number of threads."""
    try:
        importlib.import_module("cukde.density.pairs.cpu.passes")
        import numba
    except ImportError as error:
        return f"not available: {error}"
    return f"available: {numba.get_num_threads()} threads for Numba, {os.cpu_count()} logical CPUs"


def gpu() -> tuple[bool, str]:
    """Return whether the GPU backend works, and its devices or the first reason against it."""
    if importlib.util.find_spec("cupy") is None:
        return False, (
            f"CuPy is not installed: {extras.install('cuda13')}, or for a driver of CUDA 12 {extras.install('cuda12')}"
        )
    try:
        kernel_cache.ensure()
        import cupy
    except Exception as error:  # a broken CuPy fails in many ways
        return False, f"CuPy does not import: {error}"
    if driver_version() is None:
        return False, "CuPy is installed, but there is no NVIDIA driver (nvidia.com/drivers)"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # no device, or a driver older than the CUDA that CuPy was built for
        return False, (
            f"the driver gives no device: {error}; see nvidia-smi and CUDA_VISIBLE_DEVICES, start a "
            f"container with --gpus all, or for an older driver {extras.install('cuda12')}"
        )
    try:  # compiles a CUDA kernel, which alone fails if a compiler or headers are missing
        float(cukde.kde(cupy.zeros((1, 2)), cupy.zeros((1, 2)), 1.0)[0])
    except Exception as error:
        return False, f"there is a device, but a density on it fails: {type(error).__name__}: {error}"
    return True, "available: " + "; ".join(_device(cupy.cuda.runtime, index) for index in range(count))


def _device(runtime: Any, index: int) -> str:
    device = runtime.getDeviceProperties(index)
    return (
        f"{device['name'].decode()} (compute capability {device['major']}.{device['minor']}, "
        f"{device['totalGlobalMem'] / 2**30:.0f} GiB)"
    )


def kernel_sources() -> str:
    """Return where the ``.cu`` files are, and how many."""
    try:
        folder = core_compile.folder()
    except FileNotFoundError as error:
        return str(error)
    return f"{len(list(folder.rglob('*.cu')))} files in {folder}"


def nvrtc_version() -> str:
    """Return the version of the run-time compiler that CuPy loads."""
    try:
        from cupy.cuda import nvrtc

        return ".".join(map(str, nvrtc.getVersion()))
    except Exception as error:  # CuPy missing, or its library not found
        return f"none ({str(error).splitlines()[0]})"


def driver_version() -> str | None:
    """Return the version of the driver and its newest CUDA, or None without a driver. CuPy is not needed."""
    try:
        library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return None
    number = ctypes.c_int()
    if library.cuDriverGetVersion(ctypes.byref(number)) != 0:
        return None
    cuda = f"CUDA {number.value // 1000}.{number.value % 1000 // 10}"
    module = Path("/sys/module/nvidia/version")  # of the operating system's kernel module, on Linux
    return f"{module.read_text().strip()}, {cuda}" if module.exists() else cuda


def version(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
