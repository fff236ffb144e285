"""Bandwidths of Markov chains: squared errors of densities by rules that count rows in several ways.

python -m benchmarks.bandwidth.chains --record benchmarks/results/chains.json

Each chain draws from a density that is known. A row has the mean integrated squared error of ``kde`` over the least of
one bandwidth for all draws of the chain: 1 is the best. Rules take all rows, the number for a density
(``n_eff="autocorrelation"``), and the number for a mean (``effective_size``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import cukde
from benchmarks import record

GRID = np.linspace(-8, 8, 801)
WIDTHS = np.geomspace(0.04, 1.5, 40)


def _normal(x: Any) -> Any:
    return np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)


def _bimodal(x: Any) -> Any:
    return 0.5 * (_normal(x - 2) + _normal(x + 2))


class Chain(NamedTuple):
    """A way to draw n dependent rows of a density."""

    name: str
    density: Callable[[Any], Any]
    draw: Callable[[int, np.random.Generator], np.ndarray]


def _autoregressive(rho: float) -> Chain:
    def draw(n: int, rng: np.random.Generator) -> np.ndarray:
        noise = rng.normal(size=n) * np.sqrt(1 - rho * rho)
        out = np.empty(n)
        out[0] = rng.normal()
        for i in range(1, n):
            out[i] = rho * out[i - 1] + noise[i]
        return out

    return Chain(f"autoregressive, {rho:g}", _normal, draw)


def _metropolis(name: str, density: Callable[[Any], Any], step: float) -> Chain:
    def draw(n: int, rng: np.random.Generator) -> np.ndarray:
        out, here = np.empty(n), 2 * rng.choice([-1.0, 1.0])
        steps, chances = rng.normal(0, step, n + 200), rng.uniform(size=n + 200)
        for i in range(n + 200):  # the first are left out
            there = here + steps[i]
            if chances[i] * density(here) < density(there):
                here = there
            if i >= 200:
                out[i - 200] = here
        return out

    return Chain(f"Metropolis, {name}, step {step:g}", density, draw)


CHAINS = (
    _autoregressive(0.0),
    _autoregressive(0.5),
    _autoregressive(0.9),
    _autoregressive(0.99),
    _autoregressive(-0.5),
    _metropolis("normal", _normal, 0.3),
    _metropolis("normal", _normal, 2.4),
    _metropolis("normal", _normal, 20.0),
    _metropolis("bimodal", _bimodal, 0.5),
    _metropolis("bimodal", _bimodal, 4.0),
)

Rule = Callable[..., Any]
COUNTS: dict[str, Callable[[np.ndarray], Any]] = {
    "rows": lambda x: None,
    "density": lambda x: "autocorrelation",
    "mean": lambda x: max(float(cukde.bandwidth.effective_size(x)[0]), 2.0),
}
RULES: dict[str, Rule] = {
    "silverman": cukde.bandwidth.silverman,
    "isj": cukde.bandwidth.isj,
    "cross_validate": lambda x, **options: cukde.bandwidth.cross_validate(x, **options).bandwidth,
}


def _error(x: np.ndarray, h: float, p: np.ndarray) -> float:
    return float(((cukde.kde(x, GRID, h) - p) ** 2).sum() * (GRID[1] - GRID[0]))


def _chosen(rule: Rule, x: np.ndarray, n_eff: Any) -> float | None:
    try:
        return float(rule(x, n_eff=n_eff)[0])
    except ValueError:  # isj finds none for rows that stay
        return None


def row(chain: Chain, n: int, draws: int) -> dict[str, Any]:
    """Mean errors over the draws, relative to the least."""
    p = chain.density(GRID)
    least = np.zeros(len(WIDTHS))
    errors: dict[str, list[float]] = {f"{rule}, {count}": [] for rule in RULES for count in COUNTS}
    for seed in range(draws):
        x = chain.draw(n, np.random.default_rng(seed))
        least += [_error(x, h, p) / draws for h in WIDTHS]
        for rule, function in RULES.items():
            for count, number in COUNTS.items():
                h = _chosen(function, x, number(x))
                errors[f"{rule}, {count}"].append(np.nan if h is None else _error(x, h, p))
    found = {
        name: float(np.nanmean(each) / least.min()) if np.isfinite(each).any() else None
        for name, each in errors.items()
    }
    return {
        "op": "chains",
        "backend": "cpu",
        "shape": {"n": n, "d": 1},
        "dtype": "float64",
        "precision": "float64",
        "chain": chain.name,
        "draws": draws,
        "best": float(WIDTHS[least.argmin()]),
        **found,
    }


def rows(n: int, draws: int) -> Iterator[dict[str, Any]]:
    """A row a chain."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cukde.BandwidthRangeWarning)
        for chain in CHAINS:
            yield row(chain, n, draws)


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    found = (row[f"{rule}, {count}"] for rule in RULES for count in COUNTS)
    cells = [row["chain"], f"{row['best']:.2f}", *("none" if each is None else f"{each:.2f}" for each in found)]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = record.arguments("bandwidth.chains", __doc__)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--draws", type=int, default=30)
    wanted = parser.parse_args()
    heads = " | ".join(f"{rule}: {count}" for rule in RULES for count in COUNTS)
    print(f"| chain | best h | {heads} |\n" + "|---" * (2 + len(RULES) * len(COUNTS)) + "|")
    record.kept(rows(wanted.rows, wanted.draws), wanted.record, line)


if __name__ == "__main__":
    main()
