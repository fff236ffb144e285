"""What docs/choosing.md and its evidence say of methods and rules is what the records say, and the calls run."""

from __future__ import annotations

import re

import numpy as np
import pytest

import cukde
from docs.figures import choosing

PAGE = (choosing.DOCS / "choosing.md").read_text(encoding="utf-8")
CALLS = re.findall(r"^\| .+ \| `(cukde\..+)` \|$", PAGE, re.MULTILINE)


def test_the_evidence_is_made_of_its_records() -> None:
    page = choosing.PAGE.read_text(encoding="utf-8")
    assert page == choosing.written(page, choosing.made())


def test_how_much_select_loses() -> None:
    cases = choosing.cases(choosing.records(choosing.STUDY))
    real = [case.excess(choosing.ARMS["`select`"]) for case in cases if case.is_real]
    said = re.search(r"On (\d+) real sets `select` lost at most (\S+) nats a row", PAGE)
    assert said
    assert said.groups() == (str(len(real)), f"{max(real):.2f}")
    assert f"on {len(cases) - len(real)} cases of known densities" in PAGE


def test_the_table_has_seven_rows() -> None:
    assert len(CALLS) == 7


@pytest.mark.parametrize("call", CALLS)
def test_a_call_of_the_table(call: str) -> None:
    X = np.random.default_rng(0).normal(size=(60, 1))
    p = eval(call, {"cukde": cukde, "X": X, "Y": X[:3]})
    assert p.shape == (3,)
    assert (p > 0).all()
