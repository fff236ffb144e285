"""The positive estimate on Dask arrays: its mass is estimated by points drawn from each block of the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from cukde.core import random_state as core_random_state
from cukde.core.dask.devices import computing
from cukde.core.dask.graph import Blocks, each, gathered, single
from cukde.core.over_dask import dask_form, is_dask
from cukde.core.random_state import DEFAULT, RandomState
from cukde.core.types import ArrayLike, Bandwidth
from cukde.density import check as density_check, correction, results
from cukde.density.dask import api as density_dask, blocks as dask_blocks
from cukde.density.dask.arguments import Arguments, arguments
from cukde.density.dask.blocks import Block, HostBlock, Layout, Place
from cukde.density.mass_sizes import SAMPLES
from cukde.density.positive import check, mass as positive_masses
from cukde.density.positive.mass import Mass, Part
from cukde.density.sums import PartialSums


@dask_form(boxes=None)
def positive_kde(
    X: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    *,
    mass: float | Mass | da.Array | None = None,
    log: bool = False,
    **options: Any,
) -> da.Array:
    """Compute :func:`cukde.positive_kde` of Dask arrays, lazily.

    Without ``mass`` it is that of :func:`cukde.dask.positive_mass`, computed with the densities; a lazy mass may be
    given, too. With a number, the result equals that of plain arrays, to 1e-12 in float64, and costs as much when it is
    computed.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([0.0]), chunks=1)
    >>> cukde.dask.positive_kde(X, np.array([0.0, 2.0]), 1.0, mass=1.16474).compute().round(4)
    array([0.5542, 0.014 ])
    """
    lazy = getattr(mass, "value", mass)
    given = None if mass is None or is_dask(lazy) else check.mass(mass)
    inputs = arguments(X, Y, h, **options)
    data, sums = density_dask.sums_of(inputs, "laplace")
    if given is None:
        found = _blocks(lazy) if mass is not None else _mass(inputs, data, SAMPLES, int(DEFAULT))
        sums = each("normalised", _normalised, sums, extra=found)
    log_mass = 0.0 if given is None else math.log(given)
    return density_dask.density_of(inputs, data, sums, results.positive, log=log, log_mass=log_mass)


@dask_form()
def positive_score(X: ArrayLike, Y: ArrayLike, h: Bandwidth, **options: Any) -> da.Array:
    """Compute :func:`cukde.positive_score` of Dask arrays, lazily.

    The result equals that of plain arrays, to 1e-12 in float64, and costs as much when it is computed.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([0.0]), chunks=1)
    >>> cukde.dask.positive_score(X, np.array([2.0]), 1.0).compute().round(4)
    array([-3.1094])
    """
    inputs = arguments(X, Y, h, **options)
    layers = [density_dask.sums_of(inputs, output)[1] for output in correction.OF_SCORE]
    return density_dask.of_queries(inputs, correction.score, *layers)


@dask_form()
def positive_mass(
    X: ArrayLike,
    h: Bandwidth,
    *,
    axes: Sequence[ArrayLike] | ArrayLike | None = None,
    samples: int = SAMPLES,
    random_state: RandomState = DEFAULT,
    **options: Any,
) -> Mass:
    """Compute :func:`cukde.positive_mass` of Dask arrays, lazily.

    The value and the error are Dask arrays without dimensions. The mass is estimated from random points also for one
    column; each block contributes equally many, with its own random numbers. ``axes`` are for plain arrays only. It
    costs a pass over the data at these points.

    Examples
    --------
    >>> import dask, dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([-1.0, 1.0]), chunks=1)
    >>> mass = cukde.dask.positive_mass(X, 1.0)
    >>> bool(abs(mass.value - 1.074576).compute() < 0.01)
    True
    """
    if axes is not None:
        raise ValueError("axes must be None for Dask arrays; got coordinates: give samples=, or arrays in memory")
    count, seed = check.samples(samples), core_random_state.integer(random_state)
    inputs = arguments(X, X, h, **options)
    data = inputs.data_blocks(inputs.layout(inputs.forms.whitening))
    found = _mass(inputs, data, count, seed)
    return Mass(*(_number(found, i) for i in range(2)))


def _mass(inputs: Arguments, data: Blocks, count: int, seed: int) -> Blocks:
    """The mass, from as many points of each block."""
    layout = inputs.layout(inputs.forms.whitening)
    draws = partial(_draws, count=max(2, -(-count // data.count)), seed=seed)
    drawn = each("drawn", _drawn, data, draws=draws, layout=layout)
    sums = density_dask.pass_over(inputs, drawn, data, "laplace", None)
    return gathered("mass", _estimated, each("part", _part, data, sums, draws=draws))


def _draws(block: Block | HostBlock, *, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The random numbers of a block."""
    return positive_masses.draws(count, block.points.shape[1], np.random.default_rng([seed, block.number]))


def _drawn(block: Block | HostBlock, *, draws: Callable[..., tuple[np.ndarray, np.ndarray]], layout: Layout) -> Block:
    """Points of the density of a block, as a block of queries; none of a block without weight."""
    with computing(block.points) as backend:
        factors = domain = None
        if isinstance(block, HostBlock):
            weights, factors = block.others.get("weights"), block.others.get("local_factors")
        else:
            weights = None if block.log_weights is None else np.exp(backend.asnumpy(block.log_weights))
            factors, domain = block.local_factors, block.domain
        if block.log_mass == -math.inf:
            points = block.points[:0]
        else:
            of_block = block.points, weights, factors, block.whitening, domain
            points = positive_masses.drawn(*of_block, *draws(block), backend.xp)
    return dask_blocks.prepare(points, place=Place("Y", block.number), layout=layout)


def _part(block: Block | HostBlock, sums: PartialSums, *, draws: Callable[..., Any]) -> Part | None:
    if not len(sums.total):
        return None
    with computing(sums.total) as backend:
        return positive_masses.part(sums, draws(block)[1], block.log_mass, backend.xp)


def _estimated(parts: list[Part | None]) -> Mass:
    some = [part for part in parts if part is not None]
    if not some:
        density_check.weight_range(0.0, 0.0)
    return positive_masses.estimated(some)


def _number(found: Blocks, i: int) -> da.Array:
    """One of the numbers of a mass, as an array without dimensions."""
    return single(each("number", _entry, found, i=i), (), np.empty(()))


def _blocks(mass: Any) -> Blocks:
    """The result of an array without dimensions, such as that of :func:`_number`."""
    check.one_number(mass)
    return Blocks("mass", [(float, (mass.name,))], [mass])


def _entry(mass: Mass, *, i: int) -> np.ndarray:
    return np.asarray(mass[i])


def _normalised(sums: PartialSums, mass: Mass | float) -> PartialSums:
    value = mass.value if isinstance(mass, Mass) else mass
    return sums._replace(reference=sums.reference - math.log(value))
