"""Records of measured runs: what is written, where it says it comes from, and what is refused."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import cukde
from benchmarks.record import target
from benchmarks.tools import checkout as code, records
from cukde import perf

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"

SOMEONE = f"{Path(__file__).anchor}home/of/someone"  # absolute on every system


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
    monkeypatch.setattr(sys, "argv", [f"{SOMEONE}/study.py", "--record", f"{SOMEONE}/a.json", "b/c.json"])
    assert records._command() == f"python {start} --record a.json b/c.json"


@pytest.mark.parametrize(
    ("argv", "command"),
    [([f"{SOMEONE}/bin/cukde", "roofline", "--only", "kde"], "cukde roofline --only kde"), ([""], "python")],
)
def test_the_command_of_what_was_not_started_by_m(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], command: str
) -> None:
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    monkeypatch.setattr(sys, "argv", argv)
    assert records._command() == command


def test_what_is_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "source", lambda: {"commit": "abc1234"})
    rows = [{"op": "kde", "shape": {"n": 3}} | perf.Times.of([1.0, 2.0, 3.0]).row()]
    path = tmp_path / "of" / "run.json"
    records.write(path, rows)
    run = records.read(str(path))
    assert list(run) == ["date", "commit", "machine", "versions", "command", "rows"]
    assert run["commit"] == "abc1234"
    assert run["versions"]["cukde"] == cukde.__version__
    assert run["machine"]["cores"] >= 1
    assert run["rows"] == rows
    assert run["rows"][0].keys() >= {"median_ms", "q1_ms", "q3_ms", "low_ms", "high_ms", "runs"}


def test_rows_that_json_does_not_have_leave_no_file(tmp_path: Path) -> None:
    for rows, message in (([{"op": object()}], "JSON"), (["kde"], "rows must be dictionaries")):
        with pytest.raises(TypeError, match=message):
            records.write(tmp_path / "run.json", rows)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """A repository of one commit that cukde seems to lie in, where changes are not allowed."""
    monkeypatch.delenv("CUKDE_COMMIT", raising=False)
    monkeypatch.delenv("CUKDE_DIRTY", raising=False)
    folder = tmp_path / "checkout"
    for name in ("cukde/perf/__init__.py", "benchmarks/results/run.json", "docs/page.md", "pyproject.toml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("as committed\n")
    monkeypatch.setattr(code, "__file__", str(folder / "benchmarks" / "tools" / "checkout.py"))
    found = Checkout(folder)
    found.git("init", "-q")
    found.commit()
    return found


class Checkout(NamedTuple):
    """A folder and what git says there."""

    folder: Path

    def git(self, *command: str) -> str:
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(self.folder), *command]
        return subprocess.run(git, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self) -> str:
        self.git("add", ".")
        self.git("commit", "-q", "-m", "a commit")
        return self.git("rev-parse", "HEAD")

    def change(self, name: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("changed\n")


def test_the_commit_is_that_of_the_checkout(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUKDE_COMMIT", "abc1234")  # for a copy without git
    assert code.source() == {"commit": checkout.git("rev-parse", "HEAD")}


def test_the_commit_is_not_that_of_a_repository_around_packages(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = checkout.folder / "site-packages"
    packages.mkdir()
    monkeypatch.chdir(checkout.folder)
    monkeypatch.setattr(code, "__file__", str(packages / "benchmarks" / "tools" / "checkout.py"))
    assert code.source() == {"commit": cukde.__version__}
    monkeypatch.setenv("CUKDE_COMMIT", "abc1234")
    assert code.source() == {"commit": "abc1234"}
    monkeypatch.setenv("CUKDE_COMMIT", "abc1234-dirty")
    with pytest.raises(RuntimeError, match="changes since abc1234: by the name in CUKDE_COMMIT; commit them"):
        code.source()
    monkeypatch.setenv("CUKDE_DIRTY", "1")
    assert code.source() == {"commit": "abc1234", "changed": True}


@pytest.mark.parametrize("staged", [False, True], ids=["unstaged", "staged"])
@pytest.mark.parametrize("name", ["cukde/perf/__init__.py", "pyproject.toml"])
def test_changed_code_leaves_no_record_unless_told(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, staged: bool
) -> None:
    checkout.change(name)
    if staged:
        checkout.git("add", name)
    path = tmp_path / "run.json"
    with pytest.raises(RuntimeError, match=rf"got changes since \w{{12}}: {name}; commit them, or set CUKDE_DIRTY=1"):
        records.write(path, [])
    assert not path.exists()
    monkeypatch.setenv("CUKDE_DIRTY", "1")
    records.write(path, [])
    assert records.read(path)["commit"] == checkout.git("rev-parse", "HEAD")
    assert records.read(path)["changed"] is True


@pytest.mark.parametrize("name", ["benchmarks/results/run.json", "benchmarks/results/new.json", "docs/page.md"])
def test_results_and_pages_are_no_changes_of_code(checkout: Checkout, name: str) -> None:
    checkout.change(name)
    assert code.source() == {"commit": checkout.git("rev-parse", "HEAD")}


def test_files_that_git_does_not_track_are_no_changes(checkout: Checkout) -> None:
    checkout.change("cukde/notes.txt")
    assert "changed" not in code.source()


def test_a_checkout_that_git_cannot_compare_is_a_changed_one(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = code._git
    monkeypatch.setattr(code, "_git", lambda at, *command: None if command[0] == "diff" else run(at, *command))
    with pytest.raises(RuntimeError, match="what git cannot tell"):
        code.source()


def test_a_run_is_refused_before_it_begins(checkout: Checkout) -> None:
    checkout.change("cukde/perf/__init__.py")
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--record", type=target)
    with pytest.raises(argparse.ArgumentError, match="got changes since"):
        parser.parse_args(["--record", "run.json"])


@pytest.mark.parametrize("committed", [False, True])
def test_changes_during_a_run_lose_no_record(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    monkeypatch.setenv("CUKDE_DIRTY", "")  # which the run sets, for this test only
    assert target("run.json") == Path("run.json")
    began = checkout.git("rev-parse", "HEAD")
    assert code.source() == {"commit": began}
    checkout.change("cukde/perf/__init__.py")
    if committed:
        checkout.commit()
    assert code.source() == {"commit": began, "changed": True}


def test_the_gpu_is_there_even_without_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_output", lambda *_, **__: "NVIDIA A16-4C, 550.1, [N/A], 1755\n")
    machine = records.machine()
    assert (machine["gpu"], machine["driver"], machine["sm_clock_max_mhz"]) == ("NVIDIA A16-4C", "550.1", 1755)
    assert "sm_clock_mhz" not in machine


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_every_committed_record_is_one(path: Path) -> None:
    assert records.read(path)["rows"]


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
        records.read(path)
