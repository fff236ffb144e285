"""Records of measured runs: what is written, where it says it comes from, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import cukde
from cukde import perf
from cukde.perf import _record

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


@pytest.mark.parametrize(
    ("module", "start"),
    [
        ("benchmarks.sources.oracle_study", "-m benchmarks.sources.oracle_study"),
        ("pytest.__main__", "-m pytest"),
        (None, "study.py"),
    ],
)
def test_the_command_is_one_to_type(monkeypatch: pytest.MonkeyPatch, module: str | None, start: str) -> None:
    program = ModuleType("__main__")
    program.__spec__ = module and ModuleSpec(module, None)
    monkeypatch.setitem(sys.modules, "__main__", program)
    monkeypatch.setattr(sys, "argv", ["/home/of/someone/study.py", "--record", "/home/of/someone/a.json", "b/c.json"])
    assert _record._command() == f"python {start} --record a.json b/c.json"


@pytest.mark.parametrize(
    ("argv", "command"),
    [(["/usr/local/bin/cukde", "roofline", "--only", "kde"], "cukde roofline --only kde"), ([""], "python")],
)
def test_the_command_of_what_was_not_started_by_m(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], command: str
) -> None:
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    monkeypatch.setattr(sys, "argv", argv)
    assert _record._command() == command


def test_what_is_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUKDE_COMMIT", "abc1234")
    rows = [{"op": "kde", "shape": {"n": 3}} | perf.Times.of([1.0, 2.0, 3.0]).row()]
    path = tmp_path / "of" / "run.json"
    perf.write_record(path, rows)
    run = perf.read_record(str(path))
    assert list(run) == ["date", "commit", "machine", "versions", "command", "rows"]
    assert run["commit"] == "abc1234"
    assert run["versions"]["cukde"] == cukde.__version__
    assert run["machine"]["cores"] >= 1
    assert run["rows"] == rows
    assert run["rows"][0].keys() >= {"median_ms", "q1_ms", "q3_ms", "low_ms", "high_ms", "runs"}


def test_rows_that_json_does_not_have_leave_no_file(tmp_path: Path) -> None:
    for rows, message in (([{"op": object()}], "JSON"), (["kde"], "rows must be dictionaries")):
        with pytest.raises(TypeError, match=message):
            perf.write_record(tmp_path / "run.json", rows)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_the_commit_is_that_of_the_checkout_or_the_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of a repository around the folder where packages are, nor that of the current folder."""
    monkeypatch.delenv("CUKDE_COMMIT", raising=False)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    packages = tmp_path / "site-packages"
    packages.mkdir()
    monkeypatch.chdir(tmp_path)
    of_repository = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    assert of_repository.startswith(_record._described(tmp_path))
    assert _record._described(packages) == ""
    monkeypatch.setattr(_record, "__file__", str(packages / "cukde" / "perf" / "_record.py"))
    assert _record._commit() == cukde.__version__


def test_the_gpu_is_there_even_without_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_record, "_output", lambda *_, **__: "NVIDIA A16-4C, 550.1, [N/A], 1755\n")
    machine = _record.machine()
    assert (machine["gpu"], machine["driver"], machine["sm_clock_max_mhz"]) == ("NVIDIA A16-4C", "550.1", 1755)
    assert "sm_clock_mhz" not in machine


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_every_committed_record_is_one(path: Path) -> None:
    assert perf.read_record(path)["rows"]


def _record_without(part: str) -> dict[str, Any]:
    run: dict[str, Any] = {"date": "", "commit": "", "machine": {}, "versions": {}, "command": "", "rows": []}
    return {name: value for name, value in run.items() if name != part}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows", "no JSON"),
        ("[]", "a dictionary or the path of one; got a list"),
        (json.dumps(_record_without("rows")), "it has no rows$"),
        (json.dumps(_record_without("machine")), "it has no machine$"),
        (json.dumps(_record_without("rows") | {"rows": [1]}), "rows are not all dictionaries"),
    ],
    ids=["text", "list", "no rows", "no machine", "numbers"],
)
def test_what_is_no_record_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        perf.read_record(path)
