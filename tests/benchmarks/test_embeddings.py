"""The benchmark of embeddings: its data, the density of axes and rest, bounds, levels, rows and figure."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.decomposition import PCA

from benchmarks.density import bench_embeddings, embedding_detectors, embeddings
from benchmarks.density.embedding_axes import Axes, own_share
from benchmarks.density.embedding_detectors import DETECTORS
from benchmarks.density.embeddings import Draw
from tests import reference

RNG = np.random.default_rng(0)
MIXED = RNG.standard_normal((3, 24)) * np.array([[4.0], [2.0], [1.0]])  # three directions of 24


def rows(n: int, seed: int, centre: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    along = (centre + rng.standard_normal((n, 3))) @ MIXED
    return (along + 0.1 * rng.standard_normal((n, 24))).astype(np.float32)


def small(d: int, seed: int) -> Draw:
    """Rows near a plane, and others off it."""
    off = 2 * np.random.default_rng(seed + 50).standard_normal((40, 24)).astype(np.float32)
    return Draw(rows(150, seed), rows(40, seed + 100), rows(40, seed + 200, 1.0) + off)


class TestData:
    def test_docstrings_of_a_package(self) -> None:
        found = embeddings.docstrings("cukde.kendall")
        assert len(set(found)) == len(found) > 1
        assert any("Kendall" in text for text in found)
        assert min(map(len, found)) >= embeddings.SHORTEST

    def test_filtered_by_loops(self) -> None:
        pictures = RNG.standard_normal((2, 8, 9, 3))
        found = embeddings.filtered(pictures, 12)
        filters = np.random.default_rng(0).standard_normal((75, 3)) / np.sqrt(75)
        seen = np.array(
            [
                [
                    [np.maximum(p[i : i + 5, j : j + 5].transpose(2, 0, 1).ravel() @ filters, 0) for j in range(5)]
                    for i in range(4)
                ]
                for p in pictures
            ]
        )
        quarters = [seen[:, i, j].mean(axis=(1, 2)) for i in (np.s_[:2], np.s_[2:]) for j in (np.s_[:2], np.s_[2:])]
        np.testing.assert_allclose(found, np.concatenate(quarters, axis=1), atol=1e-5)

    def test_squares_of_a_picture(self) -> None:
        picture = np.arange(5 * 7 * 2).reshape(5, 7, 2)
        found = embeddings.in_squares(picture, 2)
        assert found.shape == (6, 2, 2, 2)
        np.testing.assert_array_equal(found[4], picture[2:4, 2:4])


class TestAxes:
    X = rows(200, 0).astype(np.float64)
    Y = rows(20, 1).astype(np.float64)
    FITTED = PCA(svd_solver="full").fit(X)

    def test_coordinates_and_distance(self) -> None:
        axes = Axes.of(self.FITTED, 3)
        of_scikit = PCA(3, svd_solver="full").fit(self.X)
        np.testing.assert_allclose(axes.along(self.Y), of_scikit.transform(self.Y), atol=1e-10)
        left = self.Y - of_scikit.inverse_transform(of_scikit.transform(self.Y))
        np.testing.assert_allclose(axes.distance(self.Y), np.linalg.norm(left, axis=1), atol=1e-10)
        assert axes.explained == pytest.approx(of_scikit.explained_variance_ratio_.sum())

    def test_the_density_of_all_columns_sums_to_one(self) -> None:
        axes = Axes(np.zeros(2), np.array([[0.6, 0.8]]), np.array([4.0]), 1.0, 0.5)
        z, log_r = np.linspace(-9, 9, 181), np.linspace(-8, 6, 281)
        total = 0.0
        for side in (-1, 1):
            along, r = np.meshgrid(2 * z, np.exp(log_r), indexing="ij")
            at = along.ravel()[:, None] * [0.6, 0.8] + side * r.ravel()[:, None] * [-0.8, 0.6]
            columns = axes.columns(at)
            log_f = multivariate_normal([0.5, -0.3], [[0.5, 0.2], [0.2, 0.7]]).logpdf(columns)
            cells = 2 * (z[1] - z[0]) * (log_r[1] - log_r[0]) * r.ravel()
            total += (np.exp(axes.of_all_columns(log_f, columns)) * cells).sum()
        assert total == pytest.approx(1, abs=1e-6)

    @pytest.mark.parametrize(("left", "area"), [(1, 2.0), (2, 2 * np.pi), (3, 4 * np.pi)])
    def test_area_of_the_rest(self, left: int, area: float) -> None:
        axes = Axes(np.zeros(left + 1), np.eye(left + 1)[:1], np.ones(1), 1.0, 0.5)
        found = axes.of_all_columns(np.zeros(1), np.array([[0.0, np.log(2.0)]]))
        assert np.exp(-found[0]) == pytest.approx(area * 2.0**left)

    def test_normal(self) -> None:
        axes = Axes.of(self.FITTED, 3)
        covariance = axes.rest * np.eye(24) + axes.axes.T @ np.diag(axes.variances - axes.rest) @ axes.axes
        want = multivariate_normal(axes.mean, covariance).logpdf(self.Y)
        np.testing.assert_allclose(axes.normal(self.Y), want, rtol=1e-9)
        assert np.trace(covariance) == pytest.approx(np.trace(np.cov(self.X.T)))

    @pytest.mark.parametrize(("k", "h"), [(1, 2.0), (3, 2.0), (3, 0.5), (20, 1.0)])
    def test_bounds_hold(self, k: int, h: float) -> None:
        low, high = Axes.of(self.FITTED, k).bounds(self.X, self.Y, h)
        want = reference.log_kde(self.X, self.Y, h)
        assert (low <= want + 1e-9).all()
        assert (want <= high + 1e-9).all()
        assert (low < high).all()

    def test_own_share(self) -> None:
        X, h = self.X[:30], 0.3 * self.X.std(axis=0)
        terms = np.exp(-0.5 * (((X[:, None] - X) / h) ** 2).sum(axis=2))
        assert own_share(X, h) == pytest.approx(np.median(1 / terms.sum(axis=1)), rel=1e-9)


class TestDetectors:
    DRAW = small(24, 0)
    AXES = Axes.of(bench_embeddings.principal(DRAW.fitted), 3)

    @pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.name)
    def test_anomalies_have_low_scores(self, detector: embedding_detectors.Detector) -> None:
        found = detector.score(self.DRAW, self.AXES, 0)
        assert found.scores.shape == (80,)
        numbers = bench_embeddings.quality(self.DRAW, found)
        least = {"KDE of the axes": 0.6}.get(detector.name, 0.85)  # which do not see what is off their plane
        assert numbers["auroc"] > least
        assert numbers["average_precision"] > least
        error = bench_embeddings.error(detector, found)
        assert (error is not None) == (detector.density == "kde")

    def test_a_wrong_density_is_not_kept(self) -> None:
        detector = DETECTORS[0]
        found = detector.score(self.DRAW, self.AXES, 0)
        with pytest.raises(AssertionError):
            bench_embeddings.error(detector, found._replace(scores=found.scores + 0.01))


def test_a_level_holds_for_new_rows() -> None:
    """Of all places that a new score may have among 39, two are below the level: 5% of 40."""
    scores = np.arange(39.0)
    assert bench_embeddings.level(scores) == 1.0
    assert sum(new < bench_embeddings.level(scores) for new in np.arange(-0.5, 39)) / 40 == 0.05
    assert bench_embeddings.level(scores[:18]) == -np.inf


def test_bounds_are_held_against_the_density() -> None:
    draw = small(24, 2)
    pca = bench_embeddings.principal(draw.fitted)
    log_p = reference.log_kde(draw.fitted, draw.queries, 1.5)
    numbers = bench_embeddings.of_axes(draw, pca, 4, 1.5, log_p)
    assert 0 < numbers["certain"] <= 1
    assert numbers["width"] > 0
    with pytest.raises(ArithmeticError, match="within the bounds of 4 axes"):
        bench_embeddings.of_axes(draw, pca, 4, 1.5, log_p + 100)
