"""How a call on Dask arrays scales over several GPUs or machines."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.tools import dask_stages
from benchmarks.tools.dask_stages import Pass, Stage
from cukde.core import check as core_check
from cukde.core.cost.peaks import Peaks
from cukde.core.cost.registry import told
from cukde.perf import _text, peaks, predict

# Passes of a merge in cukde/density/sums.py: stacked sums are read and written; weighted, read and written again; and
# added up.
_PASSES_OF_MERGE = 5

BANDWIDTH, LATENCY, OVERHEAD = 1e9, 2e-3, 1e-3
"""For workers that are processes of one machine, by TCP: bytes a second, seconds a message, seconds a task."""

MOST_WORKERS = 2**16

PARTS = ("compute", "imbalance", "transfer", "merge", "scheduling")


@dataclass(frozen=True, repr=False)
class Scaling:
    """Predicted time of a call on Dask arrays: see :func:`scaling`. Its string is a report.

    The processor is that of one worker, and tasks are all of the scheduler. ``moved`` counts bytes between workers, all
    together. Seconds, whose sum is the time: passes over pairs of blocks, shared evenly; the extra work of the last
    worker; transfers that passes do not hide; merges; handling of tasks. ``single`` is the time of the same call on
    plain arrays on one processor.
    """

    op: str
    shapes: dict[str, Any]
    on: Peaks
    workers: int
    blocks: int
    query_blocks: int
    tasks: int
    moved: float
    compute: float
    imbalance: float
    transfer: float
    merge: float
    scheduling: float
    single: float

    @property
    def seconds(self) -> float:
        """Time of the call."""
        return math.fsum(getattr(self, part) for part in PARTS)

    @property
    def speedup(self) -> float:
        """Speed-up over the call on plain arrays on one processor."""
        return self.single / self.seconds if self.seconds else math.inf

    @property
    def efficiency(self) -> float:
        """Speed-up over workers."""
        return self.speedup / self.workers

    def __repr__(self) -> str:
        """The report, as it is printed."""
        return "\n".join(_lines(self))


def scaling(
    op: str,
    gpu: str | Peaks | None = None,
    *,
    workers: int,
    blocks: int | None = None,
    query_blocks: int | None = None,
    bandwidth: float = BANDWIDTH,
    latency: float = LATENCY,
    overhead: float = OVERHEAD,
    **shapes: Any,
) -> Scaling:
    r"""Predict how long several workers take for a call on Dask arrays, and which part takes how long.

    Each worker, a GPU or a process of a cluster, has a processor of its own. It receives ``bandwidth`` bytes a second
    from others (infinite if they share memory), waits ``latency`` seconds for a message's first byte, and is kept
    ``overhead`` seconds by Dask for each of its tasks. Numbers of blocks are by default those of plain arrays
    (``docs/dask.md``).

    With measured constants the error was 3 to 8% for SD-KDE of 4,194,304 rows on one and on two H200s
    (``scaling_h200.json``).

    The time of a stage (sd_kde has two) is a sum of five times:

    - its passes, :math:`T_p`: the time of the worker with most to do, where the longest passes go first;
    - transfers during the passes, :math:`\max(0, b / B + k L - T_p)`, for the b bytes in k pieces that a worker
      receives at the bandwidth B and the latency L;
    - the last transfer, :math:`b_1 / B + L`, for what the last pass leaves to a merge elsewhere;
    - merges: five times the bytes of sums over the bandwidth of memory;
    - the overhead of a worker's tasks.

    With W workers, :math:`(W - 1) / W` of the blocks and sums that a worker needs are elsewhere; it receives a block
    only once.

    Passes take the time of :func:`predict` at the sizes of blocks. If Y = X (debias, the first stage of sd_kde, scores
    at the data), each unordered pair of blocks is computed once, unless there are weights, ``deterministic`` or one
    column. Such a pair takes the time of a pass over both blocks, less that of passes over each of them. Its sums are
    in single precision if the pass is.

    The model assumes equal blocks in memory when the call begins, equal workers, and links that are used one way and
    not shared. It does not model memory that spills to disk. It assumes that a stage begins when the stage before is
    done, but Dask begins as soon as it can. It assumes that sums lie anywhere, but Dask merges where most of them are.
    It assumes that pieces come one after the other, but Dask requests several at a time. So transfers in fact take
    less.

    The three constants are for processes on one machine (``Client`` with TCP). ``benchmarks/perf/bench_scaling.py``
    measures them for the cluster at hand, and compares the model with times.
    """
    if not isinstance(op, str) or op not in dask_stages.OPERATIONS:
        raise ValueError(f"op must be one of {', '.join(dask_stages.OPERATIONS)}, which take Dask arrays; got {op!r}")
    workers = core_check.count("workers", workers)
    if workers > MOST_WORKERS:
        raise ValueError(f"workers must be at most {MOST_WORKERS:,}; got {workers}")
    _rates(bandwidth, latency, overhead)
    on = peaks(gpu)
    whole = predict(op, on, **shapes)
    sizes = whole.cost.shapes
    divided = dask_stages.blocks(op, sizes, blocks, query_blocks, gpu=on.backend == "gpu")
    made = dask_stages.stages(op, sizes, divided, workers, lambda op, sizes: predict(op, on, **sizes).seconds)
    compute = math.fsum(one.pairs * one.seconds for stage in made for one in stage.passes) / workers
    busy = [longest(stage.passes, workers) for stage in made]
    elsewhere = (workers - 1) / workers
    late = [_late(stage, taken, workers, bandwidth, latency) for stage, taken in zip(made, busy, strict=True)]
    return Scaling(
        op=op,
        shapes=sizes,
        on=on,
        workers=workers,
        blocks=divided.data,
        query_blocks=divided.queries,
        tasks=sum(stage.tasks for stage in made),
        moved=elsewhere * sum(workers * stage.bytes_of_blocks + stage.bytes_of_sums for stage in made),
        compute=compute,
        imbalance=max(0.0, math.fsum(busy) - compute),
        transfer=math.fsum(late),
        merge=sum(stage.merged for stage in made) * _PASSES_OF_MERGE / on.rate("memory") / workers,
        scheduling=overhead * sum(-(-stage.tasks // workers) for stage in made),
        single=whole.seconds,
    )


def longest(passes: Sequence[Pass], workers: int) -> float:
    """Seconds of the worker with most to do, where the longest passes go first, each to the worker with least to do."""
    loads = [0.0] * workers
    for one in sorted(passes, key=lambda one: -one.seconds):
        rounds = one.pairs // workers if len(set(loads)) == 1 else 0  # of all workers at once
        loads = [load + rounds * one.seconds for load in loads]
        heapq.heapify(loads)
        for _ in range(one.pairs - rounds * workers):
            heapq.heapreplace(loads, loads[0] + one.seconds)
    return max(loads)


def _late(stage: Stage, busy: float, workers: int, bandwidth: float, latency: float) -> float:
    """Seconds of the transfers of a stage that its passes do not hide."""
    if workers == 1:
        return 0.0
    elsewhere = (workers - 1) / workers
    received = elsewhere * (stage.bytes_of_blocks + stage.bytes_of_sums / workers)
    pieces = elsewhere * (stage.blocks + stage.sums / workers)
    return max(0.0, received / bandwidth + pieces * latency - busy) + stage.last / bandwidth + latency


def _rates(bandwidth: Any, latency: Any, overhead: Any) -> None:
    if not (isinstance(bandwidth, float) and bandwidth == math.inf):
        core_check.number("bandwidth", bandwidth, above=True)
    core_check.number("latency", latency)
    core_check.number("overhead", overhead)


def _lines(scaled: Scaling) -> Iterator[str]:
    sizes = _text.sizes(told(scaled.op, scaled.shapes))
    yield from _text.wrapped(f"{scaled.op} {sizes} on {scaled.workers} x {scaled.on.name}", "")
    yield (
        f"  {_count(scaled.blocks, 'block')} of data, {scaled.query_blocks} of queries, "
        f"{_count(scaled.tasks, 'task')}, {_text.si(scaled.moved, 'B')} moved"
    )
    for part in PARTS:
        seconds = getattr(scaled, part)
        yield f"  {part:<12}{_text.si(seconds, 's'):>10}{100 * seconds / (scaled.seconds or 1.0):>6.1f}%"
    yield (
        f"  {'together':<12}{_text.si(scaled.seconds, 's'):>10}  {scaled.speedup:.2f} times as fast as plain arrays "
        f"on one ({_text.si(scaled.single, 's')}), efficiency {100 * scaled.efficiency:.0f}%"
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
