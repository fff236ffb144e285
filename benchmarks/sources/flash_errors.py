"""Errors of Flash-SD-KDE's own densities, by its authors' protocol, beside those of cukde: 16 dimensions, on a GPU.

python -m benchmarks.sources.flash_errors --record benchmarks/results/flash_errors_h200.json

Flash-SD-KDE must be on ``PYTHONPATH``. It takes about 90 seconds.

Densities and sizes are those of ``experiments/error_suite_16d`` and ``grid_oracle_mog_16d.yaml`` of the authors'
repository at a333b872: the mixture of eight normals, one bandwidth for all estimates, three samples of each size.
Estimates are cut off below at 1e-30, the negative values of the Laplace correction too. Errors are means over 10,000
points of the density p: (estimate - p)^2 / p for MISE, |estimate - p| / p for MIAE.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import cukde
from benchmarks import peers, record
from benchmarks.sources.importance import Draws
from benchmarks.sources.one_bandwidth import SEEDS, TEST_POINTS, bandwidth
from benchmarks.sources.oracle_mixture import Mixture
from cukde.core.dispatch import to_host

SIZES = (3_000, 10_000, 30_000, 100_000, 500_000, 1_000_000)
OPS = ("kde", "sd_kde", "laplace_kde")
RIVALS = ("Flash-SD-KDE, fp32_ieee", "Flash-SD-KDE, TF32")
CUT = 1e-30

Program = Callable[[str], Callable[..., Any]]
"""A function of each operation."""


class _Errors(NamedTuple):
    mise: float
    miae: float
    cut: float  # share of the points whose estimate was at most CUT
    apart: float  # from cukde's: mean of the difference over p


def ours(op: str) -> Callable[..., Any]:
    """The library's function."""
    found: Callable[..., Any] = getattr(cukde, op)
    return found


def study(
    sizes: Sequence[int] = SIZES,
    programs: Mapping[str, Program] | None = None,
    m: int = TEST_POINTS,
    oracle: Mixture | None = None,
    asarray: Callable[[np.ndarray], Any] = np.asarray,
) -> Iterator[dict[str, Any]]:
    """Rows of the record: a program, an operation and a size each."""
    oracle = oracle or Mixture.standardised()
    programs = {"cukde": ours} | dict(programs or {})
    for n in sizes:
        samples = [Draws.of(oracle, n, 2 * m, seed, asarray) for seed in range(SEEDS)]
        bandwidths = [bandwidth(of.X) for of in samples]
        p = [oracle.density(of.of_oracle) for of in samples]
        for op in OPS:
            own: list[np.ndarray] = []
            for name, program in programs.items():
                call = program(op)
                found = [
                    np.asarray(to_host(call(of.X, asarray(of.of_oracle), h)), np.float64)
                    for of, h in zip(samples, bandwidths, strict=True)
                ]
                own = own or found
                means = np.mean([_errors(*each) for each in zip(found, own, p, strict=True)], axis=0)
                yield {
                    "op": op,
                    "backend": "cpu" if asarray is np.asarray else "gpu",
                    "program": name,
                    "shape": {"n": n, "m": m, "d": oracle.d},
                    "dtype": "float32",
                    "precision": "float32",
                    "h": float(np.mean(bandwidths)),
                } | _Errors(*means.tolist())._asdict()


def _errors(estimate: np.ndarray, own: np.ndarray, p: np.ndarray) -> _Errors:
    """Errors of one sample's estimate at the test points, beside the library's own."""
    kept, ours_kept = np.maximum(estimate, CUT), np.maximum(own, CUT)
    off = np.abs(kept - p)
    return _Errors(
        float((off * off / p).mean()),
        float((off / p).mean()),
        float((estimate <= CUT).mean()),
        float((np.abs(kept - ours_kept) / p).mean()),
    )


def main() -> None:
    import cupy

    wanted = record.arguments("sources.flash_errors", __doc__).parse_args()
    programs = {name: functools.partial(peers.function, name=name) for name in RIVALS}
    record.kept(study(programs=programs, asarray=cupy.asarray), wanted.record, line)


def line(row: dict[str, Any]) -> str:
    """A row for people."""
    values = "".join(f"  {name} {row[name]:.4g}" for name in _Errors._fields)
    return f"n={row['shape']['n']:<8} {row['op']:<12} {row['program']:<24}{values}"


if __name__ == "__main__":
    main()
