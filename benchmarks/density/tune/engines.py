"""What each engine has to tune: its kernels, their candidates, and a pass over random data to time them by."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol
from unittest import mock

import numpy as np

from benchmarks.density.planned import planned
from benchmarks.density.tune import candidates, choice
from cukde.core.gpu import arrays as core_arrays, compile as core_compile
from cukde.density.options import Options
from cukde.density.pairs.gpu import f16, f16_symmetric, f64, operands, splits, values, wide
from cukde.density.pairs.gpu.arguments import Arguments, pose
from cukde.density.plan.gpu import Form
from cukde.density.sums import PartialSums

# Candidates differ in the order of their sums, by the truncation of tensor cores; what is wrong differs by far more.
_MOST_DIFFERENCE = 1e-3


class Pass(Protocol):
    """One pass over all pairs, by any of the candidates."""

    def run(self, tile: Any) -> PartialSums:
        """Run the pass, from prepared operands to sums."""

    def variants(self, tile: Any) -> None:
        """Run it in all ways that share the tile."""


class Engine(Protocol):
    """What is tuned together."""

    name: str

    def tasks(self) -> Iterable[Any]:
        """What kernels are specialised for, beside tiles."""

    def of(self, task: Any) -> Mapping[str, Any]:
        """A task's name in the table."""

    def current(self, task: Any) -> Sequence[Any]:
        """Tiles by the table that the device takes now."""

    def candidates(self, task: Any, shared_of_multiprocessor: int) -> Sequence[Any]:
        """Tiles to measure."""

    def passed(self, task: Any, n: int, m: int) -> Pass:
        """Pose a pass over ``n`` random points, at ``m`` queries."""

    def choose(
        self, of: Mapping[str, Any], current: Sequence[Any], timed: Sequence[choice.Timed[Any]]
    ) -> choice.Choice:
        """Choose from what was measured."""


def differ(ours: PartialSums, theirs: PartialSums) -> float:
    """Largest difference of sums, relative to the largest of their kind."""
    factor = core_arrays.xp.exp(ours.reference - theirs.reference)
    worst = float(abs(ours.total * factor - theirs.total).max() / abs(theirs.total).max())
    if theirs.moments is not None:
        of_moments = abs(ours.moments * factor[:, None] - theirs.moments).max() / abs(theirs.moments).max()
        worst = max(worst, float(of_moments))
    return worst


def check(task: Any, tile: Any, ours: PartialSums, theirs: PartialSums) -> None:
    """Raise where a candidate's sums are not those of the current choice; NaN is not."""
    difference = differ(ours, theirs)
    if not difference <= _MOST_DIFFERENCE:
        raise AssertionError(f"{task} in {tile} is off by {difference:.1e}")


_ROWS_OF_REHEARSAL = 256


def kernels(engine: Engine, task: Any, tile: Any) -> tuple[core_compile.Kernel, ...]:
    """All kernels that a task asks for with a tile, those around the pass among them."""
    with core_compile.rehearsed(loads=False) as rehearsal:
        engine.passed(task, _ROWS_OF_REHEARSAL, _ROWS_OF_REHEARSAL).variants(tile)
    return tuple(rehearsal.asked)


def _sample(rows: int, d: int, seed: int) -> Any:
    return core_arrays.asarray(np.random.default_rng(seed).standard_normal((rows, d), dtype=np.float32))


def _in_shape(tile: splits.Shape) -> AbstractContextManager[None]:
    """Fix the shape of the passes within the block."""
    plan = splits.plan
    return planned(lambda shapes, *others: plan((tile,), *others))


def _bandwidth(d: int) -> float:
    """Of standard normal points: each has some neighbours, and the scaled squared radius is within every limit."""
    return 0.35 * float(np.sqrt(d))


def _posed(X: Any, Y: Any | None, h: float, precision: str, log_weights: Any = None) -> Arguments:
    """Near points about the origin."""
    return pose(X, Y, h, Options(precision, log_weights, core_arrays.xp.zeros(X.shape[1]), wide.NEAR))


class Ordered:
    """The ordered float16 engine."""

    name = "f16"

    def tasks(self) -> Iterable[f16.Task]:
        """Each once; weights apart share the tiles."""
        return dict.fromkeys(task for task in f16.tasks() if not task.weights_apart)

    def of(self, task: f16.Task) -> Mapping[str, Any]:
        fields = dataclasses.asdict(task)
        del fields["weights_apart"], fields["soft_exp"]
        return fields

    def current(self, task: f16.Task) -> Sequence[splits.Shape]:
        return task.shapes

    def candidates(self, task: f16.Task, shared_of_multiprocessor: int) -> Sequence[splits.Shape]:
        return candidates.shapes(task, shared_of_multiprocessor)

    def passed(self, task: f16.Task, n: int, m: int) -> Pass:
        return _OrderedPass(task, n, m)

    def choose(
        self, of: Mapping[str, Any], current: Sequence[splits.Shape], timed: Sequence[choice.Timed[splits.Shape]]
    ) -> choice.Choice:
        return choice.shapes(of, current, timed)


class _OrderedPass:
    def __init__(self, task: f16.Task, n: int, m: int) -> None:
        self.task, self.d, self.h = task, task.depth, _bandwidth(task.depth)
        # The mean shift without a reference is that of the data at themselves.
        itself = task.output == "moments" and not task.has_reference
        self.X, self.Y = _sample(m if itself else n, self.d, 0), None if itself else _sample(m, self.d, 1)
        self.V = _sample(n, task.columns, 2) if task.output == "values" else None
        self.points = self._prepare(None)

    def _prepare(self, log_weights: Any) -> f16.Points:
        return f16.Points(
            *operands.prepare(
                self.X,
                self.Y,
                core_arrays.xp.zeros(self.d),
                self.h,
                split=self.form.split,
                exact_hi=self.form.exact_hi,
                log_weights=log_weights,
                weights_apart=self.task.output == "laplace",
            )
        )

    @property
    def form(self) -> Form:
        return Form(self.task.products, 700.0)  # points are near

    def run(self, tile: splits.Shape) -> PartialSums:
        return self._run(tile, None, self.points)

    def _run(self, tile: splits.Shape, log_weights: Any, points: f16.Points) -> PartialSums:
        of = _posed(self.X, self.Y, self.h, "float32", log_weights)
        with _in_shape(tile):
            return f16.take(of, self.task.output, self.V, ratio=self.Y is None, form=self.form, points=points)

    def variants(self, tile: splits.Shape) -> None:
        self.run(tile)
        if self.task.output == "laplace":
            log_weights = core_arrays.xp.zeros(len(self.X))
            self._run(tile, log_weights, self._prepare(log_weights))


class Symmetric:
    """The symmetric float16 engine: depth, terms and columns of values or 0."""

    name = "f16_symmetric"

    def tasks(self) -> Iterable[tuple[int, int, int]]:
        return f16_symmetric.operands()

    def of(self, task: tuple[int, int, int]) -> Mapping[str, Any]:
        return dict(zip(("depth", "terms", "columns"), task, strict=True))

    def current(self, task: tuple[int, int, int]) -> Sequence[f16_symmetric.Layout]:
        return [f16_symmetric.layout(*task)]

    def candidates(self, task: tuple[int, int, int], shared_of_multiprocessor: int) -> Sequence[f16_symmetric.Layout]:
        return candidates.layouts(*task, shared_of_multiprocessor)

    def passed(self, task: tuple[int, int, int], n: int, m: int) -> Pass:
        return _SymmetricPass(task, m)

    def choose(
        self,
        of: Mapping[str, Any],
        current: Sequence[f16_symmetric.Layout],
        timed: Sequence[choice.Timed[f16_symmetric.Layout]],
    ) -> choice.Choice:
        return choice.layout(of, current[0], timed)


class _SymmetricPass:
    """The points at themselves: there are as many data as queries."""

    def __init__(self, task: tuple[int, int, int], n: int) -> None:
        self.d, terms, columns = task
        self.n, self.h = n, _bandwidth(self.d)
        self.operand, _ = operands.prepare(
            _sample(n, self.d, 0), None, core_arrays.xp.zeros(self.d), self.h, split=terms == 3, symmetric=True
        )
        self.V = _sample(n, columns, 2) if columns else None

    def run(self, tile: f16_symmetric.Layout) -> PartialSums:
        return self._run(tile, exact_sums=False)

    def _run(self, tile: f16_symmetric.Layout, *, exact_sums: bool) -> PartialSums:
        if self.V is not None:
            S, T = f16_symmetric.launch(self.operand, values.prepare(self.V), tiling=tile)
            return f16_symmetric.finish_values(self.V, S, T)
        S, T = f16_symmetric.launch(self.operand, exact_sums=exact_sums, tiling=tile)
        return f16_symmetric.finish(self.operand, S, T, self.n, self.d, self.h)

    def variants(self, tile: f16_symmetric.Layout) -> None:
        for exact_sums in (False, True):
            self._run(tile, exact_sums=exact_sums)


class Wide:
    """The engine of many dimensions."""

    name = "wide"

    def tasks(self) -> Iterable[wide.Task]:
        return wide.tasks()

    def of(self, task: wide.Task) -> Mapping[str, Any]:
        return wide.named(task)

    def current(self, task: wide.Task) -> Sequence[wide.Layout]:
        return [wide.layout(task)]

    def candidates(self, task: wide.Task, shared_of_multiprocessor: int) -> Sequence[wide.Layout]:
        return candidates.layouts_wide(task, shared_of_multiprocessor)

    def passed(self, task: wide.Task, n: int, m: int) -> Pass:
        return _WidePass(task, n, m)

    def choose(
        self, of: Mapping[str, Any], current: Sequence[wide.Layout], timed: Sequence[choice.Timed[wide.Layout]]
    ) -> choice.Choice:
        return choice.layout(of, current[0], timed)


class _WidePass:
    """Points of 256 dimensions, prepared anew each time: that is little beside the pass."""

    d, k = 256, 64

    def __init__(self, task: wide.Task, n: int, m: int) -> None:
        self.task, self.h = task, _bandwidth(self.d)
        # The mean shift in one term of powers, of points in two, is that of the data at themselves.
        self.ratio = task == wide.pose("moments", 2, of_themselves=True)
        self.X, self.Y = _sample(m if self.ratio else n, self.d, 0), None if self.ratio else _sample(m, self.d, 1)
        self.V = _sample(len(self.X), self.k, 2) if task.output == "values" else None

    def run(self, tile: wide.Layout) -> PartialSums:
        return self._run(tile, self.Y)

    def _run(self, tile: wide.Layout, Y: Any | None) -> PartialSums:
        of = _posed(self.X, Y, self.h, "tf32" if self.task.terms == 1 else "float32")
        return wide.take(of, self.task.output, self.V, ratio=self.ratio, tiling=tile)

    def variants(self, tile: wide.Layout) -> None:
        """At queries and at the data, there in so many blocks that some serve both of their sides."""
        self.run(tile)
        with mock.patch.object(wide, "_STAGED_ROWS", 128):
            self._run(tile, None)


class Double:
    """The float64 engine."""

    name = "f64"

    def tasks(self) -> Iterable[f64.Task]:
        return f64.tasks()

    def of(self, task: f64.Task) -> Mapping[str, Any]:
        return dataclasses.asdict(task)

    def current(self, task: f64.Task) -> Sequence[splits.Shape]:
        return task.shapes

    def candidates(self, task: f64.Task, shared_of_multiprocessor: int) -> Sequence[splits.Shape]:
        return candidates.shapes_f64(task, shared_of_multiprocessor)

    def passed(self, task: f64.Task, n: int, m: int) -> Pass:
        return _DoublePass(task, n, m)

    def choose(
        self, of: Mapping[str, Any], current: Sequence[splits.Shape], timed: Sequence[choice.Timed[splits.Shape]]
    ) -> choice.Choice:
        return choice.shapes(of, current, timed)


class _DoublePass:
    """Points prepared anew each time: that is little beside the pass."""

    def __init__(self, task: f64.Task, n: int, m: int) -> None:
        self.task, self.d, self.h = task, task.depth, _bandwidth(task.depth)
        self.X, self.Y = (_sample(rows, self.d, seed).astype(np.float64) for seed, rows in enumerate((n, m)))
        self.V = _sample(n, task.columns, 2).astype(np.float64) if task.output == "values" else None

    def run(self, tile: splits.Shape) -> PartialSums:
        with _in_shape(tile):
            return f64.take(_posed(self.X, self.Y, self.h, "float64"), self.task.output, self.V)

    def variants(self, tile: splits.Shape) -> None:
        self.run(tile)


ENGINES: tuple[Engine, ...] = (Ordered(), Symmetric(), Wide(), Double())
