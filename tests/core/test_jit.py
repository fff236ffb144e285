"""The cache of functions that Numba compiled: damage, processes at once, folders that cannot be written to."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import json
import os
import pkgutil
import re
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import errors

import cukde
from cukde.core import files as core_files
from cukde.core.cpu import jit
from tests import processes

_SOURCE = """
from cukde.core.cpu.jit import njit

@njit(cache=True)
def total(a):
    s = 0.0
    for x in a:
        s += x
    return s

@njit(cache=True)
def times(a, k):
    return k * total(a)

@njit(cache=True)
def five_times(a):
    s = 0.0
    for k in range(5):
        s += times(a, 1)
    return s

@njit(cache=True)
def halves(a):
    for x in a:
        yield x / 2

@njit(cache=True)
def total_of_halves(a):
    s = 0.0
    for x in halves(a):
        s += x
    return s
"""
_SINGLE, _DOUBLE = np.full(5, 0.1, np.float32), np.full(5, 0.1)


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """The functions of a module as a new process finds them; their files are in a folder of the test."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(jit, "_warned", False)
    file = tmp_path / "kept_sums.py"
    file.write_text(_SOURCE)

    def imported() -> ModuleType:
        spec = importlib.util.spec_from_file_location("kept_sums", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return imported


def _entries(tmp_path: Path, name: str = "total") -> list[Path]:
    return sorted((tmp_path / "cache").rglob(f"*.{name}-*"))


def _hits(function: Any) -> int:
    return sum(function.stats.cache_hits.values())


def test_what_one_process_compiled_the_next_one_finds(compiled: Callable[[], Any], tmp_path: Path) -> None:
    first = compiled().total
    assert first(_DOUBLE) == pytest.approx(0.5)
    assert (_hits(first), len(_entries(tmp_path))) == (0, 1)
    second = compiled().total
    assert second(_DOUBLE) == first(_DOUBLE)
    assert second(_SINGLE) == pytest.approx(0.5)
    assert (_hits(second), len(_entries(tmp_path))) == (1, 2)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_told_once_that_code_is_compiled(
    compiled: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = []
    for _ in range(2):
        terminal = _Terminal()
        monkeypatch.setattr(jit, "_said", False)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", terminal)
            functions = compiled()
            functions.total(_DOUBLE)
            functions.total(_SINGLE)
        lines.append(terminal.getvalue())
    assert lines[0].startswith("cukde: compiling")
    assert lines[0].count("\n") == 1
    assert lines[1] == ""


def test_messages_of_numba_leave_redirected_streams_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It colours them as it compiles in the background, and would replace the streams of all threads."""
    pytest.importorskip("colorama")
    replaced: list[str] = []
    for name in ("init", "reinit", "deinit"):
        monkeypatch.setitem(vars(errors), name, lambda name=name: replaced.append(name))
    assert "message" in errors.termcolor().errmsg("message")
    assert replaced == []


def test_a_called_function_has_no_wrapper_and_no_specialisation_for_a_constant(
    compiled: Callable[[], Any], tmp_path: Path
) -> None:
    functions = compiled()
    assert functions.five_times(_DOUBLE) == pytest.approx(2.5)
    assert not functions.times.signatures  # of the function that Python calls
    assert len(_entries(tmp_path, "times")) == 1
    assert functions.times(_DOUBLE, 5) == pytest.approx(2.5)
    assert len(_entries(tmp_path, "times")) == 2
    again = compiled()
    assert again.times(_DOUBLE, 5) == pytest.approx(2.5)
    assert _hits(again.times) == 1


_DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "short": lambda content: content[:7],
    "truncated": lambda content: content[: len(content) // 2],
    "garbage": lambda content: b"\x80\x04garbage" * 100,
    "one bit": lambda content: content[:-200] + bytes([content[-200] ^ 1]) + content[-199:],
    "longer": lambda content: content + b"0",
}


@pytest.mark.parametrize("damage", _DAMAGES)
def test_a_damaged_file_is_rebuilt(compiled: Callable[[], Any], tmp_path: Path, damage: str) -> None:
    compiled().total(_DOUBLE)
    (file,) = _entries(tmp_path)
    file.write_bytes(_DAMAGES[damage](file.read_bytes()))
    after = compiled().total
    assert after(_DOUBLE) == pytest.approx(0.5)
    assert (_hits(after), _entries(tmp_path)) == (0, [file])
    again = compiled().total
    assert again(_DOUBLE) == pytest.approx(0.5)
    assert _hits(again) == 1


def test_code_of_another_type_is_not_taken(compiled: Callable[[], Any], tmp_path: Path) -> None:
    compiled().total(_DOUBLE)
    (of_double,) = _entries(tmp_path)
    content = of_double.read_bytes()
    compiled().total(_SINGLE)
    (of_single,) = set(_entries(tmp_path)) - {of_double}
    of_single.write_bytes(content)  # what Numba's own index may say after two processes at once
    assert compiled().total(_SINGLE) == pytest.approx(0.5)


def test_what_this_numba_does_not_take_is_rebuilt(
    compiled: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:  # whole, and of another layout
        patch.setattr(numba.core.caching.CompileResultCacheImpl, "reduce", lambda self, data: ("other", "layout"))
        compiled().total(_DOUBLE)
    assert compiled().total(_DOUBLE) == pytest.approx(0.5)
    again = compiled().total
    again(_DOUBLE)
    assert _hits(again) == 1


def test_code_of_older_sources_is_removed(
    compiled: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(jit, "_made_of", lambda module: "older")
        old = compiled()
        old.total(_DOUBLE)
        old.total(_SINGLE)
    assert len(_entries(tmp_path)) == 2
    new = compiled().total
    new(_DOUBLE)
    assert _hits(new) == 0
    (file,) = _entries(tmp_path)
    assert ".older." not in file.name


def _read_again() -> None:
    jit._made_of.cache_clear()
    jit._source.cache_clear()


def test_a_change_of_what_is_inlined_compiles_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = [
        "cukde.density.pairs.cpu.tiles",
        "cukde.density.pairs.cpu.radial_tiles",
        "cukde.bandwidth.cpu.tiles",
        "cukde.core.cpu.float16",
    ]
    for module in modules:
        importlib.import_module(module)
    before = [jit._made_of(module) for module in modules]
    assert len(set(before)) == 4
    _read_again()
    assert before == [jit._made_of(module) for module in modules]

    def edited(module: ModuleType) -> str:
        return source(module) + "# edited\n" * (module.__name__ == "cukde.density.pairs.cpu.tiles")

    source = inspect.getsource
    with monkeypatch.context() as patch:
        patch.setattr(inspect, "getsource", edited)
        _read_again()
        after = [jit._made_of(module) for module in modules]
    _read_again()
    assert [old != new for old, new in zip(before, after, strict=True)] == [True, True, True, False]
    monkeypatch.setattr(jit, "__version__", "another")
    assert all(jit._made_of.__wrapped__(m) != old for m, old in zip(modules, before, strict=True))


def test_a_generator_is_compiled_by_each_process(compiled: Callable[[], Any], tmp_path: Path) -> None:
    assert compiled().total_of_halves(_DOUBLE) == pytest.approx(0.25)
    assert not _entries(tmp_path, "halves")
    assert len(_entries(tmp_path, "total_of_halves")) == 1
    other = compiled()  # Numba would find the generator of the first here, and not know its type
    assert other.total_of_halves(_SINGLE) == pytest.approx(0.25)
    assert other.total_of_halves(_DOUBLE) == pytest.approx(0.25)
    assert _hits(other.total_of_halves) == 1


_TOTAL = """
import sys
import numpy as np
import kept_sums

print(kept_sums.total(np.full(5, 0.1, sys.argv[1])), sum(kept_sums.total.stats.cache_hits.values()))
"""


@pytest.mark.long
def test_processes_that_compile_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    (tmp_path / "kept_sums.py").write_text(_SOURCE)
    path = f"{tmp_path}{os.pathsep}{processes.ROOT}"
    for hits, dtypes in ((0, ("f4", "f8", "f4")), (1, ("f4", "f8"))):  # compiled into an empty folder, and found
        started = [
            processes.start("-c", _TOTAL, dtype, path=path, NUMBA_CACHE_DIR=tmp_path / "cache") for dtype in dtypes
        ]
        for process in started:
            total, found = processes.finished(process)[0].split()
            assert float(total) == pytest.approx(0.5)
            assert int(found) in (hits, 1)  # the last to start may find what the first has kept
    files = [file for file in (tmp_path / "cache").rglob("*") if file.is_file()]
    assert [file.suffix for file in files] == [".nbc"] * 2  # nothing half-written


_DENSITY = """
import json
import numpy as np
import cukde

X = np.linspace(0, 1, 60).reshape(20, 3)
print(json.dumps(cukde.kde(X, X[:4], 0.5, local_factors=np.ones(20)).tolist()))  # by compiled loops
"""


def test_without_a_folder_code_is_compiled_and_one_warning_says_so(tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    shutil.copytree(processes.ROOT / "cukde", installed / "cukde", ignore=shutil.ignore_patterns("__pycache__"))
    for file in (installed / "cukde").rglob("__init__.py"):
        (file.parent / "__pycache__").touch()  # a file, which stops root, too, from making the folder
    environment = processes.unwritable(tmp_path)
    process = processes.start("-B", "-c", _DENSITY, path=installed, cwd=tmp_path, **environment)
    out, err = processes.finished(process)
    X = np.linspace(0, 1, 60).reshape(20, 3)
    np.testing.assert_allclose(json.loads(out), cukde.kde(X, X[:4], 0.5), rtol=1e-12)
    assert err.count("Warning:") == 1, err
    assert "name a folder for them by the environment variable NUMBA_CACHE_DIR" in err
    assert not (tmp_path / "cache").exists()


def test_a_folder_that_is_full_or_gone_is_one_warning(
    compiled: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device", str(file))

    monkeypatch.setattr(core_files, "replace", full)
    total = compiled().total
    with pytest.warns(UserWarning, match=r"No space left on device.*NUMBA_CACHE_DIR"):
        assert total(_DOUBLE) == pytest.approx(0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert total(_SINGLE) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("platform", "refusals", "content"), [("win32", 3, b"new"), ("win32", 99, b"old"), ("linux", 1, b"old")]
)
def test_a_file_that_somebody_reads_on_windows_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, refusals: int, content: bytes
) -> None:
    file, moved, left = tmp_path / "file", os.replace, [PermissionError("it is open")] * refusals
    file.write_bytes(b"old")

    def refusing(source: Path, target: Path) -> None:
        if left:
            raise left.pop()
        moved(source, target)

    monkeypatch.setattr(core_files, "sys", SimpleNamespace(platform=platform))
    monkeypatch.setattr(core_files, "_PAUSE", 0)
    monkeypatch.setattr(core_files.os, "replace", refusing)
    with contextlib.nullcontext() if content == b"new" else pytest.raises(PermissionError, match="it is open"):
        core_files.replace(file, b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", content)]


def test_a_file_is_the_old_one_or_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "folder" / "file"
    core_files.replace(file, b"old")

    def interrupted(source: Any, target: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(core_files.os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            core_files.replace(file, b"new")
    assert [(path.name, path.read_bytes()) for path in file.parent.iterdir()] == [("file", b"old")]
    core_files.replace(file, b"new")
    assert [(path.name, path.read_bytes()) for path in file.parent.iterdir()] == [("file", b"new")]


def test_all_that_is_kept_goes_through_this_cache() -> None:
    names = [module.name for module in pkgutil.walk_packages(cukde.__path__, "cukde.")]
    of_cpu = {name for name in names if "cpu" in re.split(r"[._]", name)}  # each family has some
    modules = [importlib.import_module(name) for name in of_cpu]
    functions = {id(f): f for module in modules for f in vars(module).values() if hasattr(f, "py_func")}
    functions = {key: f for key, f in functions.items() if f.py_func.__module__ in of_cpu}
    assert len(functions) > 80
    assert {type(f._cache) for f in functions.values()} == {jit._Cache}
