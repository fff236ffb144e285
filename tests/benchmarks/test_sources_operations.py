"""Section 8 of the sources' suite, small: what it leaves with and without a GPU, and that nothing wrong is timed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks.sources import operations
from benchmarks.sources.section import Outcome, Setting
from cukde import perf
from tests.benchmarks import untimed

REASON = "no GPU is here"
CPU = perf.Peaks("two cores", "cpu", {"memory": 2e10, "fma": 1e11, "scalar": 6e9}, 0.0, 2, 3e9, 2**25, (0, 0), "here")
H200 = perf.peaks("H200")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of a test, and made-up times but those of perf.explain."""
    sizes = operations.QUICK._replace(
        matrices=((3, 20), (5, 30)),
        pairs=(40, 60),
        points=500,
        pieces=((16, 2), (9, 3)),
        rows=(2, 3, 40),
        long_rows=((1, 2, 300), 70),
        taps=(4,),
        every=True,
        seconds=1e-3,
    )
    monkeypatch.setattr(operations, "QUICK", sizes)
    monkeypatch.setattr(operations, "_WITH_PANDAS", 3)
    monkeypatch.setattr(perf, "peaks", lambda gpu=None: CPU if gpu == "cpu" else H200)
    untimed.use(monkeypatch)


def _check(found: Outcome) -> None:
    """Whatever is there can be printed and kept."""
    assert json.loads(json.dumps(found.rows)) == found.rows
    for table in found.tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}, table.title
    for row in found.rows:
        assert "median_ms" in row or "reason" in row["peer"]
        assert row.get("rel_err_max", 0) <= 1e-5


@pytest.mark.long
def test_without_a_gpu(small: None) -> None:
    found = operations.SECTION.run(Setting(quick=True, no_gpu=REASON))
    _check(found)
    assert operations.SECTION.number == 8
    assert {row["backend"] for row in found.rows} == {"cpu"}
    ops = {row["op"] for row in found.rows}
    assert ops == {"matrix", "kendalltau", "piecewise", "forward", "input grad", "weight grad"}
    assert {row["peer"]["name"] for row in found.rows if "peer" in row} == {
        "pandas",
        "SciPy",
        "SciPy correlate1d",
        "SciPy oaconvolve",
    }
    with_pandas = {row["shape"]["p"] for row in found.rows if row["op"] == "matrix" and "peer" in row}
    assert with_pandas == {3}  # five columns are ten pairs: too many for it


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("kendall_matrix", lambda A: np.eye(A.shape[1]) / 2),
        ("PiecewisePolynomial", lambda c, knots: lambda x: 0 * x),
        ("depthwise_conv1d", lambda x, w, **_: 0 * x),
    ],
)
def test_a_wrong_result_is_refused(small: None, monkeypatch: pytest.MonkeyPatch, name: str, wrong: Any) -> None:
    monkeypatch.setattr(cukde, name, wrong)
    with pytest.raises(ArithmeticError, match=r"must be right to .* mend it"):
        operations.run(Setting(quick=True, no_gpu=REASON))
