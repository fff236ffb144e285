"""Which cases are marked ``crossed``: of tests of many cases those beyond a spread sample."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from tests import conftest


class Case:
    """A case of a test, as pytest collects it."""

    def __init__(self, marks: set[str], **values: object) -> None:
        self.nodeid, self.marks = f"test_of_many[{values}]", marks
        self.callspec = SimpleNamespace(params=values)

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.add(mark.name)


def test_emulated_cases_keep_every_value_and_the_sample_of_every_run() -> None:
    values = itertools.product(["emulated"], range(4), range(5), range(3))
    cases = [
        Case(set() if k % 8 == 0 else {"kernels"}, backend=backend, a=a, b=b, c=c)
        for k, (backend, a, b, c) in enumerate(values)
    ]
    conftest._mark_crossed(cases)
    stay = [case for case in cases if "crossed" not in case.marks]
    assert all(case in stay for case in cases[::8])
    for name, count in {"a": 4, "b": 5, "c": 3}.items():
        assert len({case.callspec.params[name] for case in stay}) == count
    assert len(stay) < len(cases) / 2


def test_a_spread_sample_has_every_value() -> None:
    """Of each parameter; where one parameter alone tells all cases apart, they all stay."""
    cases = [
        dict(zip("abc", map(str, values), strict=True)) for values in itertools.product(range(4), range(5), range(3))
    ]
    stay = conftest.spread(cases, 4)
    assert {value for place in stay for value in cases[place].items()} == {v for case in cases for v in case.items()}
    assert 15 <= len(stay) <= 20
    assert conftest.spread([{"a": str(k)} for k in range(20)], 4) == set(range(20))
