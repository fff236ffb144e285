"""The time of a call, the time by the model, and what binds."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from cukde.core import check as core_check, dispatch
from cukde.core.cost.cost import UNITS, Cost, Unit
from cukde.core.cost.peaks import Peaks
from cukde.core.cost.registry import call_of, counted, found, told
from cukde.core.over_dask import is_dask
from cukde.core.public import public_in
from cukde.perf import _text
from cukde.perf._lookup import peaks
from cukde.perf._measure import Times, measure
from cukde.perf._predict import Prediction, alone, predicted
from cukde.perf._sensitivity import Sensitivity, perturbed

AGREES = 1.35
"""Factor between measured and predicted times from which a verdict says so: the error that the model is held to."""


@public_in("cukde.perf")
@dataclass(frozen=True)
class UnitRate:
    """The use that a call makes of one unit.

    Attributes
    ----------
    unit : str
    work : float
        Operations, or bytes: the least bytes of memory, and the bytes that are asked of the cache.
    achieved : float
        Work over the measured time, in a second.
    peak : float
        Highest rate of the unit; infinite for a cache that was not measured.
    alone : float
        Seconds of the unit by itself, by the model. For memory: of the bytes that the cache does not serve.
    """

    unit: Unit
    work: float
    achieved: float
    peak: float
    alone: float

    @property
    def percent(self) -> float:
        """Percent of the peak."""
        return 100 * self.achieved / self.peak


@public_in("cukde.perf")
@dataclass(frozen=True)
class Stage:
    """One of the calls that a call consists of.

    Attributes
    ----------
    name : str
    times : Times
    predicted : float or None
        Seconds by the model of the stage, or else of the parts of the whole with its name; None without such parts.
    binds : str or None
        What takes the longest in it.
    """

    name: str
    times: Times
    predicted: float | None
    binds: str | None


@public_in("cukde.perf")
@dataclass(frozen=True, repr=False)
class Explanation:
    """The time of a call, and what limits it: see :func:`explain`. Its string is a report.

    Attributes
    ----------
    on : Peaks
        Of the processor.
    times : Times
        As measured, milliseconds.
    prediction : Prediction
        By both rules, with the cost.
    stages : tuple of Stage
        For a call that consists of several others: each of them, timed by itself.
    sensitivity : Sensitivity
    cold : bool
        Whether the caches were emptied before each run.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> from cukde import perf
    >>> explanation = perf.explain(cukde.kde, np.zeros((99, 2)), np.zeros((9, 2)), 0.5, on="cpu", seconds=0.01)
    >>> explanation.seconds == explanation.times.median_ms / 1e3
    True

    Notes
    -----
    ``times`` says how accurate the time is; ``sensitivity`` how the verdict depends on errors of the model.
    """

    on: Peaks
    times: Times
    prediction: Prediction
    stages: tuple[Stage, ...]
    sensitivity: Sensitivity
    cold: bool

    @property
    def op(self) -> str:
        """Name of the operation."""
        return self.cost.op

    @property
    def cost(self) -> Cost:
        """The work that the model counts."""
        return self.prediction.cost

    @property
    def seconds(self) -> float:
        """Median of the measured times."""
        return self.times.median_ms / 1e3

    @property
    def share(self) -> tuple[float | None, ...] | None:
        """Share of the pairs that each pass takes, None for a pass that takes all; None if all passes do."""
        return self._found("share")

    @property
    def ran(self) -> tuple[str | None, ...] | None:
        """Names of the passes over all pairs that ran, in order; None where nothing says which."""
        return self._found("ran")

    @property
    def cells(self) -> tuple[int | None, ...] | None:
        """Cells of queries of each pass that the transform of few columns took, None for pairs; None without any."""
        return self._found("cells")

    def _found(self, name: str) -> tuple[Any, ...] | None:
        """What the run of the call has found of each pass."""
        found = self.cost.shapes.get(name)
        return found if found is None or isinstance(found, tuple) else (found,)

    @property
    def requested(self) -> float:
        """Bytes that are requested from the cache."""
        return sum(part.asked for part in self.cost.parts)

    @property
    def effective_bandwidth(self) -> float:
        """Bytes of the least traffic over the measured time, a second."""
        return self.cost.bytes / self.seconds

    @property
    def intensity(self) -> float:
        """Floating-point operations for each byte of the least traffic."""
        return self.cost.intensity

    @property
    def rates(self) -> tuple[UnitRate, ...]:
        """The use of each unit that the call uses."""
        out, seconds_of = [], alone(self.prediction.parts)
        for unit in UNITS:
            work = {"memory": self.cost.bytes, "cache": self.requested}.get(unit, self.cost.work(unit))
            if work > 0:
                rate = work / self.seconds
                out.append(UnitRate(unit, work, rate, self.on.rate(unit), seconds_of.get(unit, 0.0)))
        return tuple(out)

    @property
    def binds(self) -> str:
        """What limits the time by the model: a unit, "latency" or "launch"."""
        return self.prediction.binds

    @property
    def bound_seconds(self) -> float:
        """Seconds of what binds by itself."""
        return self.prediction.bound

    @property
    def percent_of_bound(self) -> float:
        """Time of what binds, in percent of the measured time: 100 is the limit."""
        return 100 * self.bound_seconds / self.seconds

    @property
    def measured_over_predicted(self) -> float:
        """Measured time over that of the library's rule."""
        return self.seconds / self.prediction.seconds if self.prediction.seconds else math.inf

    @property
    def measured_over_report(self) -> float:
        """Measured time over that of the report's rule."""
        return self.seconds / self.prediction.report_seconds if self.prediction.report_seconds else math.inf

    @property
    def verdict(self) -> str:
        """Sentences that say what binds, how near the call comes to it, and whether the model agrees."""
        reached = f"the call reaches {self.percent_of_bound:.0f}% of that bound"
        rate = next((rate for rate in self.rates if rate.unit == self.binds), None)
        if rate is not None:
            unit = _text.noun(rate.unit) + "/s"
            text = (
                f"{self.binds} binds: {_text.si(rate.achieved, unit)} of {_text.si(rate.peak, unit)} "
                f"({rate.percent:.0f}%), and {reached}"
            )
        elif self.binds == "launch":
            text = f"launches bind: {self.cost.launches} take {_text.si(self.bound_seconds, 's')}, and {reached}"
        else:
            text = (
                "latency binds: the longest chain of dependent steps takes "
                f"{_text.si(self.bound_seconds, 's')}, and {reached}"
            )
        ratio = self.measured_over_predicted
        if ratio > AGREES:
            rest = "what the model does not count" + (
                ", or other work on its cores," if self.on.backend == "cpu" else ""
            )
            text += f". It takes {ratio:.3g} times as long as predicted: {rest} takes the rest"
        elif ratio < 1 / AGREES:
            text += f". It takes {ratio:.2g} of the time predicted: the model counts more than the call does"
        return text + "."

    def row(self) -> dict[str, Any]:
        """A row of a record, with the bound and both predictions, milliseconds."""
        row = record_row(self.prediction, self.on, self.times) | {"rel_err_max": None, "cold": self.cold}
        found = {"share": self.share, "cells": self.cells, "ran": self.ran}
        return row | {name: list(each) for name, each in found.items() if each is not None}

    def __repr__(self) -> str:
        """The report, as it is printed."""
        return "\n".join(_lines(self))


def explain(
    fn: Callable[..., Any],
    *args: Any,
    on: Peaks | str | None = None,
    seconds: float = 1.0,
    cold: bool = False,
    calls: int = 1,
    **kwargs: Any,
) -> Explanation:
    """Run a call and report its time, its predicted time and what limits it, without hardware counters.

    Parameters
    ----------
    fn : callable
        An operation whose cost is known (:func:`cukde.perf.operations`), an object whose call is one, or a
        ``functools.partial`` of one. The call is repeated.
    *args, **kwargs
        Its arguments. Put an argument that has the name of a parameter of this function into a ``functools.partial``.
    on : str or Peaks, optional
        As for :func:`cukde.perf.peaks`. Default: the device that holds the arrays, with its measured peaks if any.
    seconds : float
        Approximate time for repeating the call; stages together take as long again.
    cold : bool
        Empty the caches before each run. Otherwise data that fit stay there; the model assumes so, too, if the rate of
        the cache is known.
    calls : int
        As for :func:`cukde.perf.measure`: a time is that of so many calls in a row, divided by their number. On a GPU
        several calls hide the time of launches from Python, which the model counts if it is longer than the work.

    Returns
    -------
    Explanation
        Its string is the report; :meth:`Explanation.row` is a row of a record.

    Raises
    ------
    TypeError
        For a call with Dask collections, which computes nothing.
    ValueError
        For a call whose cost is not known: the message says which are. For a processor that is not known, or is not of
        the kind that holds the arrays. For a time that is not positive.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> from cukde import perf
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> explanation = perf.explain(cukde.kde, X, X, 0.5, on="cpu", seconds=0.01)
    >>> explanation.op, explanation.cost.shapes["n"], explanation.percent_of_bound > 0
    ('kde', 500, True)

    See Also
    --------
    sensitivity : How the verdict depends on the model's assumptions.
    roofline : Compare several calls with the peaks of the processor.

    Notes
    -----
    If a pass leaves out pairs that cannot matter, the report has the share that it takes, and the prediction is for
    that share, by the tables of rates in ``cukde/density/plan/``. The call is run once more to find it.
    In two and three dimensions the report also has the number of cells of queries that a fast Gauss transform took
    (``cukde/density/plane/cost.py``).

    The confidence interval says how accurate the time is; the error of the model is that of :func:`predict`. Rates are
    modelled work over measured time. The unit that by itself takes the longest in the model binds, and its time is the
    bound. The share of a part is predicted; that of a stage is measured.
    """
    seconds = core_check.number("seconds", seconds, above=True)
    core_check.flag("cold", cold)
    known = call_of(fn, args, kwargs)
    call = functools.partial(fn, *args, **kwargs)
    held = list(held_by(call))
    in_memory(held, "explain", _WITH_DASK)
    gpu = any(map(dispatch.is_gpu_array, held))
    processor = peaks(on) if on is not None else peaks(None if gpu else "cpu")
    if gpu != (processor.backend == "gpu"):
        raise ValueError(
            f"on must be a {'GPU' if gpu else 'CPU'}, where the arrays of the call are; got {processor.name}: to ask "
            "how long it would take elsewhere, use cukde.perf.predict"
        )
    modelled = from_memory(processor, cold=cold)
    try:
        shapes = known.shapes
        if known.operation.observed is not None:
            shapes |= known.operation.observed(call, gpu=gpu)
        prediction = predicted(counted(known.operation, processor, shapes), processor, cold=modelled)
        stages = known.stages
    except Exception:
        call()  # where arguments have no sizes its own error says what is wrong
        raise
    times = measure(call, gpu=gpu, seconds=seconds, calls=calls, cold=cold)
    timed = {
        name: measure(stage, gpu=gpu, seconds=seconds / len(stages), calls=calls, cold=cold)
        for name, stage in stages.items()
    }
    return Explanation(
        processor,
        times,
        prediction,
        tuple(_stage(name, stages[name], timed[name], prediction, processor, modelled) for name in stages),
        perturbed(prediction.cost, processor, cold=modelled),
        cold,
    )


_FOUND = "share", "screened", "cells", "ran", "again", "in_vain"  # by a run
_NOT_SIZES = "dtype", "precision", *_FOUND  # which rows have beside the shape


def record_row(prediction: Prediction, on: Peaks, times: Times) -> dict[str, Any]:
    """Make a row of a record of a prediction and a time."""
    sizes = prediction.cost.shapes
    dtype = str(sizes.get("dtype", "float32"))
    return {
        "op": prediction.cost.op,
        "backend": on.backend,
        "shape": {name: size for name, size in sizes.items() if name not in _NOT_SIZES},
        "dtype": dtype,
        "precision": sizes.get("precision") or dtype,
        **times.row(),
        "bound_ms": 1e3 * prediction.bound,
        "bound": prediction.binds,
        "predicted_ms": 1e3 * prediction.seconds,
        "report_ms": 1e3 * prediction.report_seconds,
    }


def from_memory(on: Peaks, *, cold: bool) -> bool:
    """Whether the model takes from memory what fits into the cache, as where the rate of the cache is unknown."""
    return cold or math.isinf(on.rate("cache"))


def held_by(call: Any) -> Iterator[Any]:
    """The arguments of a call, and what the object that is called holds."""
    if isinstance(call, functools.partial):
        yield from (*call.args, *call.keywords.values())
        yield from held_by(call.func)
    else:
        yield from getattr(call, "__dict__", {}).values()


def in_memory(held: Iterable[Any], function: str, instead: str) -> None:
    """Raise for Dask collections, of which a call computes nothing; ``instead`` is what to do."""
    for each in held:
        if is_dask(each):
            raise TypeError(
                f"{function} takes calls with arrays in memory; got a Dask {type(each).__name__}, with which a call "
                f"only builds a graph: {instead}"
            )


_WITH_DASK = "time cukde.perf.measure(lambda: fn(...).compute())"


def _stage(name: str, stage: Callable[[], Any], times: Times, whole: Prediction, on: Peaks, cold: bool) -> Stage:
    """Model a stage by itself, or else by the parts of the whole that have its name."""
    known = found(stage, (), {})
    if known is not None:
        model = predicted(counted(known.operation, on, known.shapes), on, cold=cold)
        return Stage(name, times, model.seconds, model.binds)
    parts = [part for part in whole.parts if re.match(rf"{re.escape(name)}\b", part.name)]
    if not parts:
        return Stage(name, times, None, None)
    longest = max(parts, key=lambda part: part.seconds)
    return Stage(name, times, sum(part.seconds for part in parts), longest.binds)


def _lines(call: Explanation) -> Iterator[str]:
    cost, prediction, times = call.cost, call.prediction, call.times
    sizes = _text.sizes(told(cost.op, cost.shapes | dict.fromkeys(set(_FOUND) & set(cost.shapes))))
    yield from _text.wrapped(f"{call.op} {sizes} on {call.on.name} ({call.on.backend.upper()})", "")
    yield (
        f"  time       {_ms(times.median_ms)}  quartiles {_ms(times.q1_ms)} to {_ms(times.q3_ms)}, "
        f"median within {_ms(times.low_ms)} to {_ms(times.high_ms)}, {times.runs} runs"
    )
    yield (
        f"  predicted  {_s(prediction.seconds)}  measured/predicted {call.measured_over_predicted:.2f}; "
        f"by the report's rule {_s(prediction.report_seconds)} ({call.measured_over_report:.3g})"
    )
    if call.ran is not None:
        yield f"passes over all pairs: {', '.join(name or 'another' for name in call.ran)} (cukde.perf.plan)"
    if call.cells is not None:
        taken = ["pairs" if cells is None else f"{cells:,} cells" for cells in call.cells]
        yield f"  transform  {' and '.join(taken)}; predicted is what expansions about them take"
    if call.share is not None:
        taken = ["all" if share is None else f"{100 * share:.3g}%" for share in call.share]
        yield f"  taken      {' and '.join(taken)} of the pairs; predicted is what finding and summing them takes"
    yield f"  bound      {_s(call.bound_seconds)}  {call.binds}; {call.percent_of_bound:.0f}% of it reached"
    yield (
        f"  moved      {_text.si(cost.bytes, 'B')} at least, {_text.si(call.requested, 'B')} asked of the cache; "
        f"effective bandwidth {_text.si(call.effective_bandwidth, 'B/s')}"
    )
    yield (
        f"  done       {_text.si(cost.flops, 'flop')}, {_text.si(cost.exponentials, 'exp')}, "
        f"{call.intensity:,.3g} flop/B, launches: {cost.launches}"
        + (f", {_text.si(cost.pairs, 'pairs')}" if cost.pairs else "")
    )
    yield from _text.wrapped(f"verdict    {call.verdict}", "  ")
    yield ""
    yield f"  {'unit':<16}{'work':>14}{'achieved':>17}{'peak':>17}{'of peak':>10}{'by itself':>13}"
    for rate in call.rates:
        noun = _text.noun(rate.unit)
        line = f"  {rate.unit:<16}{_text.si(rate.work, noun):>14}{_text.si(rate.achieved, noun + '/s'):>17}"
        if math.isfinite(rate.peak):
            line += f"{_text.si(rate.peak, noun + '/s'):>17}{rate.percent:>9.1f}%{_s(rate.alone):>13}"
        else:
            line += f"{'not measured':>17}"
        yield line
    latency = alone(prediction.parts).get("latency", 0.0)
    for name, seconds in (("latency", latency), ("launch", prediction.launch)):
        if seconds > 0:
            yield f"  {name:<74}{_s(seconds):>13}"
    if len(prediction.parts) > 1:
        whole = sum(part.seconds for part in prediction.parts) or 1.0
        yield ""
        yield f"  {'part':<38}{'predicted':>12}{'share':>8}  binds"
        for part in prediction.parts:
            share = f"{100 * part.seconds / whole:.0f}%"
            binds = part.binds if part.seconds else ""
            yield f"  {_text.shortened(part.name, 37):<38}{_s(part.seconds):>12}{share:>8}  {binds}".rstrip()
    if call.stages:
        yield ""
        yield f"  {'stage':<38}{'measured':>12}{'share':>8}{'predicted':>13}{'ratio':>8}  binds"
        together = sum(stage.times.median_ms for stage in call.stages)
        for stage in call.stages:
            line = f"  {_text.shortened(stage.name, 37):<38}{_ms(stage.times.median_ms):>12}"
            line += f"{f'{100 * stage.times.median_ms / together:.0f}%':>8}"
            if stage.predicted:
                line += f"{_s(stage.predicted):>13}{stage.times.median_ms / 1e3 / stage.predicted:>8.2f}  {stage.binds}"
            yield line
        yield f"  {'together':<38}{_ms(together):>12}  {together / times.median_ms:.2f} of the whole call"
    yield ""
    yield from ("  " + line for line in repr(call.sensitivity).splitlines())


def _s(seconds: float) -> str:
    return _text.si(seconds, "s")


def _ms(milliseconds: float) -> str:
    return _s(milliseconds / 1e3)
