"""What the oracle study found, in sentences: where it agrees with Flash-SD-KDE, section 6.1, and where not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

METRICS = {"mise": "MISE", "miae": "MIAE", "negative_mass": "integrated negative mass"}
BANDWIDTHS = {"rule": "its rule", "minimising": "least MISE"}

_KDE, _SD, _FUSED, _SEPARATE = NAMES = ("KDE", "SD-KDE", "Laplace, fused", "Laplace, two passes")
_HOW = {"rule": "by the rules", "minimising": "at the bandwidths of least MISE"}

_SAME = 0.01  # of an error: what no figure would show
_LITTLE = 0.9  # of an error: what is no substantial reduction


class Point(NamedTuple):
    """Errors of an estimator at one size and bandwidth, of either study."""

    estimator: str
    bandwidth: str
    n: int
    h: float
    bands: dict[str, Any]  # importance.Band of each metric
    expected: float | None = None  # exact MISE
    by_oracle: float | None = None  # MIAE by points of the oracle alone


class _Errors:
    """Mean errors by estimator, bandwidth, metric and size."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.sizes = sorted({point.n for point in points})
        self._bands = {(point.estimator, point.bandwidth, point.n): point.bands for point in points}

    def at(self, name: str, bandwidth: str, metric: str, n: int) -> float:
        return float(self._bands[name, bandwidth, n][metric].mean)

    def over_sizes(self, name: str, bandwidth: str, metric: str) -> list[float]:
        return [self.at(name, bandwidth, metric, n) for n in self.sizes]

    def ratios(self, name: str, to: str, bandwidth: str, metric: str) -> list[float]:
        pairs = zip(*(self.over_sizes(each, bandwidth, metric) for each in (name, to)), strict=True)
        return [a / b for a, b in pairs]

    def least(self, bandwidth: str, metric: str) -> list[str]:
        """The name that has the least error, of every size."""
        names = (_KDE, _SD, _FUSED)
        return [min(names, key=lambda name: self.at(name, bandwidth, metric, n)) for n in self.sizes]

    def of_two_passes(self, metrics: Sequence[str]) -> float:
        """Largest relative difference of the Laplace correction in two passes from that in one."""
        every = (self.ratios(_SEPARATE, _FUSED, bandwidth, metric) for bandwidth in BANDWIDTHS for metric in metrics)
        return max(abs(ratio - 1) for ratios in every for ratio in ratios)


def in_sixteen(points: Sequence[Point], rows: Sequence[dict[str, Any]], of_zero: float) -> Iterator[str]:
    """Sentences on 16 dimensions; ``of_zero`` is the MISE of the estimate 0, rows are those of the record."""
    errors = _Errors(points)
    first, last = errors.sizes[0], errors.sizes[-1]
    for bandwidth, how in _HOW.items():
        ratios = errors.ratios(_SD, _KDE, bandwidth, "mise")
        yield (
            f"16-D, {how}, n = {first:,} to {last:,}: SD-KDE has {_span(ratios)} KDE's MISE. The source: it "
            f"substantially improves on KDE. {_verdict(max(ratios) < _LITTLE)}"
        )
        least = errors.least(bandwidth, "mise")
        yield (
            f"16-D, {how}: the least MISE has {_listed(least, errors.sizes)}. The source: Laplace throughout. "
            f"{_verdict(set(least) == {_FUSED})}"
        )
        least, ratios = errors.least(bandwidth, "miae"), errors.ratios(_SD, _KDE, bandwidth, "miae")
        yield (
            f"16-D, {how}: the least MIAE has {_listed(least, errors.sizes)}; SD-KDE has {_span(ratios)} KDE's. The "
            f"source: SD-KDE. {_verdict(set(least) == {_SD})}"
        )
        every = [errors.over_sizes(name, bandwidth, of) for name in (_KDE, _SD, _FUSED) for of in ("mise", "miae")]
        falling, kink = all(map(_falls, every)), not _falls(errors.over_sizes(_FUSED, bandwidth, "miae"))
        yield (
            f"16-D, {how}: MISE and MIAE of KDE, SD-KDE and Laplace {'all' if falling else 'do not all'} fall with "
            f"every step of n, and Laplace's MIAE has {'a' if kink else 'no'} kink. The source: both fall, but for a "
            "kink of Laplace's MIAE within its bands."
        )
        relative = {name: errors.at(name, bandwidth, "mise", last) / of_zero for name in (_KDE, _SD, _FUSED)}
        absolute = {name: errors.at(name, bandwidth, "miae", last) for name in relative}
        yield (
            f"16-D, {how}, n = {last:,}: MISE over that of the estimate which is 0 everywhere is {_each(relative)}; "
            f"MIAE, 1 for the estimate 0, is {_each(absolute)}. The source does not compare with it, and states no "
            "bandwidth."
        )
        mass = errors.over_sizes(_FUSED, bandwidth, "negative_mass")
        yield (
            f"16-D, {how}: Laplace's integrated negative mass goes from {mass[0]:.3f} at n = {first:,} to "
            f"{mass[-1]:.3f} at {last:,}, where the whole is 1. The source: small negative values."
        )
    apart = errors.of_two_passes(list(METRICS))
    yield (
        f"16-D: Laplace's errors in one pass and in two differ by at most {apart:.1e} of them. The source: the curves "
        f"overlap. {_verdict(apart < _SAME)}"
    )
    yield from _of_fusion(rows, last)
    yield _of_exact(points)
    yield _of_oracle_alone(points)


def _of_fusion(rows: Sequence[dict[str, Any]], n: int) -> Iterator[str]:
    for row in rows:
        if row["op"] == "laplace_kde" and row["shape"]["n"] == n and "median_ms" in row.get("peer", {}):
            times = row["peer"]["median_ms"] / row["median_ms"]
            yield (
                f"16-D, n = {n:,}, {row['backend'].upper()}: two passes by kernel sums, the second of "
                f"{row['shape']['d'] + 1} columns, take {times:.2f} times as long as the fused one. The source: fusion "
                f"is faster throughout. {_verdict(times > 1)}"
            )


def _of_exact(points: Sequence[Point]) -> str:
    one = [point for point in points if point.estimator != _SEPARATE]  # which has the errors of the fused one
    exact = [(point.bands["mise"], point.expected) for point in one if point.expected is not None]
    inside = sum(band.low <= expected <= band.high for band, expected in exact)
    off = max(abs(band.mean / expected - 1) for band, expected in exact)
    return (
        f"16-D: {inside} of {len(exact)} bands of MISE hold its exact value, which is of all samples, and the estimate "
        f"is off by at most {off:.1%} of it."
    )


def _of_oracle_alone(points: Sequence[Point]) -> str:
    ratios = [point.by_oracle / point.bands["miae"].mean for point in points if point.by_oracle is not None]
    return (
        f"16-D: test points of the oracle alone, each weighted by 1 / p, would give {_span(ratios)} the MIAE: much of "
        "an estimate's mass is where they are rare, and such weights have no bound. The source does not say what its "
        "test points are drawn from."
    )


def in_one(points: Sequence[Point], slopes: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Sentences on one dimension."""
    errors = _Errors(points)
    first, last = errors.sizes[0], errors.sizes[-1]
    for bandwidth, how in _HOW.items():
        to_kde = {name: errors.ratios(name, _KDE, bandwidth, "mise")[-1] for name in (_SD, _FUSED)}
        fitted = {of["op"]: float(of["slope_mise"]) for of in slopes if of["bandwidth"] == bandwidth}
        steeper = max(fitted["sd_kde"], fitted["laplace_kde"]) < fitted["kde"]
        named = dict(zip((_KDE, _SD, _FUSED), (fitted[op] for op in ("kde", "sd_kde", "laplace_kde")), strict=True))
        yield (
            f"1-D, {how}: MISE at n = {last:,} over KDE's is {_each(to_kde)}. Slopes of log MISE by log n, n = "
            f"{first:,} to {last:,}: {_each(named)}; in the limit, at the best bandwidths, -0.80 for KDE and -0.89 for "
            f"the others. The source: a better rate than KDE's. {_verdict(steeper)}"
        )
    mass = max(max(errors.over_sizes(_FUSED, bandwidth, "negative_mass")) for bandwidth in BANDWIDTHS)
    yield f"1-D: Laplace's integrated negative mass is at most {mass:.1e}. The source: small negative values."
    apart = errors.of_two_passes(["mise", "miae"])
    yield (
        f"1-D: Laplace's errors in one pass and in two differ by at most {apart:.1e} of them. The source compares "
        f"them in a figure, and has them overlap in 16-D. {_verdict(apart < _SAME)}"
    )


def _falls(values: Sequence[float]) -> bool:
    return all(a > b for a, b in itertools.pairwise(values))


def _verdict(agrees: bool) -> str:
    return "Found here too." if agrees else "Not found here."


def _span(ratios: Sequence[float]) -> str:
    return f"{min(ratios):.3f} to {max(ratios):.3f} times" if len(ratios) > 1 else f"{ratios[0]:.3f} times"


def _each(values: dict[str, float]) -> str:
    return ", ".join(f"{value:.3f} ({name})" for name, value in values.items())


def _listed(names: Sequence[str], sizes: Sequence[int]) -> str:
    """Who it is at which size."""
    if len(set(names)) == 1:
        return f"{names[0]} at every size"
    return ", ".join(f"{name} at {n:,}" for name, n in zip(names, sizes, strict=True))
