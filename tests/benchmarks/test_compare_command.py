"""``python -m benchmarks.tools.compare`` on made-up runs: what is a regression, and what is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tools.compare import main

RUN: dict[str, Any] = {
    "date": "2026-01-01",
    "commit": "abc",
    "machine": {"gpu": "a GPU", "driver": "1", "cores": 2},
    "versions": {"numpy": "2.0"},
    "command": "python -m pytest benchmarks",
}


def row(median: float = 10.0, op: str = "kde", spread: float = 0.01, **others: Any) -> dict[str, Any]:
    """A measurement; ``spread`` is a part of its time."""
    named = {"op": op, "backend": "cpu", "shape": {"n": 8, "d": 2}, "dtype": "float32", "precision": "float32"}
    times = {"median_ms": median, "q1_ms": median * (1 - spread), "q3_ms": median * (1 + spread), "runs": 9}
    return named | times | {"rel_err_max": 1e-6} | others


def calibration(cpu: float = 1.0, gpu: float = 1.0, copy: float = 1.0, drift: float = 1.0) -> dict[str, Any]:
    """What a machine takes that is so many times slower than another, the copies of both by ``copy`` more."""

    def kernel(median: float) -> dict[str, float]:
        return {"median_ms": median, "low_ms": 0.998 * median, "high_ms": 1.002 * median, "drift": drift}

    both = {name: {"copy": kernel(80 * by * copy), "exponential": kernel(90 * by)} for name, by in [("gpu", gpu)]}
    one = {"copy": kernel(200 * cpu * copy), "exponential": kernel(90 * cpu), "exponential_1_thread": kernel(150 * cpu)}
    return both | {"cpu": one}


class Files:
    """Records in a folder, and the command over them."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys

    def write(self, name: str, rows: list[dict[str, Any]], of: dict[str, Any] | None = None, **others: Any) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        measured = {} if of is None else {"calibration": of}
        path.write_text(json.dumps(RUN | {"rows": rows} | measured | others))
        return path

    def compare(self, old: Path, new: Path, *options: str) -> tuple[int, str]:
        code = main([str(old), str(new), *options])
        out, err = self._capsys.readouterr()
        assert err == ""
        return code, out

    def refusal(self, old: Path, new: Path) -> str:
        assert main([str(old), str(new)]) == 2
        out, err = self._capsys.readouterr()
        assert out == ""
        assert err.startswith("error: ")
        assert len(err.splitlines()) == 1
        return err

    def runs(
        self, old: list[dict[str, Any]], new: list[dict[str, Any]], *options: str, before: Any = None, after: Any = None
    ) -> tuple[int, str]:
        """Compare runs of such rows."""
        return self.compare(self.write("old.json", old, before), self.write("new.json", new, after), *options)


@pytest.fixture
def files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Files:
    return Files(tmp_path, capsys)


# --- time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("median", "options", "code"),
    [
        (11.2, (), 1),
        (10.8, (), 0),
        (8.0, (), 0),
        (10.8, ("--threshold", "5"), 1),
        (11.2, ("--threshold", "15"), 0),
        (10.3, ("--threshold", "0"), 1),
        (10.1, ("--threshold", "0"), 0),  # the spreads overlap
    ],
)
def test_a_regression_is_above_the_threshold(files: Files, median: float, options: tuple[str, ...], code: int) -> None:
    quiet = calibration()
    found, out = files.runs([row()], [row(median)], *options, before=quiet, after=quiet)
    assert found == code
    assert out.splitlines()[-1].startswith("1 regression in 1 measurement: " if code else "no regressions in 1 ")
    assert ("slower" in out.splitlines()[2]) == bool(code)


def test_what_is_printed(files: Files) -> None:
    old = [row(op="same"), row(op="faster"), row(op="slower"), row(op="wrong")]
    new = [row(10.5, "same"), row(5.0, "faster"), row(13.0, "slower"), row(op="wrong", rel_err_max=5e-6)]
    code, out = files.runs(old, new, before=calibration(), after=calibration())
    assert code == 1
    assert out.splitlines() == [
        "cpu times are normalised: calibration, new / old: copy 1.000, exponential 1.000, exponential_1_thread 1.000",
        "operation       sizes    arithmetic  old, ms  new, ms  new/old  normalised",
        "slower     cpu  n=8 d=2  float32          10       13    1.300       1.300  slower",
        "wrong      cpu  n=8 d=2  float32          10       10    1.000       1.000          "
        "error 1.0e-06 -> 5.0e-06 worse",
        "faster     cpu  n=8 d=2  float32          10        5    0.500       0.500  faster",
        "1 slower, 1 faster, 2 within the spread or 10%, 1 with a worse error; new / old 0.909 on average (geometric), "
        "normalised 0.909",
        "",
        "2 regressions in 4 measurements: slower by more than 10 percent, or an error more than twice the old one",
    ]


# --- machines --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("bound", [None, "memory", "exponential"])
def test_a_slower_machine_is_no_regression(files: Files, device: str, bound: str | None) -> None:
    of = {"backend": device, "bound": bound}
    before, after = calibration(), calibration(**{device: 1.2})
    assert files.runs([row(**of)], [row(12.0, **of)], before=before, after=after)[0] == 0
    code, out = files.runs([row(**of)], [row(1.12 * 12.0, **of)], before=before, after=after)
    assert code == 1
    assert "1.344       1.120  slower" in out
    # The other backend's calibration says nothing about it.
    after = calibration(**{"gpu" if device == "cpu" else "cpu": 1.2})
    assert files.runs([row(**of)], [row(12.0, **of)], before=before, after=after)[0] == 1


def test_memory_that_became_slower_excuses_what_it_binds(files: Files) -> None:
    """Of a row that does not say what binds it, the slower of both is taken: it may be bound by either."""
    before, after = calibration(), calibration(copy=1.3)
    for bound, code in (("memory", 0), ("exponential", 1), (None, 0)):
        runs = [row(bound=bound)], [row(12.0, bound=bound)]
        assert files.runs(*runs, before=before, after=after)[0] == code, bound
    assert files.runs([row()], [row(15.0)], before=before, after=after)[0] == 1


def test_calibrations_that_are_not_there(files: Files) -> None:
    slower = [row()], [row(12.0)]
    for before, after, which in (
        (None, None, "old and new"),
        (calibration(), None, "new"),
        (None, calibration(cpu=1.2), "old"),
        ({"gpu": calibration()["gpu"]}, calibration(cpu=1.2), "old"),
    ):
        code, out = files.runs(*slower, before=before, after=after)
        assert code == 1
        assert f"cpu times are compared as they were measured: no cpu calibration in the {which} run\n" in out
        assert "normalised" not in out
    assert files.runs([row()], [row(10.5)])[0] == 0


# --- errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (1e-6, 2.1e-6, 1),
        (1e-6, 2e-6, 0),
        (1e-6, 1e-9, 0),
        (1e-6, float("nan"), 1),
        (1e-6, float("inf"), 1),
        (0.0, 4e-16, 0),  # what the references themselves are off by
        (0.0, 1e-12, 1),
        (float("nan"), 1.0, 0),
        (None, 1.0, 0),
    ],
)
def test_errors_that_became_worse(files: Files, old: float | None, new: float, code: int) -> None:
    found, out = files.runs([row(rel_err_max=old)], [row(5.0, rel_err_max=new)])
    assert found == code
    assert (" worse" in out) == bool(code)


# --- rows and files --------------------------------------------------------------------------------------


def test_folders_are_compared_file_by_file(files: Files) -> None:
    for folder, slow in (("old", 1.0), ("new", 1.5)):
        files.write(f"{folder}/a.json", [row(10.0 * slow)])
        files.write(f"{folder}/b.json", [row(20.0)])
        files.write(f"{folder}/{folder}_alone.json", [row(30.0)])
        (files.folder / folder / "report.md").write_text("no record")
    code, out = files.compare(files.folder / "old", files.folder / "new")
    assert code == 1
    lines = out.splitlines()
    a, b = lines.index("a.json:"), lines.index("b.json:")
    assert any("1.500  slower" in line for line in lines[a:b])
    assert not any("slower " in line for line in lines[b : b + 3] if "0 slower" not in line)
    assert f"only in {files.folder / 'old'}: old_alone.json" in lines
    assert f"only in {files.folder / 'new'}: new_alone.json" in lines
    assert lines[-1].startswith("1 regression in 2 measurements")
    assert files.compare(files.folder / "old", files.folder / "old")[0] == 0


def test_nothing_to_compare_is_no_success(files: Files) -> None:
    old, new = files.write("old.json", [row()]), files.write("new.json", [row(op="other")])
    assert "no measurement is in both" in files.refusal(old, new)
    first, second = files.write("one/a.json", [row()]).parent, files.write("two/b.json", [row()]).parent
    assert "no .json file is in both" in files.refusal(first, second)
    assert "one is a folder, the other is none" in files.refusal(first, old)
    assert "one is a folder, the other is none" in files.refusal(old, first)


def damaged(**others: Any) -> str:
    """A run with one row that something is wrong with."""
    return json.dumps(RUN | {"rows": [row() | others]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "it is no JSON", id="nothing"),
        pytest.param("\xff", "it is no JSON", id="bytes"),
        pytest.param("[]", "got a list", id="a list"),
        pytest.param("{}", "it has no date, commit, machine, versions, command, rows", id="no parts"),
        pytest.param(json.dumps(RUN | {"rows": [1]}), "rows are not all dictionaries", id="rows of numbers"),
        pytest.param(damaged(median_ms="soon"), "median_ms of a row of the new run must be a finite", id="a text"),
        pytest.param(damaged(median_ms=True), "median_ms of a row of the new run must be a finite", id="a boolean"),
        pytest.param(damaged(median_ms=float("nan")), "median_ms of a row of the new run must be a finite", id="NaN"),
        pytest.param(damaged(q1_ms=[1]), "q1_ms of a row of the new run must be a finite number", id="quartiles"),
        pytest.param(damaged(shape=[8]), "the shape of a row of the new run must be a dictionary", id="sizes"),
        pytest.param(damaged(peer=[8]), "the peer of a row of the new run must be a dictionary", id="a rival"),
        pytest.param(damaged(peer={"median_ms": -1}), "median_ms of a rival of the new run", id="a rival's time"),
        pytest.param(damaged(rel_err_max="small"), "rel_err_max of a row of the new run must be", id="an error"),
        pytest.param(
            json.dumps(RUN | {"rows": [row()], "calibration": {"cpu": 1}}), "calibrate returned", id="calibration"
        ),
    ],
)
def test_malformed_files(files: Files, text: str, message: str) -> None:
    old, new = files.write("old.json", [row()]), files.folder / "new.json"
    new.write_bytes(text.encode("latin-1"))
    refused = files.refusal(old, new)
    assert message in refused
    assert "new.json" in refused
