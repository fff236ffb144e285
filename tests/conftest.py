"""The backends that one test body runs on, and the ``gpu`` and ``kernels`` markers."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import random
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from cukde.core.plan import without
from tests import compilation, host_emulation


@dataclass(frozen=True)
class Backend:
    """Where a test runs, and what it can afford there.

    ``numpy`` is the CPU backend. ``emulated`` runs the launcher and the CUDA kernels of the GPU backend on
    the host, on NumPy arrays. ``cupy`` needs a GPU.
    """

    name: str

    @property
    def device(self) -> str:
        """Whose accuracy is promised: "cpu" or "gpu"."""
        return "cpu" if self.name == "numpy" else "gpu"

    @property
    def xp(self) -> ModuleType:
        """The module of the arrays that go in and come out."""
        if self.name == "cupy":
            import cupy

            return cupy
        return np

    def size(self, full: int, emulated: int) -> int:
        """A number of rows: ``full``, or what the emulation can afford."""
        return emulated if self.name == "emulated" else full

    def asarray(self, a: Any) -> Any:
        """An array of this backend; None stays None."""
        return None if a is None else self.xp.asarray(a)

    def asnumpy(self, a: Any) -> np.ndarray:
        """A result of this backend as a NumPy array; anything but such a result fails the test."""
        assert isinstance(a, self.xp.ndarray), f"{type(a)} from the {self.name} backend"
        return a if self.xp is np else self.xp.asnumpy(a)


def forget(*modules: ModuleType) -> None:
    """Have modules work out anew what they remember."""
    for function in (value for module in modules for value in vars(module).values()):
        if hasattr(function, "cache_clear"):
            function.cache_clear()


BACKENDS = [
    pytest.param("numpy", id="numpy"),
    pytest.param("emulated", id="emulated"),
    pytest.param("cupy", id="cupy", marks=pytest.mark.gpu),
]


def pytest_configure() -> None:
    """Let Hypothesis wait: drawing an example may take long because another process compiles. Let code be changed.

    Hypothesis draws the same examples in every run; ``benchmarks/stress`` draws fresh cases.
    """
    from hypothesis import HealthCheck, settings  # which benchmarks that import this module do without

    from tests.private import meanwhile

    meanwhile.enabled = False
    settings.register_profile("patient", suppress_health_check=[HealthCheck.too_slow], derandomize=True)
    settings.load_profile("patient")
    os.environ["CUKDE_DIRTY"] = "1"  # for records in folders of tests
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else JAX takes three quarters of a GPU's memory


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes ``backend`` on each; its name comes first in the test's id."""
    if "backend" in metafunc.fixturenames and "case" not in metafunc.fixturenames:
        metafunc.parametrize("backend", BACKENDS, indirect=True)


@pytest.fixture
def emulated_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU backend on NumPy arrays, its kernels on the host; the test is skipped where they cannot run there."""
    works, reason = host_emulation.available()
    if not works:
        pytest.skip(f"CUDA kernels cannot be emulated here: {reason}")
    host_emulation.use(monkeypatch)


@pytest.fixture(autouse=True)
def engines_take_small_problems(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what takes small problems only, as most tests are of the engines and of the look."""
    if request.node.get_closest_marker("small") is None:
        for path in ("small", "ahead", "few_queries"):
            monkeypatch.setattr(f"cukde.density.backends.{path}", lambda backend: None)
        monkeypatch.setattr("cukde.density.plan.gpu.differences_are_few", lambda shape: False)


@pytest.fixture(autouse=True)
def current_device_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that leaves another device current fails, and not those after it, whose threads have the first."""
    if request.node.get_closest_marker("gpu") is None or why_no_gpu() is not None:
        yield
        return
    from cupy.cuda import runtime

    before = runtime.getDevice()
    yield
    if (left := runtime.getDevice()) != before:
        runtime.setDevice(before)
        pytest.fail(f"device {left} is current after the test, and was {before} before it")


@pytest.fixture(params=BACKENDS[1:])
def device(request: pytest.FixtureRequest) -> Backend:
    """Where launchers of the GPU backend run, for tests of what the CPU backend does not have."""
    if request.param == "emulated":
        request.getfixturevalue("emulated_device")
    return Backend(request.param)


@pytest.fixture
def launched(device: Backend, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels that are launched, in order."""
    from tests.private import Specialisation

    names: list[str] = []
    launch = Specialisation.launch

    def noted(self: Specialisation, *args: Any) -> None:
        names.append(self.name)
        launch(self, *args)

    monkeypatch.setattr(Specialisation, "launch", noted)
    return names


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "emulated":
        request.getfixturevalue("emulated_device")
    return Backend(request.param)


def launcher(module: str) -> ModuleType:
    """A module of benchmarks that launches kernels for studies; without CuPy the test is skipped."""
    pytest.importorskip("cupy", reason="the launcher needs CuPy: install the test extra")
    return importlib.import_module(f"benchmarks.{module}")


@pytest.fixture
def many_pairs() -> Iterator[None]:
    """The CPU takes few pairs as it does many, for tests that can afford no more of them."""
    with without("few", "line few"):
        yield


@pytest.fixture(scope="session", autouse=True)
def kept_peaks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Peaks are kept in a file of the tests, which neither read nor change the user's."""
    file = tmp_path_factory.mktemp("kept") / "peaks.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUKDE_PEAKS", str(file))
        yield file


@pytest.fixture(scope="module", autouse=True)
def nothing_old_is_collected() -> None:
    """What is there before the tests of a file, thousands of tests among it, is not looked through as garbage."""
    gc.collect()
    gc.freeze()


@functools.cache
def why_no_gpu() -> str | None:
    """The reason why no GPU works here, or None. Imports succeed on machines where none does: ask CuPy."""
    try:
        import cupy

        return None if cupy.cuda.is_available() else "CuPy finds no working CUDA GPU"
    except Exception as error:  # a missing package, library or driver: whatever it is, it is the reason
        return f"CuPy does not work here: {error!r}"


# Where no GPU works, Numba's CUDA kernels run in its simulator. Numba reads the variable when it is imported.
if why_no_gpu():
    assert "numba" not in sys.modules
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"


# Of what only a change of kernels can break, a run without ``-m kernels`` has a sample: of each test one in so many of
# its emulated cases, the first among them, but none of most tests that run on NumPy, too; and one architecture.
_EMULATED_ONE_IN, _TESTS_ONE_IN = 8, 3
_ARCHITECTURE = 90


def _mark_kernels(items: list[pytest.Item]) -> None:
    emulated = Counter[str]()
    for item in items:
        chosen = item.callspec.params if hasattr(item, "callspec") else {}
        is_left_out = _waits_for_compilers(item) or chosen.get("architecture", _ARCHITECTURE) != _ARCHITECTURE
        if _is_emulated(item):
            test = item.nodeid.partition("[")[0]
            runs_on_numpy = "backend" in chosen
            is_left_out |= emulated[test] % _EMULATED_ONE_IN > 0
            is_left_out |= runs_on_numpy and zlib.crc32(test.encode()) % _TESTS_ONE_IN > 0
            emulated[test] += 1
        if is_left_out:
            item.add_marker(pytest.mark.kernels)


def _is_emulated(item: pytest.Item) -> bool:
    chosen = item.callspec.params if hasattr(item, "callspec") else {}
    return "emulated" in (chosen.get("backend"), chosen.get("device")) or "emulated_device" in _fixtures(item)


_ALL_OF_SO_MANY = 8  # cases of a test
_ONE_IN = {"gpu": 4, "cpu": 6}  # of more


def _mark_crossed(items: list[pytest.Item]) -> None:
    """Mark most of the many cases of a test, on the CPU, in the emulation and on a GPU each."""
    cases: dict[tuple[str, bool, bool], list[pytest.Item]] = {}
    for item in items:
        if hasattr(item, "callspec") and not item.get_closest_marker("crossed"):
            on_gpu = item.get_closest_marker("gpu") is not None
            cases.setdefault((item.nodeid.partition("[")[0], _is_emulated(item), on_gpu), []).append(item)
    for (_, emulated, on_gpu), group in cases.items():
        if len(group) > _ALL_OF_SO_MANY:
            values = [{name: repr(value) for name, value in item.callspec.params.items()} for item in group]
            stay = spread(values, _ONE_IN["gpu" if on_gpu else "cpu"])
            for place in set(range(len(group))) - stay:
                if not emulated or group[place].get_closest_marker("kernels"):  # but for the sample of every run
                    group[place].add_marker(pytest.mark.crossed)


def spread(cases: list[dict[str, str]], one_in: int) -> set[int]:
    """The places of about one in so many of some cases, in which every value of every parameter occurs."""
    draw = random.Random(len(cases))
    stay = set(draw.sample(range(len(cases)), len(cases) // one_in))
    seen = {value for place in stay for value in cases[place].items()}
    for place, case in enumerate(cases):
        if not case.items() <= seen:
            stay.add(place)
            seen |= case.items()
    return stay


@pytest.hookimpl(tryfirst=True)  # marks are looked at after this
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _mark_kernels(items)
    _mark_crossed(items)
    # Compiling every kernel takes longest: it begins first, in processes of its own, and is waited for last.
    items.sort(key=_waits_for_compilers)
    for item in items:
        if item.get_closest_marker("gpu") and (reason := why_no_gpu()):
            item.add_marker(pytest.mark.skip(reason=reason))


@functools.cache
def _generators() -> list[np.random.Generator]:
    """The generators of random numbers that files of tests share among their tests."""
    modules = [module for name, module in sys.modules.items() if name.startswith("tests.")]
    return [value for module in modules for value in vars(module).values() if isinstance(value, np.random.Generator)]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test draws the same numbers in every run, whichever tests its process ran before it."""
    state = np.random.default_rng(zlib.crc32(item.nodeid.encode())).bit_generator.state
    for generator in _generators():
        generator.bit_generator.state = state


_COMPILERS = {"assembled": compilation.numba_started, "compilations": compilation.started}
"""What begins to compile, by the fixture that waits for it."""


def _waits_for_compilers(item: pytest.Item) -> bool:
    return not _COMPILERS.keys().isdisjoint(_fixtures(item))


def _fixtures(item: pytest.Item) -> Iterable[str]:
    return getattr(item, "fixturenames", ())


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin to compile where a test is going to ask what came of it."""
    if session.config.option.collectonly or hasattr(session.config, "workerinput"):  # of several, one will wait
        return
    wanted = {name for item in session.items for name in _fixtures(item)}
    starts = [start for fixture, start in _COMPILERS.items() if fixture in wanted]
    if "compilations" in wanted and wanted & {"backend", "emulated_device"} and host_emulation.available()[0]:
        starts.insert(0, compilation.emulation_started)  # of few tests, each builds what it launches
    for start in starts:
        with contextlib.suppress(Exception):  # where CuPy does not load, that test says so
            start()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if "not kernels" in config.option.markexpr:  # processes that share a run do not count what they leave out
        terminalreporter.write_line(
            'Tests marked kernels, crossed or long are left out, but for a sample: -m "" runs all.'
        )


def pytest_sessionfinish() -> None:
    compilation.stop()
