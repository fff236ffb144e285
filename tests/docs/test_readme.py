"""The README says what the records say: its tables are made of them, and pages name records that are there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import readme
from benchmarks.figures import readme as figures_readme
from benchmarks.readme import CPU, GPU, RESULTS, ROOT, Chosen
from cukde import perf

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CHOSEN = Chosen("`kde`", "run", "kde", {"d": 2}, "float32", "{n:,} points")
OURS = {
    "op": "kde",
    "backend": "gpu",
    "shape": {"n": 1000, "d": 2},
    "dtype": "float32",
    "precision": "float32",
    "median_ms": 2.0,
    "rel_err_max": 3.6e-7,
}


def peer(name: str, ms: float, error: float | None = 1e-6) -> dict[str, Any]:
    return {"name": name, "median_ms": ms, "rel_err_max": error}


def line(folder: Path, rows: list[dict[str, Any]], machine: dict[str, Any] | None = None) -> list[str]:
    """Cells of the table's row that a record of these rows gives."""
    machine = machine or {"cpu": "Intel(R) Xeon(R) Processor", "cores": 2, "gpu": "NVIDIA H200"}
    run = {"date": "2026-01-02T03:04:05+00:00", "commit": "", "machine": machine, "versions": {}, "command": ""}
    (folder / "run.json").write_text(json.dumps(run | {"rows": rows}))
    return readme.row(CHOSEN, folder).strip("| ").split(" | ")


def test_the_tables_are_those_of_the_records() -> None:
    assert readme.renewed(README) == README, "run python -m benchmarks.readme"


def test_each_operation_is_chosen_on_both() -> None:
    assert {chosen.file.endswith(("_h200", "_h100")) for chosen in GPU} == {True}
    assert {chosen.file.endswith("_cpu") for chosen in CPU} == {True}
    assert len(GPU) + len(CPU) == readme.tables().count("](benchmarks/results/")


def changed(folder: Path, change: Any) -> None:
    """Copy the records of the tables, that of Kendall's tau with other rows."""
    for name in {chosen.file for chosen in GPU + CPU}:
        run = json.loads((RESULTS / f"{name}.json").read_text())
        if name == "kendall_cpu":
            change(run["rows"])
        (folder / f"{name}.json").write_text(json.dumps(run))


def test_another_time_is_another_table(tmp_path: Path) -> None:
    def slower(rows: list[dict[str, Any]]) -> None:
        for r in rows:
            r["median_ms"] *= 1.1

    changed(tmp_path, lambda rows: None)
    assert readme.renewed(README, tmp_path) == README
    changed(tmp_path, slower)
    assert readme.renewed(README, tmp_path) != README


def test_a_row_that_is_gone_is_an_error(tmp_path: Path) -> None:
    changed(tmp_path, lambda rows: rows.clear())
    with pytest.raises(LookupError, match=r"kendall_cpu\.json has no row of kendalltau"):
        readme.renewed(README, tmp_path)


def test_the_best_rival_is_the_fastest_with_numbers(tmp_path: Path) -> None:
    rivals = [peer("slow", 9.0), peer("SciPy", 5.0, None), peer("overflows", 1.0, float("nan"))]
    cells = line(tmp_path, [OURS | {"peer": p} for p in [*rivals, {"name": "absent", "reason": "not installed"}]])
    source = "[NVIDIA H200, 2026-01-02](benchmarks/results/run.json)"
    assert cells[:5] == ["`kde`", "1,000 points", "float32", "2.00 ms", "4e-7"]
    assert cells[5:] == ["SciPy, on the CPU", "5.00 ms", "not recorded", "2.5", source]


def test_a_rival_that_was_not_called_as_it_should_be_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "CHOSEN", CHOSEN._replace(apart=("CuPy",)))
    cells = line(tmp_path, [OURS | {"peer": peer("CuPy", 3.0)}, OURS | {"peer": peer("PyTorch", 5.0)}])
    assert cells[5:9] == ["PyTorch", "5.00 ms", "1e-6", "2.5"]


def test_a_row_without_rivals(tmp_path: Path) -> None:
    machine = {"cpu": "AMD EPYC", "cores": 2}
    cells = line(tmp_path, [OURS], machine)
    assert [cell.strip() for cell in cells[5:]] == [
        *[""] * 4,
        "[AMD, 2 cores, 2026-01-02](benchmarks/results/run.json)",
    ]


@pytest.mark.parametrize(
    "other",
    [{"op": "score"}, {"precision": "tf32"}, {"timing": "graph"}, {"rel_err_max": None}, {"shape": {"n": 1, "d": 3}}],
    ids=lambda other: next(iter(other)),
)
def test_other_rows_are_not_the_chosen(tmp_path: Path, other: dict[str, Any]) -> None:
    with pytest.raises(LookupError):
        line(tmp_path, [OURS | other])
    assert line(tmp_path, [OURS | other | {"median_ms": 1.0}, OURS])[3] == "2.00 ms"


@pytest.mark.parametrize(
    ("ms", "said"), [(0.03541, "0.0354 ms"), (12.34, "12.3 ms"), (345.9, "346 ms"), (4705.2, "4.71 s")]
)
def test_times_have_three_digits(tmp_path: Path, ms: float, said: str) -> None:
    assert line(tmp_path, [OURS | {"median_ms": ms}])[3] == said


@pytest.mark.parametrize(
    ("ms", "said"), [(1.9934, "1.00"), (0.8, "0.40"), (12.0, "6.0"), (96.4, "48"), (9000.0, "4,500")]
)
def test_ratios_have_two_digits(tmp_path: Path, ms: float, said: str) -> None:
    assert line(tmp_path, [OURS | {"peer": peer("other", ms)}])[8] == said


def test_a_page_without_marks_is_an_error() -> None:
    with pytest.raises(ValueError, match="wants the lines"):
        readme.renewed("# cukde\n")


def test_the_command_writes_the_tables(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"before\n{readme.BEGIN}\noutdated\n{readme.END}\nafter\n", encoding="utf-8")
    readme.main(page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith(f"{readme.END}\nafter\n")
    assert "outdated" not in text
    assert readme.tables() in text


def test_records_that_pages_name_are_there() -> None:
    for page in PAGES:
        named = re.findall(
            r"`?(?:benchmarks/results/)?(\w+_(?:h100|h200|cpu|growth|study)\.json)`?", page.read_text("utf-8")
        )
        assert [name for name in named if not (RESULTS / name).is_file()] == [], page.name


@pytest.fixture(scope="module")
def spiral() -> figures_readme.Spiral:
    return figures_readme.spiral(1500, cells=100)


def test_the_picture(tmp_path: Path, spiral: figures_readme.Spiral) -> None:
    pytest.importorskip("matplotlib")
    figures_readme.draw(perf.read_record(RESULTS / "sd_kde_h200.json"), tmp_path / "small.png", spiral)
    assert (tmp_path / "small.png").stat().st_size > 10_000
    assert "(docs/sd_kde.png)" in README
    assert 10_000 < (ROOT / "docs" / "sd_kde.png").stat().st_size < 300_000


def test_the_density_of_the_picture(spiral: figures_readme.Spiral) -> None:
    assert spiral.error_sd < spiral.best_error_of_kde < spiral.error_kde
    cell = (2 * 3.5 / 99) ** 2
    assert spiral.true.sum() * cell == pytest.approx(1, abs=0.01)
    assert spiral.sd.sum() * cell == pytest.approx(1, abs=0.01)
