"""What is asked of Nsight Compute about the sources' own kernels, without a GPU."""

from __future__ import annotations

import pytest

from benchmarks.sources import kernels

_PRINTED = """==PROF== Disconnected
"ID","Kernel Name","dram__bytes_read.sum","smsp__average_warp_latency_per_inst_issued.ratio",\
"smsp__average_warps_issue_stalled_wait_per_issue_active.ratio","launch__grid_size","sm__throughput.avg.pct"
"","","byte","","","","%"
"0","piecewise_variant","1,000.5","16","4","9","n/a"
"""


def test_counters_are_read() -> None:
    assert kernels.parsed(_PRINTED) == {
        "dram__bytes_read.sum": 1000.5,
        "smsp__average_warp_latency_per_inst_issued.ratio": 16,
        "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": 4,
    }
    with pytest.raises(ValueError, match="ncu counted no launch: nothing, an error"):
        kernels.parsed("nothing", ", an error")


def test_stalls_are_parts_of_the_time_of_an_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [*kernels.COUNTED]
    monkeypatch.setattr(kernels, "counted", lambda name: kernels.parsed(_PRINTED if name == names[0] else ""))
    first, *others = kernels.counters()
    assert first["stalls"] == {"wait": 0.25}
    assert first["cycles_an_instruction"] == 16
    assert "stalls {'wait': 0.25}" in kernels.text(first)
    assert len(others) == len(names) - 1
    assert all("ncu counted no launch" in row["reason"] for row in others)


def test_tiles_have_those_of_the_source() -> None:
    assert kernels.OWN in kernels.TILES
    assert len(set(kernels.TILES)) == len(kernels.TILES)
    assert any(tile[:2] == kernels.SMALL for tile in kernels.TILES)
