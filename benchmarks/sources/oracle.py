"""Section 4: errors of KDE, SD-KDE and Laplace-corrected KDE against known densities in 16 dimensions and in one."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.sources.oracle_findings import BANDWIDTHS, METRICS, NAMES, Point, in_one, in_sixteen
from benchmarks.sources.section import Cell, Figure, Outcome, Section, Series, Setting, Table

_QUICK_16D, _CPU_16D, _GPU_16D = (1_000, 3_000), (3_000, 10_000, 30_000), (100_000, 300_000, 1_000_000)
_QUICK_1D, _FULL_1D = (1_000, 10_000), (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
_TEST_POINTS = 2_000, 10_000  # quick and full
_NAME_OF = dict(zip(("kde", "sd_kde", "laplace_kde"), NAMES, strict=False))
_TOO_LONG = "not on a CPU: at this size the pairs of the study take it minutes"


def run(setting: Setting) -> Outcome:
    """All three studies."""
    return Outcome.joined(study(setting) for study in (_sixteen, _one, _shared))


SECTION = Section(
    4, "Oracle study", "Flash-SD-KDE, section 6.1: figure 2 (16-D), figure 3 (1-D) and figure 4 (fusion)", run
)


def _sixteen(setting: Setting) -> Outcome:
    from benchmarks.sources import oracle_study_16d
    from benchmarks.sources.oracle_mixture import Mixture

    oracle = Mixture.standardised()
    on_gpu = setting.no_gpu is None
    sizes = _QUICK_16D if setting.quick else (*_CPU_16D, *(_GPU_16D if on_gpu else ()))
    m = _TEST_POINTS[0 if setting.quick else 1]
    seconds = 0.1 if setting.quick else 1.0
    points, rows = [], []
    for of in oracle_study_16d.study(sizes, m, setting.no_gpu, seconds, oracle):
        points += [_point(of, bandwidth, oracle) for bandwidth in BANDWIDTHS]
        rows += [of.row] if of.row else []
    left_out = () if on_gpu else tuple(n for n in _GPU_16D if n not in sizes)
    without: list[list[Cell]] = [[n, "all", f"{_TOO_LONG}; no GPU: {setting.no_gpu}"] for n in left_out]
    table = _table(f"16-D, {m:,} test points", points, without, oracle.roughness, _NOTE_16D)
    table.columns.append("MIAE by oracle points alone")
    for line, point in zip(table.rows, points, strict=False):
        line.append(point.by_oracle)
    for line in table.rows[len(points) :]:
        line.append(None)
    figures = [*_figures("16-D", points, {"mise": oracle.roughness, "miae": 1.0}), _figure_of_fusion(rows)]
    return Outcome(rows, [table], figures, list(in_sixteen(points, rows, oracle.roughness)))


def _point(of: Any, bandwidth: str, oracle: Any) -> Point:
    found = getattr(of, bandwidth)
    laplace = of.method.signed
    expected = None if of.method.op == "sd_kde" else oracle.expected_ise(of.n, found.h, laplace=laplace)
    by_oracle = float(np.mean([each.miae_by_oracle for each in found.of_each]))
    bands = {name: getattr(found, name) for name in METRICS}
    return Point(of.method.name, bandwidth, of.n, found.h, bands, expected, by_oracle)


_NOTE_16D = (
    "The mixture: 8 components, means 2 N(0, I) drawn once, divided by the mixture's deviations; three samples of each "
    "size. Integrals by importance sampling: half of the test points from the density p, half from r, made of the "
    "estimate's own kernels (of Laplace-corrected kernels: of their absolute terms, which lie as far out as the "
    "negative mass), each weighted by 1 / q, q = (p + r) / 2. As r is at least |estimate| / B with B = 1, for Laplace "
    "1 + d = 17, no weight is beyond 2 B. Known integrals (of p, p^2 and the estimate) are control variates. Bands: "
    "95% of bootstrap replicates over samples and test points. Least MISE: on a grid of bandwidths by steps of a "
    "tenth, by the same samples and points; two passes take that of the fused. MISE is over that of the estimate "
    "which is 0 everywhere; exact is its closed form, which SD-KDE has none of. Two passes: a kernel sum, and another "
    "of the columns that |x|^2 - 2 x y + |y|^2 is made of, as a caller would write it; a second pass over distances "
    "alone costs less."
)
_NOTE_1D = (
    "The density 0.5 N(-1.5, 0.5^2) + 0.5 N(1, 1), three samples of each size, float64 on the CPU. In one dimension "
    "the integrals are taken by the trapezoid rule on 16,385 points, which has no noise. Bands: 95% of bootstrap "
    "replicates over the samples, of which there are three. Least MISE: by bounded minimisation over the same samples."
)

_NOTE_SHARED = (
    "As in the source's code, h = 0.9 n^(-1 / (d + 4)) times the mean over the columns of min(s, IQR / 1.34). In "
    "16 dimensions the mixture above; by points of p: means over points of the density, each weighted by 1 / p, as the "
    "source takes them. In one dimension three normals, integrals by the trapezoid rule."
)


def _one(setting: Setting) -> Outcome:
    from benchmarks.sources import oracle_study
    from benchmarks.sources.estimates import SEPARATE
    from benchmarks.sources.importance import bands

    seeds = 3
    studied = list(oracle_study.study(_QUICK_1D if setting.quick else _FULL_1D, seeds))
    points = []
    grid = oracle_study.GRID[:, None]
    for row in studied:
        n = row["shape"]["n"]
        of_each = np.array([row["ise"], row["iae"], row["negative"]]).T
        found = dict(zip(METRICS, bands([each[None, None] for each in of_each]), strict=True))
        expected = row.get("mise_expected")
        points.append(Point(_NAME_OF[row["op"]], row["bandwidth"], n, row["h"], found, expected))
        if row["op"] == "laplace_kde":
            errors = []
            for X in (oracle_study.sample(n, seed) for seed in range(seeds)):
                h = row["h"] if row["bandwidth"] == "minimising" else float(SEPARATE.rule(X)[0])
                errors.append(np.array(oracle_study.errors(SEPARATE.estimate(X[:, None], grid, h))))
            found = dict(zip(METRICS, bands([each[None, None] for each in errors]), strict=True))
            points.append(Point(SEPARATE.name, row["bandwidth"], n, row["h"], found, expected))
    points.sort(key=lambda point: (point.n, NAMES.index(point.estimator), list(BANDWIDTHS).index(point.bandwidth)))
    rows = list(_timed_1d(studied, grid, 0.05 if setting.quick else 0.5))
    roughness = float(np.trapezoid(oracle_study.density(oracle_study.GRID) ** 2, oracle_study.GRID))
    table = _table("1-D", points, [], roughness, _NOTE_1D)
    slopes = list(oracle_study.slopes(studied))
    return Outcome(rows, [table], _figures("1-D", points, {}), list(in_one(points, slopes)))


def _shared(setting: Setting) -> Outcome:
    """The protocol of the source's own study, whose rows have a record of their own."""
    from benchmarks.sources import one_bandwidth

    sizes = one_bandwidth.SIZES_16D if setting.no_gpu else one_bandwidth.SIZES_16D_GPU
    sizes_1d, m = one_bandwidth.SIZES_1D, _TEST_POINTS[0 if setting.quick else 1]
    if setting.quick:
        sizes, sizes_1d = _QUICK_16D, sizes_1d[::3]
    rows = [*one_bandwidth.study_16d(sizes, m, setting.no_gpu), *one_bandwidth.study_1d(sizes_1d)]
    metrics = ("mise", "miae", "mise_by_oracle", "miae_by_oracle")
    cells: list[list[Cell]] = [
        [row["shape"]["d"], row["shape"]["n"], _NAME_OF[row["op"]], row["h"], *(row.get(name) for name in metrics)]
        for row in rows
    ]
    columns = ["d", "n", "estimator", "h", "MISE", "MIAE", "MISE by points of p", "MIAE by points of p"]
    table = Table("Errors at one bandwidth for all", columns, cells, _NOTE_SHARED)
    findings = [one_bandwidth.least(rows, d, metric) for d in (16, 1) for metric in metrics[:2]]
    return Outcome(tables=[table], findings=findings)


def _timed_1d(studied: Sequence[dict[str, Any]], grid: np.ndarray, seconds: float) -> Iterator[dict[str, Any]]:
    """Rows of the record: at the bandwidth of least MISE, errors by both, checked against the oracle."""
    from benchmarks import record
    from benchmarks.sources import oracle_study
    from benchmarks.sources.estimates import FUSED, KDE, SD, SEPARATE, checked

    methods = {method.op: method for method in (KDE, SD, FUSED)}
    some = oracle_study.sample(32, 0)[:, None]  # the grid's ends are too far out for relative errors
    for best, rule in zip(studied[::2], studied[1::2], strict=True):
        method, n, h = methods[best["op"]], best["shape"]["n"], best["h"]
        X = oracle_study.sample(n, 0)[:, None]
        named = {key: best[key] for key in ("op", "backend", "shape", "dtype", "precision")}
        kept = ("h", *METRICS, "ise", "iae")
        row = named | {
            "rel_err_max": checked(method, X, some, h),
            "by_rule": {key: rule[key] for key in kept},
            "minimising": {key: best[key] for key in kept},
        }
        peers: dict[str, Any] = {}
        if method is FUSED:
            two = functools.partial(SEPARATE.estimate, X, grid, h)
            peers[SEPARATE.name] = two, checked(SEPARATE, X, some, h)
        yield record.compared(functools.partial(method.estimate, X, grid, h), row, peers, seconds=seconds)[0]


def _table(title: str, points: Sequence[Point], without: Sequence[list[Cell]], roughness: float, note: str) -> Table:
    columns = ["n", "estimator", "bandwidth", "h", "MISE / that of 0", "95% band", "exact"]
    columns += ["MIAE", "95% band", "negative mass", "95% band"]
    rows: list[list[Cell]] = []
    for point in points:
        bands = point.bands
        row: list[Cell] = [point.n, point.estimator, BANDWIDTHS[point.bandwidth], point.h]
        row += [bands["mise"].mean / roughness, _interval(bands["mise"], roughness)]
        row.append(None if point.expected is None else point.expected / roughness)
        for name in ("miae", "negative_mass"):
            row += [bands[name].mean, _interval(bands[name])]
        rows.append(row)
    rows += [[*line, *[None] * (len(columns) - len(line))] for line in without]
    return Table(f"Errors, {title}", columns, rows, f"{note} The MISE of 0 is the integral of p^2, {roughness:.4g}.")


def _interval(band: Any, unit: float = 1.0) -> str:
    return f"{band.low / unit:.3g} to {band.high / unit:.3g}"


def _figures(title: str, points: Sequence[Point], of_zero: dict[str, float]) -> list[Figure]:
    """One a metric; ``of_zero`` is what the estimate 0 has."""
    sizes = sorted({point.n for point in points})
    figures = []
    for metric, label in METRICS.items():
        series = []
        for name, bandwidth in dict.fromkeys((point.estimator, point.bandwidth) for point in points):
            some = [point for point in points if (point.estimator, point.bandwidth) == (name, bandwidth)]
            bands = [point.bands[metric] for point in some]
            if not any(band.high > 0 for band in bands):
                continue  # densities that are never negative
            x, y = [point.n for point in some], [band.mean for band in bands]
            low, high = [band.low for band in bands], [band.high for band in bands]
            series.append(Series(f"{name}, {BANDWIDTHS[bandwidth]}", x, y, low, high))
        if metric in of_zero:
            series.append(Series("the estimate 0", sizes, [of_zero[metric]] * len(sizes)))
        positive = all(low > 0 for one in series for low in one.low or ())
        caption = "Lines are means over three samples, bands 95% bootstrap intervals."
        name = f"{label}, {title}"
        figures.append(Figure(name, "points n", label, series, log_x=True, log_y=positive, caption=caption))
    return figures


def _figure_of_fusion(rows: Sequence[dict[str, Any]]) -> Figure:
    """The source's figure 4: what others take over fused Laplace correction."""
    fused = {row["shape"]["n"]: row for row in rows if row["op"] == "laplace_kde"}
    sd = {row["shape"]["n"]: row["median_ms"] for row in rows if row["op"] == "sd_kde"}
    sizes = list(fused)
    two = [_ratio(fused[n].get("peer", {}).get("median_ms"), fused[n]["median_ms"]) for n in sizes]
    to_sd = [_ratio(sd[n], fused[n]["median_ms"]) for n in sizes]
    series = [Series("Laplace, two passes", list(sizes), two), Series("SD-KDE", list(sizes), to_sd)]
    label = "time over that of the fused Laplace correction"
    return Figure("What fusion saves, 16-D", "points n", label, series, log_x=True, log_y=True)


def _ratio(of: float | None, to: float) -> float | None:
    return None if of is None else of / to
