"""Records of measured runs: what is written, where it says it comes from, and what is refused."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import cukde
from benchmarks.tools import checkout as code, records
from cukde import perf

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


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
