"""Which engine takes a pass of the density family, and every kernel of the CUDA sources that can be asked for."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Literal

import numpy as np

from cukde import _compile
from cukde._partial import Output
from cukde.gpu import (
    _conv1d_direct,
    _conv1d_toeplitz,
    _conv1d_weight_grad,
    _difference,
    _f16,
    _f16_symmetric,
    _f64,
    _inversions,
    _kendall_statistics,
    _leave_one_out,
    _lookup_f16,
    _merge_sort,
    _operands,
    _ordered_leave_one_out,
    _pair_sums,
    _peaks,
    _ranks,
    _results,
    _sign_products,
    _survey,
    _tf32,
    _values,
    _wait,
    _wide,
    _wide_f64,
    piecewise,
    truncated,
)
from cukde.gpu import (
    kernels as other_kernels,
)
from cukde.gpu import (
    products as products_of_columns,
)
from cukde.gpu._specialisation import OPERATION

# Spreads that are looked at for the choices they lead to, 1% apart.
_LARGEST_SPREAD, _STEPS = 1e6, 1400

Engine = Literal["difference", "tf32", "f16", "f16_symmetric", "wide", "f64", "wide_f64"]

# The tensor cores' operands for precision "tf32": "f16", or "tf32" to measure the one against the other.
ENGINE_OF_TF32: Engine = "f16"

# The symmetric kernel counts rows in int32, and a grid's 65,535 rows of blocks take two chunks of 8,192 columns each.
_MOST_SYMMETRIC_ROWS = 2 * 65_535 * 8192


def engine(
    output: Output,
    precision: str,
    n: int,
    d: int,
    k: int,
    *,
    spread: float | None,
    capability: tuple[int, int],
    symmetric: bool,
    exact: bool = False,
) -> Engine:
    """Choose the engine of a pass.

    Parameters
    ----------
    n, d, k : int
        Rows and dimensions of the data, columns of the values.
    spread : float, optional
        Largest squared distance to the centre, in bandwidths; None: unknown on the host.
    capability : tuple of int
        Compute capability of the device.
    symmetric : bool
        The queries are the data, all weights are equal, and sums may be added up in any order.
    exact : bool
        The total is wanted for itself, and not to divide the moments by.
    """
    if precision == "float64" and _wide_f64.serves(output, d, spread):
        return "wide_f64"  # products by a library: on any device
    if precision == "ieee" or capability < (8, 0):
        return "difference"
    if precision == "float64":
        return "f64" if _f64.serves(output, d, spread) else "difference"
    if precision == "tf32" and ENGINE_OF_TF32 == "tf32":
        return "tf32" if spread is not None and spread <= _f16.SPREAD else "difference"
    if d >= _wide.FEWEST_DIMENSIONS:
        return "wide" if spread is None or spread <= _wide.SPREAD else "difference"
    if _f16.form(precision, d, spread) is None:
        return "difference"
    if symmetric and n <= _MOST_SYMMETRIC_ROWS:
        # Its three products are added up the fast way, which takes a total less far than pairs_f16.cuh's careful one.
        limit = _f16.SPREAD if precision == "tf32" else _f16.SPREAD_TIMES_DIMENSIONS / d
        if output == "moments" and (not exact or (spread is not None and spread <= limit)):
            return "f16_symmetric"
        # For "tf32" the ordered engine has a third of the products with values.
        near = spread is not None and spread <= _f16.most_of_fast_three(d)
        if output == "values" and near and precision == "float32" and k <= _f16_symmetric.MOST_VALUES:
            return "f16_symmetric"
    return "f16"


@functools.cache
def spreads(precision: str, d: int, capability: tuple[int, int]) -> tuple[float, ...]:
    """Spreads that stand for all others: the middle of every range in which all choices are the same."""
    ranges: dict[tuple[object, ...], list[float]] = {}
    for step in range(_STEPS):
        spread = _LARGEST_SPREAD ** (step / _STEPS)
        engines = (
            engine(output, precision, 1, d, 1, spread=spread, capability=capability, symmetric=symmetric, exact=exact)
            for output, symmetric, exact in itertools.product(OPERATION, (False, True), (False, True))
        )
        forms = (_f16.form(precision, d, spread, output) for output in OPERATION)
        ranges.setdefault((*forms, *engines), []).append(spread)
    return tuple(same[len(same) // 2] for same in ranges.values())


def kernels() -> Iterator[tuple[str, str, _compile.Defines]]:
    """Stem, name and macros of every kernel of a CUDA source, once."""
    return iter(
        dict.fromkeys(
            itertools.chain(
                _survey.specialisations(),
                _operands.specialisations(),
                _values.specialisations(),
                _results.specialisations(),
                _double_results(),
                _of_f16(),
                _f16_symmetric.specialisations(),
                _wide.specialisations(),
                _f64.specialisations(),
                _wide_f64.specialisations(),
                other_kernels.specialisations(),
                products_of_columns.specialisations(),
                _leave_one_out.specialisations(),
                _ordered_leave_one_out.specialisations(),
                _pair_sums.specialisations(),
                _merge_sort.specialisations(),
                _ranks.specialisations(),
                _inversions.specialisations(),
                _kendall_statistics.specialisations(),
                _sign_products.specialisations(),
                piecewise.specialisations(),
                _lookup_f16.specialisations(),
                _conv1d_weight_grad.specialisations(),
                _conv1d_direct.specialisations(),
                _conv1d_toeplitz.specialisations(),
                _wait.specialisations(),
                _peaks.specialisations(),
                truncated.specialisations(),
            )
        )
    )


def _double_results() -> Iterator[tuple[str, str, _compile.Defines]]:
    for output in OPERATION:
        for d in (4, 8, 16, 32, 33):
            for k in (1, 16, 64):
                for precision, storage in (
                    ("ieee", np.float32),
                    ("ieee", np.float64),
                    ("float64", np.float64),
                ):
                    chosen = _difference.specialise(output, precision, np.dtype(storage), d, k)
                    yield chosen.stem, chosen.name, chosen.defines
                chosen = _tf32.specialise(output, d, k)
                yield chosen.stem, chosen.name, chosen.defines


def f16_tasks() -> Iterator[_f16.Task]:
    """What the ordered float16 engine can be asked for."""
    for depth in range(16, _operands.MOST_DIMENSIONS + 1, 16):
        for output in OPERATION:
            choices = itertools.product((1, 3, 4), (True, False), _values.COLUMNS, (True, False))
            for products, weighted, k, of_themselves in choices:
                if products == 4 and depth > 16:  # only small dimensions want four
                    continue
                if of_themselves and (output != "moments" or weighted or products == 4):
                    continue
                yield _f16.task(output, products, depth, k, weighted, of_themselves=of_themselves)


def _of_f16() -> Iterator[tuple[str, str, _compile.Defines]]:
    for posed in f16_tasks():
        for shape in posed.every_shape:
            chosen = _f16.specialise(posed, shape)
            yield chosen.stem, chosen.name, chosen.defines
        yield "finish", "finish_f16", _f16.finish_defines(posed)
    of_densities: tuple[Output, ...] = ("sum", "laplace")
    for output, density in itertools.product(of_densities, (np.float32, np.float64)):
        posed = _f16.task(output, 1, 16, 0, False)
        yield "finish", "finish_f16", _f16.finish_defines(posed, np.dtype(density))
