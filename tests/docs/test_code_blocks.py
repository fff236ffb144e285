"""Every code block of the README and of the documentation runs, or says on the line before it why it does not."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from benchmarks.tools import records
from tests.docs import code_blocks
from tests.docs.test_docs import leaves

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = {page: list(code_blocks.blocks(page.read_text(encoding="utf-8"))) for page in PAGES}
WITH_CODE = [pytest.param(page, id=page.relative_to(ROOT).as_posix()) for page in PAGES if BLOCKS[page]]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The files that blocks read, in the working folder; figures that they draw are closed."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"height": rng.normal(170, 9, 300), "age": rng.uniform(18, 80, 300).round()})
    people["weight"] = 0.9 * people["height"] - 80 + rng.normal(0, 9, 300)
    people.to_csv("train.csv", index=False)
    people.head(50).to_csv("queries.csv", index=False)
    people.to_parquet("train.parquet")
    np.save("data.npy", rng.normal(size=(300, 4)))
    times = {"q1_ms": 1.0, "q3_ms": 1.0, "low_ms": 1.0, "high_ms": 1.0, "runs": 3}
    row = {
        "op": "kde",
        "backend": "cpu",
        "shape": {"n": 9},
        "dtype": "float64",
        "precision": "float64",
        "rel_err_max": 0.0,
    }
    for name, ms in {"old.json": 1.0, "new.json": 2.0}.items():
        records.write(name, [row | times | {"median_ms": ms}])
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.mark.parametrize("page", WITH_CODE)
def test_code_of_a_page(page: Path, files: None, monkeypatch: pytest.MonkeyPatch) -> None:
    code_blocks.prepare(monkeypatch)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in BLOCKS[page]:
        if block.runs:
            code_blocks.run(block, page, names)


def test_no_block_is_passed_over() -> None:
    """Each fence is one of a block, each block runs, is no code, or says why it does not run, and most run."""
    fences = sum(len(re.findall(r"^ *(?:```|~~~)", page.read_text(encoding="utf-8"), re.MULTILINE)) for page in PAGES)
    found = [block for page in PAGES for block in BLOCKS[page]]
    assert 2 * len(found) == fences
    assert {block.language for block in found} <= {*code_blocks.PYTHON, *code_blocks.SHELL, *code_blocks.PROSE}
    code = [block for block in found if block.language not in code_blocks.PROSE]
    passed_over = [block for block in code if not block.runs]
    assert all(len(block.reason or "") > 10 for block in passed_over)
    assert len(passed_over) < 0.4 * len(code)


def test_text_below_a_block_is_what_it_prints() -> None:
    page = "```python\nprint(1)\n```\n\n```text\n1\n```\n\n```python\n2\n```\n\nwords\n\n```text\n3\n```\n"
    first, _, second, _ = code_blocks.blocks(page)
    assert (first.prints, second.prints) == ("1\n", None)
    code_blocks.run(first, Path("page.md"), {})
    with pytest.raises(AssertionError, match="prints\n1"):
        code_blocks.run(first._replace(prints="2\n"), Path("page.md"), {})


def guide() -> list[Path]:
    """Pages of the quickstart and the user guide."""
    nav = yaml.safe_load((ROOT / "docs" / "site" / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    sections = {name: part for section in nav for name, part in section.items()}
    return [ROOT / "docs" / "quickstart.md", *(ROOT / "docs" / name for name in leaves(sections["User guide"]))]


@pytest.mark.parametrize("page", guide(), ids=lambda page: page.stem)
def test_a_page_of_the_guide_opens_with_code_output_and_a_picture(page: Path) -> None:
    """Before its first heading, in a block of at most ten lines."""
    opening = page.read_text(encoding="utf-8").partition("\n## ")[0]
    first = next(code_blocks.blocks(opening), None)
    assert first is not None, "no code"
    assert first.code.count("\n") <= 10
    assert first.prints, "nothing is printed"
    assert re.search(r"^!\[.+\]\(.+\)$", opening, re.MULTILINE), "no picture"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_code_fits_a_page(page: Path) -> None:
    """Blocks do not scroll on a screen of 1,280 pixels."""
    wide = [line for block in BLOCKS[page] for line in block.code.splitlines() if len(line) > 78]
    assert wide == []


def test_commands_of_a_block() -> None:
    code = "cukde density 'a b.csv' \\\n  --log\n\ncukde info  # versions\n# a comment\n"
    assert code_blocks.shell_commands(code) == [["cukde", "density", "a b.csv", "--log"], ["cukde", "info"]]
