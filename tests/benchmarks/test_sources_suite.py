"""``python -m benchmarks.sources``: sections are run, resumed and reported, by toy sections; figures and formats."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.sources import __main__, drawing, formats, report, section_file, suite
from benchmarks.sources.section import Figure, Outcome, Section, Series, Setting, Table
from benchmarks.tools import calibration, compare, records
from cukde.cli import info
from tests import processes

ROOT = Path(__file__).resolve().parents[2]
NO_GPU = "no driver for <a GPU> & its friends"
ROW = {"op": "kde", "backend": "cpu", "shape": {"n": 8}, "dtype": "float32", "precision": "float32", "median_ms": 1.5}
LINES = Figure(
    "Time & <size>",
    "points $n$",
    "time, ms",
    [
        Series("cukde, `kde`", [1024, 2048, 4096], [1.0, None, 9.0], [0.9, 0.9, 8.0], [1.1, 1.2, 11.0]),
        Series("rival", [1024, 2048, 4096], [2.0, 4.0, float("nan")]),
        Series("absent", [1024, 2048, 4096], [None] * 3),
    ],
    log_x=True,
    log_y=True,
    caption="Bands: three <seeds>.",
)
TIMES = Table(
    "Times | of <everything>",
    ["n", "CPU, ms", "GPU, ms"],
    [[2048, 0.31049, NO_GPU], [65536, 1082.3, NO_GPU], [1, 1.2345e-5, None]],
    note="Medians of `kde`.",
)


CALIBRATION = {"cpu": {"copy": {"median_ms": 3.0}}}


class Toy:
    """A section that counts its runs, and leaves or raises what it is told to."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.settings: list[Setting] = []
        self.leaves: Outcome | BaseException = Outcome(
            [ROW | {"rel_err_max": np.float32(0.5)}], [TIMES], [], [f"Finding {number}: 1 < 2 & `a*b`."]
        )
        self.SECTION = Section(number, f"Toy {number} <b>", "Table 2 & figure 1", self.run)

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
    monkeypatch.setattr(records, "machine", lambda: {"cpu": "a <CPU>", "cores": 2})
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


def test_a_run_leaves_records_and_reports(toys, bench, tmp_path):
    code, out, err = bench("--quick")
    folder = tmp_path / "out"
    assert code == 0
    assert out == f"Report: {folder / 'report.html'}\nReport: {folder / 'report.md'}\n"
    assert [toy.settings for toy in toys.values()] == [[Setting(True, NO_GPU)]] * 2
    assert re.fullmatch(r"section 1, toy1: [\d.]+ s\nsection 2, toy2: [\d.]+ s\n", err)
    assert sorted(file.name for file in folder.iterdir()) == [
        "report.html", "report.md", "section-1.json", "section-2.json"
    ]  # fmt: skip
    record = records.read(folder / "section-1.json")
    assert record["rows"] == [ROW | {"rel_err_max": 0.5}]
    there = section_file.read(folder / "section-1.json")
    assert (there.number, there.title, there.quick, there.no_gpu, there.error) == (1, "Toy 1 <b>", True, NO_GPU, None)
    assert there.outcome.tables == [TIMES]
    assert there.seconds >= 0


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
    toys[2].leaves = Outcome([ROW | {"median_ms": 1.7}])
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


def test_what_another_run_left_is_said_where_one_section_is_run(toys, bench):
    bench()
    _, _, err = bench("--section", "2", "--quick")
    assert "section 2, toy2: run anew, as what is there is of another run: sizes full, not quick\n" in err
    assert "section 1, toy1: not run, though what is there is of another run: sizes full, not quick\n" in err


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
        (lambda patch: patch.setattr(records, "machine", lambda: {"cpu": "new", "cores": 2}) or [], "<CPU>, not new"),
        (lambda patch: patch.setattr(records, "_versions", lambda: {"numpy": "9"}) or [], "numpy 2.4, not 9"),
    ],
    ids=["quick", "commit", "machine", "versions"],
)
def test_what_another_run_left_is_said_and_run_anew(toys, bench, monkeypatch, change, said):
    bench()
    code, _, err = bench(*change(monkeypatch))
    assert code == 0
    assert err.count("run anew, as what is there is of another run: ") == 2
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
    error = section_file.read(tmp_path / "out" / "section-1.json").error
    assert error is not None
    assert error.startswith("ValueError: density is off by 3e-2 in data.npy (test_sources_suite.py, line ")
    assert error in err
    for page in ("report.html", "report.md"):
        assert "density is off by 3e-2" in (tmp_path / "out" / page).read_text()
    toys[1].leaves = Outcome([ROW])
    code, _, err = bench()
    assert code == 0
    assert "section 1, toy1: run anew, as what is there failed" in err
    assert [len(toy.settings) for toy in toys.values()] == [2, 1]


def test_a_traceback_is_printed_on_request(toys, tmp_path, capsys):
    toys[2].leaves = ZeroDivisionError("by nothing")
    assert __main__.main(["--traceback", "--out", str(tmp_path)]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("leaves", "error"),
    [
        (Outcome([{"op": object()}]), "TypeError: rows, tables and figures hold numbers and texts; got a object"),
        (ModuleNotFoundError("No module named 'pandas'", name="pandas"), "the package pandas is not installed: pip"),
        (SystemExit("enough"), "SystemExit: enough"),
    ],
    ids=["no-json", "no-package", "exit"],
)
def test_what_a_section_cannot_leave_is_its_failure(toys, bench, tmp_path, leaves, error):
    toys[1].leaves = leaves
    assert bench()[0] == 1
    assert str(section_file.read(tmp_path / "out" / "section-1.json").error).startswith(error)
    assert section_file.read(tmp_path / "out" / "section-2.json").error is None


def test_a_module_of_another_number_is_a_failure(toys, bench, monkeypatch, tmp_path):
    monkeypatch.setitem(suite.MODULES, 2, "toy1")
    assert bench()[0] == 1
    error = section_file.read(tmp_path / "out" / "section-2.json").error
    assert "SECTION of toy1.py must have the number 2; got 1" in str(error)


def test_an_interrupt_keeps_what_is_done(toys, bench, tmp_path):
    toys[2].leaves = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        bench()
    folder = tmp_path / "out"
    assert not (folder / "section-2.json").exists()
    assert "Finding 1" in (folder / "report.html").read_text()
    toys[2].leaves = Outcome([ROW])
    assert bench()[0] == 0
    assert [len(toy.settings) for toy in toys.values()] == [1, 2]


@pytest.mark.parametrize("content", ["{", "[]", json.dumps({"rows": []})])
def test_a_damaged_file_is_said_and_run_anew(toys, bench, tmp_path, content):
    bench()
    damaged = tmp_path / "out" / "section-1.json"
    damaged.write_text(content)
    report.write(tmp_path / "out")
    assert "Left out: " in (tmp_path / "out" / "report.md").read_text()
    code, _, err = bench()
    assert code == 0
    assert "section 1, toy1: run anew, as what is there is damaged: " in err
    assert section_file.read(damaged).error is None


def test_a_record_that_is_no_section_is_refused(tmp_path):
    records.write(tmp_path / "section-1.json", [ROW])
    with pytest.raises(ValueError, match=r"section-1\.json must be what a section of this suite left"):
        section_file.read(tmp_path / "section-1.json")


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


# --- the report ------------------------------------------------------------------------------------------

_VOID = {"meta", "br", "hr", "img", "link"}


class Page(HTMLParser):
    """What a page has: every tag is closed in its turn; texts, ids and whatever an attribute refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.references: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            elif name in ("href", "xlink:href", "src", "srcset", "data", "action"):
                self.references.append(value)
            self.references += re.findall(r"url\(([^)]*)\)", value or "")

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.references += re.findall(r"url\(([^)]*)\)|(@import)", data)
        else:
            self.text += data


def test_the_page_needs_nothing_else_and_shows_texts_as_they_are(toys, bench, tmp_path):
    toys[1].leaves = Outcome([ROW], [TIMES], [LINES, LINES], ["1 < 2 & `<code>`"])
    bench()
    text = (tmp_path / "out" / "report.html").read_text()
    page = Page(text)
    assert page.tags.isdisjoint({"script", "link", "img", "iframe", "object", "b>"})
    assert all(reference.startswith("#") for reference in page.references)
    assert {reference[1:] for reference in page.references} <= set(page.ids)
    assert len(set(page.ids)) == len(page.ids)  # two figures of the same marks share none
    first, second = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert first.replace("f1-1-", "f1-2-") == second  # the same numbers make the same figure
    for part in (NO_GPU, "Toy 1 <b>", "Times | of <everything>", "1 < 2 & <code>", "a <CPU>, 2 cores", "abc1234"):
        assert part in page.text
    assert "Bands: three <seeds>. Without a value: absent." in page.text
    assert "<code>&lt;code&gt;</code>" in text
    assert "prefers-color-scheme: dark" in text
    assert '<td class="right">1,082</td>' in text
    assert '<td class="soft">[a]</td>' in text
    assert f"[a] {NO_GPU}" in page.text


def test_the_page_in_markdown_has_its_figures_beside_it(toys, bench, tmp_path):
    folder = tmp_path / "out"
    figure = Figure("A *figure*", "x", "y", [Series("a", [1, 2], [1.0, 2.0])])
    toys[1].leaves = Outcome([ROW], [TIMES], [figure], ["1 < 2 & `a|b`\nand *so* on"])
    bench()
    text = (folder / "report.md").read_text()
    assert r"- 1 \< 2 \& `a\|b` and \*so\* on" in text
    assert r"**Table 1.1.** Times \| of \<everything\>" in text
    assert "| n | CPU, ms | GPU, ms |\n| ---: | ---: | --- |\n| 2,048 | 0.310 | \\[a\\] |" in text
    (file,) = re.findall(r"!\[A \\\*figure\\\*\]\((.*)\)", text)
    drawn = ElementTree.parse(folder / file).getroot()
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    toys[1].leaves = Outcome([ROW])
    bench("--section", "1")
    assert not (folder / file).exists()  # no figure of another run stays


def test_a_section_of_another_run_says_so_in_the_report(toys, bench, monkeypatch, tmp_path):
    bench()
    monkeypatch.setattr(records, "source", lambda: {"commit": "def5678"})
    bench("--section", "2", "--quick")
    for name in ("report.html", "report.md"):
        text = (tmp_path / "out" / name).read_text()
        assert "Not all sections come from the same machine, commit and sizes" in text
        assert "Of another run: commit def5678, not abc1234; sizes quick, not full." in text
        assert "Quick sizes" in text


def test_a_machine_with_a_gpu_is_described(toys, bench, monkeypatch, tmp_path):
    monkeypatch.setattr(info, "gpu", lambda: (True, "available"))
    monkeypatch.setattr(suite, "_release", lambda setting: None)
    clocks = {"sm_clock_mhz": 1755, "sm_clock_max_mhz": 1980}
    machine = {"cpu": "a CPU", "cores": 16, "gpu": "NVIDIA H200", "driver": "580.1", "cuda": "13.0"} | clocks
    monkeypatch.setattr(records, "machine", lambda: machine)
    bench()
    assert toys[1].settings == [Setting(False, None)]
    text = (tmp_path / "out" / "report.md").read_text()
    for row in (
        "| GPU | NVIDIA H200 |",
        "| Driver | 580.1 |",
        "| SM clock | 1,755 MHz when it ended, 1,980 MHz at most |",
    ):
        assert row in text


def test_without_matplotlib_the_tables_stand(toys, bench, monkeypatch, tmp_path):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name))
    toys[1].leaves = Outcome([ROW], [TIMES], [LINES])
    code, _, err = bench()
    assert code == 0
    assert err.startswith("note: no figures without Matplotlib: pip install 'matplotlib>=3.8'")
    page = Page((tmp_path / "out" / "report.html").read_text())
    assert "svg" not in page.tags
    assert "Not drawn, since there is no Matplotlib" in page.text
    assert "Times | of <everything>" in page.text


def test_the_report_is_made_of_the_files_alone(toys, bench, tmp_path):
    bench()
    file = tmp_path / "out" / "report.md"
    before = file.read_text()
    file.unlink()
    report.write(tmp_path / "out")
    assert file.read_text() == before


def test_no_report_of_nothing(tmp_path):
    assert not report.write(tmp_path)
    assert not list(tmp_path.iterdir())


# --- figures, tables and numbers -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "figure",
    [
        Figure("Points", "x", "y", [Series("a", [1, 2], [1.0, 2.0], [0.5, 1.0], [2.0, 3.0])], kind="points"),
        Figure("By name", "set", "y", [Series("a", ["iris", "wine"], [1.0, None])]),
        Figure("Bars", "x", "y", [Series("a", ["u", 2], [1.0, None]), Series("b", ["u", 2], [3, 4.0])], kind="bars"),
        Figure(
            "Lying bars",
            "x",
            "y",
            [Series(name, ["a long name " * 3, "b" * 40], [1.0, 20.0], [0.5, 10.0], [2.0, 30.0]) for name in "ab"],
            kind="bars",
            log_y=True,
        ),
    ],
    ids=lambda figure: figure.title,
)
def test_figures_are_drawn(figure):
    drawn = drawing.svg(figure)
    assert drawn is not None
    assert ElementTree.fromstring(drawn).tag.endswith("svg")


def test_a_figure_without_a_value_is_not_drawn():
    figure = Figure("None", "x", "y", [Series("a", [1, 2], [None, float("nan")])])
    assert drawing.svg(figure) is None
    assert drawing.undrawn(figure) == ["a"]


def test_series_differ_without_their_colours():
    looks = [(drawing._MARKERS[k % len(drawing._MARKERS)], k % len(drawing._DASHES)) for k in range(35)]
    assert len(set(looks)) == len(looks)


def test_a_table_and_a_series_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="a row must have 2 cells"):
        Table("T", ["a", "b"], [[1, 2], [3]])
    with pytest.raises(ValueError, match=r"must be as many; got \[1, 2\]"):
        Series("s", [1, 2], [1.0])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0, "0"),
        (1_048_576, "1,048,576"),
        (-3, "−3"),
        (0.31049, "0.310"),
        (-36.04, "−36.0"),
        (999.7, "1,000"),
        (65536.0, "65,536"),
        (0.001234, "0.00123"),
        (1.2345e-5, "1.23×10⁻⁵"),
        (4.13e12, "4.13×10¹²"),
        (-2e-9, "−2.00×10⁻⁹"),
        (float("nan"), "not a number"),
        (float("-inf"), "−∞"),
        (True, "yes"),
    ],
)
def test_numbers(value, text):
    assert formats.number(value) == text


def test_durations():
    assert [formats.duration(s) for s in (0.123, 8.1, 41.6, 200)] == ["0.12 s", "8.1 s", "42 s", "3 min 20 s"]
    assert formats.duration(59.7) == "1 min 0 s"


def test_only_reasons_that_are_long_and_repeated_go_below_a_table():
    table = Table("T", ["name", "x"], [["a name that is quite long, once", 1], ["b", "short"], ["c", "short"]])
    laid = formats.layout(table)
    assert laid.reasons == []
    assert laid.numeric == [False, True]
    assert laid.rows[0][0] == formats.Written("a name that is quite long, once", "text")
    assert laid.rows[1][1] == formats.Written("short", "reason")
