"""Section 1: times of KDE, SD-KDE and Laplace-corrected KDE in 16 dimensions, beside every rival that runs."""

from __future__ import annotations

from typing import Any, NamedTuple

from benchmarks.density import points
from benchmarks.sources import measured
from benchmarks.sources.rivals import Patience, scikit_learn
from benchmarks.sources.section import Outcome, Section, Setting
from benchmarks.sources.truth import Task, Truth

D = 16
SEEDS = (0, 1, 2)
LARGEST = 1_048_576, 131_072

FLASH, FLASH_IEEE = "Flash-SD-KDE, TF32", "Flash-SD-KDE, fp32_ieee"
_GPU = (FLASH, FLASH_IEEE, "torch.compile", "PyTorch", "CuPy", "PyKeOps")
WHOLE = ("torch.compile", "PyTorch")  # hold all pairs in memory
RIVALS = {"sd_kde": _GPU, "kde": _GPU, "laplace_kde": (FLASH, FLASH_IEEE, "torch.compile", "PyTorch", "CuPy")}


class Sizes(NamedTuple):
    """What is run."""

    n: tuple[int, ...]
    largest: bool  # a million points, too, on a GPU
    seconds: float  # of a measurement
    pairs: float  # of scikit-learn's queries and the data
    patience: float  # seconds of a rival's call


def sizes(setting: Setting) -> Sizes:
    """Powers of two from 2,048; m is an eighth of n."""
    if setting.quick:
        return Sizes((2048, 4096), False, 0.03, 4e5, 0.1)
    return Sizes(tuple(2048 << k for k in range(6)), True, 0.15, 3e6, 3.0)


def drawn(n: int, m: int, seed: int) -> Task:
    """The mixture; seeds have one bandwidth, or ``torch.compile`` would compile anew for each, and give up."""
    X, Y, h = points.mixture(n, m, D, seed)
    return Task(X, Y, round(h, 4))


def run(setting: Setting) -> Outcome:
    """Measure; a million points on a GPU alone."""
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
    if of.largest and setting.no_gpu is None:
        task = drawn(*LARGEST, SEEDS[0])
        truth = Truth(task, gpu=True)
        for op in RIVALS:
            rows += _on_gpu(op, task, truth, setting, of, patience, SEEDS[0])
    return Outcome(rows)


def _on_gpu(
    op: str, task: Task, truth: Truth, setting: Setting, of: Sizes, patience: Patience, seed: int
) -> list[dict[str, Any]]:
    """Rows of both precisions, rivals beside the first."""
    if setting.no_gpu is not None:
        return []
    import cupy as cp

    n, m, there = len(task.X), len(task.Y), task.on_gpu()
    # PyTorch has a pool of its own: what CuPy's holds for nothing would be missing there.
    cp.get_default_memory_pool().free_all_blocks()
    gigabytes, most = 4e-9 * n * (n if op == "sd_kde" else m), 1e-9 * cp.cuda.Device().mem_info[1]
    too_large = {
        name: f"its matrix takes {gigabytes:,.0f} GB, and the GPU has {most:,.0f}" for name in WHOLE if gigabytes > most
    }
    names = [name for name in RIVALS[op] if name not in too_large]
    rows = measured.raced(op, names, there, truth, patience, seconds=of.seconds, beside=too_large, seed=seed)
    return rows + measured.density(op, there, truth, "gpu", seconds=of.seconds, precision="tf32", seed=seed)


SECTION = Section(
    1,
    "Runtime in 16 dimensions",
    "Flash-SD-KDE, figure 1 and table 1; the run of a million points of its second version, section 7",
    run,
)
