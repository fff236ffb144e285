"""Time of the transform of two and three columns, by the tables of rates: for the choice on a GPU, and the model."""

from __future__ import annotations

from cukde.core.cost.cost import Part
from cukde.core.cost.peaks import Peaks
from cukde.density.pairs.cost import cpu as cost_cpu
from cukde.density.pairs.cost.engines import Pass
from cukde.density.plan import rates as plan_rates
from cukde.density.plane import plan as plane_plan
from cukde.density.plane.plan import Plan


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
        of_cpu = plan_rates.table("cpu")["cells"]
        parts = [
            *cost_cpu.sampled(task, on),
            cost_cpu.timed("order", of_cpu["point"] * (task.n + task.m), bytes_=task.point_bytes),
            cost_cpu.timed("pass", of_cpu["add"] * of_points, bytes_=task.result_bytes),
            cost_cpu.timed("translations", of_cpu["product"] * products(plan, cells)),
        ]
        return [*parts, *cost_cpu.again(task, on)]
    of_gpu = plan_rates.table("gpu")
    rates = of_gpu["plane"]
    slower = 1e-3 * rates["multiply-add_ms"] * of_gpu["peaks"]["float64"]  # than as work of the unit
    return [
        Part("order", task.point_bytes, cycles=1e-3 * rates["transform_ms"] * on.clock),
        Part("pass", task.result_bytes, {"float64": 2 * of_points}),
        Part("translations", work={"float64": slower * products(plan, cells)}),
    ]
