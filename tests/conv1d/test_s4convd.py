"""The study at the sizes of S4ConvD by the model: what is changed is what changes, and the record is of this model."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.conv1d import s4convd
from benchmarks.tools import records

RECORD = Path(__file__).parents[2] / "benchmarks" / "results" / "conv_study_p100_model.json"
ROWS = list(s4convd.modelled())


def test_rows() -> None:
    assert [row["op"] for row in ROWS[:2]] == ["peaks", "peaks"]
    stages = ROWS[2:]
    assert len(stages) == (len(s4convd.ASSUMPTIONS) + 3) * 15
    assert all(row["modelled"] and "median_ms" not in row for row in stages)
    assert all(row["predicted_ms"] >= max(row["units_ms"].values()) for row in stages)
    assert all(row["requested_bytes"] >= row["bytes"] for row in stages)


def test_every_load_by_channel_is_a_sector() -> None:
    """Of 48 outputs of a row: (1 + 48) / 2 inputs on average, 48 taps, and the output, 32 bytes each."""
    (row,) = (
        row
        for row in ROWS[2:]
        if (row["op"], row["assumption"]) == ("study.conv1d_forward", s4convd.NOTHING_KEPT)
        and row["shape"]["variant"] == "naive"
    )
    assert row["requested_bytes"] == 32 * 8192 * 128 * 48 * (24.5 + 48 + 1)


def test_the_record_is_of_this_model() -> None:
    recorded = records.read(RECORD)["rows"]
    assert len(recorded) == len(ROWS)
    for was, now in zip(recorded[2:], ROWS[2:], strict=True):
        assert was["shape"] == now["shape"]
        assert was["predicted_ms"] == pytest.approx(now["predicted_ms"]), "run python -m benchmarks.conv1d.s4convd"
