"""From a CUDA source file to a kernel: includes, macros, NVRTC. The only file that touches ``RawModule``."""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cukde.core.cpu import processor
from cukde.core.cpu.workers import WorkerPool
from cukde.core.gpu import kernel_cache

# An installed package carries the sources inside; a checkout has them beside the package.
_FOLDERS = (Path(__file__).parents[2] / "kernels_cu", Path(__file__).parents[3] / "kernels_cu")

Defines = tuple[tuple[str, str], ...]
"""Macros and their values, in an order that is a part of the specialisation key."""

_Generator = TypeVar("_Generator", bound=Callable[[], Iterable[Any]])
_Make = TypeVar("_Make", bound=Callable[..., Any])

_listed: list[Callable[[], Iterable[Any]]] = []


def listed(generator: _Generator) -> _Generator:
    """Register a function that yields the specialisations of a module's kernels, for :func:`all_listed`."""
    _listed.append(generator)
    return generator


def specialised(
    *choices: Iterable[Any], cases: Callable[[], Iterable[tuple[Any, ...]]] | None = None
) -> Callable[[_Make], _Make]:
    """Decorate a function that makes a specialisation: it makes each once, and :func:`all_listed` yields them.

    They are those of all combinations of the ``choices`` of its arguments, or of the ``cases``.
    """

    def decorate(make: _Make) -> _Make:
        kept: Any = functools.lru_cache(maxsize=1024)(make)
        _listed.append(lambda: itertools.starmap(kept, itertools.product(*choices) if cases is None else cases()))
        return kept

    return decorate


def all_listed() -> Iterator[Any]:
    """Every specialisation of the modules that have been imported; some may come twice."""
    for generator in _listed:
        yield from generator()


def macros(**values: int | str) -> Defines:
    """Return macros by name; a flag is 0 or 1."""
    return tuple((name, value if isinstance(value, str) else str(int(value))) for name, value in values.items())


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VALUE = re.compile(r"-?[0-9]+|[A-Za-z_][A-Za-z0-9_]*( [a-z]+)*")  # the latter for types, "unsigned char"
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
    """Return ``<stem>.cu``, "family/name", with every ``#include "name"`` replaced by that file.

    An included file lies beside the one that includes it, or in ``core/``.

    CuPy's cache on disk knows a kernel by its text alone: with the included files in it, an edit of any of
    them compiles anew. Guards keep a file that is included again from counting twice.
    """
    root = folder()
    return _inlined(root / f"{stem}.cu", root)


def _inlined(path: Path, root: Path) -> str:
    def included(match: re.Match[str]) -> str:
        places = (path.parent / match[1], root / "core" / match[1])
        header = next((candidate for candidate in places if candidate.is_file()), None)
        if header is None:
            raise FileNotFoundError(f'{path.name} includes "{match[1]}", which is neither beside it nor in core/')
        name = str(header.relative_to(root))
        guard = f"CUKDE_INCLUDED_{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}"
        return f"#ifndef {guard}\n#define {guard}\n{_inlined(header, root)}#endif"

    if not path.is_file():
        raise FileNotFoundError(f"there is no CUDA source {path.name} in {path.parent}")
    return _INCLUDE.sub(included, path.read_text(encoding="utf-8").replace("#pragma once\n", ""))


def code(stem: str, defines: Defines) -> str:
    """Return the text that is compiled: ``<stem>.cu`` with its macros before it.

    They are no options because CuPy, to know the compiler's version, has NVRTC compile an empty file for every set of
    options that the process has not met: 35 ms, even where the kernel itself comes from the disk.

    ValueError for a macro that is more than a name and a number or names: no text from outside gets to a compiler.
    """
    for macro, value in defines:
        if not (_NAME.fullmatch(macro) and _VALUE.fullmatch(value)):
            raise ValueError(f"a macro must be a name and have a number or names for a value; got {macro!r}, {value!r}")
    macros = "".join(f"#define {name} {value}\n" for name, value in defines)
    return f'{macros}#line 1 "{stem}.cu"\n{source(stem)}'


def options(headers: Path | None = None) -> tuple[str, ...]:
    """Compiler options, which are those of every kernel; CuPy adds the architecture and ``-ftz=true``."""
    return ("--std=c++17",) if headers is None else ("--std=c++17", f"-I{headers}")


class Kernel(NamedTuple):
    """The key of a kernel."""

    stem: str  # of its source
    name: str
    defines: Defines
    shared_bytes: int = 0  # of dynamic shared memory, a block
    headers: Path | None = None  # a folder of CUDA's own headers; no kernel of the library needs one


def kernel(stem: str, name: str, defines: Defines, shared_bytes: int = 0, *, headers: Path | None = None) -> Any:
    """Return the kernel ``name`` of ``<stem>.cu`` for the current device, called ``kernel(grid, block, args)``.

    It is compiled at its first use on a device: from CuPy's cache on disk, or by NVRTC in about a second. Each
    block gets ``shared_bytes`` of dynamic shared memory: 99 KiB are there on every device since sm_80, for more ask the
    device. ``headers`` is a folder of CUDA's own headers.
    """
    spec = Kernel._make((stem, name, defines, shared_bytes, headers))
    rehearsal = _rehearsal.get()
    return load(spec) if rehearsal is None else rehearsal.kernel(spec)


def begin(kernels: Iterable[Kernel], *, likely: bool = False) -> None:
    """Begin to compile and load kernels for the current device, beside each other and beside what the caller does.

    NVRTC works without Python's lock, and compiles several sources at once. A launch waits for its own kernel, and
    errors are those of launches. What is only ``likely`` to be launched is left out where cores are few.
    """
    rehearsal = _rehearsal.get()
    if rehearsal is not None:
        for spec in kernels:
            rehearsal.kernel(spec)
    elif not likely or processor.cores() >= _CORES_TO_SPARE:
        device = _runtime().getDevice()
        for spec in kernels:
            key = device, *_source_of(spec)
            if key not in _begun:
                _begun.add(key)
                _threads.put(functools.partial(_load_beside, device, spec))


def _load_beside(device: int, spec: Kernel) -> None:
    if not _leaving.is_set():
        with contextlib.suppress(Exception):  # which the launch meets, too
            _runtime().setDevice(device)
            _load(device, spec)


_begun: set[tuple[Any, ...]] = set()  # sources and their devices
_MOST_THREADS, _CORES_TO_SPARE = 8, 4
_leaving = threading.Event()


def _fresh() -> None:
    """Begin with no threads: a child of a fork has none."""
    global _threads
    _threads = WorkerPool(lambda: min(_MOST_THREADS, processor.cores()), "cukde-compile")


def _leave() -> None:
    """A process that ends waits for what is being compiled, as NVRTC cannot be left."""
    _leaving.set()
    _threads.close()


_threads: WorkerPool
_fresh()
atexit.register(_leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fresh)


class Rehearsal:
    """Stands in for launches, see :func:`rehearsed`."""

    def __init__(self, *, loads: bool, but: str | None) -> None:
        self.asked: dict[Kernel, None] = {}  # in the order of their first launch
        self.loads, self._but = loads, but

    def kernel(self, spec: Kernel) -> Any:
        """Note a kernel of a CUDA source and return what launches nothing in its place."""
        self.asked[spec] = None
        if spec.stem == self._but:
            return load(spec)
        if self.loads:
            load(spec)
        return _launch_nothing


_rehearsal: ContextVar[Rehearsal | None] = ContextVar("rehearsal", default=None)


@contextlib.contextmanager
def rehearsed(*, loads: bool = True, but: str | None = None) -> Iterator[Rehearsal]:
    """Within the block, and this thread, kernels are asked for and launch nothing: what they should write is not there.

    ``loads`` compiles and loads them all the same. The kernels of the source ``but`` are launched.
    """
    rehearsal = Rehearsal(loads=loads, but=but)
    token = _rehearsal.set(rehearsal)
    try:
        yield rehearsal
    finally:
        _rehearsal.reset(token)


def note(spec: Kernel) -> None:
    """Put a kernel that is made elsewhere among those that the rehearsal asked for."""
    rehearsal = _rehearsal.get()
    assert rehearsal is not None
    rehearsal.asked[spec] = None


def is_rehearsal() -> bool:
    """Whether launches are rehearsed: then work of a library, too, would find nothing to do."""
    return _rehearsal.get() is not None


def _launch_nothing(grid: Any, block: Any, args: Any) -> None:
    """What a kernel does in a rehearsal."""


def load(spec: Kernel) -> Any:
    """The kernel itself on the current device."""
    return _load(_runtime().getDevice(), spec)


@functools.cache
def _runtime() -> Any:
    """CuPy's runtime; an import in :func:`load` itself would be a part of each launch."""
    import cupy

    return cupy.cuda.runtime


@functools.cache
def _load(device: int, spec: Kernel) -> Any:
    compiled = _compiled(device, spec)
    if spec.shared_bytes == 0:
        return compiled
    # 48 KiB unless more is asked for. Kernels that differ in these bytes alone are one function on the device.
    if compiled.max_dynamic_shared_size_bytes < spec.shared_bytes:
        compiled.max_dynamic_shared_size_bytes = spec.shared_bytes
    return functools.partial(compiled, shared_mem=spec.shared_bytes)


class _Module:
    """A source with its macros on a device. One thread compiles it, for all its kernels, and others wait."""

    def __init__(self, spec: Kernel) -> None:
        import cupy

        self._lock = threading.Lock()
        self._raw = cupy.RawModule(code=code(spec.stem, spec.defines), options=options(spec.headers))

    def function(self, name: str) -> Any:
        """A kernel of it, on the current device, which is always the same."""
        kernel_cache.ensure()
        with self._lock:
            try:
                return self._raw.get_function(name)  # compiles
            except OSError as error:  # of the cache, whose disk may have become full
                kernel_cache.give_up(error)
                return self._raw.get_function(name)


_modules: dict[tuple[Any, ...], _Module] = {}


def _source_of(spec: Kernel) -> tuple[Any, ...]:
    """What kernels of one module have in common."""
    return spec.stem, spec.defines, spec.headers


def _compiled(device: int, spec: Kernel) -> Any:
    key = device, *_source_of(spec)
    module = _modules.get(key) or _modules.setdefault(key, _Module(spec))
    return module.function(spec.name)
