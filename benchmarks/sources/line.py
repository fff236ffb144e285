"""Section 3: SD-KDE in one dimension, the transform beside all pairs, Flash-SD-KDE and scikit-learn's tree."""

from __future__ import annotations

from typing import Any, NamedTuple

from benchmarks.sources import measured, oracle_study
from benchmarks.sources.rivals import SCIKIT_LEARN, Patience, scikit_learn
from benchmarks.sources.section import Outcome, Section, Setting
from benchmarks.sources.truth import Task, Truth

FLASH = "Flash-SD-KDE, float32"

# scikit-learn's tolerance, by which its tree leaves points out; its default takes all of them.
_RTOL = 1e-4

_LARGEST_OF_PAPER = 32_768  # appendix A and figure 6 of the second version; larger sizes have one seed


class Sizes(NamedTuple):
    """What is run."""

    n: tuple[int, ...]
    seeds: tuple[int, ...]
    seconds: float  # of a measurement
    patience: float  # seconds of a call that takes all pairs
    most: int  # points of scikit-learn's tree
    pairs: float  # of scikit-learn's queries and the data


def sizes(setting: Setting) -> Sizes:
    """Powers of two, as the paper's appendix has them."""
    if setting.quick:
        return Sizes(tuple(512 << 3 * k for k in range(4)), (0,), 0.03, 0.2, 2**18, 1e6)
    return Sizes(tuple(512 << k for k in range(14)), (0, 1, 2), 0.1, 3.0, 2**20, 5e6)


def drawn(n: int, m: int, seed: int) -> Task:
    """The mixture of the oracle study, with the bandwidth that Flash-SD-KDE chooses in one dimension."""
    X, Y = oracle_study.sample(n, 2 * seed).astype("f4"), oracle_study.sample(m, 2 * seed + 1).astype("f4")
    return Task(X, Y, float(0.4 * X.std() * n ** (-1 / 9)))


def run(setting: Setting) -> Outcome:
    """Measure, sizes in their order."""
    of = sizes(setting)
    # What takes all pairs is measured once where it takes long.
    patience = Patience(of.patience)
    rows: list[dict[str, Any]] = []
    for n in of.n:
        for seed in of.seeds[: 1 if n > _LARGEST_OF_PAPER else None]:
            rows += _rows(drawn(n, n // 8, seed), seed, setting, of, patience)
    return Outcome(rows)


def _rows(task: Task, seed: int, setting: Setting, of: Sizes, patience: Patience) -> list[dict[str, Any]]:
    """The transform is the library's own choice; "ieee" asks for all pairs."""
    n, m = len(task.X), len(task.Y)
    work, size = float(n * n + n * m), f"n = {n:,}"
    truth = Truth(task, gpu=setting.no_gpu is None)
    scikit: dict[str, Any] = {SCIKIT_LEARN: f"not asked beyond n = {of.most:,}: it takes each query by itself"}
    if n <= of.most:
        scikit = scikit_learn(task, truth, pairs=of.pairs, rtol=_RTOL)
    how: dict[str, Any] = {"seconds": of.seconds, "seed": seed}
    rows = measured.density("kde", task, truth, "cpu", beside=scikit, **how)
    for backend in ("cpu",) if setting.no_gpu else ("cpu", "gpu"):
        here = task if backend == "cpu" else task.on_gpu()
        if backend == "cpu":
            rows += measured.density("sd_kde", here, truth, backend, **how)
        else:
            rows += measured.raced("sd_kde", (FLASH,), here, truth, patience, **how)
        own = f"cukde, all pairs, {backend}"
        refused = patience.refusal("sd_kde", own, work)
        if refused:
            rows.append(measured.missing("sd_kde", task, backend, "ieee", refused, seed=seed))
            continue
        found = measured.density("sd_kde", here, truth, backend, precision="ieee", **how)
        patience.note([{"op": "sd_kde", "peer": {"name": own, "median_ms": found[0]["median_ms"]}}], work, size)
        rows += found
    return rows


SECTION = Section(
    3,
    "SD-KDE in one dimension, n = 512 to 4,194,304",
    "Flash-SD-KDE, figures 3 and 5 and appendix A; figure 6 of its second version",
    run,
)
