"""The benchmark of embeddings: its data, the density of axes and rest, bounds, levels, rows and figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.decomposition import PCA

from benchmarks import record
from benchmarks.density import bench_embeddings, embedding_detectors, embeddings, embeddings_page
from benchmarks.density.embedding_axes import Axes, how_many, own_share
from benchmarks.density.embedding_detectors import DETECTORS
from benchmarks.density.embeddings import Draw, Set
from benchmarks.tools import records
from docs.figures import embeddings as figure
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

    @pytest.mark.parametrize("name", ["no_such_package", "typing"])  # and a module, which lies among others
    def test_no_package(self, name: str) -> None:
        with pytest.raises(ModuleNotFoundError, match=f"expected the package {name}"):
            embeddings.docstrings(name)

    def test_texts_are_those_of_scikit_learn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

        words = ["density", "kernel", "array", "sample", "axis"]
        given = {name: [" ".join(RNG.choice(words, 12)) for _ in range(4)] for name in embeddings.PACKAGES}
        monkeypatch.setattr(embeddings, "docstrings", given.__getitem__)
        monkeypatch.setattr(
            embeddings, "_parts", lambda chosen, *_: (np.flatnonzero(chosen), np.arange(4), np.arange(4))
        )
        embeddings._counts.cache_clear()
        embeddings._folded.cache_clear()
        found = embeddings.texts(96, 2).fitted
        embeddings._counts.cache_clear()
        embeddings._folded.cache_clear()
        hashed = HashingVectorizer(
            analyzer="char_wb", ngram_range=(3, 5), n_features=96, norm=None, alternate_sign=False
        ).transform(given[embeddings.PACKAGES[2]])
        np.testing.assert_allclose(found, TfidfTransformer().fit_transform(hashed).toarray(), atol=1e-6)

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

    @pytest.mark.parametrize("of", embeddings.SETS[1:3], ids=lambda of: of.name)
    def test_digits(self, of: Set) -> None:
        draw = of.draw(64, 3)
        assert draw.ordinary.shape == draw.anomalies.shape
        assert draw.fitted.dtype == np.float32
        assert (draw.fitted.std(axis=0) > 0).all()
        assert draw.anomaly.sum() == len(draw.queries) / 2
        assert not (draw.fitted[:, None] == draw.ordinary[None, :20]).all(axis=2).any()
        np.testing.assert_array_equal(of.draw(64, 3).fitted, draw.fitted)

    def test_constant_columns_are_left_out(self) -> None:
        draw = Draw(np.array([[1.0, 2.0], [1.0, 3.0]]), np.zeros((1, 2)), np.ones((1, 2))).varying()
        assert [part.shape for part in draw] == [(2, 1), (1, 1), (1, 1)]


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

    def test_bounds_meet_where_nothing_is_left(self) -> None:
        flat = self.X.copy()
        flat[:, 3:] = 0
        low, high = Axes.of(PCA(svd_solver="full").fit(flat), 3).bounds(flat, flat[:9], 1.0)
        np.testing.assert_allclose(low, reference.log_kde(flat, flat[:9], 1.0), atol=1e-6)
        np.testing.assert_allclose(low, high, atol=1e-6)

    def test_how_many(self) -> None:
        shares = np.cumsum(self.FITTED.explained_variance_ratio_)
        k = how_many(self.FITTED, 1000)
        assert shares[k - 1] >= 0.9 > (shares[k - 2] if k > 1 else 0)
        assert how_many(self.FITTED, 10) == 1

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

    def test_no_logarithm_ranks_last(self) -> None:
        np.testing.assert_array_equal(np.argsort(embedding_detectors.finite(np.array([2.0, np.nan, -5.0]))), [1, 2, 0])


def test_a_level_holds_for_new_rows() -> None:
    """Of all places that a new score may have among 39, two are below the level: 5% of 40."""
    scores = np.arange(39.0)
    assert bench_embeddings.level(scores) == 1.0
    assert sum(new < bench_embeddings.level(scores) for new in np.arange(-0.5, 39)) / 40 == 0.05
    assert bench_embeddings.level(scores[:18]) == -np.inf


def test_alarms() -> None:
    draw = small(24, 1)
    found = bench_embeddings.alarms(draw, bench_embeddings.principal(draw.fitted), 3)
    assert set(found) == {"KDE of axes and rest", "the rest alone"}
    for numbers in found.values():
        assert numbers["found"] > 0.8
        assert numbers["false_alarms"] < 0.3


def test_bounds_are_held_against_the_density() -> None:
    draw = small(24, 2)
    pca = bench_embeddings.principal(draw.fitted)
    log_p = reference.log_kde(draw.fitted, draw.queries, 1.5)
    numbers = bench_embeddings.of_axes(draw, pca, 4, 1.5, log_p)
    assert 0 < numbers["certain"] <= 1
    assert numbers["width"] > 0
    with pytest.raises(ArithmeticError, match="within the bounds of 4 axes"):
        bench_embeddings.of_axes(draw, pca, 4, 1.5, log_p + 100)


def test_summary() -> None:
    found = bench_embeddings.summary([{"a": 1.0, "b": None}, {"a": 3.0, "b": 1.0}, {"a": 2.0, "b": 1.0}])
    assert found == {"a_q1": 1.5, "a": 2.0, "a_q3": 2.5, "b_q1": None, "b": None, "b_q3": None}


def test_rows_of_a_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_embeddings, "DRAWS", 2)
    monkeypatch.setattr(bench_embeddings, "NUMBERS_OF_AXES", (2, 8))
    kept: list[dict[str, Any]] = []
    of = Set("a plane", small, "")
    bench_embeddings.bench_detectors(kept.append, of, 24)
    bench_embeddings.bench_axes(kept.append, of)
    bench_embeddings.bench_modes(kept.append, of)
    bench_embeddings.bench_normal_columns(kept.append)
    assert [row["op"] for row in kept[: len(DETECTORS)]] == [detector.name for detector in DETECTORS]
    assert len(kept) == len(DETECTORS) + 2 + 1 + 2
    for row in kept:
        assert record.line(row)
    numbers = embeddings_page.Numbers({"rows": kept})
    assert numbers.row("KDE of axes and rest", "a plane", 24)["auroc"] > 0.8
    assert numbers.row("own share", bench_embeddings.NORMAL, 8)["own_share"] > 0.5


class TestPage:
    RUN = records.read(embeddings_page.RECORD)

    def test_parts_lie_between_their_marks(self) -> None:
        text = "".join(f"{part}\n\n<!-- {part}: begin -->old<!-- {part}: end -->\n" for part in embeddings_page.PARTS)
        found = embeddings_page.page_with(text, embeddings_page.Numbers(self.RUN))
        assert "old" not in found
        assert found == embeddings_page.page_with(found, embeddings_page.Numbers(self.RUN))

    def test_a_row_that_is_not_there(self) -> None:
        with pytest.raises(LookupError, match=r"expected a row 'kde' of digits, .* got 0"):
            embeddings_page.Numbers(self.RUN).row("kde", "digits", 2)

    @pytest.mark.parametrize(("number", "said"), [(0.0014, "0.002"), (0.01, "0.01"), (3.2e-5, "4e-05"), (0.0, "0")])
    def test_at_most(self, number: float, said: str) -> None:
        assert embeddings_page._at_most(number) == said

    def test_the_figure_is_drawn(self, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        figure.draw(self.RUN, tmp_path / "drawn.svg")
        assert "</svg>" in (tmp_path / "drawn.svg").read_text(encoding="utf-8")
