"""Steps of training as they are timed, with few points."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install cukde[torch]")


@pytest.mark.long
def test_rows_have_errors_times_and_losses(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks.gradients import bench_training

    monkeypatch.setattr(bench_training, "_CHECKED", (100, 10))
    given = ["--device", "cpu", "--rows", "300", "--queries", "40", "--steps", "3"]
    rows = bench_training.main(given)
    assert [(row["op"], row["peer"]["name"]) for row in rows] == [
        (f"training: {case}", name) for case in ("bandwidth", "map") for name in ("PyTorch", "torch-kde", "PyKeOps")
    ]
    assert all(row["rel_err_max"] < 1e-3 and row["loss_after"] < row["loss_before"] for row in rows)
    assert "times PyTorch" in capsys.readouterr().out
