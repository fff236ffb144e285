"""Numba's ``njit`` with a cache on disk that damaged files, other processes and folders without writing do not upset.

Numba's own keeps an index of each function in one file and unpickles what it finds. Two processes that compile a
function for different types at once may leave an index that gives the one the code of the other; a damaged file is an
error in the caller's call, and a folder that cannot be written to one at import. Here every specialisation is a file of
its own, named by what it is made of, and begins with a digest of the rest: what does not fit is compiled anew.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import pickle
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import caching
from numba.core.compiler_lock import global_compiler_lock

from cukde._version import __version__
from cukde.core import files as core_files

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "cache": True}
"""Of :func:`njit`, for most functions: without fast mathematics, which takes NaN and infinity for impossible."""

_DIGEST = 32  # bytes of SHA-256

_dispatchers: list[Any] = []  # one for each function of the library that :func:`njit` has compiled or will


def njit(*, cache: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return ``numba.njit(**options)``, with ``cache`` such that compiled code is kept where Numba keeps its own."""

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options)(function)
        _dispatchers.append(dispatcher)
        if cache and not numba.config.DISABLE_JIT:
            try:
                dispatcher._cache = _Cache(function)
            except (RuntimeError, OSError):  # the former of Numba, where no folder can be written to
                _warn_once("no folder for them can be written to")
        return dispatcher

    return compiled


def compiled() -> list[str]:
    """Names of the functions that have been compiled, once for each specialisation."""
    return [f.__name__ for f in _dispatchers for _ in getattr(f, "signatures", ())]


class _Cache(caching.FunctionCache):
    """Numba's cache of a function, over other files."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        # At import, when the sources are those that are run; an edit later on is for the next process.
        prefix = f"{self._impl.filename_base}.{_made_of(function.__module__)}."
        self._cache_file = _Entries(Path(self._cache_path), self._impl.filename_base, prefix)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code that was kept for a signature, or None."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whole as the file is, this Numba does not take what it holds: compile
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep code, but for generators: what another process has compiled cannot be compiled into more."""
        if isinstance(data.signature.return_type, numba.types.Generator):
            return
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn_once(str(error))


class _Entries:
    """Files of one function, one for each specialisation; stands in for Numba's pair of index and data."""

    def __init__(self, folder: Path, base: str, prefix: str) -> None:
        self._folder, self._base, self._prefix = folder, base, prefix

    def load(self, key: Any) -> Any:
        """Return what was kept under a key, or None where nothing whole is."""
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
            return None
        kept, data = pickle.loads(content[_DIGEST:])
        return data if kept == key else None

    def save(self, key: Any, data: Any) -> None:
        """Keep data under a key, and remove what older sources were compiled to."""
        content = caching.dumps((key, data))
        core_files.replace(self._path(key), hashlib.sha256(content).digest() + content)
        for other in self._folder.glob(f"{self._base}.*.nbc"):
            if not other.name.startswith(self._prefix):
                with contextlib.suppress(OSError):
                    other.unlink()

    def flush(self) -> None:
        """Forget everything, as Numba does before it compiles anew."""
        for file in self._folder.glob(f"{self._prefix}*.nbc"):
            file.unlink(missing_ok=True)

    def _path(self, key: Any) -> Path:
        return self._folder / f"{self._prefix}{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}.nbc"


# At the start of a line: what is imported within functions is not compiled into others.
_IMPORT = re.compile(r"^from (cukde[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)


@functools.cache
def _made_of(module: str) -> str:
    """Digest of the versions at work, and of the sources of a module and of those of cukde that it imports.

    Numba looks at the source of the function alone, and would go on with what it once inlined from another.
    """
    digest = hashlib.sha256(f"{__version__} {numba.__version__} {llvmlite.__version__}".encode())
    left, seen = [module], {"cukde"}
    while left:
        name = left.pop()
        if name not in seen and name in sys.modules:
            seen.add(name)
            text, imported = _source(name)
            digest.update(text)
            left += imported
    return digest.hexdigest()[:16]


@functools.cache
def _source(module: str) -> tuple[bytes, list[str]]:
    """Source of a module, and names of the modules of cukde that it imports."""
    text = inspect.getsource(sys.modules[module])
    imported = []
    for package, names in _IMPORT.findall(text):
        modules = [f"{package}.{name}" for name in re.findall(r"(\w+)(?: as \w+)?", names)]
        imported += [each if each in sys.modules else package for each in modules]
    return text.encode(), imported


_warned = False


def _warn_once(reason: str) -> None:
    """Say why code is not kept; the reasons of the functions after the first are mostly the same."""
    global _warned
    if _warned:
        return
    _warned = True
    warnings.warn(
        f"functions compiled for the CPU are not kept for the next process, which takes seconds: {reason}; name a "
        "folder for them by the environment variable NUMBA_CACHE_DIR",
        stacklevel=2,
    )


if hasattr(os, "register_at_fork"):
    # A child forked while another thread compiles would wait for that thread's lock for good.
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )
