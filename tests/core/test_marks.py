"""Which cases are marked ``crossed``: in the emulation by pairs of values, elsewhere all beyond a spread quarter."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from tests import conftest

LISTS = {
    "dtype": ["float32", "float64"],
    "name": ["a", "b", "c"],
    "n,m": [(1, 2), pytest.param(3, 4, id="other"), (5, 6)],
    "d": [2, 6, 9, 16],
}


def item(lists: dict[str, list], values: tuple) -> SimpleNamespace:
    """A case of a test, by its values."""
    own = {}
    for names, value in zip(lists, values, strict=True):
        value = value.values if hasattr(value, "values") else value
        own |= dict(zip(names.split(","), value if "," in names else (value,), strict=True))
    marks = [SimpleNamespace(args=arguments) for arguments in lists.items()]
    return SimpleNamespace(callspec=SimpleNamespace(params=own), iter_markers=lambda _: iter(marks))


@pytest.mark.parametrize("k", [3, 4])
def test_other_cases_have_each_two_values_together(k: int) -> None:
    lists = dict([*LISTS.items()][-k:])
    twos: dict[bool, set] = {False: set(), True: set()}
    for places in itertools.product(*(range(len(values)) for values in lists.values())):
        values = tuple(lists[name][place] for name, place in zip(lists, places, strict=True))
        is_crossed = conftest._is_crossed(item(lists, values))
        twos[is_crossed] |= set(itertools.combinations(enumerate(places), 2))
    assert twos[True]
    assert twos[True] <= twos[False]


def test_of_two_parameters_none_is_crossed() -> None:
    two = {name: LISTS[name] for name in ("name", "d")} | {"alone": [1]}
    assert not any(conftest._is_crossed(item(two, values)) for values in itertools.product(*two.values()))


def test_a_spread_quarter_has_every_value() -> None:
    """Of each parameter; where one parameter alone tells all cases apart, they all stay."""
    cases = [
        dict(zip("abc", map(str, values), strict=True)) for values in itertools.product(range(4), range(5), range(3))
    ]
    stay = conftest.spread(cases)
    assert {value for place in stay for value in cases[place].items()} == {v for case in cases for v in case.items()}
    assert 15 <= len(stay) <= 20
    assert conftest.spread([{"a": str(k)} for k in range(20)]) == set(range(20))
