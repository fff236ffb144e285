"""CuPy's cache of compiled kernels: damage, processes at once, folders that cannot be written to."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cukde.core.gpu import kernel_cache
from tests import processes
from tests.private import core_compile, dispatch
from tests.reference import kde as exact_kde

needs_cupy = pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="CuPy is not installed")

# What a process loads onto a device is noted instead: all before that needs none.
_LOADED = """
import hashlib
from cukde.core import dispatch
from cukde.core.gpu import compile as core_compile

assert dispatch.why_no_gpu() in (None, "CuPy finds none"), dispatch.why_no_gpu()
from cupy.cuda import compiler

class Module:
    def load(self, binary):
        print(hashlib.sha256(binary).hexdigest())

    def _set_mapping(self, mapping):
        print("compiled")

compiler.function = type("function", (), {"Module": Module})
compiler._get_arch_for_options_for_nvrtc = lambda arch=None: (f"-arch=sm_{arch}", "cubin")
text = core_compile.code("kendall/sign_codes", ())
compiler._compile_module_with_cache(text, core_compile.options(), arch="80", backend="nvrtc")
"""


def _cached(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A cache that three processes have filled at once, and the digest of the kernel in it."""
    folder = tmp_path_factory.mktemp("kernels") / "cache"
    started = [processes.start("-c", _LOADED, CUPY_CACHE_DIR=folder) for _ in range(3)]
    outputs = [processes.finished(process)[0].split() for process in started]
    assert "compiled" in {output[0] for output in outputs}  # by one at least: the others may find its file
    digests = {output[-1] for output in outputs}
    assert len(digests) == 1
    return folder, digests.pop()


@needs_cupy
def test_processes_that_compile_at_once_leave_one_whole_file(filled: tuple[Path, str]) -> None:
    folder, digest = filled
    assert hashlib.sha256(_cached(folder).read_bytes()[40:]).hexdigest() == digest
    assert processes.finished(processes.start("-c", _LOADED, CUPY_CACHE_DIR=folder)) == (f"{digest}\n", "")


@needs_cupy
def test_a_damaged_file_is_rebuilt(filled: tuple[Path, str]) -> None:
    folder, digest = filled
    file = _cached(folder)
    content = file.read_bytes()
    damages = (
        b"",
        content[:20],
        content[: len(content) // 2],
        b"garbage" * 1000,
        content[:-9] + b"\xff" + content[-8:],
    )
    code = f"""
import pathlib
{_LOADED}
for damage in {damages[:-1]!r}:
    pathlib.Path({str(file)!r}).write_bytes(damage)
    compiler._compile_module_with_cache(text, core_compile.options(), arch="80", backend="nvrtc")
"""
    file.write_bytes(damages[-1])
    out, _ = processes.finished(processes.start("-c", code, CUPY_CACHE_DIR=folder))
    assert out.split() == ["compiled", digest] * len(damages)
    assert _cached(folder).read_bytes() == content


@needs_cupy
def test_without_a_folder_kernels_are_compiled_and_one_warning_says_so(tmp_path: Path) -> None:
    before = set(os.listdir(tempfile.gettempdir()))
    out, err = processes.finished(processes.start("-c", _LOADED, cwd=tmp_path, **processes.unwritable(tmp_path)))
    assert out.startswith("compiled\n")
    assert err.count("Warning:") == 1, err
    assert "name a folder for them by the environment variable CUPY_CACHE_DIR" in err
    assert not [name for name in set(os.listdir(tempfile.gettempdir())) - before if "cubin" in name]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of CuPy's cache as it is at the start of a process; what a test changes is taken back."""
    monkeypatch.setattr(kernel_cache, "ensure", kernel_cache.ensure.__wrapped__)
    for name in ("CUPY_CACHE_DIR", "CUPY_CACHE_IN_MEMORY"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return monkeypatch


class _Full:
    """A module as CuPy's, whose cache is on a disk that is full."""

    def __init__(self, **arguments: Any) -> None:
        self.tries = 0

    def get_function(self, name: str) -> str:
        if os.environ.get("CUPY_CACHE_IN_MEMORY") != "1":
            raise OSError(28, "No space left on device")
        return f"{name}, compiled"


def test_a_disk_that_is_full_is_one_warning(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runtime = SimpleNamespace(getDevice=lambda: 0)
    cupy = SimpleNamespace(RawModule=_Full, cuda=SimpleNamespace(runtime=runtime))
    environment.setitem(sys.modules, "cupy", cupy)
    environment.setenv("CUPY_CACHE_DIR", str(tmp_path))
    load: Callable[..., Any] = core_compile._load.__wrapped__
    with pytest.warns(UserWarning, match=r"No space left on device.*CUPY_CACHE_DIR"):
        assert load(0, core_compile.Kernel("core/survey", "survey", ())) == "survey, compiled"
    assert os.environ["CUPY_CACHE_DIR"] == str(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(0, core_compile.Kernel("core/survey", "column_means", ())) == "column_means, compiled"


def test_a_folder_that_can_be_written_to_is_left_to_cupy(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment.setenv("CUPY_CACHE_DIR", str(tmp_path / "new"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel_cache.ensure()
    assert "CUPY_CACHE_IN_MEMORY" not in os.environ
    assert not list(tmp_path.glob("new/*"))


def test_without_cupy_no_folder_is_made(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment.setenv("CUPY_CACHE_DIR", str(tmp_path / "new"))
    environment.setitem(sys.modules, "cupy", None)
    assert "does not load" in str(dispatch.why_no_gpu())
    assert not list(tmp_path.iterdir())


_DENSITY = """
import json
import cupy as cp
import numpy as np
LOST
import cukde

X = cp.asarray(np.linspace(0, 1, 60).reshape(20, 3))
print(json.dumps(cukde.kde(X, X[:4], 0.5).get().tolist()))
"""

_LOST = """
import os, shutil
shutil.rmtree(os.environ["CUPY_CACHE_DIR"])
open(os.environ["CUPY_CACHE_DIR"], "w").close()
"""


@pytest.mark.gpu
def test_a_density_on_a_gpu_whose_kernels_are_damaged_or_not_kept(tmp_path: Path) -> None:
    X = np.linspace(0, 1, 60).reshape(20, 3)
    want = exact_kde(X, X[:4], 0.5)
    folder = tmp_path / "cache"

    def warned(before: str = "") -> str:
        code = _DENSITY.replace("LOST", before)
        out, err = processes.finished(processes.start("-c", code, CUPY_CACHE_DIR=folder))
        np.testing.assert_allclose(json.loads(out), want, rtol=1e-12)
        return err

    assert not warned()
    files = {file: file.read_bytes() for file in folder.iterdir()}
    assert files
    for damage in (b"", b"garbage" * 1000):
        for file in files:
            file.write_bytes(damage)
        assert not warned()
        assert {file: file.read_bytes() for file in folder.iterdir()} == files
    assert warned(_LOST).count("Warning:") == 1
