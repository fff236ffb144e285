"""The example of modes: bumps that stay, and clusters that are the groups they were drawn from."""

from __future__ import annotations

import numpy as np
import pytest

from examples import mode_finding as example
from tests.conftest import BACKENDS, Backend


@pytest.fixture(params=[BACKENDS[0], BACKENDS[2]])
def either(request: pytest.FixtureRequest) -> Backend:
    """NumPy and CuPy: what the example does by itself is the same in the emulation as in NumPy."""
    return Backend(request.param)


def test_bumps_vanish_as_the_bandwidth_grows(either: Backend) -> None:
    found = example.bumps(either.asarray(example.galaxies()), np.geomspace(0.2, 8, 9))
    counts = [len(of.places) for of in found]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 5
    assert counts[-1] == 1
    for of in found:
        assert of.shares.sum() == pytest.approx(1)
        assert (np.diff(of.places) > 0).all()


def test_bumps_that_stay_are_the_groups(either: Backend) -> None:
    """Four of the five: the far ones of the middle are too few for a bump of their own."""
    (of,) = example.bumps(either.asarray(example.galaxies()), [0.9])
    np.testing.assert_allclose(of.places, [9.7, 19.8, 23.5, 33.0], atol=0.4)
    np.testing.assert_allclose(of.shares * 82, [7, 38, 34, 3], atol=4)


def test_clusters_are_the_groups(either: Backend) -> None:
    points, groups = example.rings()
    modes, labels = example.clusters(either.asarray(points), 0.7)
    assert modes.shape == (9, 2)
    np.testing.assert_array_equal(labels == -1, groups == -1)
    for group in range(9):
        values, counts = np.unique(labels[groups == group], return_counts=True)
        assert counts.max() >= 97, (group, values)
