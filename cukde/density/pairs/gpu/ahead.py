"""Passes that are launched before the host knows the values: it looks at them while the device works.

The launch that makes float16 operands finds the largest distance of the points to the centre, in which NaN and infinity
show. The host guesses what it will be good for, launches everything, and waits for that one number alone. Where the
guess was wrong the kernels have ended at once, or the result is void: the caller then starts anew, with the checks that
name what is wrong. What counts has the bits of a pass that has waited.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import device as core_device, survey, transfers
from cukde.core.gpu.launch import DOUBLE, FLOAT, begin
from cukde.core.gpu.scratch import Layout, Spec
from cukde.core.plan import note
from cukde.density import results
from cukde.density.options import Options
from cukde.density.pairs.gpu import f16, f16_symmetric, operands as pairs_operands
from cukde.density.pairs.gpu.arguments import Arguments
from cukde.density.pairs.gpu.finish import OUTPUT_OF, Density, DensityForm
from cukde.density.pairs.gpu.operands import LOG2_E
from cukde.density.pairs.gpu.shape import current
from cukde.density.plan import gpu as plan_gpu
from cukde.density.plan.gpu import Form
from cukde.density.plan.shape import Shape
from cukde.density.sums import Output, PartialSums, to_density

# The number from the device is rounded to float32, and that of other passes is summed in another order.
_SURE = 1e-6

_OUTPUT_OF_MOVED = "sum of moved data"


class Call(NamedTuple):
    """Data and queries whose values are unchecked. Each method returns None where they have to be looked at."""

    X: Any  # (n, d) float32 or float64, C-contiguous
    Y: Any  # (m, d) likewise
    options: Options  # of data that have been looked at with what is known of them
    all_pairs: Callable[[int, int, int], bool]

    @classmethod
    def of(
        cls, X: Any, Y: Any | None, precision: str | None, options: Options, all_pairs: Callable[[int, int, int], bool]
    ) -> Call | None:
        """Return the call of arrays that are in order (:func:`cukde.density.pairs.gpu.small.in_order`).

        It is None for shapes and precisions that others are for. ``all_pairs`` says by n, m and d whether passes over
        pairs take them all.
        """
        if Y is None or X.ndim != 2 or Y.ndim != 2:
            return None
        (n, d), (m, columns) = X.shape, Y.shape
        chosen = ("float32" if X.dtype == FLOAT else "float64") if precision is None else precision
        if columns != d or not plan_gpu.ahead_serves(_shape(n, m, d, chosen)) or not all_pairs(n, m, d):
            return None
        if X.dtype == FLOAT and Y.dtype != FLOAT:
            return None
        return cls(X, Y.astype(X.dtype, copy=False), options._replace(precision=chosen), all_pairs)

    @property
    def precision(self) -> str:
        """Either "float32" or "tf32"."""
        return self.options.precision

    def density(
        self, h: float, log_norm: float, dtype: np.dtype, *, log: bool, form: DensityForm = "kde"
    ) -> Any | None:
        """Densities, (m,), or their logarithms; ``log_norm`` is the logarithm of the kernel's constant."""
        out = cp.empty(self.Y.shape[0], dtype)
        density = Density(out, self._log_constant(log_norm), log, form)
        sums = self._sums(OUTPUT_OF[form], h, density=density)
        return None if sums is None else out

    def score(self, h: float, dtype: np.dtype) -> Any | None:
        """Gradients of the log density, (m, d)."""
        sums = self._sums("moments", h, ratio=True)
        return None if sums is None else self._gradient(sums, h, dtype)

    def density_and_score(self, h: float, log_norm: float, dtype: np.dtype) -> tuple[Any, Any] | None:
        """Log densities, (m,), and their gradients, (m, d)."""
        sums = self._sums("moments", h)
        if sums is None:
            return None
        return to_density(sums, self._log_constant(log_norm), True, dtype, cp), self._gradient(sums, h, dtype)

    def moved(self, h: float, score_h: float, dtype: np.dtype) -> None:
        """Leave debiased data to others."""

    def density_of_moved(self, h: float, score_h: float, log_norm: float, dtype: np.dtype, *, log: bool) -> Any | None:
        """Densities of the moved data at the queries, (m,), or their logarithms."""
        n, (m, d) = self.X.shape[0], self.Y.shape
        ordinary = h == score_h and not self.options.deterministic and self.options.centre is None
        served = ordinary and plan_gpu.ahead_serves(_shape(n, n, d, self.precision, "moments"))
        if not served or not self.all_pairs(n, n, d):
            return None
        guess = _Guess.of(n, m, d, h, self.precision, "sum", _OUTPUT_OF_MOVED)
        if guess is None:
            return None
        out = cp.empty(m, dtype)
        coming = self._density_of_moved(h, guess.form, Density(out, self._log_constant(log_norm), log))
        # Moved data lie no farther out than the data do.
        if not guess.was_right(float(coming.numbers()[0])):
            return None
        note("f16_symmetric", output="moments")
        note("f16 ahead", output="sum")
        return out

    def _density_of_moved(self, h: float, form: Form, density: Density) -> transfers.Coming:
        """Launch score, shift and density; return the largest |z|^2 of data and queries."""
        X, Y = self.X, self.Y
        n, (m, d) = X.shape[0], Y.shape
        depth = pairs_operands.depth_of(d)
        begin(
            f16_symmetric.kernel_of_score(d, split=form.split, exact_sums=False),
            *(pairs_operands.kernel(X.dtype, depth, moved=moved) for moved in (False, True)),
            survey.kernel_of_mean(X.dtype),
        )
        layout = _layout_of_moved(n, m, d, form.split, core_device.multiprocessors())
        of_centre, operands, of_moved, (sums,), wide, (squared_radius,) = layout.allocate()
        centre = survey.mean(X, of_centre)
        # Operands of the queries are made again with those of the moved data: here it is their distance that counts.
        operand, queries = pairs_operands.prepare(
            X, Y, centre, h, split=form.split, squared_radius=squared_radius, symmetric=True, sums=sums, memory=operands
        )
        coming = transfers.Coming(squared_radius)
        limit = plan_gpu.forms(self.precision, d, "moments")[-1].length_limit
        S, T = f16_symmetric.launch(operand, exact_sums=False, squared_radius=squared_radius, limit=limit, sums=sums)
        moved, at, data, of_queries = pairs_operands.prepare_moved(
            operand,
            X,
            Y,
            centre,
            h,
            (S, T, h),
            memory=[*of_moved, *queries],
            exact_hi=form.exact_hi,
            wide=wide,
        )
        points = f16.Points(data, of_queries, squared_radius)
        of = Arguments(moved, at, h, self.options._replace(centre=centre), _shape(n, m, d, self.precision))
        f16.take(of, "sum", form=form, points=points, density=density)
        return coming

    def _sums(self, output: Output, h: float, *, ratio: bool = False, density: Density | None = None) -> Any | None:
        """Sums over all pairs; with ``density`` they are not complete."""
        n, (m, d), precision = self.X.shape[0], self.Y.shape, self.precision
        guess = _Guess.of(n, m, d, h, precision, output, output, self.options.squared_radius or 0.0)
        if guess is None:
            return None
        coming: list[transfers.Coming] = []

        def report(squared_radius: Any) -> None:
            coming.append(transfers.Coming(squared_radius))

        of = Arguments(self.X, self.Y, h, self.options, _shape(n, m, d, precision))
        sums = f16.take(of, output, ratio=ratio, density=density, form=guess.form, report=report)
        if not guess.was_right(float(coming[0].numbers()[0])):
            return None
        note("f16 ahead", output=output)
        return sums

    def _gradient(self, sums: PartialSums, h: float, dtype: np.dtype) -> Any:
        return results.cast(sums.moments / (sums.total * h**2)[:, None], dtype)

    def _log_constant(self, log_norm: float) -> float:
        return log_norm if self.options.log_weights is not None else log_norm - math.log(self.X.shape[0])


class _Guess(NamedTuple):
    """What form the exponents of a pass take."""

    key: tuple[Any, ...]
    forms: tuple[Form, ...]
    chosen: int
    squared_radius: float  # scaled, of what is known

    @classmethod
    def of(
        cls, n: int, m: int, d: int, h: float, precision: str, output: Output, name: str, squared_radius: float = 0.0
    ) -> _Guess | None:
        """Guess by the last pass of the same sizes, first the fewest products; None where none would have done."""
        key, forms = (n, m, d, h, precision, name), plan_gpu.forms(precision, d, output)
        least, last = _form_of(forms, squared_radius), _last.get(key, 0)
        if last < 0:
            _last[key] = last + 1
        if least == len(forms) or last < 0:
            return None
        return cls(key, forms, max(least, last), squared_radius)

    @property
    def form(self) -> Form:
        """The form, with its own limit."""
        return self.forms[self.chosen]

    def was_right(self, square: float) -> bool:
        """Whether a pass that knows the largest |z|^2 would choose the same."""
        reached = square / LOG2_E
        if not reached < math.inf:
            return False
        low, high = (_form_of(self.forms, max(self.squared_radius, reached * by)) for by in (1 - _SURE, 1 + _SURE))
        if len(_last) >= _MOST_LAST:
            _last.clear()
        _last[self.key] = high if high < len(self.forms) else -_CALLS_LEFT_OUT
        return low == high == self.chosen


# By sizes, bandwidth, precision and output: which form the last pass asked for; where none would do, minus a number of
# calls, which are not launched ahead.
_last: dict[tuple[Any, ...], int] = {}
_MOST_LAST = 1024
_CALLS_LEFT_OUT = 8


def _form_of(forms: tuple[Form, ...], squared_radius: float) -> int:
    """Number of the form for a scaled squared radius; the number of forms where none will do."""
    return sum(squared_radius > form.limit for form in forms)


def _shape(n: int, m: int, d: int, precision: str, output: Output = "sum") -> Shape:
    itself = output == "moments"  # those of debiasing
    return Shape(output, n, m, d, precision, itself=itself, ratio=itself, device=current())


@functools.lru_cache(maxsize=1024)
def _layout_of_moved(n: int, m: int, d: int, split: bool, multiprocessors: int) -> Layout:
    """Memory of the mean of the data, operands, norms of moved data, sums of the score, moved data and queries."""
    groups: list[list[Spec | None]] = [
        survey.specs_of_mean(n, d, multiprocessors),
        pairs_operands.specs_of_both(n, m, d, split=split, symmetric=True),
        pairs_operands.specs_of_moved(n, m, d, split=split)[:1],
        [f16_symmetric.spec_of_sums(n, d)],
        [((n, d), DOUBLE), ((m, d), DOUBLE)],
    ]
    return Layout(groups, [((1,), FLOAT)])
