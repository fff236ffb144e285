"""The study of a rival's own densities: its errors are those of ours where it computes the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.sources import flash_errors, one_bandwidth
from benchmarks.sources.oracle_mixture import Mixture


def halved(op: str) -> Callable[..., Any]:
    return lambda X, Y, h: flash_errors.ours(op)(X, Y, h) / 2


@pytest.mark.long
def test_rows_of_two_programs() -> None:
    oracle = Mixture.standardised(2, 3)
    rows = list(flash_errors.study([500], {"the same": flash_errors.ours, "half": halved}, 1000, oracle))
    assert [row["op"] for row in rows[::3]] == list(flash_errors.OPS)
    for own, same, half in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        assert (own["mise"], own["miae"], own["cut"]) == (same["mise"], same["miae"], same["cut"])
        assert own["apart"] == same["apart"] == 0 < half["apart"]
        assert half["miae"] > own["miae"]
    assert rows[0]["cut"] == 0 < rows[6]["cut"] < 0.1
    kde = next(one_bandwidth.study_16d([500], 2000, "no GPU in this test", oracle))
    assert rows[0]["miae"] == pytest.approx(kde["miae_by_oracle"], rel=0.1)
