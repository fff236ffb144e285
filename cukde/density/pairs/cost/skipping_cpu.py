"""Work of the density passes on the CPU that leave out pairs: ``cukde/density/pairs/cpu/skipping/``."""

from __future__ import annotations

from cukde.core.cost.cost import Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.density.pairs.cost import cpu as cost_cpu
from cukde.density.pairs.cost.engines import Pass
from cukde.density.plan import cpu as plan_cpu


def passed(task: Pass, on: Peaks, share: float) -> list[Part]:
    """Parts of a pass that sums a share of its pairs.

    How many are screened is not known of a share: it is estimated, as between mixtures and one normal distribution.
    """
    n, m, d = task.n, task.m, task.d
    single = task.precision in ("float32", "tf32") and task.itemsize == 4 and not (task.weighted or task.local)
    both = task.itself and not task.weighted and plan_cpu.skips_once(task.output, n, on.multiprocessors)
    pairs, rate = share * task.pairs, plan_cpu.summed_rate(task.output, d, task.k, single=single, once=both)
    unit: Unit = "exponential" if single else "exponential_f64"
    parts = [
        *cost_cpu.sampled(task, on),
        *cost_cpu.ordered(task, once=both),
        cost_cpu.timed("boxes", plan_cpu.boxes_ns(d, n, m, once=both)),
        cost_cpu.timed("pass", rate * pairs, {unit: pairs}, task.result_bytes),
    ]
    if both or d >= plan_cpu.SCREENED_FROM:
        screened = share ** (3 / d) if task.screened is None else task.screened
        parts.insert(-1, cost_cpu.timed("screen", screened * task.pairs * plan_cpu.screened_rate(d, once=both)))
    return parts
