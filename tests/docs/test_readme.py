"""README and docs/measured.md say what the records say: their tables are made of them, and pages name what is there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import readme
from benchmarks.chosen import CPU, GPU, Chosen
from benchmarks.readme import RESULTS, ROOT
from benchmarks.tools import records
from docs.figures import readme as figures_readme, sd_kde as figures_sd_kde
from tests.docs import code_blocks, test_docs

README = readme.README.read_text(encoding="utf-8")
MEASURED = readme.MEASURED.read_text(encoding="utf-8")
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
    """Cells of the long tables' line that a record of these rows gives."""
    machine = machine or {"cpu": "Intel(R) Xeon(R) Processor", "cores": 2, "gpu": "NVIDIA H200"}
    run = {"date": "2026-01-02T03:04:05+00:00", "commit": "", "machine": machine, "versions": {}, "command": ""}
    (folder / "run.json").write_text(json.dumps(run | {"rows": rows}))
    return readme.long_line(readme.row(CHOSEN, folder)).strip("| ").split(" | ")


def test_the_tables_are_those_of_the_records() -> None:
    assert readme.renewed(README, readme.short_table()) == README, "run python -m benchmarks.readme"
    assert readme.renewed(MEASURED, readme.long_tables()) == MEASURED, "run python -m benchmarks.readme"


def test_each_operation_is_chosen_on_both() -> None:
    assert {chosen.file.partition("/")[0].endswith(("_h200", "_h100")) for chosen in GPU} == {True}
    assert {chosen.file.endswith("_cpu") for chosen in CPU} == {True}
    assert len(GPU) + len(CPU) == readme.long_tables().count(".json` |")


def test_the_readme_has_a_few_rows_of_both_with_losses() -> None:
    rows = [readme.row(chosen) for chosen in GPU + CPU if chosen.in_readme]
    assert 6 <= len(rows) <= 8
    assert {found.ours["backend"] for found in rows} == {"cpu", "gpu"}
    assert sum(found.times_faster < 1 for found in rows) >= 2
    ratios = [line.rsplit("|", 2)[1] for line in readme.short_table().splitlines()[2:]]
    assert ratios == sorted(ratios, key=float, reverse=True)


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


def test_files_that_the_readme_links_are_there() -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", README):
        file, _, anchor = target.partition("#")
        if not target.startswith("https://"):
            to = ROOT / (file or "README.md")
            assert to.is_file(), target
            assert not anchor or anchor in test_docs.anchors(to), target


def test_the_quickstart_has_six_lines_and_another_one_for_a_gpu() -> None:
    first, second = [
        [line.partition("  #")[0] for line in block.code.splitlines() if line]
        for block in code_blocks.blocks(README)
        if block.language == "python"
    ]
    assert len(first) == 6
    assert not any("cupy" in line for line in first)
    assert [line for line in second if line not in first] == ["import cupy as cp", "X = cp.asarray(X)"]


def changed(folder: Path, change: Any) -> None:
    """Copy the records of the tables, that of Kendall's tau with other rows."""
    for name in {chosen.file for chosen in GPU + CPU}:
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


def test_the_best_rival_is_the_fastest_with_numbers(tmp_path: Path) -> None:
    rivals = [peer("slow", 9.0), peer("SciPy", 5.0, None), peer("overflows", 1.0, float("nan"))]
    cells = line(tmp_path, [OURS | {"peer": p} for p in [*rivals, {"name": "absent", "reason": "not installed"}]])
    source = "NVIDIA H200, 2026-01-02, `run.json`"
    assert cells[:5] == ["`kde`", "1,000 points", "float32", "2.00 ms", "4e-7"]
    assert cells[5:] == ["SciPy, on the CPU", "5.00 ms", "not recorded", "2.5", source]


def test_another_mode_of_the_best_rival_is_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "CHOSEN", CHOSEN._replace(also=("slow mode", "exactly")))
    cells = line(tmp_path, [OURS | {"peer": peer("fast", 3.0, 1e-1)}, OURS | {"peer": peer("slow mode", 5.0)}])
    assert cells[5:9] == ["fast; exactly 5.00 ms with 1e-6", "3.00 ms", "1e-1", "1.5"]


def test_rivals_are_those_of_the_same_backend_and_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "CHOSEN", CHOSEN._replace(backend="gpu"))
    rows = [
        OURS | {"backend": "cpu", "median_ms": 9.0, "seed": 0},
        OURS | {"peer": peer("CuPy", 4.0), "seed": 0},
        OURS | {"peer": peer("CuPy", 3.0), "seed": 1},
    ]
    assert line(tmp_path, rows)[3:7] == ["2.00 ms", "4e-7", "CuPy", "4.00 ms"]


def test_a_rival_that_was_not_called_as_it_should_be_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "CHOSEN", CHOSEN._replace(apart=("CuPy",)))
    cells = line(tmp_path, [OURS | {"peer": peer("CuPy", 3.0)}, OURS | {"peer": peer("PyTorch", 5.0)}])
    assert cells[5:9] == ["PyTorch", "5.00 ms", "1e-6", "2.5"]


def test_a_row_without_rivals(tmp_path: Path) -> None:
    machine = {"cpu": "AMD EPYC", "cores": 2}
    cells = line(tmp_path, [OURS | {"backend": "cpu"}], machine)
    assert [cell.strip() for cell in cells[5:]] == [
        *[""] * 4,
        "AMD, 2 cores, 2026-01-02, `run.json`",
    ]
    short = readme.short_line(readme.row(CHOSEN, tmp_path))
    assert short.startswith("| `kde`: 1,000 points, float32 | CPU, [AMD, 2 cores](benchmarks/results/run.json) |")


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
        readme.renewed("# cukde\n", "table")


def test_the_command_writes_the_tables(tmp_path: Path) -> None:
    pages = tmp_path / "README.md", tmp_path / "measured.md"
    for page in pages:
        page.write_text(f"before\n{readme.BEGIN}\noutdated\n{readme.END}\nafter\n", encoding="utf-8")
    readme.main(*pages)
    for page, table in zip(pages, (readme.short_table(), readme.long_tables()), strict=True):
        assert page.read_text(encoding="utf-8") == f"before\n{readme.BEGIN}\n\n{table}\n\n{readme.END}\nafter\n"


def test_records_that_pages_name_are_there() -> None:
    for page in PAGES:
        named = re.findall(
            r"`?(?:benchmarks/results/)?(\w+_(?:h100|h200|cpu|growth|study)\.json)`?", page.read_text("utf-8")
        )
        assert [name for name in named if not (RESULTS / name).is_file()] == [], page.name


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run = records.read(RESULTS / "over_n_cpu.json")
    figures_readme.draw(run, tmp_path / "small.svg", points=5000, cells=60)
    drawn = (tmp_path / "small.svg").read_text(encoding="utf-8")
    largest = max(row["difference_max"] for row in run["rows"])
    assert f"differ by at most {readme.power(largest)}" in drawn
    assert largest < 1e-9
    assert "(docs/readme.png)" in README.replace("\n", " ")
    assert 10_000 < (ROOT / "docs" / "readme.png").stat().st_size < 300_000


def test_the_density_of_the_picture() -> None:
    X = figures_readme.attractor(20_001)
    assert X.shape == (20_001, 2)
    p, (x, y) = figures_readme.density(X, cells=150, h=0.05)
    assert p.sum() * (x[1] - x[0]) * (y[1] - y[0]) == pytest.approx(1, abs=0.01)


@pytest.fixture(scope="module")
def spiral() -> figures_sd_kde.Spiral:
    return figures_sd_kde.spiral(1500, cells=100)


def test_the_picture_of_sd_kde(tmp_path: Path, spiral: figures_sd_kde.Spiral) -> None:
    pytest.importorskip("matplotlib")
    figures_sd_kde.draw(records.read(RESULTS / "sd_kde_h200.json"), tmp_path / "small.png", spiral)
    assert (tmp_path / "small.png").stat().st_size > 10_000
    assert "(sd_kde.png)" in (ROOT / "docs" / "sd_kde.md").read_text(encoding="utf-8")
    assert 10_000 < (ROOT / "docs" / "sd_kde.png").stat().st_size < 300_000


def test_the_densities_of_that_picture(spiral: figures_sd_kde.Spiral) -> None:
    assert spiral.error_sd < spiral.best_error_of_kde < spiral.error_kde
    cell = (2 * 3.5 / 99) ** 2
    assert spiral.true.sum() * cell == pytest.approx(1, abs=0.01)
    assert spiral.sd.sum() * cell == pytest.approx(1, abs=0.01)
