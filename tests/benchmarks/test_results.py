"""Records in benchmarks/results are of code that anyone can check out: each names a commit of the history."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from benchmarks.tools import records

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"

OTHERS: dict[str, str] = {}
"""Records of other code, each to be measured again: take it out then, and put none in."""

LAST = "2026-11-23"
"""The records of other code are older: since then :func:`benchmarks.tools.records.write` refuses changed code."""


def why_not(run: dict[str, object], history: list[str]) -> str | None:
    """Say why the code of a record cannot be had; None where it can."""
    if run.get("changed") or str(run["commit"]).endswith("-dirty"):
        return "its code was changed"
    return None if in_history([str(run["commit"])], history) else "its commit is not in the history"


def why_not_text(text: str, history: list[str]) -> str | None:
    """Say the same of a text, which may be of several commits."""
    named = re.findall(r"(?:commit |\()([0-9a-f]{7,40})\b", text)
    return None if named and in_history(named, history) else "its commit is not in the history"


def in_history(commits: list[str], history: list[str]) -> bool:
    """Whether these are commits of the history, in full or abbreviated."""
    return all(len(commit) >= 7 and any(each.startswith(commit) for each in history) for commit in commits)


@pytest.fixture(scope="module")
def history() -> list[str]:
    """Commits of the checkout."""
    if not (ROOT / ".git").exists():
        pytest.skip("no history: this is no git checkout")
    if _git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("no history: this is a shallow clone")
    return _git("rev-list", "HEAD").splitlines()


def _git(*command: str) -> str:
    return subprocess.run(["git", "-C", ROOT, *command], check=True, capture_output=True, text=True).stdout.strip()


def test_records_are_of_commits_of_the_history(history: list[str]) -> None:
    runs = {path.relative_to(RESULTS).as_posix(): records.read(path) for path in RESULTS.rglob("*.json")}
    texts = {path.relative_to(RESULTS).as_posix(): path.read_text("utf-8") for path in RESULTS.rglob("*.txt")}
    checked = {name: why_not(run, history) for name, run in runs.items()}
    checked |= {name: why_not_text(text, history) for name, text in texts.items()}
    found = {name: why for name, why in checked.items() if why}
    new = {name: why for name, why in found.items() if name not in OTHERS}
    assert not new, "measure these again, on a commit of the history"
    assert found == OTHERS, "take what is mended out of OTHERS"
    assert max((runs[name]["date"] for name in OTHERS if name in runs), default="") < LAST, (
        "measure it again: no record of other code may be added"
    )
