"""The short examples: each runs, and finds what it says it does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from examples import anomaly_detection, density_ratio, rapids_pipeline, torch_dlpack
from tests import reference
from tests.array_api import Tensor
from tests.conftest import why_no_gpu


class TestAnomalyDetection:
    def test_low_densities_are_anomalies_as_often_as_by_scikit_learn(self, capsys: pytest.CaptureFixture[str]) -> None:
        found = anomaly_detection.main()
        assert found.auroc > 0.95
        assert found.auroc > found.auroc_of_sklearn - 0.005
        assert found.flagged == 18  # 5% of 378
        assert found.malignant >= 10  # one would be, of rows drawn at random
        assert f"sd_kde {found.auroc:.4f}" in capsys.readouterr().out

    def test_the_area_is_that_of_scikit_learn(self) -> None:
        metrics = pytest.importorskip("sklearn.metrics", reason="install the test extra")
        rng = np.random.default_rng(0)
        scores, positive = rng.integers(0, 9, 50), rng.random(50) < 0.3
        assert anomaly_detection.auroc(scores, positive) == pytest.approx(metrics.roc_auc_score(positive, scores))

    def test_labels_are_not_seen(self) -> None:
        X, _ = anomaly_detection.tumours()
        log_p, flagged = anomaly_detection.detect(X)
        assert log_p[flagged].max() < log_p[~flagged].min()


def test_density_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    found = density_ratio.main(8000)
    np.testing.assert_allclose(found.log_ratios, found.true_log_ratios, atol=0.2)  # standard error 0.06
    assert found.error < 0.25
    assert abs(found.plain_mean - found.mean) > 0.5
    assert abs(found.weighted_mean - found.mean) < 0.1
    assert "root mean square error" in capsys.readouterr().out


def test_true_densities_of_the_example() -> None:
    """Of one cluster alone it is the density of a point by a kernel of bandwidth 1."""
    Y = np.array([[0.3, -0.7], [2.0, 2.0]])
    want = reference.log_kde(density_ratio.CENTRES[:1], Y, 1.0)
    np.testing.assert_allclose(density_ratio.true_log_density(Y, np.array([1.0, 0.0])), want, rtol=1e-12)


def check_journeys(frame: Any, unusual: int, n: int) -> None:
    """Of a pandas frame: the rows that took ten times as long stand out given their distance."""
    made = set(range(0, n, 1000))
    assert set(frame.nsmallest(len(made), "given_distance").index) == made
    assert unusual == frame["unusual"].sum() <= 0.002 * n + 1
    rows = frame[rapids_pipeline.COLUMNS].to_numpy()
    assert np.isfinite(frame["log_density"]).all()
    assert rows.shape == (n, 2)


def test_rapids_pipeline_on_pandas() -> None:
    n = 3000
    table = pd.DataFrame(rapids_pipeline.journeys(n))
    found = rapids_pipeline.with_densities(table)
    check_journeys(found.frame, found.unusual, n)
    assert list(table.columns) == ["driver", "minutes", "kilometres"]  # as it was


def test_rapids_pipeline() -> None:
    pytest.importorskip("cudf", reason="cuDF is not installed: this example is for a machine with RAPIDS")
    if reason := why_no_gpu():
        pytest.skip(reason)
    found = rapids_pipeline.main(3000)
    check_journeys(found.frame.to_pandas(), found.unusual, 3000)


def check_climb(ended: np.ndarray, log_density: np.ndarray) -> None:
    """All points are at one of the two modes."""
    assert (ended.dtype, log_density.dtype) == (np.float32, np.float32)
    modes = np.array([[-2.0, 0.0], [2.0, 0.0]])
    assert np.abs(ended[:, None] - modes).max(axis=2).min(axis=1).max() < 0.15
    data, _ = torch_dlpack.clusters()
    np.testing.assert_allclose(log_density, reference.log_kde(data, ended, torch_dlpack.BANDWIDTH), rtol=1e-5)


def test_arrays_by_dlpack() -> None:
    data, points = map(Tensor, torch_dlpack.clusters())
    found = torch_dlpack.climb(data, points)
    check_climb(found.ended.kept, found.log_density.kept)
    assert found.begun is points


def test_torch_tensors() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: no part of this library needs it")
    found = torch_dlpack.main()
    check_climb(found.ended.cpu().numpy(), found.log_density.cpu().numpy())
