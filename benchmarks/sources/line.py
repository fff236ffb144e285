"""Section 3: SD-KDE in one dimension, the transform beside all pairs, Flash-SD-KDE and scikit-learn's tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks.sources import measured, oracle_study
from benchmarks.sources.rivals import SCIKIT_LEARN, Patience, on_gpu, scikit_learn
from benchmarks.sources.section import Figure, Outcome, Section, Setting
from benchmarks.sources.summary import Key, Summary, line, summaries, table, told
from benchmarks.sources.truth import Task, Truth

FLASH = "Flash-SD-KDE, float32"
# "ieee" asks for all pairs.
TRANSFORM = {"cpu": "cukde, CPU", "gpu": "cukde, GPU"}
PAIRS = {"cpu": "cukde, CPU, ieee", "gpu": "cukde, GPU, ieee"}
PROGRAMS = (TRANSFORM["cpu"], PAIRS["cpu"], SCIKIT_LEARN, TRANSFORM["gpu"], PAIRS["gpu"], FLASH)
_NAMES = {of: f"cukde, {b.upper()}, {name}" for names, name in ((TRANSFORM, "transform"), (PAIRS, "all pairs"))
          for b, of in names.items()}  # fmt: skip

# scikit-learn's tolerance, by which its tree leaves points out; its default takes all of them.
_RTOL = 1e-4

# Flash-SD-KDE, second version, appendix A and figure 6: around two orders of magnitude over scikit-learn's KDE at the
# largest sizes, up to 32,768 points, on an RTX A6000.
PAPER_OVER_SCIKIT_LEARN, PAPER_LARGEST = 100, 32_768


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
        for seed in of.seeds[: 1 if n > PAPER_LARGEST else None]:
            task = drawn(n, n // 8, seed)
            rows += _rows(task, seed, setting, of, patience)
    return outcome(rows, setting)


def _rows(task: Task, seed: int, setting: Setting, of: Sizes, patience: Patience) -> list[dict[str, Any]]:
    n, m = len(task.X), len(task.Y)
    work, size = float(n * n + n * m), f"n = {n:,}"
    truth = Truth(task, gpu=setting.no_gpu is None)
    scikit: dict[str, Any] = {SCIKIT_LEARN: f"not asked beyond n = {of.most:,}: it takes each query by itself"}
    if n <= of.most:
        scikit = scikit_learn(task, truth, pairs=of.pairs, rtol=_RTOL)
    rows = measured.density("kde", task, truth, "cpu", seconds=of.seconds, beside=scikit, seed=seed)
    for backend in ("cpu", "gpu"):
        if backend == "gpu" and setting.no_gpu is not None:
            modes = ("float32", "ieee")
            rows += [measured.missing("sd_kde", task, "gpu", mode, setting.no_gpu, seed=seed) for mode in modes]
            continue
        here, peers = task, {}
        if backend == "gpu":
            here = task.on_gpu()
            peers = on_gpu("sd_kde", (FLASH,), here, truth, patience, work)
        found = measured.density("sd_kde", here, truth, backend, seconds=of.seconds, beside=peers, seed=seed)
        patience.note(found, work, size)
        rows += found
        refused = patience.refusal("sd_kde", PAIRS[backend], work)
        if refused:
            rows.append(measured.missing("sd_kde", task, backend, "ieee", refused, seed=seed))
            continue
        found = measured.density("sd_kde", here, truth, backend, seconds=of.seconds, precision="ieee", seed=seed)
        own = [{"op": "sd_kde", "peer": {"name": PAIRS[backend], "median_ms": found[0]["median_ms"]}}]
        patience.note(own, work, size)
        rows += found
    return rows


def outcome(rows: list[dict[str, Any]], setting: Setting) -> Outcome:
    """Tables, a figure and findings of rows."""
    found = {key: of for key, of in summaries(rows).items() if key.op == "sd_kde" or key.program == SCIKIT_LEARN}
    # The tree's KDE stands beside SD-KDE, as in the paper.
    found = {key._replace(op="sd_kde"): of for key, of in found.items()}
    if setting.no_gpu is not None:
        found |= {key._replace(program=FLASH): Summary(reason=setting.no_gpu) for key in list(found)}
    at = sorted({(key.op, key.n, key.m) for key in found}, key=lambda size: size[1])
    named = {key._replace(program=_NAMES.get(key.program, key.program)): of for key, of in found.items()}
    names = [_NAMES.get(name, name) for name in PROGRAMS]
    note = (
        "The transform is the library's own choice, which is all pairs where these are few. "
        "Medians over the seeds, of which sizes above 32,768 have one. scikit-learn has KDE alone, by its KD tree with "
        f"rtol = {_RTOL:g}; of some of the queries, as if it took all of them."
    )
    tables = [
        table("1-D runtime, ms", named, at, names, lambda key, s: s.ms, note),
        table(
            "1-D worst relative error at the checked queries",
            named,
            at,
            names,
            lambda key, s: s.error,
            "Of all seeds, beside float64 over all pairs.",
        ),
    ]
    lines = [line(name, named, [Key(*size, name) for size in at], lambda key: key.n) for name in names]
    without = f" Without a GPU: {setting.no_gpu}." if setting.no_gpu else ""
    figure = Figure(
        "SD-KDE in one dimension, m = n / 8",
        "data points n",
        "time, ms",
        lines,
        log_x=True,
        log_y=True,
        caption=f"Median over the seeds, bands from the fastest to the slowest; scikit-learn has KDE alone.{without}",
    )
    return Outcome(rows, tables, [figure], _findings(found, setting))


def growth(found: Mapping[Key, Summary], name: str, least: int) -> tuple[float, int, int] | None:
    """Exponent of the time in n from some size on, and the ends of the range; None of fewer than two sizes."""
    known = [(key.n, s.ms) for key, s in found.items() if key.program == name and s.ms and key.n >= least]
    if len(known) < 2:
        return None
    n, ms = zip(*sorted(known), strict=True)
    return float(np.polyfit(np.log(n), np.log(ms), 1)[0]), n[0], n[-1]


def _findings(found: Mapping[Key, Summary], setting: Setting) -> list[str]:
    backend = "cpu" if setting.no_gpu else "gpu"
    out = []
    for name in (TRANSFORM[backend], PAIRS[backend], FLASH):
        # Below, launches and the work of a call take the time.
        grows = growth(found, name, 2**15 if backend == "gpu" or name == TRANSFORM[backend] else 2**12)
        if grows:
            power, first, last = grows
            out.append(f"{_NAMES.get(name, name)}: time grows like n^{power:.2f} from n = {first:,} to {last:,}.")
    for other in (PAIRS[backend], FLASH, SCIKIT_LEARN):
        both = [
            (key, s, own.ms)
            for key, s in found.items()
            if key.program == other and s.ms and (own := found[key._replace(program=TRANSFORM[backend])]).ms
        ]
        if both:
            key, of, least = max(both, key=lambda each: each[0].n)
            what = f"{other}'s KDE" if other == SCIKIT_LEARN else f"SD-KDE of {_NAMES.get(other, other)}"
            said = f"At n = {key.n:,}, the largest size of both, {what} takes {told(of.ms)} ms{of.whence()}"
            said += f"{',' * bool(of.part)} and SD-KDE by the transform {told(least)} ms"
            out.append(f"{said}." if of.part else f"{said}, {told(of.ms / least)} times less.")
    out.append(_paper(found, setting))
    return out


def _paper(found: Mapping[Key, Summary], setting: Setting) -> str:
    """Figure 6 beside what was measured."""
    said = f"The paper has Flash-SD-KDE around {PAPER_OVER_SCIKIT_LEARN} times as fast as scikit-learn's KDE up to"
    said += f" n = {PAPER_LARGEST:,}"
    at = [Key("sd_kde", PAPER_LARGEST, PAPER_LARGEST // 8, name) for name in (FLASH, SCIKIT_LEARN)]
    flash, scikit = (found.get(key, Summary()) for key in at)
    if flash.ms is None or scikit.ms is None:
        return f"{said}: not to be checked here ({flash.reason or scikit.reason or setting.no_gpu or 'not run'})."
    times = scikit.ms / flash.ms
    agrees = PAPER_OVER_SCIKIT_LEARN / 3 <= times <= 3 * PAPER_OVER_SCIKIT_LEARN
    found_here = f"{told(times)} times as fast{scikit.whence()}"
    return f"{said}; here it is {found_here}, {'about the same' if agrees else 'another factor'}."


SECTION = Section(
    3,
    "SD-KDE in one dimension, n = 512 to 4,194,304",
    "Flash-SD-KDE, figures 3 and 5 and appendix A; figure 6 of its second version",
    run,
)
