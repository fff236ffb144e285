"""What docs/choosing.md says of methods and rules is what the records say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from docs.figures import choosing


def test_the_page_is_made_of_its_records() -> None:
    page = choosing.PAGE.read_text(encoding="utf-8")
    assert page == choosing.written(page, choosing.made())


def _row(name: str, n: int, losses: dict[tuple[str, str], float], draws: int = 10, d: int = 1) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for (method, rule), loss in losses.items():
        results.setdefault(method, {})[rule] = {"loss": loss, "choose_ms": 100 * loss, "ise": loss}
    row = {"op": "rule_of_thumb", "backend": "cpu", "shape": {"n": n, "d": d}, "density": name, "draws": draws}
    return row | {"took": {"sd": draws}, "results": results}


KDE, SD, SELECT = ("kde", "reference"), ("sd", "likelihood"), ("select", "folds")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Records of three cases of two groups, one of them twice."""
    runs = {
        "rule_of_thumb_a": [
            _row("normal", 100, {KDE: 0.3, SD: 0.2, SELECT: 0.25}),
            _row("bimodal", 1000, {KDE: 0.7, SD: 0.1, SELECT: 0.1}),
            _row("bimodal", 1000, {KDE: 9.0, SD: 0.1, SELECT: 0.1}, draws=2),
            {"op": "left_out", "what": "others"},
        ],
        "rule_of_thumb_b": [_row("iris", 120, {KDE: 4.0, SD: 3.5, SELECT: 3.0}, d=4)],
        "bias_order_a": [
            {
                "op": "bias_order",
                "arm": "infinite sample",
                "method": "kde",
                "theory": 2,
                "slope": 1.98,
                "shape": {"d": 1},
            }
        ],
    }
    for name, rows in runs.items():
        head = {"date": "", "commit": "", "machine": {}, "versions": {}, "command": ""}
        (tmp_path / f"{name}.json").write_text(json.dumps(head | {"rows": rows}))
    return tmp_path


def test_a_table_of_medians_and_worst_cases(folder: Path) -> None:
    lines = choosing.table(choosing.cases(choosing.records(choosing.STUDY, folder))).splitlines()
    assert lines[0] == "| | one scale, 1-D, few rows | real sets |"
    assert lines[2:] == [
        "| `select` | 0.025 (0.05) | **0.000 (0.00)** |",
        "| `kde`, `silverman` | 0.350 (0.60) | 1.000 (1.00) |",
        "| `sd_kde`, likelihood | **0.000 (0.00)** | 0.500 (0.50) |",
        "| **take by hand** | `sd_kde`, likelihood | `sd_kde`, likelihood |",
        "| cases | 2 | 1 |",
    ]


def test_what_stands_between_the_marks(folder: Path) -> None:
    text = choosing.made(folder)
    assert "On 1 cases of real sets `select` loses 0.000 nats in the median" in text
    assert "It takes sd 100% of the samples" in text
    assert "The bias of `kde` goes like h to the power 1.98 to 1.98 in d = 1; theory says 2." in text
    assert "`bias_order_a.json`" in text
    page = f"above\n{choosing.BEGIN}\nold\n{choosing.END}\nbelow\n"
    assert choosing.written(page, text) == f"above\n{text}\nbelow\n"


def test_figures_are_drawn(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    of = choosing.cases(choosing.records(choosing.STUDY, folder))
    for draw, words in ((choosing.draw_sets, "iris"), (choosing.draw_densities, "one scale, 1-D")):
        to = tmp_path / "figure.svg"
        draw(of, to)
        first = to.read_text()
        assert f"<!-- {words}" in first
        draw(of, to)
        assert to.read_text() == first
