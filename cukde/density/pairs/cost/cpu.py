"""Work of the density passes on a CPU: what is counted for each pair, and its time by the plan's table of rates.

Sources: ``cukde/density/plan/cpu.py`` and ``cukde/density/pairs/cpu/``. A part has the operations of its inner loop.
Its efficiency is such that it takes the time of the table on the cores that the table was measured on; on others it
takes longer or less by the peaks of the units.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from cukde.core.cost.cost import Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.density.pairs.cost.engines import Pass
from cukde.density.plan import cpu as plan_cpu, rates as plan_rates

_RATES = plan_rates.table("cpu")
_PEAKS: Mapping[Unit, float] = _RATES["peaks"]  # of all cores of the table, a second
_CORES: int = _RATES["cores"]

# Operations for each pair and column: difference, square and sum, or a product and a sum; for moments as many besides.
_DIFFERENCE, _PRODUCT, _MOMENT = 3, 2, 2


def timed(name: str, ns: float, work: Mapping[Unit, float] | None = None, bytes_: float = 0.0) -> Part:
    """Part that takes so many nanoseconds on all cores of the table; without work, of operations one at a time."""
    work = work or {"scalar": 1e-9 * ns * _PEAKS["scalar"]}
    least = 1e9 * math.hypot(*(count / _PEAKS[unit] for unit, count in work.items()))
    return Part(name, bytes_, work, efficiency=least / ns if ns and least else 1.0)


def serial(name: str, ns: float, work: Mapping[Unit, float] | None = None, bytes_: float = 0.0) -> Part:
    """Part that takes so many nanoseconds on one core of the table, while the others wait."""
    return dataclasses.replace(timed(name, ns / _CORES, work, bytes_), blocks=1.0)


def name_of(task: Pass, on: Peaks) -> str:
    """Name of the pass over all pairs: that which ran, or the first that takes data near their mean."""
    if task.ran is not None:
        return task.ran
    left_out = {"plane", "line", "skipping"} | ({"few queries"} if task.looked else set())
    if not plan_cpu.once_pays(task.output, task.n, on.multiprocessors):
        left_out.add("each pair once")
    return next(name for name in plan_cpu.plan(task.shape(on)).names if name not in left_out)


def before(task: Pass, *names: str) -> list[Part]:
    """What a call does beside its passes: Python's work, the mean of the data, and a look at all arrays."""
    name = names[0]
    moments = task.output == "moments"
    loops = name == "few queries" and not plan_cpu.one_array_pays(task.n, task.m, task.d, moments=moments)
    host = serial("host", plan_cpu.call_ns(names, task.n * task.weighted, loops=loops))
    if name == "few queries":
        return [host]
    values, weights = float(task.itemsize) * task.n * task.k, 40.0 * task.n * task.weighted
    bytes_ = task.point_bytes + float(task.itemsize) * task.n * task.d + values + weights
    looked = plan_cpu.survey_ns(task.n, 0 if task.itself else task.m, task.d, task.itemsize)
    return [host, serial("survey", looked, bytes_=bytes_)]


def sampled(task: Pass, on: Peaks) -> list[Part]:
    """What samples of the points take, which tell whether a pass leaves out pairs."""
    asked = {"plane", "skipping"}.intersection(plan_cpu.plan(task.shape(on)).names)
    return [serial("sample", len(asked) * plan_cpu.sample_ns())] if asked else []


def passed(task: Pass, on: Peaks) -> list[Part]:
    """Parts of a pass over all pairs."""
    name, n, m, d = name_of(task, on), task.n, task.m, task.d
    arrays = task.point_bytes + float(task.itemsize) * n * task.k + task.result_bytes
    may_be_single = task.precision in ("float32", "tf32") and not task.local
    single = may_be_single and name not in ("difference float64", "product float64", "few", "line few")
    once = name == "each pair once"
    pairs = task.pairs / 2 if once else task.pairs
    each = _PRODUCT if name == "product float64" else _DIFFERENCE
    of_moments = _MOMENT * d * (1 + once) * (task.output == "moments")
    work: dict[Unit, float] = {
        ("exponential" if single else "exponential_f64"): pairs,
        ("fma" if single else "float64"): (each * d + of_moments + 2 * task.k) * pairs,
    }
    if name in ("few", "line few"):
        return [serial("pass", plan_cpu.few_ns(n, m), work, arrays)]
    ns = plan_cpu.dense_ns(name, task.output, n, m, d, task.k, single=single)
    parts = [timed("pass", ns, work, arrays), *again(task, on), serial("results", plan_cpu.result_ns(m))]
    if name == "few queries":
        return parts
    if task.in_vain:
        parts = [*ordered(task), *parts]
    return [*sampled(task, on), *parts]


def again(task: Pass, on: Peaks) -> list[Part]:
    """The sums of queries that another pass takes again: in double, or after a transform."""
    if not task.again:
        return []
    m = round(task.again * task.m)
    ran = task.ran if task.cells is not None else plan_cpu.of_double(task.n, m, task.d)
    some = dataclasses.replace(task, m=m, itself=False, cells=None, again=0.0, ran=ran)
    part = next(part for part in passed(some, on) if part.name == "pass")
    copied = task.cells is None and task.itemsize == 4 and name_of(task, on) != "few queries"
    copy = [serial("copy", plan_cpu.copy_ns(task.n, task.d))] if copied else []
    return [*copy, dataclasses.replace(part, name="other queries")]


def ordered(task: Pass, *, once: bool = False) -> list[Part]:
    """Put points in order for a pass that leaves out pairs, and try queries."""
    ns = plan_cpu.order_ns(task.d, task.n, 0 if task.itself else task.m, once=once)
    return [timed("order", ns, bytes_=task.point_bytes), timed("tried", plan_cpu.tried_ns(task.d, task.m))]
