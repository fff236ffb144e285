"""The tables of tiles: which one a device takes, and that what they offer can be launched."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tests.density.conftest import Modules


@pytest.fixture
def gpu(emulated_device: None) -> Modules:
    """The modules under test; the device is an sm_90."""
    return Modules()


def written(folder: Path, content: Any, name: str = "sm_80.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(content))
    return path


def content(*entries: Any) -> dict[str, Any]:
    return {"gpu": "none", "date": "2026-01-01", "engines": {"f16": list(entries)}}


TILE = {"warps": 4, "row_tiles": 1, "tile": 64, "blocks": 3}
TASK = {"output": "sum", "depth": 16}


@pytest.mark.parametrize(
    ("capability", "want"), [((8, 0), 80), ((8, 9), 80), ((9, 0), 90), ((12, 0), 100), ((7, 5), 80)]
)
def test_a_device_takes_the_nearest_older_table(gpu: Modules, capability: tuple[int, int], want: int) -> None:
    tables = tuple(gpu.tiles.Table(f"sm_{a}.json", a, "", "", {}) for a in (80, 90, 100))
    assert gpu.tiles.nearest(capability, tables).architecture == want


def test_the_first_entry_that_fits_counts(gpu: Modules, tmp_path: Path) -> None:
    special = {"of": {"depth": 16, "output": "sum"}, "tiles": [TILE | {"efficiency": 0.5}]}
    general = {"of": {"depth": 16}, "tiles": [TILE, TILE | {"tile": 128}]}
    table = gpu.tiles.read(written(tmp_path, content(special, general)))
    shape = gpu.splits.Shape
    assert table.tiles("f16", shape, TASK) == (shape(4, 1, 64, 3, 0.5),)
    assert table.tiles("f16", shape, TASK | {"output": "moments"}) == (shape(4, 1, 64, 3), shape(4, 1, 128, 3))


def test_a_kernel_without_tiles_is_named(gpu: Modules, tmp_path: Path) -> None:
    table = gpu.tiles.read(written(tmp_path, content({"of": {"depth": 16}, "tiles": [TILE]})))
    with pytest.raises(ValueError, match=r"sm_80\.json has no tiles of f16 for .*32"):
        table.tiles("f16", gpu.splits.Shape, TASK | {"depth": 32})
    unknown = gpu.tiles.read(written(tmp_path, content({"of": {"depht": 16}, "tiles": [TILE]})))
    with pytest.raises(ValueError, match="depht"):
        unknown.tiles("f16", gpu.splits.Shape, TASK)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ([], "sm_80.json"),
        ({"gpu": "none", "date": "2026-01-01"}, "sm_80.json"),
        (content({"of": {"depth": 16}}), "sm_80.json"),
        (content({"of": {"depth": 16}, "tiles": []}), "sm_80.json"),
        (content({"of": {"depth": 16}, "tiles": [TILE | {"blocks": 0}]}), "sm_80.json"),
        (content({"of": {"depth": 16}, "tiles": [TILE | {"blocks": "3"}]}), "sm_80.json"),
        (content(), "h200.json"),  # a table is called by its architecture
    ],
)
def test_what_is_no_table_is_named(gpu: Modules, tmp_path: Path, wrong: Any, name: str) -> None:
    with pytest.raises(ValueError, match=name.removesuffix(".json")):
        gpu.tiles.read(written(tmp_path, wrong, name))


def test_every_task_of_every_table_has_shapes_that_fit(gpu: Modules) -> None:
    for task in (*gpu.f16.tasks(), *gpu.f64.tasks()):
        assert set(task.shapes) <= set(task.every_shape)
        for shape in task.every_shape:
            assert task.shared_bytes(shape.tile) <= 48 * 1024, (task, shape)
            assert shape.warps in (4, 8)
            assert shape.tile % 16 == 128 % shape.tile == 0, (task, shape)
            assert 0 < shape.efficiency <= 1
            assert shape.threads * shape.blocks <= 2048


def test_every_layout_of_many_dimensions_fits_every_device(gpu: Modules) -> None:
    for task in gpu.wide.tasks():
        assert gpu.wide.layout(task) in gpu.wide.every_layout(task)
        for layout in gpu.wide.every_layout(task):
            totals = 2 * 4 * 128 * layout.warps_down if task.staged else 0  # of columns, static
            assert layout.shared_bytes(task) + totals <= 99 * 1024
            assert layout.step_depth in (32, 64)


def test_every_entry_of_every_table_is_some_kernels(gpu: Modules) -> None:
    """No entry is dead: each is the first that fits some task."""
    tasks = {
        "f16": list(map(dataclasses.asdict, gpu.f16.tasks())),
        "f16_symmetric": [
            dict(zip(("depth", "terms", "columns"), of, strict=True)) for of in gpu.f16_symmetric.operands()
        ],
        "wide": list(map(gpu.wide.named, gpu.wide.tasks())),
        "f64": list(map(dataclasses.asdict, gpu.f64.tasks())),
    }
    for table in gpu.tiles.tables():
        assert table.engines.keys() == tasks.keys()
        for engine, entries in table.engines.items():
            fits = ([entry["of"].items() <= task.items() for entry in entries] for task in tasks[engine])
            assert {fit.index(True) for fit in fits} == set(range(len(entries)))


def test_every_kernel_of_every_table_is_listed(gpu: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a second table of other tiles, the kernels of both."""
    from cukde import catalogue

    own = gpu.tiles.tables()
    before = set(catalogue.kernels())
    tiles = {
        "f16": [{"of": {}, "tiles": [{"warps": 4, "row_tiles": 1, "tile": 32, "blocks": 2}]}],
        "f16_symmetric": [{"of": {}, "tiles": [{"row_tiles": 2, "blocks": 2}]}],
        "wide": [{"of": {}, "tiles": [{"warps_down": 2, "step_depth": 32, "stages": 3, "blocks": 1}]}],
        "f64": [{"of": {}, "tiles": [{"warps": 8, "row_tiles": 1, "tile": 16, "blocks": 1}]}],
    }
    other = gpu.tiles.Table("sm_200.json", 200, "", "", tiles)
    monkeypatch.setattr(gpu.tiles, "tables", lambda: (*own, other))
    after = set(catalogue.kernels())
    assert before < after
    names = {name for _, name, _ in after - before}
    assert {"kde_f16", "score_f16x2", "kernel_sum_f16x2", "score_symmetric_f16"} <= names
    assert {"kde_wide_f16", "score_wide_f16x2", "kde_f64_products", "kernel_sum_f64_products"} <= names
    staged = [dict(defines) for _, name, defines in after - before if name == "score_wide_f16x2"]
    assert len(staged) == 4  # one term of powers or two, with column totals and without
