"""Section 1: times of KDE, SD-KDE and Laplace-corrected KDE in 16 dimensions, beside every rival that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.density import points
from benchmarks.peers import Peer
from benchmarks.sources import measured
from benchmarks.sources.rivals import SCIKIT_LEARN, Patience, on_gpu, scikit_learn
from benchmarks.sources.section import Figure, Outcome, Section, Setting
from benchmarks.sources.summary import Key, Summary, line, summaries, table, told
from benchmarks.sources.truth import Task, Truth

D = 16
SEEDS = (0, 1, 2)
LARGEST = 1_048_576, 131_072

FLASH, FLASH_IEEE = "Flash-SD-KDE, TF32", "Flash-SD-KDE, fp32_ieee"
_GPU = (FLASH, FLASH_IEEE, "torch.compile", "PyTorch", "CuPy", "PyKeOps")
MODES = "float32", "tf32"
WHOLE = ("torch.compile", "PyTorch")  # hold all pairs in memory
RIVALS = {"sd_kde": _GPU, "kde": _GPU, "laplace_kde": (FLASH, FLASH_IEEE, "torch.compile", "PyTorch", "CuPy")}
CPU, GPU, TF32 = "cukde, CPU", "cukde, GPU", "cukde, GPU, tf32"
PROGRAMS = (CPU, GPU, TF32, SCIKIT_LEARN, *_GPU)

# Flash-SD-KDE (first version), on an RTX A6000. Abstract: over scikit-learn's KDE and over PyTorch, SD-KDE of 32,768 /
# 4,096 points in 16 dimensions. Table 1: milliseconds there, of its own SD-KDE, of PyKeOps' KDE and its SD-KDE.
PAPER_OVER_SCIKIT_LEARN, PAPER_OVER_TORCH = 2500, 35
PAPER_FLASH_MS, PAPER_KEOPS_KDE_MS, PAPER_KEOPS_MS = 2.23, 3.06, 21.73
PAPER_SIZE = 32_768, 4_096
# Second version, abstract and conclusion: SD-KDE of 1,048,576 / 131,072 points.
PAPER_LARGEST_S = 2.3


class Sizes(NamedTuple):
    """What is run."""

    n: tuple[int, ...]
    largest: bool  # a million points, too
    seconds: float  # of a measurement
    pairs: float  # of scikit-learn's queries and the data
    patience: float  # seconds of a rival's call


def sizes(setting: Setting) -> Sizes:
    """Powers of two from 2,048; m is an eighth of n."""
    if setting.quick:
        return Sizes((2048, 4096), False, 0.03, 4e5, 0.1)
    return Sizes(tuple(2048 << k for k in range(6)), setting.no_gpu is None, 0.15, 3e6, 3.0)


def drawn(n: int, m: int, seed: int) -> Task:
    """The mixture; seeds have one bandwidth, or ``torch.compile`` would compile anew for each, and give up."""
    X, Y, h = points.mixture(n, m, D, seed)
    return Task(X, Y, round(h, 4))


def run(setting: Setting) -> Outcome:
    """Measure, and put the programs beside each other."""
    of = sizes(setting)
    patience = Patience(of.patience)
    rows: list[dict[str, Any]] = []
    for n in of.n:
        for seed in SEEDS:
            task = drawn(n, n // 8, seed)
            truth = Truth(task, gpu=setting.no_gpu is None)
            for op in RIVALS:
                peers = scikit_learn(task, truth, pairs=of.pairs) if op == "kde" else {}
                rows += measured.density(op, task, truth, "cpu", seconds=of.seconds, beside=peers, seed=seed)
                rows += _on_gpu(op, task, truth, setting, of, patience, seed)
    return outcome(rows + _largest(setting, of, patience), setting)


def _largest(setting: Setting, of: Sizes, patience: Patience) -> list[dict[str, Any]]:
    """A million points on a GPU, or why not."""
    n, m = LARGEST
    rows: list[dict[str, Any]] = []
    if setting.no_gpu is None and of.largest:
        task = drawn(n, m, SEEDS[0])
        truth = Truth(task, gpu=True)
        for op in RIVALS:
            rows += _on_gpu(op, task, truth, setting, of, patience, SEEDS[0])
    else:
        task = Task(np.empty((n, D)), np.empty((m, D)), 1.0)  # of which the shapes are told
        reason = setting.no_gpu or "left out of a quick run"
        rows += [measured.missing(op, task, "gpu", p, reason, seed=SEEDS[0]) for op in RIVALS for p in MODES]
    return rows + [measured.missing(op, task, "cpu", MODES[0], "not run on a CPU", seed=SEEDS[0]) for op in RIVALS]


def _on_gpu(
    op: str, task: Task, truth: Truth, setting: Setting, of: Sizes, patience: Patience, seed: int
) -> list[dict[str, Any]]:
    """Rows of both precisions, rivals beside the first; or the reason."""
    if setting.no_gpu is not None:
        return [measured.missing(op, task, "gpu", p, setting.no_gpu, seed=seed) for p in MODES]
    import cupy as cp

    n, m = len(task.X), len(task.Y)
    work, size = n * m + (n * n if op == "sd_kde" else 0), f"n = {n:,}"
    there = task.on_gpu()
    # PyTorch has a pool of its own: what CuPy's holds for nothing would be missing there.
    cp.get_default_memory_pool().free_all_blocks()
    gigabytes, most = 4e-9 * n * (n if op == "sd_kde" else m), 1e-9 * cp.cuda.Device().mem_info[1]
    beside: dict[str, Peer | str] = {
        name: f"its matrix takes {gigabytes:,.0f} GB, and the GPU has {most:,.0f}" for name in WHOLE if gigabytes > most
    }
    names = [name for name in RIVALS[op] if name not in beside]
    beside |= on_gpu(op, names, there, truth, patience, work)
    rows = measured.density(op, there, truth, "gpu", seconds=of.seconds, beside=beside, seed=seed)
    patience.note(rows, work, size)
    return rows + measured.density(op, there, truth, "gpu", seconds=of.seconds, precision="tf32", seed=seed)


def outcome(rows: list[dict[str, Any]], setting: Setting) -> Outcome:
    """Tables, figures and findings of rows."""
    found = summaries(rows)
    if setting.no_gpu is not None:
        found |= {Key(*key[:3], name): Summary(reason=setting.no_gpu) for key in list(found) for name in RIVALS[key.op]}
    at = [(op, n, m) for op in RIVALS for n, m in sorted({(key.n, key.m) for key in found if key.op == op})]
    ours = CPU if setting.no_gpu else GPU
    # The paper holds all operations against scikit-learn's KDE.
    scikit = {Key(op, n, m, SCIKIT_LEARN): found.get(Key("kde", n, m, SCIKIT_LEARN), Summary()) for op, n, m in at}
    tables = [
        table(
            "16-D runtime, ms",
            found,
            at,
            PROGRAMS,
            lambda key, s: s.ms,
            "Medians over three seeds of the medians of repeated calls. scikit-learn has KDE alone; of some of the "
            "queries, as if it took all of them. Empty: not run there.",
        ),
        table(
            f"16-D speed-ups: the program's time over that of {ours}",
            found | scikit,
            at,
            PROGRAMS,
            lambda key, s: _ratio(found, key, s, ours),
            "Beside every operation scikit-learn has its KDE, as in the paper: it does less work than SD-KDE.",
        ),
        table(
            "16-D worst relative error at the checked queries",
            found,
            at,
            PROGRAMS,
            lambda key, s: s.error,
            "Of all seeds, beside float64 over all pairs; of laplace_kde relative to the sum of absolute terms.",
        ),
    ]
    return Outcome(rows, tables, [_figure(op, found, setting) for op in RIVALS], _findings(found, setting))


def _ratio(found: Mapping[Key, Summary], key: Key, of: Summary, ours: str) -> float | None:
    """How many times as long as our own call a program takes; None of what was not measured."""
    own = found.get(key._replace(program=ours), Summary())
    return None if own.ms is None or of.ms is None else of.ms / own.ms


def _figure(op: str, found: Mapping[Key, Summary], setting: Setting) -> Figure:
    names = [CPU, GPU, TF32, *RIVALS[op]]
    of_op = sorted({key.n: key for key in found if key.op == op}.values(), key=lambda key: key.n)
    lines = [line(name, found, [key._replace(program=name) for key in of_op], lambda key: key.n) for name in names]
    kde = [key._replace(op="kde", program=SCIKIT_LEARN) for key in of_op]
    lines.append(line(f"{SCIKIT_LEARN} (KDE)", found, kde, lambda key: key.n))
    without = f" Without a GPU: {setting.no_gpu}." if setting.no_gpu else ""
    return Figure(
        f"{op}, 16 dimensions, m = n / 8",
        "data points n",
        "time, ms",
        lines,
        log_x=True,
        log_y=True,
        caption=f"Median over three seeds, bands from the fastest to the slowest of them.{without}",
    )


def _findings(found: Mapping[Key, Summary], setting: Setting) -> list[str]:
    ours = CPU if setting.no_gpu else GPU
    out = []
    n, m = max((key.n, key.m) for key in found if (key.op, key.program) == ("kde", SCIKIT_LEARN))
    scikit = found[Key("kde", n, m, SCIKIT_LEARN)]
    sd, kde = (found[Key(op, n, m, ours)] for op in ("sd_kde", "kde"))
    if scikit.ms and sd.ms and kde.ms:
        said = f"At n = {n:,}, m = {m:,} scikit-learn's KDE takes {told(scikit.ms)} ms{scikit.whence()}; {ours} takes "
        said += f"{told(kde.ms)} ms for KDE and {told(sd.ms)} ms for SD-KDE, which visits nine times as many pairs"
        ratios = f": {told(scikit.ms / kde.ms)} and {told(scikit.ms / sd.ms)} times less"
        out.append(f"{said}." if scikit.part else f"{said}{ratios}.")
    n, m = PAPER_SIZE
    if (n, m) not in {(key.n, key.m) for key in found}:
        largest = max(key.n for key, s in found.items() if s.ms)
        return [*out, f"The paper's table 1 is of n = {n:,}, beyond the largest size of this run, {largest:,}."]
    if setting.no_gpu is not None:
        return [*out, f"The paper's figures are of a GPU: {setting.no_gpu}."]

    def at(name: str, op: str = "sd_kde", size: Sequence[int] = (n, m)) -> Summary:
        return found.get(Key(op, size[0], size[1], name), Summary())

    own = at(GPU)
    for name, paper, text in (
        ("PyTorch", PAPER_OVER_TORCH, f"the paper has {PAPER_OVER_TORCH} times for Flash-SD-KDE on an RTX A6000"),
        ("PyKeOps", PAPER_KEOPS_MS / PAPER_FLASH_MS, f"table 1 has {PAPER_KEOPS_MS / PAPER_FLASH_MS:.1f} times for "
         "Flash-SD-KDE on an RTX A6000"),
    ):  # fmt: skip
        out.append(_beside(name, own, at(name), at(FLASH), paper, text))
    scikit = at(SCIKIT_LEARN, "kde")
    if scikit.ms and own.ms:
        out.append(
            f"There scikit-learn's KDE takes {told(scikit.ms)} ms{scikit.whence()}, {told(scikit.ms / own.ms)} times "
            f"as long as SD-KDE: the paper has up to {PAPER_OVER_SCIKIT_LEARN:,} times for Flash-SD-KDE, on other "
            "machines."
        )
    out += _flash(found, at)
    return out


def _beside(name: str, own: Summary, rival: Summary, flash: Summary, paper: float, text: str) -> str:
    """A rival over our own call and over Flash-SD-KDE, which is what the paper compares."""
    if rival.ms is None or own.ms is None:
        return f"{name} has no SD-KDE of n = {PAPER_SIZE[0]:,} here: {rival.reason or 'not run'}; {text}."
    said = (
        f"At n = {PAPER_SIZE[0]:,} {name} takes {told(rival.ms)} ms, {told(rival.ms / own.ms)} times as long as {GPU}"
    )
    if flash.ms is not None:
        here = rival.ms / flash.ms
        agrees = f"{'agrees' if paper / 2 <= here <= 2 * paper else 'does not agree'} within a factor of 2"
        said += f" and {told(here)} times as long as Flash-SD-KDE ({told(flash.ms)} ms), which {agrees}"
    return f"{said}: {text}."


def _flash(found: Mapping[Key, Summary], at: Any) -> list[str]:
    """Its time beside the paper's, its errors, and the size that the second version ends with."""
    out = []
    flash = at(FLASH)
    if flash.ms is not None:
        ratio = PAPER_KEOPS_KDE_MS / PAPER_FLASH_MS
        out.append(
            f"Flash-SD-KDE takes {told(flash.ms)} ms at n = {PAPER_SIZE[0]:,} here, {PAPER_FLASH_MS} ms in the paper's "
            "table 1, on an RTX A6000. (Its text has SD-KDE 7 times as fast as PyKeOps' KDE; the table has "
            f"{ratio:.1f} times.)"
        )
    errors, in_float32, own = (
        [s.error for key, s in found.items() if key.program == name and key.op == "sd_kde" and s.error]
        for name in (FLASH, FLASH_IEEE, GPU)
    )
    if errors and own:
        mode = f", in fp32_ieee by {min(in_float32):.1%} to {max(in_float32):.1%}" if in_float32 else ""
        out.append(
            f"The worst density of Flash-SD-KDE in its default mode (TF32) is off by {min(errors):.1%} to "
            f"{max(errors):.1%} over the sizes{mode}, which the paper does not say; ours by at most {max(own):.1e}."
        )
    largest, other, ieee = (at(name, size=LARGEST) for name in (GPU, FLASH, FLASH_IEEE))
    if largest.ms is not None:
        said = f"SD-KDE of {LARGEST[0]:,} / {LARGEST[1]:,} takes {largest.ms / 1e3:.3g} s"
        if other.ms is not None:
            said += f", Flash-SD-KDE in its default mode {other.ms / 1e3:.3g} s on the same GPU"
        if ieee.ms is not None:
            said += f", in fp32_ieee {ieee.ms / 1e3:.3g} s"
        out.append(f"{said}; the paper has {PAPER_LARGEST_S} s.")
    return out


SECTION = Section(
    1,
    "Runtime in 16 dimensions",
    "Flash-SD-KDE, figure 1 and table 1; the run of a million points of its second version, section 7",
    run,
)
