"""``python -m benchmarks.sources``: sections are run, kept and resumed, by toy sections."""

from __future__ import annotations

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
from tests.private import cli_info as info

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


def test_every_module_with_a_section_is_in_the_suite():
    folder = Path(suite.__file__).parent
    sections = {file.stem for file in folder.glob("*.py") if re.search(r"^SECTION = ", file.read_text(), re.MULTILINE)}
    assert sections == set(suite.MODULES.values())


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
