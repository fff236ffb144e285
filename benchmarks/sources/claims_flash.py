"""What both versions of Flash-SD-KDE say of times, errors and utilisation, beside the records."""

from __future__ import annotations

import itertools
from typing import Any

from benchmarks.sources.claim import Claim, digits, error, finding, ms, percent, power, rows, there
from cukde import perf

RUNTIME, UTILISATION, LINE, BATCHES = (f"sources_h200/section-{number}" for number in (1, 2, 3, 5))
RIVALS, SMALL, LINE_ALONE = "map_rivals_h200", "small_calls_h200", "density_1d_h200"
PROGRAM, KEOPS, SPLIT = "flash_kernels_h200", "keops_h200", "flash_ordered_splitk_h200"
FLASH, FLASH_IEEE, FLASH_LINE = "Flash-SD-KDE, TF32", "Flash-SD-KDE, fp32_ieee", "Flash-SD-KDE, float32"
OLD, OLD_IEEE = "Flash-SD-KDE", "Flash-SD-KDE (fp32_ieee)"  # in records of before the modes had names
FLASH_SPLIT = f"{FLASH_IEEE}, ordered_splitk"
EAGER, COMPILED, SCIKIT = "PyTorch", "torch.compile", "scikit-learn KernelDensity"
TABLE = {"n": 32768, "m": 4096, "d": 16}  # the size of the paper's tables
HUGE = {"n": 1048576, "m": 131072, "d": 16}
RIVALS_SIZE = {"n": 262144, "m": 32768, "d": 16}
ENGINES = {"n": 65536, "m": 8192, "d": 16}

_GPU = {"backend": "gpu", "precision": "float32"}
_RUNS = BATCHES, "ablation_h200"
_SIZES = [2**k for k in range(11, 17)]


def _scikit(n: int, name: str = RUNTIME, d: int = 16) -> float:
    return ms(name, "kde", SCIKIT, backend="cpu", n=n, d=d)


def _over(program: str, n: int = TABLE["n"]) -> float:
    """How many times as long a rival takes for SD-KDE as Flash-SD-KDE."""
    return ms(RUNTIME, "sd_kde", program, n=n, d=16) / ms(RUNTIME, "sd_kde", FLASH, n=n, d=16)


def _utilised(time: float, **size: int) -> float:
    """Part of the measured peak of the H200, by the paper's count: TF32 or, in one dimension, float32."""
    (peaks,) = rows(UTILISATION, "peaks", backend="gpu")
    peak = peaks["rates"]["fma" if size["d"] == 1 else "tensor_tf32"]
    return perf.flash_flops(size["n"], size["m"], size["d"]) / (time / 1e3) / peak


def _flash_utilised(n: int, d: int = 16) -> float:
    return _utilised(ms(UTILISATION, "sd_kde", FLASH_LINE if d == 1 else FLASH, n=n, d=d), n=n, m=n // 8, d=d)


def sixteen_dimensions() -> list[Claim]:
    """Times, errors and utilisation of 16 dimensions."""
    return [*_table(), *_speedups(), *_million(), *_errors(), *_utilisation(), *_counters(), *_design()]


def _table() -> list[Claim]:
    here, ours = ms(RUNTIME, "sd_kde", FLASH, **TABLE), ms(RUNTIME, "sd_kde", **_GPU, **TABLE)
    other, ours_there = ms(SMALL, "sd_kde", FLASH, **TABLE), ms(SMALL, "sd_kde", **_GPU, **TABLE)
    crashed = [row["peer"]["reason"] for row in rows(KEOPS, "sd_kde", **TABLE)]
    return [
        Claim(
            "SD-KDE of 32,768 points at 4,096 queries takes 2.23 ms (second version 2.11 ms)",
            finding("confirmed in size, on other GPUs", if_=here < 2.23 and other < 2.5),
            f"{digits(here)} and {digits(other)} ms in two runs on an H200; `sd_kde` {digits(ours)} and "
            f"{digits(ours_there)} ms",
            (RUNTIME, SMALL),
        ),
        Claim(
            "PyKeOps takes 3.06 ms for KDE of that size, 21.73 ms for SD-KDE (second version 3.33 and 16.91 ms)",
            finding(
                "open: PyKeOps 2.3 crashes (SIGSEGV) when it compiles",
                if_=bool(crashed) and all("SIGSEGV" in reason for reason in crashed),
            ),
            "nothing; the source's text makes KDE by PyKeOps 7 times as slow as Flash-SD-KDE, its table 1.4 times "
            "(second version 1.57 and 1.4)",
            (KEOPS,),
        ),
    ]


def _speedups() -> list[Claim]:
    times = _scikit(TABLE["n"]) / ms(RUNTIME, "sd_kde", FLASH, **TABLE)
    ours = _scikit(TABLE["n"]) / ms(RUNTIME, "sd_kde", **_GPU, **TABLE)
    eager, compiled = _over(EAGER), _over(COMPILED)
    faster = ms(RUNTIME, "sd_kde", COMPILED, n=2048) / ms(RUNTIME, "sd_kde", FLASH, n=2048)
    return [
        Claim(
            "at that size it is 2,500× as fast as scikit-learn's KDE (second version 3,300×)",
            finding("confirmed, and more, on other machines", if_=times > 3300),
            f"{digits(times)}×; `sd_kde` {digits(ours)}×",
            (RUNTIME,),
        ),
        Claim(
            "and 35× as fast as SD-KDE by PyTorch (second version 47×)",
            finding(
                "open: no RTX A6000. On an H200 a third to a quarter of it",
                if_=35 / 4 < eager < 35 / 2 and 47 / 5 < eager < 47 / 3,
            ),
            f"{digits(eager)}×; over `torch.compile` {digits(compiled)}×, but {digits(faster)}× with 2,048 points",
            (RUNTIME,),
        ),
    ]


def _million() -> list[Claim]:
    flash, ours = ms(RUNTIME, "sd_kde", FLASH, **HUGE), ms(RUNTIME, "sd_kde", **_GPU, **HUGE)
    in_float32 = ms(RUNTIME, "sd_kde", FLASH_IEEE, **HUGE)
    ours_over, flash_over, ieee_over = (
        [ms(RUNTIME, "laplace_kde", *of, **given, **size) / ms(RUNTIME, "kde", *of, **given, **size) for size in sizes]
        for of, given in (((), _GPU), ((FLASH,), {}), ((FLASH_IEEE,), {}))
        for sizes in [({"n": 65536, "d": 16}, HUGE)]
    )
    return [
        Claim(
            "SD-KDE of 1,048,576 points at 131,072 queries takes 2.3 s (second version)",
            finding("confirmed, on a faster GPU", if_=flash < 2300),
            f"{digits(flash)} ms, in `fp32_ieee` {digits(in_float32)} ms; `sd_kde` {digits(ours)} ms",
            (RUNTIME,),
        ),
        Claim(
            "the Laplace correction costs no more than KDE (second version)",
            finding(
                "confirmed in `fp32_ieee`; refuted in TF32: up to a fifth more",
                if_=max(ieee_over) < 1.02 and 1.1 < min(ours_over[1], flash_over[1]) < 1.2,
            ),
            f"time over KDE's with 65,536 and 1,048,576 points: {ieee_over[0]:.2f} and {ieee_over[1]:.2f} in "
            f"`fp32_ieee`, {flash_over[0]:.2f} and {flash_over[1]:.2f} in TF32; `laplace_kde` {ours_over[0]:.2f} and "
            f"{ours_over[1]:.2f}",
            (RUNTIME,),
        ),
    ]


def _errors() -> list[Claim]:
    worst = [error(RUNTIME, op, FLASH, n=n, d=16) for op in ("kde", "sd_kde") for n in [*_SIZES, HUGE["n"]]]
    torch = max(error(RUNTIME, op, COMPILED, n=n) for op in ("kde", "sd_kde") for n in _SIZES)
    ours = max(error(RUNTIME, op, **_GPU, n=n) for op in ("kde", "sd_kde") for n in _SIZES)
    kde, sd = (error(RIVALS, op, OLD_IEEE, **RIVALS_SIZE) for op in ("kde", "sd_kde"))
    times = [digits(ms(RIVALS, op, OLD_IEEE, **RIVALS_SIZE)) for op in ("kde", "sd_kde")]
    return [
        Claim(
            "results are close to PyTorch's (first version); SD-KDE is computed exactly (second)",
            finding("refuted in the default mode, TF32", if_=min(worst) > 100 * torch),
            f"worst error of a density {percent(min(worst))} to {percent(max(worst))}; `torch.compile` {power(torch)}, "
            f"cukde {power(ours)}",
            (RUNTIME,),
        ),
        Claim(
            "its mode `fp32_ieee` is accurate (its error study uses it)",
            finding(
                "confirmed for `kde`; refuted for `sd_kde`, whose debiasing stays in TF32", if_=kde < 3e-5 < 1e-3 < sd
            ),
            f"262,144 points: `kde` {times[0]} ms with an error of {power(kde)}, `sd_kde` {times[1]} ms with an error "
            f"of {power(sd)}",
            (RIVALS,),
        ),
        _all_in_float32(),
    ]


def _all_in_float32() -> Claim:
    """Its other backend of debiasing."""
    said = "its backend `ordered_splitk` debiases in float32, too"
    if not there(SPLIT):
        return Claim(said, "open: [a run on an H200](#what-is-open)", "")
    worst, time = error(SPLIT, "sd_kde", FLASH_SPLIT, **RIVALS_SIZE), ms(SPLIT, "sd_kde", FLASH_SPLIT, **RIVALS_SIZE)
    return Claim(
        said,
        "confirmed" if worst < 1e-4 else "refuted",
        f"262,144 points: `sd_kde` {digits(time)} ms with an error of {power(worst)}",
        (SPLIT,),
    )


def _utilisation() -> list[Claim]:
    part = {n: _flash_utilised(n) for n in (8192, 16384, 32768, 262144)}
    eager = _utilised(ms(RUNTIME, "sd_kde", EAGER, **TABLE), **TABLE)
    tile, intensity = perf.flash_tile_bytes(16), perf.flash_intensity(**TABLE)
    return [
        Claim(
            "beyond 8,192 points it uses two digits of percent of the tensor cores (25% of an RTX A6000)",
            finding("confirmed from 32,768 points", if_=part[16384] < 0.1 < part[32768]),
            f"{', '.join(percent(of) for of in part.values())} of the measured TF32 rate with 8,192, 16,384, 32,768, "
            "262,144 points",
            (UTILISATION,),
        ),
        Claim(
            "SD-KDE by PyTorch uses a few percent",
            finding("confirmed", if_=eager < 0.05),
            f"{percent(eager)} at 32,768 points",
            (RUNTIME, UTILISATION),
        ),
        Claim(
            "by its model a tile moves 7.4e4 bytes, and each byte serves 72 flops",
            finding("confirmed: arithmetic", if_=round(intensity) == 72 and abs(tile - 7.4e4) < 500),
            f"{tile:,} and {intensity:.0f} (`perf.flash_tile_bytes`, `perf.flash_intensity`)",
        ),
    ]


def _counters() -> list[Claim]:
    """The score kernel by Nsight Compute, and its tiles."""
    (score,) = rows(PROGRAM, "Flash-SD-KDE, score")
    ncu, n = score["ncu"], score["shape"]["n"]
    moved = ncu["dram__bytes_read.sum"] + ncu["dram__bytes_write.sum"]
    intensity = perf.flash_flops(n, 0, 16) / moved
    sm = ncu["sm__throughput.avg.pct_of_peak_sustained_elapsed"] / 100
    l1 = ncu["l1tex__throughput.avg.pct_of_peak_sustained_active"] / 100
    times: dict[tuple[int, int], float] = {}
    for row in rows(PROGRAM, "Flash-SD-KDE, tiles"):
        tile = row["shape"]["block_m"], row["shape"]["block_n"]
        times[tile] = min(row["median_ms"], times.get(tile, row["median_ms"]))
    best = min(times, key=times.__getitem__)
    gains = [times[tile] / times[best] for tile in ((32, 32), (64, 64), (64, 1024))]
    return [
        Claim(
            "by counters each byte serves 95 flops in the score kernel",
            finding("open: which bytes were counted is not said", if_=intensity > 95 and sm > 0.5),
            f"{digits(intensity)} flops a byte of device memory, as the second cache of an H200 holds the data",
            (PROGRAM,),
        ),
        Claim(
            "by counters multiprocessors are busy to 68%, L1 to 90% (the latter in the second version)",
            finding("confirmed for the multiprocessors; refuted for L1", if_=0.6 < sm < 0.75 and l1 < 0.8),
            f"{percent(sm)} and {percent(l1)} at 32,768 points",
            (PROGRAM,),
        ),
        Claim(
            "wide tiles are more than 2× as fast as small ones; the best are 64 by 1,024 (second version)",
            finding("confirmed against the smallest", if_=gains[0] > 2 > gains[1] and gains[2] < 1.1),
            f"time over that of the best of {len(times)}, {best[0]} by {best[1]:,}: 32 by 32 {gains[0]:.2f}, 64 by 64 "
            f"{gains[1]:.2f}, 64 by 1,024 {gains[2]:.2f}",
            (PROGRAM,),
        ),
    ]


def _design() -> list[Claim]:
    density = [ms(run, "kde", FLASH, **TABLE) / ms(run, "sd_kde", FLASH, **TABLE) for run in (RUNTIME, BATCHES)]
    larger = ms(RIVALS, "kde", OLD, **RIVALS_SIZE) / ms(RIVALS, "sd_kde", OLD, **RIVALS_SIZE)
    kde, sd = (
        [ms(run, op, backend="gpu", precision="ieee", **ENGINES) / ms(run, op, **_GPU, **ENGINES) for run in _RUNS]
        for op in ("kde", "sd_kde")
    )
    streaming, matrix = (
        next(
            row["peak_mb"]
            for row in rows(BATCHES, "kde", backend="gpu", n=131072)
            if row["precision"] == p and "peak_mb" in row
        )
        for p in ("float32", "whole matrix")
    )
    held = {op: rows(PROGRAM, f"Flash-SD-KDE, memory of {op}")[0]["peak_mb"] for op in ("kde", "sd_kde")}
    return [
        Claim(
            "the score takes 95% of the time of SD-KDE with 32,768 points",
            finding("refuted: less", if_=min(*density, larger) > 0.05),
            f"without the time of `kde` {percent(1 - density[0])} and {percent(1 - density[1])} are left in two runs, "
            f"{percent(1 - larger)} with 262,144 points",
            (RUNTIME, BATCHES, RIVALS),
        ),
        Claim(
            "tensor cores multiply 5 to 10× as fast as float32 units",
            finding(
                "confirmed for `kde` in one of two runs, the other has less; more for `sd_kde`",
                if_=kde[0] < 5 < kde[1] < 10 < min(sd),
            ),
            f"whole calls of cukde with 65,536 points: `kde` {digits(kde[0])} and {digits(kde[1])}×, `sd_kde` "
            f"{digits(sd[0])} and {digits(sd[1])}×",
            _RUNS,
        ),
        Claim(
            "memory grows linearly with n",
            finding("confirmed", if_=max(streaming, *held.values()) < 0.01 * matrix),
            f"131,072 points: `kde` {digits(held['kde'])} MB, `sd_kde` {digits(held['sd_kde'])} MB; a whole matrix "
            f"{digits(matrix)} MB; `kde` of cukde {digits(streaming)} MB",
            (BATCHES, PROGRAM),
        ),
    ]


def one_dimension() -> list[Claim]:
    """The appendix, and the figure of fusion."""
    few, most, beyond = (_scikit(n, LINE, 1) / ms(LINE, "sd_kde", FLASH_LINE, n=n) for n in (512, 32768, 65536))
    part = _flash_utilised(262144, 1)
    pairs = ms(UTILISATION, "sd_kde", backend="gpu", precision="ieee", n=262144, d=1)
    largest = {row["program"]: row["median_ms"] for row in rows(PROGRAM, "sd_kde", n=2**22)}
    own, all_pairs = largest["cukde, transform"], largest["cukde, all pairs"]
    theirs = largest[f"{FLASH_LINE}, the paper's kernels"]
    sizes = [
        row["shape"]["n"] for row in rows(LINE, "sd_kde", d=1, backend="gpu") if "median_ms" in (row.get("peer") or {})
    ]
    worst = max(error(LINE, "sd_kde", FLASH_LINE, n=n) for n in sizes)
    return [
        Claim(
            "faster than scikit-learn's KDE from 512 points on, and 10× as fast with 32,768 (second version 100×)",
            finding("confirmed, and more, on other machines", if_=few > 1 and min(most, beyond) > 100),
            f"{digits(few)}× with 512 points, {digits(most)}× with 32,768, {digits(beyond)}× with 65,536",
            (LINE,),
        ),
        Claim(
            "it takes up to 4,194,304 points (times in a picture)",
            finding("confirmed; its times are open: no numbers", if_=theirs > 1000 * own),
            f"{digits(theirs)} ms; `sd_kde` {digits(own)} ms, with all pairs {digits(all_pairs)} ms",
            (PROGRAM,),
        ),
        Claim(
            "it is bound by arithmetic (utilisation in a picture)",
            finding("open: no numbers", if_=0.1 < part < 0.5),
            f"{percent(part)} of the measured float32 rate with 262,144 points; `sd_kde` with all pairs "
            f"{percent(_utilised(pairs, n=262144, m=32768, d=1))}",
            (UTILISATION,),
        ),
        Claim(
            "SD-KDE is computed exactly (second version)",
            finding("confirmed: no TF32 in one dimension", if_=worst < 1e-5),
            f"worst error of a density {power(worst)}",
            (LINE,),
        ),
    ]


def losses() -> str:
    """Where a rival is ahead, and by how much the nearest is behind where none is."""
    nearest: dict[str, float] = {}
    for name, ops in ((RUNTIME, ("sd_kde", "kde", "laplace_kde")), (LINE, ("sd_kde",))):
        for row in itertools.chain(*(rows(name, op, backend="gpu") for op in ops)):
            nearest |= _nearest(name, row)
    which = min(nearest, key=nearest.__getitem__)
    if nearest[which] < 1:
        raise ValueError(f"expected no rival ahead in the report; got {which}: say so")
    fused = {
        n: ms(LINE_ALONE, "laplace_kde", precision="ieee", n=n, m=10_000)
        / ms(LINE_ALONE, "laplace_kde", FLASH_LINE, precision="ieee", n=n, m=10_000)
        for n in (1024, 4096, 16384, 65536, 262144, 1048576)
    }
    ahead = {n: of for n, of in fused.items() if of > 1}
    cuvs = {
        (row["shape"]["n"], row["shape"]["d"]): row["median_ms"] / row["peer"]["median_ms"]
        for row in rows(SMALL, "kde", **_GPU)
        if row.get("peer", {}).get("name") == "cuVS"
    }
    shorter = {which: of for which, of in cuvs.items() if of > 1}
    report = (
        "In SD-KDE, KDE and the Laplace correction of the tables above no rival on a GPU is faster at any size. The "
        f"nearest is {which}, with {nearest[which]:.2f} times cukde's time (`{RUNTIME}.json`, `{LINE}.json`)."
    )
    line = (
        'With all pairs in one dimension (`precision="ieee"`) Flash-SD-KDE is faster for the Laplace correction of '
        f"{' and '.join(f'{n:,}' for n in ahead)} points at 10,000 queries: cukde takes "
        f"{' and '.join(f'{of:.2f}' for of in ahead.values())} times as long (`{LINE_ALONE}.json`)."
    )
    small = (
        f"Of `kde` in {len(cuvs)} small calls the kernel of cuVS is faster in {len(shorter)}: cukde takes up to "
        f"{max(shorter.values()):.1f} times as long (`{SMALL}.json`)."
    )
    return f"- {report}\n- {line}\n- {small}"


def _nearest(name: str, row: dict[str, Any]) -> dict[str, float]:
    """How many times as long as our own call a rival takes: medians over the seeds, by what is said of them."""
    peer = row.get("peer") or {}
    if "median_ms" not in peer or row["precision"] != "float32":
        return {}
    shape, program = row["shape"], peer["name"]
    size = {"n": shape["n"], "d": shape["d"]}
    ratio = ms(name, row["op"], program, **_GPU, **size) / ms(name, row["op"], **_GPU, **size)
    return {f"{program} for `{row['op']}` of {shape['n']:,} points in {shape['d']} dimensions": ratio}
