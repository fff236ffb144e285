"""What docs/dask.md shows runs, and says what the library does."""

from __future__ import annotations

import re
from pathlib import Path

import dask
import numpy as np

import cukde
from cukde.core.dask import chunks as dask_chunks
from tests.private import kendall_dask

PAGE = (Path(__file__).parents[2] / "docs" / "dask.md").read_text()


def test_the_first_example_is_a_plain_call() -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    names: dict[str, object] = {}
    with dask.config.set(scheduler="synchronous"):
        exec(code, names)
        X, Y = dask.compute(names["X"], names["Y"])
        log_p = names["log_p"].compute()  # type: ignore[attr-defined]
    np.testing.assert_allclose(log_p, cukde.sd_kde(X, Y, names["h"], log=True), rtol=0, atol=1e-12)


def test_the_table_of_blocks() -> None:
    rows = [int(number.replace(",", "")) for number in re.findall(r"^\| .* \| ([\d,]+) \|$", PAGE, re.MULTILINE)]
    assert rows == [
        dask_chunks.rows_of_block(1, 1, 2, gpu=False),
        dask_chunks.rows_of_block(1, 1, 2, gpu=True),
        dask_chunks.rows_of_block(1, 1, 1, gpu=False),
    ]


def test_columns_of_blocks() -> None:
    said = re.findall(r"([\d,]+) and ([\d,]+) of ([\d,]+)", PAGE)
    found = [tuple(int(number.replace(",", "")) for number in numbers) for numbers in said]
    widths = [[kendall_dask.columns_of_block(n, 1, 1, gpu=gpu) for gpu in (False, True)] for n in (1_000, 100_000)]
    assert found == [(*widths[0], 1_000), (*widths[1], 100_000)]
