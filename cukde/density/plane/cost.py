"""Time of the transform: the choice between it and pairs, and the model.

Rates of a GPU are those of an H200, and of a CPU those of two cores with AVX-512 (Zen 4).
"""

from __future__ import annotations

from cukde.core.cost.cost import Part
from cukde.core.cost.peaks import Peaks
from cukde.density.pairs.cost.engines import Pass
from cukde.density.plan import rates as plan_rates
from cukde.density.plane import plan as plane_plan
from cukde.density.plane.plan import Plan

_FLOPS = 3.35e13  # of an H200, a second, in double precision: what that is as work, for other processors

# Operations of these cores, a nanosecond; and nanoseconds for a point, for a multiply-add of its expansion, and for one
# of the translations: fitted to 32 calls, of which they give 0.6 to 1.6 times the time.
_SCALARS = 7.6
_NS_OF_POINT, _NS_OF_ADD, _NS_OF_PRODUCT = 88.0, 0.22, 0.04


def products(plan: Plan, cells: float) -> float:
    """Multiply-adds of the translations to so many cells of queries, one coordinate after the other."""
    return float(plan.columns * (2 * plan.reach + 1) * plan.order ** (plan.columns + 1)) * cells


def adds(plan: Plan, n: float, m: float) -> float:
    """Multiply-adds of moments of points, and of polynomials at queries."""
    return plan.order**plan.columns * (float(n) + (2 if plan.output == "moments" else 1) * float(m))


def passed(task: Pass, on: Peaks, cells: int) -> list[Part]:
    """Parts of a transform with expansions about so many cells of queries."""
    rtol = plane_plan.rtol_of(task.precision, task.rtol)
    plan = plane_plan.plan(1.0, rtol, "moments" if task.output == "moments" else "sum", task.d)
    of_points = adds(plan, task.n, task.m)
    if on.backend == "cpu":
        points = float(task.n) + task.m
        return [
            Part("order", task.point_bytes, {"scalar": _SCALARS * _NS_OF_POINT * points}),
            Part("pass", task.result_bytes, {"scalar": _SCALARS * _NS_OF_ADD * of_points}),
            Part("translations", work={"scalar": _SCALARS * _NS_OF_PRODUCT * products(plan, cells)}),
        ]
    rates = plan_rates.table("gpu")["plane"]
    slower = 1e-3 * rates["multiply-add_ms"] * _FLOPS
    return [
        Part("order", task.point_bytes, cycles=1e-3 * rates["transform_ms"] * on.clock),
        Part("pass", task.result_bytes, {"float64": 2 * of_points}),
        Part("translations", work={"float64": slower * products(plan, cells)}),
    ]
