"""The page of intervals has the numbers of the records, and they cover as it says."""

from __future__ import annotations

from docs.figures import intervals


def test_the_table_is_that_of_the_records() -> None:
    text = intervals.PAGE.read_text("utf-8")
    assert intervals.page_with(text) == text, "run python -m docs.figures.intervals"


def test_intervals_cover() -> None:
    shares = [row["ours"] for row in intervals.rows() if row["op"] == "density_interval"]
    assert len(shares) >= 18
    assert min(shares) >= 0.93
    assert max(shares) <= 0.97
