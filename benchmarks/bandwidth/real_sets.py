"""Real data that come with scikit-learn and matplotlib, and need no network.

Values that are rounded or whole numbers are spread evenly over the step that they were rounded to ("jitter"), by a
generator of a fixed seed: equal rows would give a density without limit, and no rule by likelihood a bandwidth.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Set(NamedTuple):
    """Data of n rows and d columns."""

    name: str
    rows: Callable[[], np.ndarray]
    what: str


def _jittered(X: np.ndarray, step: float | np.ndarray) -> np.ndarray:
    return X + step * np.random.default_rng(0).uniform(-0.5, 0.5, X.shape)


def _sklearn(name: str, columns: slice = slice(None)) -> np.ndarray:
    from sklearn import datasets

    return np.asarray(getattr(datasets, f"load_{name}")().data[:, columns], np.float64)


def _image(name: str) -> np.ndarray:
    from sklearn import datasets

    return np.asarray(datasets.load_sample_image(f"{name}.jpg"), np.float64)


def _sample(name: str) -> Path:
    import matplotlib as mpl

    return Path(mpl.get_data_path(), "sample_data", name)


def _principal(X: np.ndarray, k: int) -> np.ndarray:
    """The first k principal components."""
    centred = X - X.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:k].T


def _pixels(name: str) -> np.ndarray:
    return _jittered(_image(name).reshape(-1, 3), 1.0)


def _patches(name: str, side: int, k: int) -> np.ndarray:
    """Patches of a grey image, one beside the other, by their principal components."""
    grey = _jittered(_image(name).mean(axis=2), 1 / 3)
    rows, columns = (length // side for length in grey.shape)
    blocks = grey[: rows * side, : columns * side].reshape(rows, side, columns, side)
    return _principal(blocks.swapaxes(1, 2).reshape(-1, side * side), k)


def _returns() -> np.ndarray:
    """Logarithms of ratios of successive monthly prices."""
    found: Any = np.genfromtxt(_sample("Stocks.csv"), delimiter=",", skip_header=2, usecols=(1, 2, 3, 9))
    return np.diff(np.log(found[np.isfinite(found).all(axis=1)]), axis=0)


def _google() -> np.ndarray:
    """Logarithms of the ratio of a day's prices, highest to lowest and last to first, and of its volume."""
    day = np.load(_sample("goog.npz"))["price_data"]
    prices = {name: _jittered(day[name], 0.01) for name in ("open", "close", "high", "low")}
    ranges = np.log(prices["high"] / prices["low"])
    return np.stack([ranges, np.log(prices["close"] / prices["open"]), np.log(day["volume"])], axis=1)


def _elevation() -> np.ndarray:
    return _jittered(np.load(_sample("jacksboro_fault_dem.npz"))["elevation"].reshape(-1, 1).astype(np.float64), 1.0)


def _depth() -> np.ndarray:
    return _jittered(np.load(_sample("topobathy.npz"))["topo"].reshape(-1, 1).astype(np.float64), 1.0)


def _resonance() -> np.ndarray:
    """Brightness of the pixels of a magnetic resonance image that are not background."""
    with gzip.open(_sample("s1045.ima.gz")) as file:
        found = np.frombuffer(file.read(), ">u2").astype(np.float64)
    return _jittered(found[found > 0][:, None], 1.0)


SETS = (
    Set("iris", lambda: _jittered(_sklearn("iris"), 0.1), "measurements of flowers, rounded to 0.1"),
    Set("wine", lambda: _sklearn("wine"), "chemistry of three cultivars"),
    Set("stocks", _returns, "monthly returns of three companies and an index"),
    Set("diabetes", lambda: _sklearn("diabetes", slice(2, 10)), "body mass, blood pressure and six serum values"),
    Set("breast cancer", lambda: _sklearn("breast_cancer", slice(0, 10)), "means of ten features of cell nuclei"),
    Set("eeg", lambda: np.fromfile(_sample("eeg.dat"), np.float64).reshape(-1, 4), "four channels, 800 moments"),
    Set("google", _google, "range, return and volume of a share by the day"),
    Set("digits", lambda: _principal(_sklearn("digits"), 8), "images, their first eight principal components"),
    Set("depth", _depth, "of a sea floor and the land beside it, on a grid"),
    Set(
        "patches", lambda: _patches("china", 4, 16), "of 4 x 4 pixels of a photograph, rotated to principal components"
    ),
    Set("resonance", _resonance, "brightness of the pixels of a magnetic resonance image"),
    Set("elevation", _elevation, "of a fault, on a grid"),
    Set("china", lambda: _pixels("china"), "red, green and blue of the pixels of a photograph"),
    Set("flower", lambda: _pixels("flower"), "the same of another one"),
)
"""In the order of their numbers of rows."""
