"""README and docs/measured.md say what the records say: their tables are made of them, and pages name what is there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import random_calls, readme
from benchmarks.chosen import CPU, GPU, Chosen
from benchmarks.readme import RESULTS, ROOT
from benchmarks.tools import records
from docs.figures import readme as figures_readme, sd_kde as figures_sd_kde
from tests.docs import code_blocks, test_docs

README = readme.README.read_text(encoding="utf-8")
MEASURED = readme.MEASURED.read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CHOSEN = Chosen("`kde`", "run", "kde", {"d": 2}, "float32", "{n:,} points")


def line(folder: Path, rows: list[dict[str, Any]], machine: dict[str, Any] | None = None) -> list[str]:
    """Cells of the long tables' line that a record of these rows gives."""
    machine = machine or {"cpu": "Intel(R) Xeon(R) Processor", "cores": 2, "gpu": "NVIDIA H200"}
    run = {"date": "2026-01-02T03:04:05+00:00", "commit": "", "machine": machine, "versions": {}, "command": ""}
    (folder / "run.json").write_text(json.dumps(run | {"rows": rows}))
    return readme.long_line(readme.row(CHOSEN, folder)).strip("| ").split(" | ")


def test_the_tables_are_those_of_the_records() -> None:
    assert readme.renewed(README, readme.short_table()) == README, "run python -m benchmarks.readme"
    assert readme.renewed(MEASURED, readme.long_tables()) == MEASURED, "run python -m benchmarks.readme"
    assert readme.renewed(MEASURED, readme.random_section(), readme.RANDOM) == MEASURED, (
        "run python -m benchmarks.readme"
    )


def test_the_readme_has_a_few_rows_of_both_with_losses() -> None:
    rows = [readme.row(chosen) for chosen in GPU + CPU if chosen.in_readme]
    assert 6 <= len(rows) <= 8
    assert {found.ours["backend"] for found in rows} == {"cpu", "gpu"}
    assert sum(found.times_faster < 1 for found in rows) >= 2
    drawn, chosen = (readme.short_table().splitlines()[2:][part] for part in (slice(2), slice(2, None)))
    assert all("random calls]" in line and "; worst " in line and "slower " in line for line in drawn)
    ratios = [line.rsplit("|", 2)[1] for line in chosen]
    assert ratios == sorted(ratios, key=float, reverse=True)


class TestRandomCalls:
    @pytest.fixture
    def calls(self, tmp_path: Path) -> random_calls.Calls:
        def rows(seed: int, d: int, ours: float, **rivals: float) -> list[dict[str, Any]]:
            shape = {"seed": seed, "n": 3000, "m": 20, "d": d, "data": "normal", "factor": 0.5, "option": ""}
            about = {"op": "kde", "dtype": "float32", "precision": "float32", "backend": "cpu", "shape": shape}
            about |= {"median_ms": ours, "error_over_promise": 0.1}
            peers = [{"name": name, "median_ms": ms, "error_over_promise": 2.0} for name, ms in rivals.items()]
            return [about | {"peer": peer} for peer in [*peers, {"name": "absent", "reason": "not installed"}]]

        machine = {"cpu": "Intel(R) Xeon(R) Processor", "cores": 2}
        run = {"date": "2026-01-02T03:04:05+00:00", "commit": "", "machine": machine, "versions": {}, "command": ""}
        all_rows = [*rows(1, 100, 4.0, NumPy=2.0, SciPy=9.0), *rows(2, 3, 0.5, SciPy=0.4), *rows(3, 3, 2.0, NumPy=8.0)]
        for file in random_calls.FILES:
            (tmp_path / f"{file}.json").write_text(json.dumps(run | {"rows": [*all_rows, *rows(4, 3, 2.0)]}))
        return random_calls.read("any_cpu", tmp_path)

    def test_each_call_is_beside_its_fastest_rival(self, calls: random_calls.Calls) -> None:
        assert [random_calls.ratio(row) for row in calls.rows] == [0.5, 0.8, 4.0]
        assert random_calls.to_whom(calls) == "slower than NumPy in 1, than SciPy in 1"
        assert random_calls.where(calls) == (
            "Of the 1 calls with more than 64 columns it is slower in 1, of the 1 others that take less than 1 ms in "
            "1, and of the remaining 1 in none."
        )
        assert random_calls.errors(calls) == (
            "No results of cukde have errors beyond its bounds; of the fastest rivals', 3 have."
        )

    def test_the_line_and_the_section(self, calls: random_calls.Calls, tmp_path: Path) -> None:
        assert readme.random_line(calls).split(" | ")[3:] == [
            "all within bounds",
            "NumPy or SciPy; slower than NumPy in 1, than SciPy in 1",
            "2.00 ms",
            "beyond those bounds in 3",
            "0.80; worst 0.50 |",
        ]
        found = readme.random_section(tmp_path)
        assert "is 0.80 times faster" in found
        assert "| `kde`, float32 | 3,000 | 20 | 100 | normal | 0.50 | 4.00 ms | NumPy | 2.00 ms | 0.50 |" in found


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 130


def test_files_that_the_readme_links_are_there() -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", README):
        file, _, anchor = target.partition("#")
        if not target.startswith("https://"):
            to = ROOT / (file or "README.md")
            assert to.is_file(), target
            assert not anchor or anchor in test_docs.anchors(to), target


def test_the_readme_opens_with_three_lines_and_a_quickstart_with_another_one_for_a_gpu() -> None:
    plot, calls, gpu = [
        [line.partition("  #")[0] for line in block.code.splitlines() if line]
        for block in code_blocks.blocks(README)
        if block.language == "python"
    ]
    assert len([line for line in plot if "import" not in line]) == 3
    assert len(calls) <= 7
    assert not any("cupy" in line for line in plot + calls)
    assert gpu == ["import cupy as cp", "X, Y = cp.asarray(X), cp.asarray(Y)"]


def changed(folder: Path, change: Any) -> None:
    """Copy the records of the tables, that of Kendall's tau with other rows."""
    for name in {chosen.file for chosen in GPU + CPU} | {*random_calls.FILES}:
        run = json.loads((RESULTS / f"{name}.json").read_text())
        if name == "kendall_cpu":
            change(run["rows"])
        file = folder / f"{name}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(run))


def test_another_time_is_another_table(tmp_path: Path) -> None:
    def slower(rows: list[dict[str, Any]]) -> None:
        for r in rows:
            r["median_ms"] *= 1.1

    for table in (readme.short_table, readme.long_tables):
        changed(tmp_path, lambda rows: None)
        assert table(tmp_path) == table()
        changed(tmp_path, slower)
        assert table(tmp_path) != table()


def test_a_row_that_is_gone_is_an_error(tmp_path: Path) -> None:
    changed(tmp_path, lambda rows: rows.clear())
    with pytest.raises(LookupError, match=r"kendall_cpu\.json has no row of kendalltau"):
        readme.long_tables(tmp_path)


def test_records_that_pages_name_are_there() -> None:
    for page in PAGES:
        named = re.findall(
            r"`?(?:benchmarks/results/)?(\w+_(?:h100|h200|cpu|growth|study)\.json)`?", page.read_text("utf-8")
        )
        assert [name for name in named if not (RESULTS / name).is_file()] == [], page.name


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run = records.read(RESULTS / "over_n_cpu.json")
    figures_readme.draw(run, tmp_path / "small.svg")
    drawn = (tmp_path / "small.svg").read_text(encoding="utf-8")
    largest = max(row["difference_max"] for row in run["rows"])
    assert f"differ by at most {readme.power(largest)}" in drawn
    assert largest < 1e-9
    assert "(docs/readme.png)" in README.replace("\n", " ")
    assert 10_000 < (ROOT / "docs" / "readme.png").stat().st_size < 300_000


@pytest.fixture(scope="module")
def spiral() -> figures_sd_kde.Spiral:
    return figures_sd_kde.spiral(1500, cells=100)


def test_the_picture_of_sd_kde(tmp_path: Path, spiral: figures_sd_kde.Spiral) -> None:
    pytest.importorskip("matplotlib")
    figures_sd_kde.draw(records.read(RESULTS / "sd_kde_h200.json"), tmp_path / "small.png", spiral)
    assert (tmp_path / "small.png").stat().st_size > 10_000
    assert "(sd_kde.png)" in (ROOT / "docs" / "sd_kde.md").read_text(encoding="utf-8")
    assert 10_000 < (ROOT / "docs" / "sd_kde.png").stat().st_size < 300_000
