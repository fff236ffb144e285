"""Work of the density passes on the CPU that leave out pairs: ``cukde/density/pairs/cpu/skipping/``."""

from __future__ import annotations

from cukde.core.cost.cost import Part, Unit
from cukde.density.pairs.cost.engines import Pass
from cukde.density.plan import cpu as plan_cpu

# Operations of these cores, a nanosecond: what rates are as work, for other processors.
_SCALARS = 7.6


def passed(task: Pass, share: float) -> list[Part]:
    """Parts of a pass that sums a share of its pairs.

    How many are screened is not known of a share: it is estimated, as between mixtures and one normal distribution.
    """
    single = task.precision in ("float32", "tf32") and task.itemsize == 4 and not task.weighted
    both = task.output == "moments" and task.itself and not task.weighted
    once = plan_cpu.once_rate() if both else 1.0
    pairs = share * task.pairs
    rate = once * plan_cpu.summed_rate(task.output, task.d, task.k, single=single)
    unit: Unit = "exponential" if single else "exponential_f64"
    ordering = plan_cpu.order_ns(task.d, task.n, 0 if task.itself else task.m) + plan_cpu.boxes_ns(
        task.d, task.n, task.m
    )
    parts = [
        Part("order", task.point_bytes, {"scalar": _SCALARS * ordering}),
        Part("pass", task.result_bytes, {unit: pairs, "scalar": _SCALARS * rate * pairs}),
    ]
    if both or (not single and task.d >= plan_cpu.SCREENED_FROM):
        screened = once * share ** (3 / task.d) * task.pairs * plan_cpu.screened_rate(task.d)
        parts.insert(1, Part("screen", work={"scalar": _SCALARS * screened}))
    return parts
