"""How a call on Dask arrays scales over several GPUs or machines."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cukde.core import check as core_check
from cukde.core.cost.peaks import Peaks
from cukde.core.cost.registry import told
from cukde.perf import _dask_stages, _text
from cukde.perf._dask_stages import Pass, Stage
from cukde.perf._lookup import peaks
from cukde.perf._predict import predict

# Of a merge (cukde/density/sums.py): the stack is read and written, then weighted, read and written again, and summed.
_PASSES_OF_MERGE = 5

BANDWIDTH, LATENCY, OVERHEAD = 1e9, 2e-3, 1e-3
"""Of workers that are processes of one machine and talk by TCP: bytes a second, seconds a message, seconds a task."""

MOST_WORKERS = 2**16

PARTS = ("compute", "imbalance", "transfer", "merge", "scheduling")


@dataclass(frozen=True, repr=False)
class Scaling:
    """Predicted time of a call on Dask arrays: see :func:`scaling`. Its string is a report.

    Attributes
    ----------
    op : str
    shapes : dict
    on : Peaks
        Of the processor of one worker.
    workers, blocks, query_blocks, tasks : int
        Tasks are all that the scheduler has.
    moved : float
        Bytes that travel between workers, all together.
    compute, imbalance, transfer, merge, scheduling : float
        Seconds, which add up: passes over pairs of blocks, shared out evenly; the last worker's more; what transfers
        take beside them; merging; handling tasks.
    single : float
        Seconds of the same call on plain arrays on one processor, as :func:`predict` has it.

    Notes
    -----
    How far the time is off is said at :func:`scaling`; ``speedup`` has the errors of two times.

    Examples
    --------
    >>> from cukde import perf
    >>> found = perf.scaling("kde", "H200", workers=2, n=2**20, m=2**18, d=16)
    >>> found.workers, 1 < found.speedup <= 2
    (2, True)
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
        """How many times faster than the call on plain arrays on one processor."""
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
    r"""Predict how long a call on Dask arrays takes several workers, and what takes it.

    Parameters
    ----------
    op : str
        One of kde, score, density_and_score, debias, sd_kde, laplace_kde and kernel_sum.
    gpu : str or Peaks, optional
        Processor of each worker, as for :func:`cukde.perf.peaks`.
    workers : int
        GPUs, or processes of a cluster, each with a processor of its own.
    blocks, query_blocks : int, optional
        Blocks of data and of queries; default those of plain arrays (docs/dask.md).
    bandwidth : float
        Bytes a second that reach a worker from others; infinite where workers share memory.
    latency : float
        Seconds until a message's first byte.
    overhead : float
        Seconds that a worker is kept by Dask for each of its tasks.
    **shapes
        As for :func:`cukde.perf.cost`: ``n``, ``m``, ``d``, ``dtype`` and so on of the whole arrays.

    Returns
    -------
    Scaling
        Its string is a report. With link and tasks as measured the error was 3 to 8% for SD-KDE of 4,194,304 rows on
        one and on two H200s (``docs/performance.md``).

    Raises
    ------
    ValueError
        For an operation that is not modelled on Dask arrays; for counts below 1, more than 2^16 workers or blocks, more
        blocks than rows, and rates and times that are none; and as :func:`predict` does.
    TypeError
        For what is no number.

    See Also
    --------
    predict : The time of the call on plain arrays, of which this is made.

    Notes
    -----
    A stage, of which sd_kde has two, takes for its passes :math:`T_p` the time of the worker with most to do, where the
    longest go first. To it come :math:`\max(0, b / B + k L - T_p)` for the b bytes in k pieces that a worker receives
    at the bandwidth B and the latency L, as transfers go on beside passes; then :math:`b_1 / B + L` for what the last
    pass leaves to a merge elsewhere; merging, five times the bytes of sums over the bandwidth of memory; and the
    overhead of a worker's tasks. Of W workers :math:`(W - 1) / W` of what is taken lies elsewhere: blocks, each
    received once by a worker, and sums.

    Passes are those of :func:`predict` at the sizes of blocks. Data against themselves (debias, the first stage of
    sd_kde, scores at the data) take each unordered pair of blocks once, unless there are weights or
    ``deterministic`` or one column: as long as a pass over both blocks takes more than passes over each of them, and
    its sums are in single precision where the pass is.

    The model takes blocks for equally large and in memory when the call begins, workers for equally fast, links for
    used one way and not shared, and a stage for begun when all of the one before is done, though Dask begins as soon as
    it can; it does not know of memory that spills. Sums are taken to lie anywhere, but Dask merges where most of them
    are; and pieces are taken to come one after the other, but Dask asks for several at a time: transfers are rather
    less. The three constants are of processes on one machine (``Client`` with TCP);
    ``benchmarks/perf/bench_scaling.py`` measures them for the cluster at hand before it holds the model against times.

    Examples
    --------
    >>> from cukde import perf
    >>> four = perf.scaling("sd_kde", "H200", workers=4, blocks=8, query_blocks=8, n=2**22, m=2**20, d=16)
    >>> four.speedup > 3, four.tasks
    (True, 204)
    """
    if not isinstance(op, str) or op not in _dask_stages.OPERATIONS:
        raise ValueError(f"op must be one of {', '.join(_dask_stages.OPERATIONS)}, which take Dask arrays; got {op!r}")
    workers = core_check.count("workers", workers)
    if workers > MOST_WORKERS:
        raise ValueError(f"workers must be at most {MOST_WORKERS:,}; got {workers}")
    _rates(bandwidth, latency, overhead)
    on = peaks(gpu)
    whole = predict(op, on, **shapes)
    sizes = whole.cost.shapes
    of = _dask_stages.blocks(op, sizes, blocks, query_blocks, gpu=on.backend == "gpu")
    made = _dask_stages.stages(op, sizes, of, workers, lambda op, sizes: predict(op, on, **sizes).seconds)
    compute = math.fsum(one.pairs * one.seconds for stage in made for one in stage.passes) / workers
    busy = [longest(stage.passes, workers) for stage in made]
    elsewhere = (workers - 1) / workers
    late = [_late(stage, taken, workers, bandwidth, latency) for stage, taken in zip(made, busy, strict=True)]
    return Scaling(
        op=op,
        shapes=sizes,
        on=on,
        workers=workers,
        blocks=of.data,
        query_blocks=of.queries,
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
    """Seconds of the worker with most to do, where the longest passes go first, each to who has least to do."""
    loads = [0.0] * workers
    for one in sorted(passes, key=lambda one: -one.seconds):
        rounds = one.pairs // workers if len(set(loads)) == 1 else 0  # of all workers alike
        loads = [load + rounds * one.seconds for load in loads]
        heapq.heapify(loads)
        for _ in range(one.pairs - rounds * workers):
            heapq.heapreplace(loads, loads[0] + one.seconds)
    return max(loads)


def _late(stage: Stage, busy: float, workers: int, bandwidth: float, latency: float) -> float:
    """Seconds that transfers of a stage take beside its passes."""
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


def _lines(of: Scaling) -> Iterator[str]:
    yield from _text.wrapped(f"{of.op} {_text.sizes(told(of.op, of.shapes))} on {of.workers} x {of.on.name}", "")
    yield (
        f"  {_count(of.blocks, 'block')} of data, {of.query_blocks} of queries, {_count(of.tasks, 'task')}, "
        f"{_text.si(of.moved, 'B')} moved"
    )
    for part in PARTS:
        seconds = getattr(of, part)
        yield f"  {part:<12}{_text.si(seconds, 's'):>10}{100 * seconds / (of.seconds or 1.0):>6.1f}%"
    yield (
        f"  {'together':<12}{_text.si(of.seconds, 's'):>10}  {of.speedup:.2f} times as fast as plain arrays on one "
        f"({_text.si(of.single, 's')}), efficiency {100 * of.efficiency:.0f}%"
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
