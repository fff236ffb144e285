"""Finds the modes of a density: for a range of bandwidths in one dimension, and as clusters in the plane.

python -m examples.mode_finding [--gpu]

The first sample imitates the velocities of 82 galaxies of the Corona Borealis region (Postman, Huchra and Geller,
1986; Roeder, 1990), in 1,000 km/s: a small group of near ones, a broad middle and a few far ones. The number of modes
depends on the bandwidth. A mode that stays over a wide range of bandwidths is more likely to be real than an accident
of the sample; Minnotte and Scott (1993) draw this as the mode tree. With a Gaussian kernel in one dimension, no mode
appears as the bandwidth grows (Silverman, 1981).

The second sample has two rings of groups. Mean shift finds the number of groups and the group of each point; points of
small clusters count as noise. Arrays are NumPy or CuPy arrays.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np

import cukde

LEAST = 10  # points of a cluster, at least


class Bumps(NamedTuple):
    """Modes for one bandwidth, from left to right, and the share of the sample that climbs to each mode."""

    h: float
    places: np.ndarray
    shares: np.ndarray


def galaxies(seed: int = 0) -> np.ndarray:
    """Return velocities (82,) like those of the survey."""
    rng = np.random.default_rng(seed)
    groups = ((7, 9.7, 0.4), (34, 19.8, 0.8), (33, 22.9, 1.2), (5, 26.5, 0.5), (3, 33.0, 0.8))
    return np.concatenate([rng.normal(mean, deviation, size) for size, mean, deviation in groups])


def rings(seed: int = 0, size: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Return points (n, 2) of nine groups around two circles, and the group (n,) of each point; -1 is noise."""
    rng = np.random.default_rng(seed)
    centres = [(radius * np.cos(t), radius * np.sin(t)) for radius, k in ((4, 3), (10, 6)) for t in _angles(k)]
    groups = np.repeat(np.arange(len(centres)), size)
    noise = rng.uniform(-25, 25, (20, 2))
    noise = noise[np.abs(noise).max(axis=1) > 15]
    points = np.array(centres)[groups] + 0.8 * rng.standard_normal((len(groups), 2))
    return np.concatenate([points, noise]), np.concatenate([groups, np.full(len(noise), -1)])


def _angles(k: int) -> np.ndarray:
    return 2 * np.pi * np.arange(k) / k


def bumps(x: Any, bandwidths: Any) -> list[Bumps]:
    """Find the modes of a sample (n,) for each of the bandwidths."""
    out = []
    for h in bandwidths:
        found = cukde.modes(x, h)
        places, labels = (_on_host(a) for a in (found.points, found.labels))
        order = np.argsort(places)
        out.append(Bumps(float(h), places[order], np.bincount(labels)[order] / len(labels)))
    return out


def clusters(points: Any, h: float, least: int = LEAST) -> tuple[np.ndarray, np.ndarray]:
    """Return modes of at least ``least`` points, highest first, and the number of each point's mode, -1 for noise."""
    found = cukde.modes(points, h)
    modes, labels = (_on_host(a) for a in (found.points, found.labels))
    large = np.bincount(labels) >= least
    number = np.where(large, np.cumsum(large) - 1, -1)
    return modes[large], number[labels]


def _on_host(a: Any) -> np.ndarray:
    return np.asarray(a.get() if hasattr(a, "get") else a)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.mode_finding", description=__doc__)
    parser.add_argument("--gpu", action="store_true", help="on CuPy arrays")
    xp: Any = np
    if parser.parse_args().gpu:
        import cupy

        xp = cupy
    velocities = xp.asarray(galaxies())
    print("bandwidth  modes at (part of the galaxies)")
    for found in bumps(velocities, np.geomspace(0.25, 4, 9)):
        modes = "  ".join(f"{place:.1f} ({share:.0%})" for place, share in zip(found.places, found.shares, strict=True))
        print(f"{found.h:9.2f}  {modes}")
    points, _ = rings()
    modes, labels = clusters(xp.asarray(points), 0.7)
    print(f"\n{len(modes)} clusters of {len(points)} points, {(labels < 0).sum()} of which are noise")
    for number, (x, y) in enumerate(modes):
        print(f"{number:>3}  at ({x:5.1f}, {y:5.1f})  {(labels == number).sum()} points")


if __name__ == "__main__":
    main()
