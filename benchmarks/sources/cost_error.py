"""Section 6: time against error of KDE, SD-KDE and Laplace-corrected KDE, beside fewer dimensions and fewer points."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks.sources.section import Cell, Figure, Outcome, Section, Series, Setting, Table

_QUICK, _CPU, _GPU = (1_000, 3_000), (3_000, 10_000, 30_000), (100_000, 300_000)
_TEST_POINTS = 2_000, 10_000  # quick and full
_DIMENSIONS, _PARTS = (8, 4), (4, 16)
_SEEDS = 3
_EXACT = "all points, 16-D"
_TOO_LONG = "not on a CPU: at this size the pairs take it minutes"


class _Variant(NamedTuple):
    """A way to make an estimator cheaper, or none."""

    name: str
    k: int | None = None  # principal components
    part: int = 1  # one of so many points


_VARIANTS = (
    _Variant(_EXACT),
    *(_Variant(f"PCA to {k}", k=k) for k in _DIMENSIONS),
    *(_Variant(f"1 of {part} points", part=part) for part in _PARTS),
)
_FIRST_PCA = _VARIANTS[1].name


_Before = dict[tuple[str, int | None], tuple[int, float]]
"""Size and best bandwidth, by estimator and components, of the largest sample so far."""


class _Point(NamedTuple):
    """Error and times of a variant of an estimator; a time that was not taken is the reason."""

    n: int
    estimator: str
    variant: str
    found: Any  # importance.Integrated
    times: dict[str, float | str]  # ms by backend


def run(setting: Setting) -> Outcome:
    """Errors by importance sampling, where the GPU is if there is one, and times on what there is."""
    from benchmarks.sources.oracle_mixture import Mixture

    on_gpu = setting.no_gpu is None
    cpu = _QUICK if setting.quick else _CPU
    sizes = (*cpu, *(_GPU if on_gpu and not setting.quick else ()))
    m, seconds = _TEST_POINTS[0 if setting.quick else 1], 0.05 if setting.quick else 0.5
    oracle = Mixture.standardised()
    points: list[_Point] = []
    rows: list[dict[str, Any]] = []
    before: _Before = {}
    for n in sizes:
        variants = _VARIANTS if n in (cpu[-1], sizes[-1]) else _VARIANTS[:1]
        for point, some in _measured(n, m, variants, n <= cpu[-1], setting.no_gpu, seconds, oracle, before):
            points.append(point)
            rows += some
    return Outcome(
        rows, [_table(points, oracle.roughness, m)], _figures(points, m), list(_findings(points, oracle.roughness))
    )


SECTION = Section(6, "Cost against error", "none: the sources give time and error apart, and no approximate rival", run)


def _measured(
    n: int,
    m: int,
    variants: Sequence[_Variant],
    on_cpu: bool,
    no_gpu: str | None,
    seconds: float,
    oracle: Any,
    before: _Before,
) -> Iterator[tuple[_Point, list[dict[str, Any]]]]:
    """Every estimator of every variant at one size, and the rows of its record."""
    from benchmarks.sources import estimates, importance

    _, xp = estimates.where(no_gpu)
    whole = [importance.Draws.of(oracle, n, m, seed, xp.asarray) for seed in range(_SEEDS)]
    on_host = importance.Draws.of(oracle, n, m, 0)
    places = {"cpu": on_host} if on_cpu else {}
    if no_gpu is None:
        places["gpu"] = whole[0]
    for method in (estimates.KDE, estimates.SD, estimates.FUSED):
        for variant in variants:
            samples = [sample.first(n // variant.part) for sample in whole]
            fit, call = _of(method, variant)
            found = importance.minimising(fit, samples, oracle, _start(method, variant, samples[0].X, before))
            if variant.part == 1:
                before[method.name, variant.k] = n, found.h
            rows = []
            for backend, draws in places.items():
                X, Y = draws.X[: n // variant.part], _queries(draws, fit, found.h)
                row = {
                    "op": method.op if variant.name == _EXACT else f"{method.op}, {variant.name}",
                    "backend": backend,
                    "shape": {"n": len(X), "m": m, "d": oracle.d},
                    "dtype": "float32",
                    "precision": "float32",
                    "rel_err_max": _checked(method, variant, X, Y, found.h),
                    **found.row(),
                }
                rows.append(_timed(functools.partial(call, X, Y, found.h), row, seconds))
            times: dict[str, float | str] = {"cpu": _TOO_LONG, "gpu": no_gpu or ""}
            times |= {row["backend"]: row["median_ms"] for row in rows}
            yield _Point(n, method.name, variant.name, found, times), rows


def _of(method: Any, variant: _Variant) -> tuple[Callable[[Any, float], Any], Callable[[Any, Any, float], Any]]:
    """What is integrated, of a sample and a bandwidth, and what is timed."""
    from benchmarks.sources import estimates, principal

    if variant.k is None:
        return functools.partial(estimates.Estimate, method), method.estimate
    fit = functools.partial(principal.LiftedEstimate, method, variant.k)
    return fit, functools.partial(principal.lifted, method, variant.k)


def _start(method: Any, variant: _Variant, X: Any, before: _Before) -> float:
    """Where the search of the bandwidth begins: what was best of other sizes, at its rate, or a part of the rule."""
    from benchmarks.sources.estimates import FIRST
    from benchmarks.sources.principal import Principal

    found = before.get((method.name, variant.k))
    if found is None:
        return FIRST * float(method.bandwidth(X if variant.k is None else Principal.of(X, variant.k).project(X)))
    size, h = found
    return float(method.carried(h, size, len(X), variant.k or X.shape[1]))


def _queries(draws: Any, fit: Callable[[Any, float], Any], h: float) -> Any:
    """Test points: those of the oracle, and as many of the estimate."""
    from cukde.core import dispatch

    xp = dispatch.backend(draws.X).xp
    return xp.concatenate([xp.asarray(draws.of_oracle), xp.asarray(fit(draws.X, h).draw(draws))])


def _checked(method: Any, variant: _Variant, X: Any, Y: Any, h: float) -> float:
    """Error of the densities that are summed, against float64; of a variant in its own coordinates."""
    from benchmarks.sources.estimates import checked
    from benchmarks.sources.principal import Principal

    if variant.k is not None:
        principal = Principal.of(X, variant.k)
        X, Y = principal.project(X), principal.project(Y)
    return checked(method, X, Y, h)


def _timed(call: Callable[[], Any], row: dict[str, Any], seconds: float) -> dict[str, Any]:
    from benchmarks import record

    return record.compared(call, row, {}, seconds=seconds)[0]


def _table(points: Sequence[_Point], roughness: float, m: int) -> Table:
    columns = ["n", "estimator", "variant", "h", "MISE / that of 0", "95% band", "CPU, ms", "GPU, ms"]
    rows: list[list[Cell]] = []
    for point in points:
        mise = point.found.mise
        band = f"{mise.low / roughness:.3g} to {mise.high / roughness:.3g}"
        row: list[Cell] = [point.n, point.estimator, point.variant, point.found.h, mise.mean / roughness, band]
        rows.append([*row, point.times["cpu"], point.times["gpu"]])
    return Table("Time and error, 16-D", columns, rows, _NOTE.format(m=m, roughness=roughness))


_NOTE = (
    "The mixture, the integrals and the bands of section 4; each at its bandwidth of least MISE, which is not in the "
    "times. A time is that of the density at {m:,} points, half of the oracle's and half of the estimate's, with "
    "debiasing and principal components. PCA to k: the density of the first k components times a normal density of "
    "each of the others, with its deviation in the sample: a density of 16 dimensions, so that its MISE is of the "
    "same integral. 1 of 4 points: the estimator on that part of the sample, which is what it is at a smaller n. "
    "The MISE of 0 is the integral of p^2, {roughness:.4g}."
)


def _figures(points: Sequence[_Point], m: int) -> list[Figure]:
    """Time by MISE on each backend that has times."""
    figures = []
    for backend in ("cpu", "gpu"):
        timed = [(p, float(t)) for p in points if not isinstance(t := p.times[backend], str)]
        if not timed:
            continue
        largest = max(p.n for p, _ in timed)
        series = []
        for estimator in dict.fromkeys(p.estimator for p, _ in timed):
            for kind, name in (("all", _EXACT), ("PCA", "PCA to 8 and 4"), ("1 of", "1 of 4 and 16 points")):
                of = [(p, t) for p, t in timed if p.estimator == estimator and p.variant.startswith(kind)]
                some = [(p.found.mise.mean, t) for p, t in of if kind == "all" or p.n == largest]
                if some:
                    x, y = zip(*some, strict=True)
                    series.append(Series(f"{estimator}, {name}", list(x), list(y)))
        title = f"Time against MISE on the {backend.upper()}, 16-D, {m:,} test points"
        caption = f"All points: n up to {largest:,}, from right to left; the rivals are of the largest n."
        figures.append(Figure(title, "MISE", "ms", series, log_x=True, log_y=True, caption=caption))
    return figures


def _findings(points: Sequence[_Point], roughness: float) -> Iterator[str]:
    pays = []
    for backend in ("cpu", "gpu"):
        timed = [(p, float(t)) for p in points if not isinstance(t := p.times[backend], str)]
        if not timed:
            yield f"No times on the {backend.upper()}: {points[0].times[backend]}."
            continue
        best = [(p, t) for p, t in timed if not any(_dominates(other, (p, t)) for other in timed)]
        best.sort(key=lambda each: each[1])
        listed = "; ".join(
            f"{p.estimator}, {p.variant}, n = {p.n:,} ({t:.3g} ms, {p.found.mise.mean / roughness:.3f})"
            for p, t in best
        )
        yield f"{backend.upper()}: what no other beats in both time and MISE (over that of 0): {listed}."
        n = max(p.n for p, _ in timed)
        of = {(p.estimator, p.variant): (p, t) for p, t in timed if p.n == n}
        for estimator in dict.fromkeys(p.estimator for p, _ in timed):
            whole, whole_ms = of[estimator, _EXACT]
            parts = [
                f"{variant.name} takes {of[estimator, variant.name][1] / whole_ms:.2f} times as long for "
                f"{of[estimator, variant.name][0].found.mise.mean / whole.found.mise.mean:.3f} times the MISE"
                for variant in _VARIANTS[1:]
            ]
            yield f"{backend.upper()}, {estimator}, n = {n:,}: {'; '.join(parts)}."
            if of[estimator, _FIRST_PCA][0].found.mise.high < whole.found.mise.low:
                pays.append(f"{estimator} on the {backend.upper()}")
    if pays:
        yield (
            f"{_FIRST_PCA} lowers MISE ({', '.join(pays)}) for what the mixture is: its eight means span seven "
            "dimensions, and across them it is nearly normal, so that eight components lose little and the density of "
            "fewer dimensions has less noise. Data that fill their dimensions would not have it so."
        )


def _dominates(one: tuple[_Point, float], other: tuple[_Point, float]) -> bool:
    (p, t), (q, u) = one, other
    a, b = p.found.mise.mean, q.found.mise.mean
    return t <= u and a <= b and (t < u or a < b)
