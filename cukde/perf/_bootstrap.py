"""Confidence intervals of medians: Efron's bootstrap, by the percentile method."""

from __future__ import annotations

import numpy as np

_RESAMPLES = 9999


def median_interval(sample: np.ndarray, confidence: float, rng: np.random.Generator) -> tuple[float, float]:
    """Confidence interval of the median of a sample: quantiles of the medians of resamples.

    Only the middle rank of a resample is drawn. An order statistic U of n uniform numbers has a beta distribution, and
    n U rounded down is the place in the sorted sample. That has the law of drawing all n numbers, and takes the same
    time for every n. B. Efron, Bootstrap Methods: Another Look at the Jackknife, Annals of Statistics 7(1), 1979.
    """
    ordered = np.sort(sample)
    n = len(ordered)
    below = (n + 1) // 2  # rank of the middle, or of the lower of two
    lower = rng.beta(below, n + 1 - below, _RESAMPLES)
    upper = lower if n % 2 else lower + (1 - lower) * rng.beta(1, n - below, _RESAMPLES)
    places = (np.minimum((n * u).astype(np.intp), n - 1) for u in (lower, upper))
    medians = sum(ordered[place] for place in places) / 2
    low, high = np.quantile(medians, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
