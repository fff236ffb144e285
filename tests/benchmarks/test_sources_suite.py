"""``python -m benchmarks.sources``: sections are run, kept and resumed, by toy sections."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.sources import __main__, suite
from benchmarks.sources.section import Outcome, Section, Setting, Table
from benchmarks.tools import calibration, compare, records
from cukde.cli import info
from tests import processes

NO_GPU = "no driver for a GPU"
ROW = {"op": "kde", "backend": "cpu", "shape": {"n": 8}, "dtype": "float32", "precision": "float32", "median_ms": 1.5}
ROW |= {"q1_ms": 1.49, "q3_ms": 1.51, "low_ms": 1.49, "high_ms": 1.51, "runs": 5}
TIMES = Table("Times", ["n", "CPU, ms"], [[2048, 0.31049], [65536, NO_GPU], [1, None]])
CALIBRATION = {"cpu": {"copy": {"median_ms": 3.0}}}


class Toy:
    """A section that counts its runs, and leaves or raises what it is told to."""

    def __init__(self, number: int) -> None:
        self.settings: list[Setting] = []
        self.leaves: Outcome | BaseException = Outcome([ROW | {"rel_err_max": np.float32(0.5)}], [TIMES])
        self.SECTION = Section(number, f"Toy {number}", "Table 2", self.run)

    def run(self, setting: Setting) -> Outcome:
        self.settings.append(setting)
        if isinstance(self.leaves, BaseException):
            raise self.leaves
        return self.leaves


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> dict[int, Toy]:
    """Two sections, on a machine of one commit without a GPU."""
    made = {number: Toy(number) for number in (1, 2)}
    monkeypatch.setattr(suite, "MODULES", {number: f"toy{number}" for number in made})
    for number, toy in made.items():
        monkeypatch.setitem(sys.modules, f"benchmarks.sources.toy{number}", toy)
    monkeypatch.setattr(info, "gpu", lambda: (False, NO_GPU))
    monkeypatch.setattr(records, "machine", lambda: {"cpu": "a CPU", "cores": 2})
    monkeypatch.setattr(records, "_versions", lambda: {"python": "3.11", "cukde": "0.1", "numpy": "2.4"})
    monkeypatch.setattr(records, "source", lambda: {"commit": "abc1234"})
    monkeypatch.setattr(calibration, "calibrate", lambda before=None: CALIBRATION)
    return made


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """Run the command in a folder of the test; returns the exit code and what was printed."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = __main__.main(["--out", str(tmp_path / "out"), *arguments])
        return code, *capsys.readouterr()

    return run


# --- running ---------------------------------------------------------------------------------------------


def test_a_run_leaves_records(toys, bench, tmp_path):
    code, out, err = bench("--quick")
    folder = tmp_path / "out"
    assert code == 0
    assert out.count("1.500 ms") == 2
    assert [toy.settings for toy in toys.values()] == [[Setting(True, NO_GPU)]] * 2
    assert re.fullmatch(r"section 1, toy1: [\d.]+ s\nsection 2, toy2: [\d.]+ s\n", err)
    assert sorted(file.name for file in folder.iterdir()) == ["section-1.json", "section-2.json"]
    record = records.read(folder / "section-1.json")
    assert record["rows"] == [ROW | {"rel_err_max": 0.5}]
    assert record["section"] == {"number": 1, "title": "Toy 1", "source": "Table 2"}
    assert (record["quick"], record["no_gpu"], record["error"]) == (True, NO_GPU, None)
    assert record["tables"] == [TIMES._asdict()]
    assert record["seconds"] >= 0


def test_sections_have_calibrations(toys, bench, monkeypatch, tmp_path):
    """One serves short sections; before and after a long one the machine is calibrated."""
    given = []

    def calibrate(before=None):
        given.append(before)
        return {"cpu": {"copy": {"median_ms": 3.0 + len(given)}}}

    def calibrations():
        files = [tmp_path / "out" / f"section-{number}.json" for number in (1, 2)]
        return [records.read(file)["calibration"]["cpu"]["copy"]["median_ms"] for file in files]

    monkeypatch.setattr(calibration, "calibrate", calibrate)
    bench()
    assert given == [None]
    assert calibrations() == [4.0, 4.0]
    monkeypatch.setattr(suite, "_EVERY", 0.0)
    bench("--section", "1")
    assert given[1:] == [None, {"cpu": {"copy": {"median_ms": 5.0}}}]
    assert calibrations() == [6.0, 4.0]


def test_a_calibration_that_fails_stops_no_section(toys, bench, monkeypatch, tmp_path):
    monkeypatch.setattr(calibration, "calibrate", lambda: None)  # takes no argument: fails
    assert bench()[0] == 0
    assert "calibration" not in records.read(tmp_path / "out" / "section-1.json")


def test_two_runs_are_compared(toys, bench, capsys, tmp_path):
    bench()
    shutil.copytree(tmp_path / "out", tmp_path / "old")
    toys[2].leaves = Outcome([ROW | dict.fromkeys(("median_ms", "q1_ms", "q3_ms", "low_ms", "high_ms"), 1.7)])
    bench("--section", "2")
    capsys.readouterr()
    for new, code in (("old", 0), ("out", 1)):
        assert compare.main([str(tmp_path / "old"), str(tmp_path / new)]) == code
    out = capsys.readouterr().out
    assert "section-2.json:\ncpu times are normalised: calibration, new / old: copy 1.000" in out
    assert out.splitlines()[-1].startswith("1 regression in 2 measurements")


def test_the_same_command_goes_on_with_what_is_not_there(toys, bench, tmp_path):
    bench()
    (tmp_path / "out" / "section-2.json").unlink()
    code, _, err = bench()
    assert code == 0
    assert "section 1, toy1: there already\n" in err
    assert [len(toy.settings) for toy in toys.values()] == [1, 2]


def test_a_section_that_is_named_is_run_anew_alone(toys, bench):
    bench()
    code, _, err = bench("--section", "2", "2")
    assert code == 0
    assert re.fullmatch(r"section 2, toy2: [\d.]+ s\n", err)
    assert [len(toy.settings) for toy in toys.values()] == [1, 2]


def test_changes_since_a_commit_are_not_passed_over(toys, bench, monkeypatch):
    monkeypatch.setattr(records, "source", lambda: {"commit": "abc1234", "changed": True})
    bench()
    assert "section 1, toy1: there already, of a checkout with changes: name it by --section" in bench()[2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda patch: ["--quick"], "sizes full, not quick"),
        (
            lambda patch: patch.setattr(records, "source", lambda: {"commit": "def5678"}) or [],
            "commit abc1234, not def5678",
        ),
        (lambda patch: patch.setattr(records, "machine", lambda: {"cpu": "new", "cores": 2}) or [], "a CPU, not new"),
        (lambda patch: patch.setattr(records, "_versions", lambda: {"numpy": "9"}) or [], "numpy 2.4, not 9"),
    ],
    ids=["quick", "commit", "machine", "versions"],
)
def test_what_another_run_left_is_said_and_run_anew(toys, bench, monkeypatch, change, said):
    bench()
    code, _, err = bench(*change(monkeypatch))
    assert code == 0
    assert err.count("what was there is of another run: ") == 2
    assert said in err
    assert [len(toy.settings) for toy in toys.values()] == [2, 2]


def test_a_clock_is_no_other_machine(toys, bench, monkeypatch):
    monkeypatch.setattr(info, "gpu", lambda: (True, "available"))
    monkeypatch.setattr(suite, "_release", lambda setting: None)
    for clock in (345, 1980):
        machine = {"cpu": "a CPU", "cores": 2, "gpu": "a GPU", "driver": "1", "sm_clock_mhz": clock}
        monkeypatch.setattr(records, "machine", lambda machine=machine: machine)
        bench()
    assert [len(toy.settings) for toy in toys.values()] == [1, 1]


def test_a_section_that_fails_stops_no_other_and_is_tried_again(toys, bench, tmp_path):
    toys[1].leaves = ValueError("density is off by 3e-2 in /home/someone/data.npy")
    code, _, err = bench()
    assert code == 1
    assert "error: section 1 failed" in err
    assert "Traceback" not in err
    error = records.read(tmp_path / "out" / "section-1.json")["error"]
    assert error.startswith("ValueError: density is off by 3e-2 in data.npy (test_sources_suite.py, line ")
    assert error in err
    toys[1].leaves = Outcome([ROW])
    code, _, err = bench()
    assert code == 0
    assert "(what was there failed)" in err
    assert [len(toy.settings) for toy in toys.values()] == [2, 1]


def test_a_traceback_is_printed_on_request(toys, tmp_path, capsys):
    toys[2].leaves = ZeroDivisionError("by nothing")
    assert __main__.main(["--traceback", "--out", str(tmp_path)]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("leaves", "error"),
    [
        (Outcome([{"op": object()}]), "TypeError: rows and tables hold numbers and texts; got a object"),
        (ModuleNotFoundError("No module named 'pandas'", name="pandas"), "the package pandas is not installed: pip"),
        (SystemExit("enough"), "SystemExit: enough"),
    ],
    ids=["no-json", "no-package", "exit"],
)
def test_what_a_section_cannot_leave_is_its_failure(toys, bench, tmp_path, leaves, error):
    toys[1].leaves = leaves
    assert bench()[0] == 1
    assert records.read(tmp_path / "out" / "section-1.json")["error"].startswith(error)
    assert records.read(tmp_path / "out" / "section-2.json")["error"] is None


def test_an_interrupt_keeps_what_is_done(toys, bench, tmp_path):
    toys[2].leaves = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        bench()
    folder = tmp_path / "out"
    assert not (folder / "section-2.json").exists()
    assert records.read(folder / "section-1.json")["rows"]
    toys[2].leaves = Outcome([ROW])
    assert bench()[0] == 0
    assert [len(toy.settings) for toy in toys.values()] == [1, 2]


@pytest.mark.parametrize("content", ["{", "[]", json.dumps({"rows": []})])
def test_a_damaged_file_is_said_and_run_anew(toys, bench, tmp_path, content):
    bench()
    damaged = tmp_path / "out" / "section-1.json"
    damaged.write_text(content)
    code, _, err = bench()
    assert code == 0
    assert "(what was there is damaged: " in err
    assert records.read(damaged)["error"] is None


def test_a_record_that_is_no_section_is_run_anew(toys, bench, tmp_path):
    (tmp_path / "out").mkdir()
    records.write(tmp_path / "out" / "section-1.json", [ROW])
    assert "(what was there is damaged: " in bench()[2]


def test_every_module_with_a_section_is_in_the_suite():
    folder = Path(suite.__file__).parent
    sections = {file.stem for file in folder.glob("*.py") if re.search(r"^SECTION = ", file.read_text(), re.MULTILINE)}
    assert sections == set(suite.MODULES.values())


def test_any_section_may_be_imported_first():
    """None closes a circle of imports, which would fail if the section is run by itself or before another."""
    code = f"""import importlib, sys
for name in {list(suite.MODULES.values())}:
    for loaded in [module for module in sys.modules if module.startswith("benchmarks.sources")]:
        del sys.modules[loaded]
    importlib.import_module(f"benchmarks.sources.{{name}}")"""
    processes.finished(processes.start("-c", code))


# --- refusals --------------------------------------------------------------------------------------------


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit, match="2"):
        __main__.main(arguments)
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the following arguments are required: --out"),
        (("--out", "x", "--section", "2", "9"), "argument --section: invalid choice: 9"),
        (("--out", "x", "--section", "one"), "invalid int value: 'one'"),
    ],
)
def test_wrong_arguments(toys, capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert message in refusal(capsys, *arguments)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_a_file_is_refused(toys, capsys, tmp_path):
    (tmp_path / "file").write_text("mine")
    assert "File exists" in refusal(capsys, "--out", str(tmp_path / "file"))
    assert (tmp_path / "file").read_text() == "mine"
