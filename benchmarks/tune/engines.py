"""What each engine has to tune: its kernels, their candidates, and a pass over random data to time them by."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol
from unittest import mock

import numpy as np

from benchmarks.tune import candidates, choice
from benchmarks.tune.building import Kernel
from cukde import gpu
from cukde._partial import PartialSums
from cukde.gpu import _device, _f16, _f16_symmetric, _grid, _operands, _specialise

# Candidates differ in the order of their sums, by the truncation of tensor cores; what is wrong differs by far more.
_MOST_DIFFERENCE = 1e-3


class Pass(Protocol):
    """One pass over all pairs, by any of the candidates."""

    def launch(self, tile: Any) -> None:
        """Launch the kernel alone."""

    def sums(self, tile: Any) -> PartialSums:
        """Run all of the pass."""


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

    def kernels(self, task: Any, tile: Any) -> Sequence[Kernel]:
        """What a task asks for with these tiles."""

    def passed(self, task: Any, n: int, m: int) -> Pass:
        """Pose a pass over ``n`` random points, at ``m`` queries."""

    def choose(
        self, of: Mapping[str, Any], current: Sequence[Any], timed: Sequence[choice.Timed[Any]]
    ) -> choice.Choice:
        """Choose from what was measured."""


def differ(ours: PartialSums, theirs: PartialSums) -> float:
    """Largest difference of sums, relative to the largest of their kind."""
    factor = gpu.xp.exp(ours.reference - theirs.reference)
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


def _sample(rows: int, d: int, seed: int) -> Any:
    return gpu.asarray(np.random.default_rng(seed).standard_normal((rows, d), dtype=np.float32))


def _bandwidth(d: int) -> float:
    """Of standard normal points: each has some neighbours, and the spread is within every limit."""
    return 0.35 * float(np.sqrt(d))


class Ordered:
    """The ordered float16 engine."""

    name = "f16"

    def tasks(self) -> Iterable[_f16.Task]:
        """Each once; weights apart share the tiles."""
        return dict.fromkeys(task for task in _specialise.f16_tasks() if not task.weights_apart)

    def of(self, task: _f16.Task) -> Mapping[str, Any]:
        fields = dataclasses.asdict(task)
        del fields["weights_apart"], fields["soft_exp"]
        return fields

    def current(self, task: _f16.Task) -> Sequence[_grid.Shape]:
        return task.shapes

    def candidates(self, task: _f16.Task, shared_of_multiprocessor: int) -> Sequence[_grid.Shape]:
        return candidates.shapes(task, shared_of_multiprocessor)

    def kernels(self, task: _f16.Task, tile: _grid.Shape) -> Sequence[Kernel]:
        tasks = dict.fromkeys((task, dataclasses.replace(task, weights_apart=task.output == "laplace")))
        chosen = [_f16.specialise(each, tile) for each in tasks]
        return [Kernel(one.stem, one.name, one.defines) for one in chosen]

    def passed(self, task: _f16.Task, n: int, m: int) -> Pass:
        return _OrderedPass(task, n, m)

    def choose(
        self, of: Mapping[str, Any], current: Sequence[_grid.Shape], timed: Sequence[choice.Timed[_grid.Shape]]
    ) -> choice.Choice:
        return choice.shapes(of, current, timed)


class _OrderedPass:
    def __init__(self, task: _f16.Task, n: int, m: int) -> None:
        self.task, self.n, self.m = task, n, m
        d = task.depth
        self.h, self.X, self.Y = _bandwidth(d), _sample(n, d, 0), _sample(m, d, 1)
        self.V = _sample(n, task.columns, 2) if task.output == "values" else None
        self.form = _f16.Form(task.products, _f16.SPREAD)
        self.centre = gpu.xp.zeros(d)
        self.points = _f16.prepare(self.X, self.Y, self.h, None, form=self.form, centre=self.centre, spread_known=True)

    def _plan(self, tile: _grid.Shape) -> _grid.Plan:
        columns = {"moments": self.task.depth, "values": self.task.columns}.get(self.task.output, 0)
        return _grid.plan((tile,), self.n, self.m, columns + 1, _device.multiprocessors())

    def launch(self, tile: _grid.Shape) -> None:
        data, queries, spread = self.points
        shift = _f16._shift(self.task.output, self.task.depth)
        _f16.launch(self.task, data, queries, self.V, self.n, self.m, spread, np.inf, shift, self._plan(tile))

    def sums(self, tile: _grid.Shape) -> PartialSums:
        with mock.patch.object(_grid, "plan", return_value=self._plan(tile)):
            return _f16.run(
                self.X,
                self.Y,
                self.h,
                self.task.output,
                self.V,
                None,
                form=self.form,
                centre=self.centre,
                spread_known=True,
                points=self.points,
            )


class Symmetric:
    """The symmetric float16 engine."""

    name = "f16_symmetric"

    def tasks(self) -> Iterable[tuple[int, int]]:
        return candidates.operands()

    def of(self, task: tuple[int, int]) -> Mapping[str, Any]:
        return dict(zip(("depth", "terms"), task, strict=True))

    def current(self, task: tuple[int, int]) -> Sequence[_f16_symmetric.Layout]:
        return [_f16_symmetric.layout(*task)]

    def candidates(self, task: tuple[int, int], shared_of_multiprocessor: int) -> Sequence[_f16_symmetric.Layout]:
        return candidates.layouts(*task, shared_of_multiprocessor)

    def kernels(self, task: tuple[int, int], tile: _f16_symmetric.Layout) -> Sequence[Kernel]:
        shared = _f16_symmetric.shared_bytes(*task, tile)
        return [
            Kernel("score_symmetric", *_f16_symmetric.specialise(*task, exact_sums, tile), shared)
            for exact_sums in (False, True)
        ]

    def passed(self, task: tuple[int, int], n: int, m: int) -> Pass:
        return _SymmetricPass(task, m)

    def choose(
        self,
        of: Mapping[str, Any],
        current: Sequence[_f16_symmetric.Layout],
        timed: Sequence[choice.Timed[_f16_symmetric.Layout]],
    ) -> choice.Choice:
        return choice.layout(of, current[0], timed)


class _SymmetricPass:
    """The points at themselves: there are as many data as queries."""

    def __init__(self, task: tuple[int, int], n: int) -> None:
        depth, terms = task
        self.n, self.d, self.h = n, depth, _bandwidth(depth)
        X, self.memory = _sample(n, depth, 0), _f16_symmetric.empty_sums(n, depth)
        self.operand, _ = _operands.prepare(
            X, None, gpu.xp.zeros(depth), self.h, split=terms == 3, symmetric=True, sums=self.memory
        )

    def launch(self, tile: _f16_symmetric.Layout) -> None:
        _f16_symmetric.launch(self.operand, exact_sums=False, sums=self.memory, of=tile)

    def sums(self, tile: _f16_symmetric.Layout) -> PartialSums:
        S, T = _f16_symmetric.launch(self.operand, exact_sums=False, of=tile)
        return _f16_symmetric.finish(self.operand, S, T, self.n, self.d, self.h)


ENGINES: tuple[Engine, ...] = (Ordered(), Symmetric())
