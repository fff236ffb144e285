"""Numba's ``njit`` with a disk cache that survives damaged files, concurrent processes and read-only folders.

Numba's own cache keeps an index of each function in one file and unpickles its contents. Two processes that compile a
function for different types at once may leave an index with the wrong code. A damaged file raises in the caller's call,
and a read-only folder at import.

Here each specialisation has its own file. The name is a digest of everything that the code depends on, and the file
begins with a digest of its contents. Files that do not match are compiled anew.

A function that another one calls is compiled for it without the code that takes apart Python objects: that is a quarter
of the time of a first call.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
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
from numba.core import caching, errors
from numba.core.compiler_lock import global_compiler_lock
from numba.np import linalg

from cukde._version import __version__
from cukde.core import files as core_files
from cukde.core.cpu import meanwhile


def _load_without_scipy() -> None:
    """Load Numba's array functions without SciPy's linear algebra, which takes 0.2 s.

    They only ask whether SciPy is there, as it is beside cukde. Numba loads it where a function calls BLAS.
    """
    if "numba.np.arraymath" in sys.modules or not hasattr(linalg, "ensure_blas"):
        return
    ensure_blas, linalg.ensure_blas = linalg.ensure_blas, lambda: None
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = ensure_blas


_load_without_scipy()


def _catches_nothing_in_background(catch: Callable[..., Any]) -> Callable[..., Any]:
    """Numba catches warnings as it infers types, which replaces the filters of the whole process for that time.

    A thread that does so beside others would leave them with each other's filters, for good.
    """

    @functools.wraps(catch)
    def catch_warnings(*args: Any, **kwargs: Any) -> Any:
        in_background = meanwhile.mode.get() == meanwhile.IN_BACKGROUND
        return contextlib.nullcontext() if in_background else catch(*args, **kwargs)

    return catch_warnings


_fixer = vars(errors)["WarningsFixer"]
_fixer.catch_warnings = _catches_nothing_in_background(_fixer.catch_warnings)

if "ColorShell" in vars(errors):  # where colorama is installed
    # Numba colours messages as it compiles, and replaces sys.stdout and sys.stderr of the whole process for that time.
    # In the background this would undo what the caller has redirected. The messages have their colours without it.
    vars(errors)["ColorShell"] = contextlib.nullcontext

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "cache": True}
"""Of :func:`njit`, for most functions: without fast mathematics, which takes NaN and infinity for impossible."""

FUSED: dict[str, Any] = OPTIONS | {"fastmath": {"contract"}}
"""The same, where multiplications and additions may be fused."""

_DIGEST = 32  # bytes of SHA-256

_dispatchers: list[Any] = []  # one for each function passed to :func:`njit`


def njit(*, cache: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return ``numba.njit(**options)``; with ``cache`` compiled code is kept in Numba's cache folder."""

    def compiled(function: Callable[..., Any]) -> Any:
        # The wrapper for C would let the function be an argument of another.
        dispatcher = _dispatcher(function, cache, no_cfunc_wrapper=True, **options)
        if not numba.config.DISABLE_JIT:
            called = _dispatcher(function, cache, no_cfunc_wrapper=True, no_cpython_wrapper=True, **options)
            # By these methods Numba compiles a function for a caller.
            dispatcher.get_call_template = _for_any_number(called.get_call_template)
            dispatcher.get_overload = called.get_overload
        return dispatcher

    return compiled


def _for_any_number(get_call_template: Callable[..., Any]) -> Callable[..., Any]:
    """Take constants as numbers of their type: Numba would compile the function for each constant, beside the type."""

    def template(arguments: Any, named: Any) -> Any:
        plain = {name: numba.types.unliteral(kind) for name, kind in named.items()}
        return get_call_template(tuple(map(numba.types.unliteral, arguments)), plain)

    return template


def _dispatcher(function: Callable[..., Any], cache: bool, **options: Any) -> Any:
    dispatcher = numba.njit(**options)(function)
    dispatcher._cache = _NoCache()
    _dispatchers.append(dispatcher)
    if not numba.config.DISABLE_JIT:
        dispatcher.compile = _unless_refused(dispatcher.compile)
    if cache and not numba.config.DISABLE_JIT:
        try:
            dispatcher._cache = _Cache(function, "called" if "no_cpython_wrapper" in options else "")
        except (RuntimeError, OSError):  # Numba raises RuntimeError without a writable folder
            _warn_once("no folder for them can be written to")
    return dispatcher


def _unless_refused(compile_: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Compile, or load, where this thread may; one that may not does not wait for the thread that does."""

    def compile_or_refuse(sig: Any) -> Any:
        if meanwhile.mode.get() != meanwhile.COMPILED_ONLY:
            return compile_(sig)
        if not global_compiler_lock._lock.acquire(blocking=not meanwhile.compiles()):
            raise meanwhile.NotCompiledError
        try:
            return compile_(sig)
        finally:
            global_compiler_lock._lock.release()

    return compile_or_refuse


def compiled() -> list[str]:
    """Return the names of the compiled functions, once for each specialisation."""
    return [f.__name__ for f in _dispatchers for _ in getattr(f, "signatures", ())]


class _NoCache(caching.NullCache):
    """Keeps no code."""

    def load_overload(self, sig: Any, target_context: Any) -> None:
        """Return None: the code is compiled."""
        _missing()


class _Cache(caching.FunctionCache):
    """Numba's cache of a function, in files of our own."""

    def __init__(self, function: Callable[..., Any], variant: str) -> None:
        super().__init__(function)
        # The digest is taken at import, when the source files are those that run.
        prefix = f"{self._impl.filename_base}.{_made_of(function.__module__)}."
        self._cache_file = _Entries(Path(self._cache_path), self._impl.filename_base, prefix, variant)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the cached code of a signature, or None."""
        try:
            code = super().load_overload(sig, target_context)
        except Exception:  # an intact file whose contents this Numba refuses: compile
            code = None
        if code is None:
            _missing()
        return code

    def save_overload(self, sig: Any, data: Any) -> None:
        """Cache code, except of generators: cached ones cannot be inlined into other functions."""
        if isinstance(data.signature.return_type, numba.types.Generator):
            return
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn_once(str(error))


class _Entries:
    """The files of one function, one for each specialisation, in place of Numba's index and data files."""

    def __init__(self, folder: Path, base: str, prefix: str, variant: str) -> None:
        self._folder, self._base, self._prefix, self._variant = folder, base, prefix, variant

    def load(self, key: Any) -> Any:
        """Return the data of a key, or None if there is no intact file."""
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
            return None
        saved_key, data = pickle.loads(content[_DIGEST:])
        return data if saved_key == key else None

    def save(self, key: Any, data: Any) -> None:
        """Save the data of a key, and remove code compiled from older sources."""
        content = caching.dumps((key, data))
        core_files.replace(self._path(key), hashlib.sha256(content).digest() + content)
        for other in self._folder.glob(f"{self._base}.*.nbc"):
            if not other.name.startswith(self._prefix):
                with contextlib.suppress(OSError):
                    other.unlink()

    def flush(self) -> None:
        """Remove all files, as Numba does before it compiles anew."""
        for file in self._folder.glob(f"{self._prefix}*.nbc"):
            file.unlink(missing_ok=True)

    def _path(self, key: Any) -> Path:
        return (
            self._folder / f"{self._prefix}{hashlib.sha256(repr((key, self._variant)).encode()).hexdigest()[:24]}.nbc"
        )


# At the start of a line: imports within functions do not enter compiled code.
_IMPORT = re.compile(r"^from (cukde[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)


@functools.cache
def _made_of(module: str) -> str:
    """Return a digest of the versions in use and of the sources of a module and of its imports from cukde.

    Numba checks only the source of the function itself, not of functions that it has inlined.
    """
    digest = hashlib.sha256(f"{__version__} {numba.__version__} {llvmlite.__version__}".encode())
    pending, seen = [module], {"cukde"}
    while pending:
        name = pending.pop()
        if name not in seen and name in sys.modules:
            seen.add(name)
            text, imported = _source(name)
            digest.update(text)
            pending += imported
    return digest.hexdigest()[:16]


@functools.cache
def _source(module: str) -> tuple[bytes, list[str]]:
    """Return the source of a module, and the names of the modules of cukde that it imports."""
    text = inspect.getsource(sys.modules[module])
    imported = []
    for package, names in _IMPORT.findall(text):
        modules = [f"{package}.{name}" for name in re.findall(r"(\w+)(?: as \w+)?", names)]
        imported += [name if name in sys.modules else package for name in modules]
    return text.encode(), imported


_said = False


def _missing() -> None:
    """Refuse to compile where the thread is not to; tell the user of a terminal, once, what a first call waits for."""
    global _said
    meanwhile.refuse()
    if meanwhile.mode.get() == meanwhile.IN_BACKGROUND:
        return
    if _said or sys.stderr is None or not sys.stderr.isatty():
        return
    _said = True
    print("cukde: compiling for this CPU; the next process finds the code in its cache", file=sys.stderr)


_warned = False


def _warn_once(reason: str) -> None:
    """Warn why code is not cached, once: further functions mostly have the same reason."""
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
    # A child forked while another thread compiles would wait forever for that thread's lock.
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )
