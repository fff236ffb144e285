"""Work of the density passes on a GPU that leave out pairs, by rates: an order of the points, and blocks of them.

Sources: ``cukde/density/pairs/gpu/skipping/`` and ``cukde/density/pairs/gpu/centred.py``.
"""

from __future__ import annotations

import math

from cukde.core.cost.cost import Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.density.pairs.cost.engines import Pass
from cukde.density.plan import gpu as plan_gpu, rates as plan_rates
from cukde.density.sums import Output

# Work of the GPU of the table a second: what its rates are as work, for other processors.
_PEAKS = plan_rates.table("gpu")["peaks"]


def _work(rate: float, pairs: float, *, double: bool) -> dict[Unit, float]:
    """Exponentials of pairs, and instructions such that a pair takes so many picoseconds on the GPU of the table."""
    unit: Unit = "exponential_f64" if double else "exponential"
    others = math.sqrt(max(0.0, (1e-12 * rate) ** 2 - _PEAKS[unit] ** -2))  # units overlap: squares of times add up
    return {unit: pairs, "instruction": _PEAKS["instruction"] * others * pairs}


def passed(task: Pass, on: Peaks, share: float) -> list[Part]:
    """Parts of a pass that takes a share of its pairs; on an H200 they take what the choice reckons with.

    A part is instructions, and the exponentials of the pairs that are summed. Each column of values is a pass.
    """
    passes = task.k if task.output == "values" else 1
    order_ms = plan_gpu.order_ms() + (passes * plan_gpu.column_ms(task.pairs) if task.output == "values" else 0.0)
    double = task.precision == "float64"
    once = not double and not task.weighted and task.output == "moments" and task.mean_shift
    summed = task.output in ("sum", "values") or (not task.weighted and task.output == "laplace")
    by_products = once or (not double and summed)
    rate = plan_gpu.summing(task.precision, task.d, float(by_products), once=once)
    exponentials = passes * share * task.pairs
    parts = [
        Part("order", task.point_bytes, cycles=1e-3 * order_ms * on.clock),
        Part("pass", task.result_bytes, _work(rate, exponentials, double=double)),
    ]
    if plan_gpu.screened(task.d):
        screening = 1e-12 * _PEAKS["instruction"] * plan_gpu.screening(task.d)
        parts.insert(1, Part("screen", work={"instruction": screening * passes * task.pairs}))
    return parts


def by_rate(name: str, task: Pass, on: Peaks) -> list[Part]:
    """Parts of a pass over all pairs that is known by its rate in the plan's table; what it leaves out is in that."""
    double = task.precision == "float64"
    output: Output = "sum" if name == "centred" and task.itself else task.output  # which then leaves out more
    rate = plan_gpu.dense_rate(name, task.precision, task.d, output, task.k)
    work = _work(rate, task.pairs, double=double)
    parts = [Part("pass", task.point_bytes + task.result_bytes, work)]
    if name == "centred":
        parts.insert(0, Part("order", task.point_bytes, cycles=1e-3 * plan_gpu.centred_ms() * on.clock))
    return parts
