"""Costs on the sphere: those of the density family, with a look at norms and the constants of the kernel."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from cukde.bandwidth.cost import cross_validation
from cukde.core.cost import elementwise, host
from cukde.core.cost.cost import Counted, Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.density.cost import formulas, waiting
from cukde.density.cost.sizes import FOUND, OF_QUERIES, Sizes, sized
from cukde.density.modes import cost as modes_cost

# Seconds of the host, on one core: for the concentration of the reference rule, 46 halvings with two of SciPy's Bessel
# functions each; and for the constants of a grid of bandwidths, whose series have 120 terms.
_CONCENTRATION, _CONSTANTS = 2.8e-3, 4e-4

# Copies that a look at norms waits for, the least and the largest, and its array operations; and the copy that the
# reference rule waits for beside, the spread.
_WAITS_OF_NORMS, _OF_NORMS, _WAITS = 2, 4, 1

# Where nobody says, for points all around: 16,384 take 22 passes of all at a bandwidth of 0.3, in 276 passes with 102
# steps; 1,024 take 26, in 165.
CLIMB = modes_cost.Climb(24.0, 220, 100)

# Array operations of a pass beside those of a climb in space: norms of rows twice, parts along the sphere and off it.
_OF_PASS = 24


@sized(f"{OF_QUERIES} {FOUND} cells local")
def kde(on: Peaks, sizes: Sizes) -> Counted:
    """Count a density, as :func:`cukde.kde` of as many columns."""
    return _checked(formulas.kde(on, sizes), on, sizes)


@sized(f"{OF_QUERIES} {FOUND} cells local")
def score(on: Peaks, sizes: Sizes) -> Counted:
    """Count a score; its part along the sphere takes passes over the results, and a sum of each."""
    counted = _checked(formulas.score(on, sizes), on, sizes)
    m, d = sizes.m, sizes.d
    along = elementwise.doubles("along", on, 12 * m * d, launches=6)
    return dataclasses.replace(counted, parts=(*counted.parts, along, _sums_of_rows("sums along", on, m, d)))


@sized("n m d dtype precision weighted at_data deterministic check_finite passes")
def modes(on: Peaks, sizes: Sizes, passes: float = CLIMB.passes) -> Counted:
    """Count ``m`` seeds that climb over ``n`` rows, as many as ``passes`` passes of all seeds would take."""
    return _checked(modes_cost.climbed(on, sizes, CLIMB.of(passes), _OF_PASS), on, sizes)


def reference(on: Peaks, *, n: int, d: int, dtype: Any = "float64", weighted: bool = False) -> Counted:
    """Count the reference rule, see ``cukde/sphere/rules.py``."""
    entries = float(n) * d
    numbers = 8.0 * entries
    look = formulas.bandwidth(on, n=n, d=d, dtype=dtype, weighted=weighted)
    parts = [part for part in look.parts if part.name in ("look", "waits")]
    # Arrays read and written: offsets taken (2), centred (product with the weights 1, difference 2), squared (2).
    work: dict[Unit, float] = {"float64": 5 * entries}
    parts.append(elementwise.passes("spread", on, 3 * entries, 7 * numbers, launches=5, work=work))
    parts += [*_norms(on, n, d), _sums_of_rows("sums of squares", on, n, d)]
    gpu = on.backend == "gpu"
    if gpu:
        parts = [host.begun(part, on) for part in parts]
    parts.append(host.waits("concentration", on, _WAITS * gpu, seconds=_CONCENTRATION))
    if not gpu:  # NumPy's passes run on one core
        parts = [dataclasses.replace(part, blocks=1.0, launches=0) for part in parts]
    return Counted(tuple(parts), "passes over the data counted in cukde/sphere/rules.py; the concentration as measured")


@functools.wraps(cross_validation, assigned=())  # whose sizes it takes
def cross_validate(on: Peaks, *, n: int, d: int, **sizes: Any) -> Counted:
    """Count the scores of a grid that is not extended, and the reference rule that it is of.

    For points all around it is: then 60 bandwidths are tried, in three turns.
    """
    counted = cross_validation(on, n=n, d=d, **sizes)
    rule = reference(on, n=n, d=d, **{name: sizes[name] for name in ("dtype", "weighted") if name in sizes})
    of_rule = [dataclasses.replace(part, name=f"reference: {part.name}") for part in rule.parts]
    constants = host.waits("constants", on, 0, seconds=_CONSTANTS)
    return dataclasses.replace(counted, parts=(*of_rule, *counted.parts[1:], constants))


def _checked(counted: Counted, on: Peaks, sizes: Sizes) -> Counted:
    """The same with a look at the norms of data and queries, for which a GPU waits, and with it for Python."""
    if not sizes.check_finite:
        return counted
    arrays = [sizes.n] if sizes.at_data else [sizes.n, sizes.m]
    parts = [part for rows in arrays for part in _norms(on, rows, sizes.d)]
    if not any(part.name == "host" for part in counted.parts):
        parts += waiting.calls("host", on)
    return dataclasses.replace(counted, parts=(*parts, *counted.parts))


def _norms(on: Peaks, rows: int, d: int) -> list[Part]:
    norms = _sums_of_rows("norms", on, rows, d)
    return [norms, host.waits("wait for norms", on, _WAITS_OF_NORMS, _OF_NORMS)] if on.backend == "gpu" else [norms]


def _sums_of_rows(name: str, on: Peaks, rows: int, d: int) -> Part:
    """Sums over the columns of each row: CuPy has a block of a reduction or of a matrix product for each row."""
    traffic = 8.0 * rows * (d + 1)
    numbers = float(elementwise.THREADS) * rows if on.backend == "gpu" else 0.0
    return elementwise.passes(name, on, numbers, traffic, launches=2 * (on.backend == "gpu"))
