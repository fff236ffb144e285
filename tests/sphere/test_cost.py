"""Costs on the sphere beside those of the same passes in space."""

from __future__ import annotations

from typing import Any

import pytest

from cukde import perf

RATES: dict[Any, float] = {"memory": 2e10, "fma": 1e11, "float64": 5e10, "scalar": 6e9, "exponential": 2e9}
CPU = perf.Peaks("two cores", "cpu", RATES, 0.0, 2, 3e9, 2**25, (0, 0), "here")
SIZES: dict[str, Any] = {"n": 2**17, "d": 3, "dtype": "float32"}


def _seconds(op: str, on: Any, **sizes: Any) -> float:
    return perf.predict(op, on, **SIZES | sizes).seconds


@pytest.mark.parametrize("on", ["H200", CPU], ids=["gpu", "cpu"])
@pytest.mark.parametrize("op", ["kde", "score", "modes"])
def test_norms_are_looked_at(op: str, on: Any) -> None:
    looked = _seconds(f"sphere.{op}", on, m=2**14)
    assert looked > _seconds(op, on, m=2**14)
    unchecked = perf.cost(f"sphere.{op}", on, m=2**14, check_finite=False, **SIZES)
    assert "norms" not in {part.name for part in unchecked.parts}
    assert looked > perf.predict(f"sphere.{op}", on, m=2**14, check_finite=False, **SIZES).seconds


def test_a_search_waits_for_passes_of_few_points() -> None:
    few, many = (_seconds("modes", "H200", m=m) for m in (16, 2**14))
    assert few > 0.03  # Python takes as long for them
    assert many < 3 * few
    assert _seconds("modes", "H200", m=16, passes=3) < 0.5 * few
    with pytest.raises(ValueError, match="passes must be 1 or more"):
        perf.cost("sphere.modes", "H200", m=16, passes=0.5, **SIZES)


@pytest.mark.parametrize("on", ["H200", CPU], ids=["gpu", "cpu"])
def test_rules_find_a_concentration_on_the_host(on: Any) -> None:
    assert 0.0028 < _seconds("sphere.reference", on, n=100) < 0.005
    rule, cross = (perf.cost(f"sphere.{op}", on, **SIZES) for op in ("reference", "cross_validate"))
    assert {f"reference: {part.name}" for part in rule.parts} < {part.name for part in cross.parts}
    assert cross.exponentials == 32 * SIZES["n"] * (SIZES["n"] - 1) / 2
