"""Shows where two samples differ, by the ratio of their densities, and compares it with the true ratio.

python -m examples.density_ratio

Both samples are mixtures of the same two clusters; in the second, a quarter of the rows has moved from one cluster to
the other. The ratio is 1 where nothing has changed. The true densities are known here, so the error of the estimated
ratio is printed, too. The ratio also gives weights for importance sampling, which turn means over the second sample
into means over the first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import cukde

CENTRES = np.array([[-1.5, 0.0], [1.5, 0.5]])  # of clusters with standard deviation 1
BEFORE, AFTER = np.array([0.5, 0.5]), np.array([0.25, 0.75])  # share of the rows in each cluster


class Found(NamedTuple):
    """Results of the ratio."""

    log_ratios: np.ndarray  # of before over after, at the centres
    true_log_ratios: np.ndarray
    error: float  # root mean square of the log ratio, over the rows before
    mean: float  # of the first column, before
    weighted_mean: float  # of the first column after, weighted by the ratio
    plain_mean: float  # the same, not weighted


def draw(n: int, parts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw rows (n, 2) of the mixture."""
    return CENTRES[rng.choice(2, n, p=parts)] + rng.standard_normal((n, 2))


def true_log_density(Y: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Return the mixture's log density (m,)."""
    squares = ((Y[:, None, :] - CENTRES) ** 2).sum(axis=2)
    return np.asarray(np.log(np.exp(-0.5 * squares) @ parts) - np.log(2 * np.pi))


def main(n: int = 20_000) -> Found:
    rng = np.random.default_rng(0)
    before, after = draw(n, BEFORE, rng), draw(n, AFTER, rng)
    # One bandwidth for both: the biases by smoothing cancel in the ratio where both densities have the same shape.
    h = cukde.bandwidth.silverman(np.concatenate([before, after]))

    def log_ratio(Y: np.ndarray) -> np.ndarray:
        return np.asarray(cukde.density_ratio(before, after, Y, h, log=True))

    def true_log_ratio(Y: np.ndarray) -> np.ndarray:
        return true_log_density(Y, BEFORE) - true_log_density(Y, AFTER)

    queries = draw(2000, BEFORE, rng)
    ratio = cukde.density_ratio(before, after, after, h)
    found = Found(
        log_ratio(CENTRES),
        true_log_ratio(CENTRES),
        float(np.sqrt(((log_ratio(queries) - true_log_ratio(queries)) ** 2).mean())),
        float(before[:, 0].mean()),
        float(np.average(after[:, 0], weights=ratio)),
        float(after[:, 0].mean()),
    )
    for centre, log_r, true in zip(CENTRES, found.log_ratios, found.true_log_ratios, strict=True):
        print(f"at {centre}: density before / after {np.exp(log_r):.3f}, in truth {np.exp(true):.3f}")
    print(f"root mean square error of the log ratio {found.error:.3f}")
    print(
        f"mean of the first column before {found.mean:.3f}; of the rows after {found.plain_mean:.3f}, "
        f"weighted by the ratio {found.weighted_mean:.3f}"
    )
    return found


if __name__ == "__main__":
    main()
