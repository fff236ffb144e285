"""The tuner: candidates, the rule that chooses among them, the file, and a run on the emulated device."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cukde.core.gpu import compile as core_compile

SHARED = 228 * 1024  # bytes of a multiprocessor of sm_90


@pytest.fixture
def tune(emulated_device: None) -> SimpleNamespace:
    """The modules under test."""
    from benchmarks.density.tune import __main__, candidates, choice as tune_choice, engines
    from cukde.density.pairs.gpu import f16, f16_symmetric, f64, splits, tiles, wide

    return SimpleNamespace(
        main=__main__,
        candidates=candidates,
        choice=tune_choice,
        engines=engines,
        tiles=tiles,
        Task=f16.Task,
        Shape=splits.Shape,
        Layout=f16_symmetric.Layout,
        f16=f16,
        symmetric=f16_symmetric,
        f64=f64,
        wide=wide,
    )


class TestCandidates:
    def test_they_hold_what_is_chosen_today(self, tune: SimpleNamespace) -> None:
        for engine in tune.engines.ENGINES:
            for task in engine.tasks():
                chosen = {tune.choice.plain(tile) for tile in engine.current(task)}
                assert chosen <= set(engine.candidates(task, SHARED)), (engine.name, task)

    def test_none_comes_twice_and_all_fit(self, tune: SimpleNamespace) -> None:
        for engine in tune.engines.ENGINES:
            for task in engine.tasks():
                found = engine.candidates(task, SHARED)
                assert len(set(found)) == len(found) > 1
        for engine in (tune.engines.Ordered(), tune.engines.Double()):
            for task in engine.tasks():
                for shape in engine.candidates(task, SHARED):
                    assert task.shared_bytes(shape.tile) <= 48 * 1024
                    assert shape.blocks * task.shared_bytes(shape.tile) < SHARED
        for task in tune.engines.Symmetric().tasks():
            for layout in tune.candidates.layouts(*task, SHARED):
                assert tune.symmetric.shared_bytes(*task, layout) <= 99 * 1024
        for task in tune.engines.Wide().tasks():
            for layout in tune.candidates.layouts_wide(task, SHARED):
                assert layout.shared_bytes(task) + 1024 * task.staged <= 99 * 1024
                assert layout.blocks * layout.shared_bytes(task) < SHARED

    def test_less_shared_memory_leaves_fewer(self, tune: SimpleNamespace) -> None:
        task = tune.Task("sum", 64, products=3)
        assert set(tune.candidates.shapes(task, 100 * 1024)) < set(tune.candidates.shapes(task, SHARED))

    def test_an_engine_names_its_tasks_apart(self, tune: SimpleNamespace) -> None:
        for engine in tune.engines.ENGINES:
            names = [json.dumps(engine.of(task)) for task in engine.tasks()]
            assert len(set(names)) == len(names)


def test_a_tile_stands_for_all_kernels_that_share_it(tune: SimpleNamespace) -> None:
    """Without compiling any: a rehearsal that loads nothing."""
    shape, layout, of_wide = tune.Shape(4, 1, 64, 7), tune.Layout(2, 3), tune.wide.Layout(1, 32, 3, 1)
    of_laplace = tune.engines.kernels(tune.engines.Ordered(), tune.f16.task("laplace", 1, 32, 0, False), shape)
    of_themselves = tune.engines.kernels(tune.engines.Symmetric(), (32, 3, 0), layout)
    of_blocks = tune.engines.kernels(tune.engines.Wide(), tune.wide.pose("values", 2), of_wide)
    for kernels, name, macro in (
        (of_laplace, "laplace_f16", "WEIGHTS_APART"),
        (of_themselves, "score_symmetric_f16x2", "SUMS"),
        (of_blocks, "kernel_sum_wide_f16x2", "COLUMN_TOTALS"),
    ):
        found = [dict(kernel.defines) for kernel in kernels if kernel.name == name]
        assert len({defines[macro] for defines in found}) == len(found) == 2
    assert {dict(kernel.defines)["BLOCKS"] for kernel in of_laplace if kernel.name == "laplace_f16"} == {"7"}


@pytest.fixture
def compile_for(tune: SimpleNamespace) -> Callable[..., Any]:
    pytest.importorskip("cupy", reason="compiling CUDA sources needs CuPy and NVRTC")
    from tests.compilation import compile_for

    return lambda stem, name, defines: compile_for(90, core_compile.code(stem, defines), core_compile.options(), name)


@pytest.mark.parametrize(
    ("output", "products", "depth", "columns"), [("sum", 3, 16, 0), ("moments", 1, 48, 0), ("values", 3, 32, 64)]
)
def test_estimates_of_the_ordered_engine_are_close(
    tune: SimpleNamespace, compile_for: Callable[..., Any], output: str, products: int, depth: int, columns: int
) -> None:
    """Shared memory to a few bytes; of registers, a lower bound that excludes nothing of use."""
    task = tune.Task(output, depth, columns, products)
    shape = tune.Shape(4, 1, 32, 2)
    chosen = tune.f16.specialise(task, shape)
    took = compile_for(chosen.stem, chosen.name, chosen.defines)
    assert took.shared <= task.shared_bytes(32) <= took.shared + 1024
    assert tune.candidates.least_registers(task, 1) <= took.registers


@pytest.mark.parametrize(
    ("output", "depth", "columns"), [("sum", 8, 0), ("laplace", 16, 0), ("moments", 48, 0), ("values", 16, 16)]
)
def test_estimates_of_the_float64_engine_are_close(
    tune: SimpleNamespace, compile_for: Callable[..., Any], output: str, depth: int, columns: int
) -> None:
    task = tune.f64.Task(output, depth, columns)
    chosen = tune.f64.specialise(task, tune.Shape(4, 1, 32, 2))
    took = compile_for(chosen.stem, chosen.name, chosen.defines)
    assert took.shared <= task.shared_bytes(32) <= took.shared + 1024
    assert tune.candidates.least_registers_f64(task, 1) <= took.registers


@pytest.mark.parametrize("column_totals", [False, True])
def test_static_memory_of_many_dimensions(
    tune: SimpleNamespace, compile_for: Callable[..., Any], column_totals: bool
) -> None:
    """That of the column totals; the stages are dynamic."""
    layout = tune.wide.Layout(1, 32, 3, 1)
    took = compile_for(*tune.wide._kernel(tune.wide.Task("values", 1, 2, column_totals), layout)[:3])
    assert took.shared == (tune.candidates.column_totals_bytes(layout) if column_totals else 0)


@pytest.mark.parametrize(("depth", "terms"), [(16, 1), (16, 3), (32, 3)])
def test_estimates_of_the_symmetric_engine_are_close(
    tune: SimpleNamespace, compile_for: Callable[..., Any], depth: int, terms: int
) -> None:
    layout = tune.Layout(2, 2, phi_is_shared=False)
    took = compile_for(*tune.symmetric._pass(depth, terms, 0, True, layout)[:3])
    assert took.shared <= tune.candidates.passed_sums_bytes(depth, terms, layout) <= took.shared + 64


def test_what_spills_anywhere_is_of_no_use(tune: SimpleNamespace) -> None:
    pytest.importorskip("cupy", reason="compiling CUDA sources needs CuPy and NVRTC")
    from benchmarks.density.tune import building

    def kernel(task: Any, shape: Any) -> core_compile.Kernel:
        chosen = tune.f16.specialise(task, shape)
        return core_compile.Kernel(chosen.stem, chosen.name, chosen.defines)

    roomy = kernel(tune.Task("sum", 16), tune.Shape(4, 1, 64, 4))
    cramped = kernel(tune.Task("moments", 64, products=3), tune.Shape(8, 4, 32, 4))
    assert building.build_for(roomy, 120) is None
    assert "sm_80" in str(building.build_for(cramped, 80))
    assert "Error" in str(building.build_for(roomy._replace(defines=()), 90))


class TestChoice:
    def shapes(self, tune: SimpleNamespace, current: Any, *times: tuple[Any, float, float]) -> Any:
        return tune.choice.shapes({}, current, [tune.choice.Timed(*one) for one in times])

    def test_the_fastest_of_each_kind(self, tune: SimpleNamespace) -> None:
        a, b, c = (tune.Shape(4, rows, 64, 3) for rows in (4, 2, 1))
        chosen = self.shapes(tune, (b, c), (a, 1.0, 9.0), (b, 1.5, 8.0), (c, 2.0, 4.0))
        assert chosen.after == [a, tune.Shape(4, 1, 64, 3, efficiency=0.5)]
        assert chosen.gain_busy == 1.5
        assert chosen.gain_few == 1.0

    def test_two_percent_change_nothing(self, tune: SimpleNamespace) -> None:
        a, b = tune.Shape(4, 4, 64, 3), tune.Shape(4, 1, 64, 3)
        narrow = tune.Shape(4, 1, 64, 3, efficiency=0.8)
        chosen = self.shapes(tune, (a, narrow), (a, 1.015, 5.0), (b, 1.0, 4.95))
        assert chosen.after == [a, b]  # kept both; the narrow one is no slower, so its efficiency is 1
        assert chosen.gain_busy == chosen.gain_few == 1.0

    def test_one_that_is_best_at_both_stands_alone(self, tune: SimpleNamespace) -> None:
        a, b = tune.Shape(4, 4, 64, 3), tune.Shape(4, 1, 64, 3)
        assert self.shapes(tune, (a, a), (a, 2.0, 2.0), (b, 1.0, 1.0)).after == [b]

    def test_a_choice_that_spills_here_is_replaced(self, tune: SimpleNamespace) -> None:
        a, b = tune.Shape(8, 4, 64, 3), tune.Shape(4, 1, 64, 3)
        assert self.shapes(tune, (a,), (b, 1.0, 1.0)).after == [b]

    def test_what_is_far_from_the_best_is_measured_once(self, tune: SimpleNamespace) -> None:
        a, b, c, d = (tune.Shape(4, rows, 64, 3) for rows in (1, 2, 4, 8))
        times = ((a, 1.0, 9.0), (b, 1.05, 9.0), (c, 2.0, 1.0), (d, 2.0, 2.0))
        rough = [tune.choice.Timed(*one) for one in times]
        assert tune.choice.close(rough, ()) == [a, b, c]
        assert tune.choice.close(rough, (tune.Shape(4, 8, 64, 3, efficiency=0.8),)) == [a, b, c, d]

    def test_layouts(self, tune: SimpleNamespace) -> None:
        a, b = tune.Layout(2, 2), tune.Layout(3, 3)
        timed = [tune.choice.Timed(a, 1.03, 0.0), tune.choice.Timed(b, 1.0, 0.0)]
        assert tune.choice.layout({}, a, timed).after == [b]
        assert tune.choice.layout({}, b, timed).after == [b]


class TestFile:
    def test_every_table_is_as_it_would_be_written(self, tune: SimpleNamespace) -> None:
        for table in tune.tiles.tables():
            text = (tune.tiles.FOLDER / table.name).read_text()
            assert tune.choice.dumps(table.gpu, table.date, table.engines) == text

    def test_what_is_written_is_read(self, tune: SimpleNamespace, tmp_path: Path) -> None:
        shapes = [tune.Shape(8, 2, 64, 3), tune.Shape(4, 1, 64, 6, efficiency=0.7)]
        layout = tune.Layout(3, 2, overlap=True)
        of = {"output": "sum", "products": 3, "depth": 16}
        engines = {
            "f16": [tune.choice.entry(tune.choice.Choice(of, [], shapes, 1, 1))],
            "f16_symmetric": [tune.choice.entry(tune.choice.Choice({"depth": 16}, [], [layout], 1, 1))],
        }
        path = tmp_path / "sm_120.json"
        path.write_text(tune.choice.dumps("a GPU", "2026-01-01", engines))
        table = tune.tiles.read(path)
        assert (table.architecture, table.gpu, table.date) == (120, "a GPU", "2026-01-01")
        assert list(table.tiles("f16", tune.Shape, of)) == shapes
        assert table.tiles("f16_symmetric", tune.Layout, {"depth": 16, "terms": 1}) == (layout,)


def clock_by_tiles(faster: Any) -> Callable[[Any, Any, int], float]:
    """A stopwatch that runs each pass and reads 1 for the tiles ``faster``, 2 for all others."""

    def clock(call: Any, ahead: Any, repeats: int) -> float:
        call()
        return 1.0 if call.args == (faster,) else 2.0

    return clock


class TestRun:
    @pytest.fixture
    def few(self, tune: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
        """Two candidates for one task of each engine: compiling for the host takes seconds."""
        monkeypatch.setattr(tune.engines.Ordered, "tasks", lambda self: [tune.f16.task("moments", 3, 16, 0, False)])
        monkeypatch.setattr(tune.engines.Symmetric, "tasks", lambda self: [(16, 1, 0)])
        shapes = [tune.Shape(4, 1, 64, 5), tune.Shape(4, 1, 64, 2)]
        monkeypatch.setattr(tune.candidates, "shapes", lambda *_: shapes)
        monkeypatch.setattr(tune.candidates, "layouts", lambda *_: [tune.Layout(2, 2)])
        monkeypatch.setattr(tune.engines.Wide, "tasks", lambda self: [tune.wide.pose("moments", 1)])
        monkeypatch.setattr(tune.engines._WidePass, "d", 72)
        monkeypatch.setattr(tune.candidates, "layouts_wide", lambda *_: [tune.wide.Layout(2, 32, 3, 1)])
        monkeypatch.setattr(tune.engines.Double, "tasks", lambda self: [tune.f64.Task("sum", 8)])
        monkeypatch.setattr(tune.candidates, "shapes_f64", lambda *_: [tune.Shape(8, 2, 128, 1)])
        main: ModuleType = tune.main
        return main

    def tuned(
        self, few: ModuleType, engine: Any, faster: Any, useless: Any = None, useless_elsewhere: Any = None
    ) -> Any:
        said: list[str] = []

        def of_tile(tile: Any) -> set[Any]:
            """The kernels of one tile alone."""
            (task,) = engine.tasks()
            of = {each: set(few.engines.kernels(engine, task, each)) for each in engine.candidates(task, SHARED)}
            return of[tile].difference(*(kernels for each, kernels in of.items() if each != tile))

        def build(tile: Any, kernels: Any) -> dict[Any, str | None]:
            gone = () if tile is None else of_tile(tile)
            return {kernel: "spills" if kernel in gone else None for kernel in kernels}

        builds = (functools.partial(build, tile) for tile in (useless, useless_elsewhere))
        (found,) = few.tuned(engine, 150, 70, SHARED, *builds, clock_by_tiles(faster), said.append)
        assert len(said) == 2
        return found

    def test_ordered(self, tune: SimpleNamespace, few: ModuleType) -> None:
        engine = tune.engines.Ordered()
        fast = tune.Shape(4, 1, 64, 5)
        found = self.tuned(few, engine, fast)
        assert {"output": "moments", "products": 3, "depth": 16, "columns": 0}.items() <= found.of.items()
        assert found.after == [fast]
        assert found.gain_busy == 2.0
        for of_no_use in ({"useless": fast}, {"useless_elsewhere": fast}):
            before = self.tuned(few, engine, fast, **of_no_use)
            assert [tune.choice.plain(tile) for tile in before.after] == [tune.choice.plain(t) for t in before.before]

    def test_symmetric(self, tune: SimpleNamespace, few: ModuleType) -> None:
        assert self.tuned(few, tune.engines.Symmetric(), tune.Layout(2, 2)).after == [tune.Layout(2, 2)]

    def test_wide(self, tune: SimpleNamespace, few: ModuleType) -> None:
        layout = tune.wide.Layout(2, 32, 3, 1)
        found = self.tuned(few, tune.engines.Wide(), layout)
        assert found.of == {"output": "moments", "terms": 1, "power_terms": 1}
        assert found.after == [layout]

    def test_double(self, tune: SimpleNamespace, few: ModuleType) -> None:
        shape = tune.Shape(8, 2, 128, 1)
        found = self.tuned(few, tune.engines.Double(), shape)
        assert found.of == {"output": "sum", "depth": 8, "columns": 0}
        assert found.after == [shape]

    def test_a_wrong_candidate_is_an_error(
        self, tune: SimpleNamespace, few: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = tune.engines._OrderedPass.run

        def wrong(self: Any, tile: Any) -> Any:
            out = run(self, tile)
            return out._replace(moments=out.moments * (1.01 if tile.blocks == 5 else 1))

        monkeypatch.setattr(tune.engines._OrderedPass, "run", wrong)
        with pytest.raises(AssertionError, match=r"blocks=5.* is off by 1"):
            self.tuned(few, tune.engines.Ordered(), None)


def test_nan_is_no_agreement(tune: SimpleNamespace) -> None:
    from cukde.density.sums import PartialSums

    good = PartialSums(np.zeros(2), np.ones(2))
    tune.engines.check("task", "tile", good, good)
    with pytest.raises(AssertionError, match="nan"):
        tune.engines.check("task", "tile", good._replace(total=np.array([1, np.nan])), good)
