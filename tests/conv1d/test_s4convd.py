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


def test_the_p100_is_that_of_the_source() -> None:
    p100, h200 = s4convd.processors()
    assert (p100.capability, p100.multiprocessors) == ((6, 0), 56)
    assert (p100.rate("memory"), p100.rate("fma")) == (7.32e11, 9.3e12)
    assert p100.rate("cache") == 1.624e12
    assert h200.source.startswith("measured")


def test_a_change_concerns_what_it_names() -> None:
    def times(assumption: str) -> dict[str, float]:
        return {v: s4convd.milliseconds(ROWS, s4convd.P100, v, assumption) for v in s4convd.VARIANTS}

    plain = times(s4convd.AS_COUNTED)
    nothing_kept = times(s4convd.NOTHING_KEPT)
    assert {v for v in plain if nothing_kept[v] != plain[v]} == {"naive"}
    later = times(s4convd.LATER_CACHE)
    assert later["naive"] > plain["naive"]
    assert all(later[v] < plain[v] for v in s4convd.VARIANTS[1:])
    assert all(times("half the instructions a second")[v] > plain[v] > times("half the latency")[v] for v in plain)


def test_every_load_by_channel_is_a_sector() -> None:
    """Of 48 outputs of a row: (1 + 48) / 2 inputs on average, 48 taps, and the output, 32 bytes each."""
    (row,) = (
        row
        for row in ROWS[2:]
        if (row["op"], row["assumption"]) == ("study.conv1d_forward", s4convd.NOTHING_KEPT)
        and row["shape"]["variant"] == "naive"
    )
    assert row["requested_bytes"] == 32 * 8192 * 128 * 48 * (24.5 + 48 + 1)


def test_factor() -> None:
    last, naive = (s4convd.milliseconds(ROWS, s4convd.P100, v) for v in ("warp-tiled", "naive"))
    assert s4convd.factor(ROWS, s4convd.P100, "naive") == naive / last
    assert f"warp-tiled {naive / last:.2f} and " in s4convd.table(ROWS)
    with pytest.raises(LookupError, match="expected 3 paths of warp-tiled on P100 PCIe, no such; got 0"):
        s4convd.factor(ROWS, s4convd.P100, "naive", "no such")


def test_the_record_is_of_this_model() -> None:
    recorded = records.read(RECORD)["rows"]
    assert len(recorded) == len(ROWS)
    for was, now in zip(recorded[2:], ROWS[2:], strict=True):
        assert was["shape"] == now["shape"]
        assert was["predicted_ms"] == pytest.approx(now["predicted_ms"]), "run python -m benchmarks.conv1d.s4convd"
