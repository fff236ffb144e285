"""Intervals of a density in its picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

import cukde
from cukde import bandwidth, plot
from tests.conftest import Backend

X = np.random.default_rng(2).gamma(4.0, size=60)


def new() -> Axes:
    return Figure().subplots()


@pytest.mark.parametrize(("interval", "level"), [(True, 0.95), (0.8, 0.8)])
@pytest.mark.parametrize("log_scale", [False, True])
def test_the_band_is_of_intervals(backend: Backend, interval: Any, level: float, log_scale: bool) -> None:
    w = np.random.default_rng(3).uniform(size=60)
    options: dict[str, Any] = {"points": 7, "weights": w, "log_scale": log_scale, "ax": new()}
    ax = plot.density(backend.asarray(X), 0.4, interval=interval, **options)
    (band,) = [c for c in ax.collections if isinstance(c, PolyCollection)]
    vertices = band.get_paths()[0].vertices[:, 1]
    x = np.log10(ax.lines[0].get_xdata()) if log_scale else ax.lines[0].get_xdata()
    found = cukde.density_interval(np.log10(X) if log_scale else X, x, 0.4, level, weights=w)
    np.testing.assert_allclose(vertices[1:8], found.low, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(vertices[9:16][::-1], found.high, rtol=1e-6, atol=1e-9)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert f"{100 * level:g}% intervals of the density (bias-corrected)" in texts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interval": 95}, "interval must lie between 0 and 1"),
        ({"method": "sd"}, 'interval must be False for method="sd"'),
        ({"bounds": [(0, None)]}, "interval must be False with bounds"),
        ({"h": bandwidth.Selection("abramson", np.array([0.4]), 0.0, "", (), np.ones(1), np.ones(1))}, "local factors"),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plot.density(X, **({"interval": True, "ax": new()} | options))
