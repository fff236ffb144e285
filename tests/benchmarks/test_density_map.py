"""The map of densities: its data, its float64 references, its rows and record, and its figure."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks.density import bench_map, map_data, map_reference
from benchmarks.figures import density_map
from benchmarks.tools import calibration, records
from tests import reference

TREES = ["scikit-learn, rtol=1e-4", "scikit-learn"]
SMALL = ["--backend", "cpu", "--n", "300", "--m", "80", "--d", "2", "--factors", "0.3,1", "--data", "t3,outlier"]


@pytest.fixture
def uncalibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "calibrate", lambda before=None: {"cpu": {"copy": {"median_ms": 2.0}}})


class TestData:
    @pytest.mark.parametrize("kind", map_data.KINDS)
    @pytest.mark.parametrize("d", [2, 3, 17])
    def test_kinds(self, kind: str, d: int) -> None:
        X, Y = map_data.drawn(kind, 400, 50, d)
        assert (X.shape, Y.shape, X.dtype) == ((400, d), (50, d), np.float32)
        assert np.isfinite(X).all()
        assert 0.5 < map_data.deviation(X) < 3
        np.testing.assert_array_equal(map_data.drawn(kind, 400, 50, d)[0], X)
        assert (abs(X) == map_data.OUTLIER).sum() == (kind == "outlier")

    def test_the_manifold_has_fewer_dimensions(self) -> None:
        X, _ = map_data.drawn("manifold", 2000, 1, 16)
        assert abs(X).max() < 6

    def test_far_queries(self) -> None:
        X, _ = map_data.drawn("normal", 1000, 1, 8)
        distances = np.linalg.norm(map_data.far(X, 16) - X.mean(0), axis=1) / map_data.deviation(X)
        assert 30 <= distances.min() < distances.max() <= 100

    def test_silverman(self) -> None:
        X, _ = map_data.drawn("clusters", 500, 1, 3)
        assert map_data.silverman(X) == pytest.approx(X.std(0).mean() * (4 / 5 / 500) ** (1 / 7), rel=1e-5)


class TestReference:
    X = np.random.default_rng(0).standard_normal((200, 3))
    Y = np.random.default_rng(1).standard_normal((30, 3))
    H = 0.5

    def test_kde(self) -> None:
        found = map_reference.kde(self.X, self.Y, self.H)
        np.testing.assert_allclose(np.exp(found.log_density), reference.kde(self.X, self.Y, self.H), rtol=1e-12)
        nearest = ((self.Y[:, None] - self.X) ** 2).sum(-1).min(1)
        np.testing.assert_allclose(found.exponent, nearest / (2 * self.H**2), rtol=1e-12)
        assert found.exact_share is None

    def test_debiased_rows(self) -> None:
        rows = np.array([3, 150, 7])
        exact = reference.debias(self.X + 100, self.H)[rows]
        np.testing.assert_allclose(map_reference.debiased(self.X + 100, rows, self.H), exact, atol=1e-10)

    def test_sd_kde_debiases_what_carries_weight(self) -> None:
        wrong = np.full_like(self.X, 50.0)  # where nothing is debiased anew it is far from all queries
        found = map_reference.sd_kde(self.X, wrong, self.Y, self.H, exactly=True)
        np.testing.assert_allclose(np.exp(found.log_density), reference.sd_kde(self.X, self.Y, self.H), rtol=1e-6)
        assert found.exact_share == pytest.approx(1)
        moved = reference.debias(self.X, self.H)
        found = map_reference.sd_kde(self.X, moved, self.Y, self.H, exactly=False)
        np.testing.assert_allclose(np.exp(found.log_density), reference.sd_kde(self.X, self.Y, self.H), rtol=1e-12)
        assert found.exact_share is None

    def test_few_rows_leave_a_share(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(map_reference, "MOST_ROWS", 20)
        moved = reference.debias(self.X, self.H)
        found = map_reference.sd_kde(self.X, moved, self.Y, self.H, exactly=True)
        np.testing.assert_allclose(np.exp(found.log_density), reference.sd_kde(self.X, self.Y, self.H), rtol=1e-10)
        assert found.exact_share is not None
        assert 0 <= found.exact_share < 0.9


class TestErrors:
    EXACT = map_reference.Reference(np.array([-1.0, -90.0, -900.0]), np.array([0.5, 79.0, 880.0]), None)

    def test_none(self) -> None:
        log_density = self.EXACT.log_density.astype(np.float32)
        assert map_reference.errors(self.EXACT, log_density) == (0, 0)

    def test_of_the_density_and_of_the_logarithm(self) -> None:
        off = self.EXACT.log_density + np.array([0, 1e-3, -0.5])
        found = map_reference.errors(self.EXACT, off.astype(np.float32))
        assert found.relative == pytest.approx(math.expm1(1e-3), rel=0.02)
        assert found.of_log == pytest.approx(0.5 / (8 * 2.0**-23 * 880), rel=0.01)

    def test_densities_count_where_they_are_normal_numbers(self) -> None:
        log_density = self.EXACT.log_density.astype(np.float32)
        density = np.array([math.exp(-1.0) * 1.01, 0.0, 0.0], np.float32)
        assert map_reference.errors(self.EXACT, log_density, density).relative == pytest.approx(0.01, rel=1e-3)
        assert map_reference.density_error(self.EXACT, density) == pytest.approx(0.01, rel=1e-3)

    def test_what_is_not_a_number(self) -> None:
        found = map_reference.errors(self.EXACT, np.array([np.nan, -90.0, -np.inf], np.float32))
        assert found.relative is not None
        assert found.of_log is not None
        assert min(found.relative, found.of_log) > 1e290

    def test_no_query_of_a_kind(self) -> None:
        one = map_reference.Reference(self.EXACT.log_density[:1], self.EXACT.exponent[:1], None)
        assert map_reference.errors(one, np.array([-1.0], np.float32)) == (0, None)


class TestMap:
    def test_rows(self, tmp_path: Path, uncalibrated: None, capsys: pytest.CaptureFixture[str]) -> None:
        pytest.importorskip("sklearn")
        path = tmp_path / "of" / "map.json"
        bench_map.main([*SMALL, "--sd-errors", "--record", str(path)])
        run = records.read(path)
        rows = run["rows"]
        places = [(row["op"], row["shape"]["data"], row["shape"]["factor"]) for row in rows]
        assert places == [
            (op, data, factor) for data in ("t3", "outlier") for factor in (0.3, 1.0) for op in ("kde", "sd_kde")
        ]
        for row in rows:
            assert row["median_ms"] > 0
            assert row["rel_err_max"] <= 1e-5
            assert row["log_err_far"] <= 1
            assert ("peer" in row) == (row["op"] == "kde")
            if row["op"] == "kde":  # a tree's time depends on data and bandwidth
                assert row["peer"] == row["peers"][0]
                assert [peer["name"] for peer in row["peers"]] == [*TREES, "SciPy", "KDEpy"]
                assert row["peers"][2]["rel_err_max"] is None  # SciPy's is another density
                assert max(peer["rel_err_max"] for peer in row["peers"][:2]) < 1e-3
            assert ("exact_share_far" in row) == (row["op"] == "sd_kde")
        assert "outlier" in capsys.readouterr().out

    def test_what_the_budget_leaves_out_is_listed(
        self, tmp_path: Path, uncalibrated: None, capsys: pytest.CaptureFixture[str]
    ) -> None:
        bench_map.main([*SMALL, "--budget-s", "0", "--record", str(tmp_path / "map.json")])
        rows = records.read(tmp_path / "map.json")["rows"]
        assert {row["reason"] for row in rows} == {"not reached within 0 s"}
        assert len(rows) == 8
        assert "8 cells not reached within 0 s" in capsys.readouterr().out

    def test_a_cell_that_fails_leaves_its_reason(
        self, tmp_path: Path, uncalibrated: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: Any, **__: Any) -> None:
            raise MemoryError("too large")

        monkeypatch.setattr(cukde, "sd_kde", broken)
        bench_map.main([*SMALL, "--rivals", "", "--record", str(tmp_path / "map.json")])
        rows = records.read(tmp_path / "map.json")["rows"]
        assert {row.get("reason") for row in rows if row["op"] == "sd_kde"} == {"MemoryError: too large"}
        assert all("median_ms" in row for row in rows if row["op"] == "kde")

    def test_a_killed_run_has_left_its_rows(
        self, tmp_path: Path, uncalibrated: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupted(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(cukde, "sd_kde", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bench_map.main([*SMALL, "--rivals", "", "--record", str(tmp_path / "map.json")])
        assert [row["op"] for row in records.read(tmp_path / "map.json")["rows"]] == ["kde"]

    @pytest.mark.parametrize(
        ("wrong", "message"), [(["--m", "16"], "more than the 16 far queries"), (["--data", "cubes"], "got cubes")]
    )
    def test_wrong_arguments(self, wrong: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            bench_map.main([*SMALL, *wrong])
        assert message in capsys.readouterr().err

    def test_which_rivals_have_a_function(self) -> None:
        names = [name for key in bench_map.RIVALS for name in bench_map.RIVALS[key]]
        assert [name for name in names if not bench_map._has(name, "kde", 16)] == [*bench_map.RIVALS["flash-split"]]
        assert [name for name in names if bench_map._has(name, "sd_kde", 8)] == [
            *bench_map.RIVALS["torch"],
            *bench_map.RIVALS["cupy"],
        ]


class TestFigure:
    def test_of_two_records(self, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        peer = {"peer": {"name": "torch.compile", "median_ms": 500.0}}
        runs = [
            {
                "machine": {"gpu": "a GPU"},
                "rows": [
                    {"op": op, "precision": "float32", "median_ms": 2.0 * d, **peer}
                    | {"shape": {"n": 100, "m": 20, "d": d, "data": data, "factor": factor}}
                    for op in ("kde", "sd_kde")
                    for data in ("normal", "t3")
                    for factor in (1.0, 0.1)
                ]
                + [{"op": "kde", "shape": {"n": 100, "m": 20, "d": d}, **peer}],
            }
            for d in (16, 2)
        ]
        assert len(density_map.cells(runs)) == 16
        density_map.draw(runs, tmp_path / "of" / "figure.svg")
        text = (tmp_path / "of" / "figure.svg").read_text(encoding="utf-8")
        assert text.startswith("<?xml")
        assert len(text) > 20_000

    def test_without_cells(self, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        with pytest.raises(ValueError, match="they have none with a time"):
            density_map.draw([{"machine": {}, "rows": []}], tmp_path / "figure.svg")
