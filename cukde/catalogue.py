"""TODO"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from cukde.bandwidth.gpu import leave_one_out, ordered_leave_one_out, pair_sums
from cukde.conv1d.gpu import direct, toeplitz, weight_grad
from cukde.core.gpu import compile as core_compile, survey
from cukde.density.domains import gpu as domains_gpu
from cukde.density.pairs.gpu import (
    difference,
    f16,
    f16_symmetric,
    f64,
    finish,
    operands,
    radial,
    tf32,
    values,
    wide,
    wide_f64,
)
from cukde.density.pairs.gpu.specialisation import OPERATION
from cukde.density.sums import Output
from cukde.density.truncated import gpu as truncated_gpu
from cukde.kendall.gpu import inversions, merge_sort, ranks, sign_products, statistics
from cukde.perf import _loads_gpu, _wait
from cukde.piecewise.gpu import lookup_f16, passes as piecewise_passes


def kernels() -> Iterator[tuple[str, str, core_compile.Defines]]:
    """Stem, name and macros of every kernel of a CUDA source, once."""
    return iter(
        dict.fromkeys(
            itertools.chain(
                survey.specialisations(),
                operands.specialisations(),
                values.specialisations(),
                finish.specialisations(),
                _double_results(),
                _of_f16(),
                f16_symmetric.specialisations(),
                wide.specialisations(),
                f64.specialisations(),
                wide_f64.specialisations(),
                radial.specialisations(),
                domains_gpu.specialisations(),
                leave_one_out.specialisations(),
                ordered_leave_one_out.specialisations(),
                pair_sums.specialisations(),
                merge_sort.specialisations(),
                ranks.specialisations(),
                inversions.specialisations(),
                statistics.specialisations(),
                sign_products.specialisations(),
                piecewise_passes.specialisations(),
                lookup_f16.specialisations(),
                weight_grad.specialisations(),
                direct.specialisations(),
                toeplitz.specialisations(),
                _wait.specialisations(),
                _loads_gpu.specialisations(),
                truncated_gpu.specialisations(),
            )
        )
    )


def _double_results() -> Iterator[tuple[str, str, core_compile.Defines]]:
    for output in OPERATION:
        for d in (4, 8, 16, 32, 33):
            for k in (1, 16, 64):
                for precision, storage in (
                    ("ieee", np.float32),
                    ("ieee", np.float64),
                    ("float64", np.float64),
                ):
                    chosen = difference.specialise(output, precision, np.dtype(storage), d, k)
                    yield chosen.stem, chosen.name, chosen.defines
                chosen = tf32.specialise(output, d, k)
                yield chosen.stem, chosen.name, chosen.defines


def f16_tasks() -> Iterator[f16.Task]:
    """What the ordered float16 engine can be asked for."""
    for depth in range(16, operands.MOST_DIMENSIONS + 1, 16):
        for output in OPERATION:
            choices = itertools.product((1, 3, 4), (True, False), values.COLUMNS, (True, False))
            for products, weighted, k, of_themselves in choices:
                if products == 4 and depth > 16:  # only small dimensions want four
                    continue
                if of_themselves and (output != "moments" or weighted or products == 4):
                    continue
                yield f16.task(output, products, depth, k, weighted, of_themselves=of_themselves)


def _of_f16() -> Iterator[tuple[str, str, core_compile.Defines]]:
    for posed in f16_tasks():
        for shape in posed.every_shape:
            chosen = f16.specialise(posed, shape)
            yield chosen.stem, chosen.name, chosen.defines
        yield "density/finish", "finish_f16", f16.finish_defines(posed)
    of_densities: tuple[Output, ...] = ("sum", "laplace")
    for output, density in itertools.product(of_densities, (np.float32, np.float64)):
        posed = f16.task(output, 1, 16, 0, False)
        yield "density/finish", "finish_f16", f16.finish_defines(posed, np.dtype(density))
