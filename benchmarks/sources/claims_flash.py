"""What both versions of Flash-SD-KDE say of times, errors and utilisation, beside the records."""

from __future__ import annotations

import itertools
from typing import Any

from benchmarks.sources.claim import Claim, digits, error, ms, percent, power, rows, verdict
from cukde import perf

RUNTIME, UTILISATION, LINE, BATCHES = (f"sources_h200/section-{number}" for number in (1, 2, 3, 5))
RIVALS, SMALL, LINE_ALONE, MILLION = "map_rivals_h200", "small_calls_h100", "density_1d_h200", "map_million_h200"
PROGRAM, KEOPS = "flash_kernels_h200", "keops_h200"
FLASH, FLASH_IEEE, FLASH_LINE = "Flash-SD-KDE, TF32", "Flash-SD-KDE, fp32_ieee", "Flash-SD-KDE, float32"
OLD, OLD_IEEE = "Flash-SD-KDE", "Flash-SD-KDE (fp32_ieee)"  # in records of before the modes had names
EAGER, COMPILED, SCIKIT = "PyTorch", "torch.compile", "scikit-learn KernelDensity"
TABLE = {"n": 32768, "m": 4096, "d": 16}  # the size of the paper's tables
HUGE = {"n": 1048576, "m": 131072, "d": 16}
RIVALS_SIZE = {"n": 262144, "m": 32768, "d": 16}

_GPU = {"backend": "gpu", "precision": "float32"}
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


def _published_part() -> float:
    """Measured TF32 rate of the H200 over the published one."""
    (peaks,) = rows(UTILISATION, "peaks", backend="gpu")
    return float(peaks["rates"]["tensor_tf32"] / perf.peaks("H200").rate("tensor_tf32"))


def _flash_utilised(n: int, d: int = 16) -> float:
    return _utilised(ms(UTILISATION, "sd_kde", FLASH_LINE if d == 1 else FLASH, n=n, d=d), n=n, m=n // 8, d=d)


def _table() -> list[Claim]:
    here, ours = ms(RUNTIME, "sd_kde", FLASH, **TABLE), ms(RUNTIME, "sd_kde", **_GPU, **TABLE)
    other, ours_there = ms(SMALL, "sd_kde", OLD, **TABLE), ms(SMALL, "sd_kde", **_GPU, **TABLE)
    compilers = [row["peer"]["reason"] for row in rows(KEOPS, "sd_kde", **TABLE)]
    return [
        Claim(
            "SD-KDE of 32,768 points at 4,096 queries, 16-D",
            "2.23 ms; second version 2.11 ms",
            f"Flash-SD-KDE {digits(here)} ms on an H200, {digits(other)} ms on an H100 with a slow host; "
            f"`sd_kde` {digits(ours)} and {digits(ours_there)} ms",
            verdict("confirmed, in size: other GPUs", if_=here < 2.23 and other < 2.5),
            (RUNTIME, SMALL),
        ),
        Claim(
            "PyKeOps at that size",
            "KDE 3.06 ms, SD-KDE 21.73 ms; second version 3.33 and 16.91 ms",
            "no number: PyKeOps 2.3 crashes (SIGSEGV) when it compiles",
            verdict(
                "not reproducible here. Text and table of the first version disagree: 7 times against 1.4 times as "
                "fast as KDE by PyKeOps. So do those of the second: 1.57 in the text, 1.4 in the table",
                if_=all("SIGSEGV" in reason for reason in compilers) and bool(compilers),
            ),
            (KEOPS,),
        ),
    ]


def _speedups() -> list[Claim]:
    times = _scikit(TABLE["n"]) / ms(RUNTIME, "sd_kde", FLASH, **TABLE)
    ours = _scikit(TABLE["n"]) / ms(RUNTIME, "sd_kde", **_GPU, **TABLE)
    eager, compiled, more = _over(EAGER), _over(COMPILED), _over(EAGER, 65536)
    faster = ms(RUNTIME, "sd_kde", COMPILED, n=2048) / ms(RUNTIME, "sd_kde", FLASH, n=2048)
    return [
        Claim(
            "faster than scikit-learn's KDE, 32,768 points, 16-D",
            "2,500×; second version 3,300×",
            f"Flash-SD-KDE {digits(times)}×, `sd_kde` {digits(ours)}× (H200; scikit-learn on one core of a Xeon, "
            "extrapolated from a part of the queries)",
            verdict("confirmed, and more, on other machines", if_=times > 3300),
            (RUNTIME,),
        ),
        Claim(
            "faster than SD-KDE by PyTorch, 32,768 points, 16-D",
            "35×; second version 47×",
            f"{digits(eager)}× over PyTorch, {digits(compiled)}× over `torch.compile`; at 65,536 points "
            f"{digits(more)}×; at 2,048 points `torch.compile` takes {digits(faster)} of Flash-SD-KDE's time",
            verdict(
                "not reproducible: no RTX A6000 is at hand. On an H200 the factor is a third to a quarter of that",
                if_=35 / 4 < eager < 35 / 2 and 47 / 5 < eager < 47 / 3,
            ),
            (RUNTIME,),
        ),
    ]


def _errors() -> list[Claim]:
    worst = [error(RUNTIME, op, FLASH, n=n, d=16) for op in ("kde", "sd_kde") for n in [*_SIZES, HUGE["n"]]]
    torch = max(error(RUNTIME, op, COMPILED, n=n) for op in ("kde", "sd_kde") for n in _SIZES)
    ours, tf32 = (
        max(error(RUNTIME, op, backend="gpu", precision=p, n=n) for op in ("kde", "sd_kde") for n in _SIZES)
        for p in ("float32", "tf32")
    )
    kde, sd = (error(RIVALS, op, OLD_IEEE, **RIVALS_SIZE) for op in ("kde", "sd_kde"))
    slower = [ms(RIVALS, op, OLD_IEEE, **RIVALS_SIZE) / ms(RIVALS, op, OLD, **RIVALS_SIZE) for op in ("kde", "sd_kde")]
    times = [digits(ms(RIVALS, op, OLD_IEEE, **RIVALS_SIZE)) for op in ("kde", "sd_kde")]
    return [
        Claim(
            "results close to those by PyTorch (first version), exact SD-KDE (second)",
            "no figure",
            f"the default mode, TF32: worst error of a density {percent(min(worst))} to {percent(max(worst))}; "
            f"`torch.compile` at most {power(torch)}, cukde {power(ours)} (with `tf32` {power(tf32)})",
            verdict("refuted for the default mode", if_=min(worst) > 100 * torch),
            (RUNTIME,),
        ),
        Claim(
            "a mode `fp32_ieee` in its code, which its error study uses",
            "no figure",
            f"with 262,144 points `kde` takes {times[0]} ms, {digits(slower[0])} times the default's, with an error of "
            f"{power(kde)}; `sd_kde` takes {times[1]} ms, {digits(slower[1])} times, with an error of {power(sd)}, "
            "because its default debiasing stays TF32",
            verdict("holds in part: accurate for `kde`, not for `sd_kde`", if_=kde < 3e-5 < 1e-3 < sd),
            (RIVALS,),
        ),
    ]


def _rates() -> list[Claim]:
    part = {n: _flash_utilised(n) for n in (8192, 16384, 32768, 262144)}
    ours = _utilised(ms(UTILISATION, "sd_kde", **_GPU, n=262144, d=16), n=262144, m=32768, d=16)
    eager = _utilised(ms(RUNTIME, "sd_kde", EAGER, **TABLE), **TABLE)
    density = ms(BATCHES, "kde", FLASH, **TABLE) / ms(BATCHES, "sd_kde", FLASH, **TABLE)
    larger = ms(RIVALS, "kde", OLD, **RIVALS_SIZE) / ms(RIVALS, "sd_kde", OLD, **RIVALS_SIZE)
    engines = {
        op: ms(BATCHES, op, backend="gpu", precision="ieee", n=65536)
        / min(row["median_ms"] for row in rows(BATCHES, op, **_GPU, n=65536) if row.get("how") == "two float16 terms")
        for op in ("kde", "sd_kde")
    }
    streaming, matrix = (
        next(
            row for row in rows(BATCHES, "kde", backend="gpu", n=131072) if (row["precision"] == p and "peak_mb" in row)
        )
        for p in ("float32", "whole matrix")
    )
    tile, intensity = perf.flash_tile_bytes(16), perf.flash_intensity(**TABLE)
    held = {op: rows(PROGRAM, f"Flash-SD-KDE, memory of {op}")[0]["peak_mb"] for op in ("kde", "sd_kde")}
    return [
        Claim(
            "utilisation of tensor cores, by its count: two digits beyond 8,192 points",
            "a picture; 2.23 ms are 25% of 155 TFLOP/s",
            f"of the measured TF32 rate Flash-SD-KDE reaches {percent(part[8192])}, {percent(part[16384])}, "
            f"{percent(part[32768])} and {percent(part[262144])} with 8,192, 16,384, 32,768 and 262,144 points; "
            f"`sd_kde` {percent(ours)} with the most, as it takes each pair of the data once and multiplies float16 "
            "terms, which the count does not know. Of the published rate, "
            f"{perf.peaks('H200').rate('tensor_tf32') / 1e12:.1f} TFLOP/s, they reach "
            f"{percent(part[262144] * _published_part())} and {percent(ours * _published_part())} with the most",
            verdict("holds in part: two digits from 32,768", if_=part[16384] < 0.1 < part[32768]),
            (UTILISATION,),
        ),
        Claim(
            "utilisation of SD-KDE by PyTorch",
            "a few percent",
            f"{percent(eager)} at 32,768 points",
            verdict("confirmed", if_=eager < 0.05),
            (RUNTIME, UTILISATION),
        ),
        Claim(
            "bytes of a tile, flops a byte, by its model",
            "7.4e4; 72",
            f"its formula gives {tile:,} and {intensity:.0f} (`perf.flash_tile_bytes`, `perf.flash_intensity`); the "
            "other formula in the paper grows with the number of points, and is not the one that gives 72",
            verdict("confirmed: arithmetic", if_=round(intensity) == 72 and abs(tile - 7.4e4) < 500),
        ),
        *_counters(),
        Claim(
            "part of the score in the time of SD-KDE, 32,768 points",
            "95%",
            f"its `kde` takes {percent(density)} of the time of its `sd_kde`, and {percent(larger)} at 262,144 points: "
            f"at most {percent(1 - density)} and {percent(1 - larger)} are left for the score",
            verdict("holds in part: less, at both sizes", if_=density > 0.05 and larger > 0.05),
            (BATCHES, RIVALS),
        ),
        Claim(
            "tensor cores against plain float32",
            "5 to 10×, for products alone",
            f"whole calls with 65,536 points: `kde` {digits(engines['kde'])}×, `sd_kde` {digits(engines['sd_kde'])}×, "
            "by two float16 terms instead of squared differences",
            verdict("confirmed for `kde`; more for `sd_kde`", if_=5 < engines["kde"] < 10 < engines["sd_kde"]),
            (BATCHES,),
        ),
        Claim(
            "memory linear in n, by streaming",
            "no figure",
            f"`kde` of 131,072 points holds {digits(streaming['peak_mb'])} MB, a whole matrix "
            f"{digits(matrix['peak_mb'])} MB; that of Flash-SD-KDE {digits(held['kde'])} MB, its `sd_kde` "
            f"{digits(held['sd_kde'])} MB",
            verdict(
                "confirmed for both",
                if_=max(streaming["peak_mb"], *held.values()) < 0.01 * matrix["peak_mb"],
            ),
            (BATCHES, PROGRAM),
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
            "flops a byte of the score kernel by counters",
            "95",
            f"by its count {digits(intensity)}, as the kernel moves {moved / 2**20:.1f} MB of device memory: the "
            "data stay in the second cache of an H200",
            verdict(
                "not reproducible: the bytes that were counted are not named, and the GPU is another. That arithmetic "
                "binds is confirmed",
                if_=intensity > 95 and sm > 0.5,
            ),
            (PROGRAM,),
        ),
        Claim(
            "throughput of multiprocessors, of L1, by counters",
            "68%; second version 68% and 90%",
            f"{percent(sm)} and {percent(l1)} at 32,768 points",
            verdict("confirmed for the multiprocessors; L1 has room here", if_=0.6 < sm < 0.75 and l1 < 0.8),
            (PROGRAM,),
        ),
        Claim(
            "wider tiles against smaller ones (second version: the best are 64 by 1,024)",
            "more than 2×",
            f"the score kernel, the best warps and stages of each tile: the best of {len(times)}, {best[0]} by "
            f"{best[1]:,}, takes {digits(times[best])} ms; 32 by 32 takes {gains[0]:.2f}, 64 by 64 {gains[1]:.2f} and "
            f"64 by 1,024 {gains[2]:.2f} times as long",
            verdict("confirmed against the smallest", if_=gains[0] > 2 > gains[1] and gains[2] < 1.1),
            (PROGRAM,),
        ),
    ]


def sixteen_dimensions() -> list[Claim]:
    """Times, errors and utilisation of 16 dimensions."""
    return [*_table(), *_speedups(), *_million(), *_errors(), *_rates()]


def _million() -> list[Claim]:
    flash, ours = ms(RUNTIME, "sd_kde", FLASH, **HUGE), ms(RUNTIME, "sd_kde", **_GPU, **HUGE)
    (mixture,) = rows(MILLION, "sd_kde", **HUGE, data="mixture", factor=1.0)
    in_float32 = ms(RUNTIME, "sd_kde", FLASH_IEEE, **HUGE)
    ours_over, flash_over, ieee_over = (
        [ms(RUNTIME, "laplace_kde", *of, **given, **size) / ms(RUNTIME, "kde", *of, **given, **size) for size in sizes]
        for of, given in (((), _GPU), ((FLASH,), {}), ((FLASH_IEEE,), {}))
        for sizes in [({"n": 65536, "d": 16}, HUGE)]
    )
    return [
        Claim(
            "SD-KDE of 1,048,576 points at 131,072 queries (second version)",
            "2.3 s",
            f"Flash-SD-KDE {digits(flash)} ms, in `fp32_ieee` {digits(in_float32)} ms, `sd_kde` {digits(ours)} ms; "
            "`sd_kde` of another mixture of eight normals, without pairs that cannot matter, "
            f"{digits(mixture['median_ms'])} ms",
            verdict("confirmed, on a faster GPU", if_=flash < 2300),
            (RUNTIME, MILLION),
        ),
        Claim(
            "the Laplace correction costs no more than KDE (second version)",
            "no figure",
            "time over that of KDE, 65,536 and 1,048,576 points: Flash-Laplace-KDE "
            f"{flash_over[0]:.2f} and {flash_over[1]:.2f}, in `fp32_ieee` {ieee_over[0]:.2f} and {ieee_over[1]:.2f}; "
            f"`laplace_kde` {ours_over[0]:.2f} and {ours_over[1]:.2f}",
            verdict(
                "confirmed for `fp32_ieee`; up to a fifth more in the default mode, and by cukde",
                if_=max(ieee_over) < 1.02 and 1.1 < min(ours_over[1], flash_over[1]) < 1.2,
            ),
            (RUNTIME,),
        ),
    ]


def one_dimension() -> list[Claim]:
    """The appendix, and the figure of fusion."""
    few, most, beyond = (_scikit(n, LINE, 1) / ms(LINE, "sd_kde", FLASH_LINE, n=n) for n in (512, 32768, 65536))
    part = _flash_utilised(262144, 1)
    pairs = ms(UTILISATION, "sd_kde", backend="gpu", precision="ieee", n=262144, d=1)
    alone = {"n": 1048576, "d": 1, "backend": "gpu"}
    flash, ours = ms(LINE_ALONE, "sd_kde", FLASH_LINE, **alone), ms(LINE_ALONE, "sd_kde", precision="float32", **alone)
    largest = {row["program"]: row["median_ms"] for row in rows(PROGRAM, "sd_kde", n=2**22)}
    own, all_pairs = largest["cukde, transform"], largest["cukde, all pairs"]
    theirs = largest[f"{FLASH_LINE}, the paper's kernels"]
    sizes = [
        row["shape"]["n"] for row in rows(LINE, "sd_kde", d=1, backend="gpu") if "median_ms" in (row.get("peer") or {})
    ]
    worst = max(error(LINE, "sd_kde", FLASH_LINE, n=n) for n in sizes)
    return [
        Claim(
            "faster than scikit-learn's KDE from 512 to 32,768 points, increasingly with size",
            "over 10× at the largest (first version), around 100× (second)",
            f"{digits(few)}× at 512 points, {digits(most)}× at 32,768, {digits(beyond)}× at 65,536 (H200; scikit-learn "
            "with `rtol=1e-4` on one core of a Xeon, extrapolated from a part of the queries)",
            verdict("confirmed, and more, on other machines", if_=few > 1 and min(most, beyond) > 100),
            (LINE,),
        ),
        Claim(
            "up to 4,194,304 points",
            "times and utilisation in a picture",
            f"with 1,048,576 points Flash-SD-KDE takes {digits(flash)} ms, and `sd_kde`, which does not sum all pairs, "
            f"{digits(ours)} ms. With 4,194,304 one call of the kernels that its figures time takes {digits(theirs)} "
            f"ms, `sd_kde` with all pairs {digits(all_pairs)} ms, and by default {digits(own)} ms",
            verdict("not reproducible: no number in the text", if_=flash > 1000 * ours and theirs > 1000 * own),
            (LINE_ALONE, PROGRAM),
        ),
        Claim(
            "the 1-D program is bound by arithmetic",
            "utilisation of float32 in a picture",
            f"with 262,144 points Flash-SD-KDE reaches {percent(part)} of the measured float32 rate, cukde with all "
            f"pairs {percent(_utilised(pairs, n=262144, m=32768, d=1))}",
            verdict("not reproducible: no number in the text", if_=0.1 < part < 0.5),
            (UTILISATION,),
        ),
        Claim(
            "errors in one dimension",
            "none stated",
            f"Flash-SD-KDE, which uses no tensor cores there, has an error of at most {power(worst)}",
            verdict("confirmed: accurate. The TF32 errors above are those of 16 dimensions", if_=worst < 1e-5),
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
    cuvs = ms(SMALL, "kde", **_GPU, n=16384, d=16) / ms(SMALL, "kde", "cuVS", n=16384, d=16)
    report = (
        "In the sections 1 and 3 of an H200, no rival on a GPU is faster than cukde at any size. The nearest "
        f"is {which}, with {nearest[which]:.2f} times cukde's time (`{RUNTIME}.json`, `{LINE}.json`)."
    )
    line = (
        'In one dimension with `precision="ieee"`, all pairs, Flash-SD-KDE is faster for the Laplace correction of '
        f"{' and '.join(f'{n:,}' for n in ahead)} points at 10,000 queries: cukde takes "
        f"{' and '.join(f'{of:.2f}' for of in ahead.values())} times as long (`{LINE_ALONE}.json`)."
    )
    small = (
        f"For `kde` of 16,384 points on an H100, cukde takes {cuvs:.1f} times as long as the kernel of cuVS "
        f"(`{SMALL}.json`)."
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
