"""Launches with packed parameters: typed and laid out as the compiler has them, from any thread, on any stream."""

from __future__ import annotations

import ctypes
import functools
import itertools
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import cukde
from tests.private import compiler_options, core_compile, kernel_code

if TYPE_CHECKING:
    from tests.private import Specialisation

pytest.importorskip("cupy", reason="the launchers of the GPU backend need CuPy")

SIZES = {"P": 8, "q": 8, "Q": 8, "i": 4, "I": 4, "f": 4, "d": 8}

# Behind a CUDA source: the letters of a kernel's parameters, which the compiler compares with those declared.
_COMPARISON = """
template <class T> struct Letter;
template <class T> struct Letter<T*> { static constexpr char is = 'P'; };
template <> struct Letter<int> { static constexpr char is = 'i'; };
template <> struct Letter<unsigned> { static constexpr char is = 'I'; };
template <> struct Letter<long long> { static constexpr char is = 'q'; };
template <> struct Letter<unsigned long long> { static constexpr char is = 'Q'; };
template <> struct Letter<float> { static constexpr char is = 'f'; };
template <> struct Letter<double> { static constexpr char is = 'd'; };
template <class F> struct Parameters;
template <class... T> struct Parameters<void(T...)> {
    template <unsigned long long n> static __device__ constexpr bool are(const char (&declared)[n]) {
        const char letters[] = {Letter<T>::is..., 0};
        bool same = n == sizeof(letters);
        for (unsigned long long i = 0; same && i < n; i++) same = letters[i] == declared[i];
        return same;
    }
};
"""

_PARAMETER, _SIZE_OF_ALL = 0x17, 0x19  # attributes of a kernel in the section .nv.info.NAME of a cubin


def compiled_layout(stem: str, name: str, defines: core_compile.Defines) -> tuple[list[tuple[int, int]], int]:
    """Offset and size of each parameter of a kernel, and the size of all, as the compiler lays them out."""
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(kernel_code(stem, defines), "kernel.cu", (), ())
    nvrtc.compileProgram(program, (*compiler_options(), "-ftz=true", "--gpu-architecture=sm_90"))
    cubin = nvrtc.getCUBIN(program)
    table, entry_size, count, names_at = struct.unpack_from("<Q10xHHH", cubin, 40)  # of an ELF file
    sections = [struct.unpack_from("<I20xQQ", cubin, table + i * entry_size) for i in range(count)]
    names = cubin[sections[names_at][1] :]
    (info,) = (
        cubin[start : start + size]
        for at, start, size in sections
        if names[at : names.index(b"\0", at)].decode() == f".nv.info.{name}"
    )
    parameters: dict[int, tuple[int, int]] = {}
    total = at = 0
    while at < len(info):
        form, attribute, value = struct.unpack_from("<BBH", info, at)
        body = info[at + 4 : at + 4 + value] if form == 4 else b""
        if attribute == _PARAMETER:
            _, ordinal, offset, flags = struct.unpack("<IHHI", body)
            parameters[ordinal] = offset, flags >> 18
        elif attribute == _SIZE_OF_ALL:
            total = value
        at += 4 + len(body)
    return [parameters[i] for i in range(len(parameters))], total


def types_are(stem: str, name: str, defines: core_compile.Defines, types: str) -> None:
    """Have the compiler compare a kernel's parameters with letters; without making code, which takes longest."""
    from cupy.cuda import nvrtc

    assertion = f'static_assert(Parameters<decltype({name})>::are("{types}"), "declared parameters");'
    source = kernel_code(stem, defines) + _COMPARISON + assertion
    program = nvrtc.createProgram(source, "kernel.cu", (), ())
    flags = *compiler_options(), "--gpu-architecture=compute_90", "-fdevice-syntax-only"
    try:
        nvrtc.compileProgram(program, flags)
    except Exception as error:
        raise AssertionError(f"{stem} {name}: {types}: {nvrtc.getProgramLog(program)}") from error


def study_kernels() -> Iterator[Specialisation]:
    """Those of benchmarks that need no headers of CUDA's."""
    from benchmarks.conv1d import study as conv1d
    from benchmarks.kendall import study_pairs
    from benchmarks.piecewise import study as piecewise

    yield study_pairs.KERNEL
    yield from (conv1d.kernel(path, conv1d.VARIANTS[0]) for path in conv1d.PATHS)
    yield piecewise.kernel(piecewise.SOURCE[0], np.float32, 8, 3)


@pytest.mark.kernels
def test_declared_types_are_those_of_the_sources() -> None:
    """Of every kernel that is launched, and every list of types that it has: a wrong one corrupts a launch silently."""
    from cukde import catalogue
    from cukde.core.gpu.launch import Signature

    launched = itertools.chain(catalogue.specialisations(), study_kernels())
    once = {(of.stem, of.name, of.types): of for of in launched}
    for of in once.values():
        types_are(of.stem, of.name, of.defines, Signature(of.types).types)


@pytest.mark.parametrize("types", ["4P 2q 2i", "4P 2q 4i", "4P q Q 3i", "4P 2q 2i f", "5P q 3i"])
def test_wrong_types_are_noticed(types: str) -> None:
    from cukde.core.gpu.launch import Signature

    with pytest.raises(AssertionError, match="declared parameters"):
        types_are("core/survey", "survey", (("STORAGE", "float"),), Signature(types).types)


@pytest.mark.parametrize("name", ["column_means", "survey", "order_keys"])
def test_layouts_are_those_of_compiled_kernels(name: str) -> None:
    """Where a parameter must be aligned behind a smaller one: the rules are C's, whatever the kernel."""
    from cukde import catalogue
    from cukde.core.gpu.launch import Signature

    of = next(of for of in catalogue.specialisations() if of.name == name)
    parameters, total = compiled_layout(of.stem, of.name, of.defines)
    signature = Signature(of.types)
    ends = (struct.calcsize(f"@{signature.types[: i + 1]}") for i in range(len(signature.types)))
    assert parameters == [
        (end - SIZES[letter], SIZES[letter]) for end, letter in zip(ends, signature.types, strict=True)
    ]
    assert total == signature.size


def sample(n: int = 300, m: int = 40, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)).astype("f4"), rng.standard_normal((m, d)).astype("f4")


class _Driver:
    """Takes a launch as the driver does: it reads the parameters before it returns."""

    def __init__(self, types: str) -> None:
        self.types = types
        self.launches: list[tuple[Any, ...]] = []

    def launchKernel(self, *args: int) -> None:
        *sizes, parameters, extra = args
        assert parameters == 0
        pointer, at, size, size_at, end = (ctypes.c_void_p * 5).from_address(extra)
        assert (pointer, size, end) == (1, 2, None)
        length = ctypes.c_size_t.from_address(size_at).value
        self.launches.append((*sizes, struct.unpack(f"@{self.types}", ctypes.string_at(at, length))))


def test_a_launch_is_packed_once_a_thread_has_its_context(monkeypatch: pytest.MonkeyPatch) -> None:
    from cukde.core.gpu import launch as core_launch

    driver, called = _Driver("PqifdP"), []
    stream = SimpleNamespace(ptr=77)
    cuda = SimpleNamespace(driver=driver, get_current_stream=lambda: stream)
    monkeypatch.setattr(core_launch, "cp", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr("cukde.core.gpu.device.current", lambda: -7)

    class Kernel:
        kernel = SimpleNamespace(ptr=1234)

        def __call__(self, grid: Any, block: Any, args: Any, shared_mem: int = 0) -> None:
            called.append((grid, block, args, shared_mem))

    loaded = functools.partial(Kernel(), shared_mem=4096)
    array = SimpleNamespace(data=SimpleNamespace(ptr=0xABC00))
    signature = core_launch.Signature("P q i f d P")

    def launch() -> None:
        signature.launch(loaded, (5, 2), (128,), (array, 2**40, True, 0.1, 0.1, None))
        signature.launch(loaded, (5,), (128,), (None, 3, -1, np.inf, 0.5, array))
        signature.launch(loaded, (1, 2, 3), (4, 5, 6), (None, 3, -1, -1e39, 1e39, None))

    with ThreadPoolExecutor(1) as threads:  # a thread that has launched nothing: the first is CuPy's to do
        threads.submit(launch).result()
    ((grid, block, args, shared),) = called
    assert (grid, block, args, shared) == ((5, 2), (128,), (array, 2**40, 1, np.float32(0.1), 0.1, 0), 4096)
    assert [type(a) for a in args[1:]] == [np.int64, np.int32, np.float32, np.float64, np.uint64]
    expected = (1234, 5, 1, 1, 128, 1, 1, 4096, 77)
    assert driver.launches == [
        (*expected, (0, 3, -1, np.inf, 0.5, 0xABC00)),
        (1234, 1, 2, 3, 4, 5, 6, 4096, 77, (0, 3, -1, -np.inf, 1e39, 0)),
    ]
    with ThreadPoolExecutor(1) as threads:
        threads.submit(launch).result()
    assert len(called) == 2


def test_what_stands_in_for_a_kernel_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    from cukde.core.gpu.launch import Launch
    from tests.private import Specialisation

    called, asked = [], []

    def kernel(*wanted: Any) -> Any:
        asked.append(wanted)
        return lambda *args: called.append(args)

    monkeypatch.setattr("cukde.core.gpu.compile.kernel", kernel)
    monkeypatch.setattr("cukde.core.gpu.device.current", lambda: -7)
    Launch(Specialisation("stem", "name", (), "2P i I Q f", 2048), (1,), (32, 2), (3, 4, 5, 1e39))(None, "array")
    assert asked == [("stem", "name", (), 2048)]
    ((grid, block, args),) = called
    assert (grid, block, args) == ((1,), (32, 2), (0, "array", 3, 4, 5, np.inf))
    assert [type(a) for a in args if a != "array"] == [np.uint64, np.int32, np.uint32, np.uint64, np.float32]


def test_a_repeated_launch_fills_in_its_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a buffer of each thread's own, with what the first launch got."""
    from cukde.core.gpu import launch as core_launch
    from cukde.core.gpu.launch import Launch
    from tests.private import Specialisation

    called: list[Any] = []
    launched: list[tuple[Any, ...]] = []

    class Loaded:
        kernel = SimpleNamespace(ptr=77)

        def __call__(self, *args: Any) -> None:
            called.append(args)

    def launch_kernel(*args: Any) -> None:
        head = ctypes.string_at(args[-1], 6 * 8)
        _, parameters, _, size_at, _, size = struct.unpack("6Q", head)
        assert ctypes.c_uint64.from_address(size_at).value == size
        launched.append((*args[:9], struct.unpack("PPiqf", ctypes.string_at(parameters, size)[:36])))

    cuda = SimpleNamespace(
        driver=SimpleNamespace(launchKernel=launch_kernel), get_current_stream=lambda: SimpleNamespace(ptr=5)
    )
    monkeypatch.setattr(core_launch, "cp", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(core_launch, "_loaded", {})
    monkeypatch.setattr("cukde.core.gpu.compile.kernel", lambda *_: Loaded())
    monkeypatch.setattr("cukde.core.gpu.device.current", lambda: -7)
    array = SimpleNamespace(data=SimpleNamespace(ptr=2**40))
    launch = Launch(Specialisation("stem", "name", (), "2P i q f"), (3, 2), (32,), (-1, 2**33, 1e39))

    def repeated() -> None:
        for a in (array, None, array):
            launch(a, None)

    repeated()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(repeated).result()
    assert len(called) == 2  # by CuPy, once a thread
    expected = [(77, 3, 2, 1, 32, 1, 1, 0, 5, (ptr, 0, -1, 2**33, np.inf)) for ptr in (0, 2**40)]
    assert launched == 2 * expected


@pytest.mark.gpu
def test_threads_on_streams_get_what_one_gets() -> None:
    import cupy as cp

    n_threads, calls = 8, 20
    data = [tuple(map(cp.asarray, sample(1000 + 300 * i, 100 + 50 * i, 16))) for i in range(n_threads)]
    expected = [(cukde.kde(X, Y, 1.5), cukde.sd_kde(X, Y, 1.5, deterministic=True)) for X, Y in data]
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(4)]
    cp.cuda.Device().synchronize()

    def work(i: int) -> None:
        X, Y = data[i]
        with streams[i % len(streams)] as stream:
            for _ in range(calls):
                got = cukde.kde(X, Y, 1.5), cukde.sd_kde(X, Y, 1.5, deterministic=True)
            stream.synchronize()
        for a, b in zip(got, expected[i], strict=True):
            cp.testing.assert_array_equal(a, b)

    with ThreadPoolExecutor(n_threads) as threads:
        list(threads.map(work, range(n_threads)))


@pytest.mark.gpu
def test_a_thread_may_launch_before_it_does_anything_else() -> None:
    """Its first call begins with kernels that are loaded and memory that the pool has: nothing made its context."""
    import cupy as cp

    X, Y = map(cp.asarray, sample(3000, 200, 16))
    expected = cukde.kde(X, Y, 1.5)
    for _ in range(4):
        with ThreadPoolExecutor(1) as threads:
            got = threads.submit(cukde.kde, X, Y, 1.5, check_finite=False).result()
        cp.testing.assert_allclose(got, expected, rtol=1e-4)
