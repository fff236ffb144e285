"""Information of random samples beside closed forms: bias, errors, how often two standard errors cover, and rivals.

python -m benchmarks.information.bench_information --record benchmarks/results/information_cpu.json

"covers" is the share of samples whose value is within two standard errors of the truth, 0.95 where both are right;
"plain" is the estimate without the bias correction. Rivals are scikit-learn's ``mutual_info_regression`` (Kraskov's
estimator by three neighbours), of one column about another, SciPy's ``differential_entropy``, of one column, and the
estimator of Kozachenko and Leonenko by SciPy's tree, of several. Times are those of a call, medians over the samples,
with the rule for the bandwidth apart. The rule "cross_validate" has a bandwidth for each column, and "factors" are
those of ``cukde.bandwidth.abramson``. docs/information.md has the outcome.
"""

from __future__ import annotations

import argparse
import functools
import math
import statistics
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import cukde
from benchmarks import record
from benchmarks.bandwidth.bench_rule_of_thumb import Clock
from cukde.core import dispatch

SIZES = (1_000, 5_000, 20_000)
DIMENSIONS = (1, 2, 3, 5)


class Law(NamedTuple):
    """A distribution, and the entropies of its columns."""

    name: str
    draw: Callable[[np.random.Generator, int], np.ndarray]
    entropy: Callable[[list[int]], float]


class Rule(NamedTuple):
    """A bandwidth, and whether each row has a factor of it."""

    name: str
    bandwidth: Callable[[Any], Any]
    factors: bool = False


class Quantity(NamedTuple):
    """A call of data, a bandwidth and options, its truth, and a rival or None."""

    call: Callable[..., cukde.Information]
    truth: float
    rival: tuple[str, Callable[[np.ndarray], float]] | None


def normal(d: int, rho: float) -> Law:
    S = np.full((d, d), rho) + (1 - rho) * np.eye(d)
    factor = np.linalg.cholesky(S)

    def entropy(columns: list[int]) -> float:
        return 0.5 * float(np.linalg.slogdet(2 * math.pi * math.e * S[np.ix_(columns, columns)])[1])

    return Law(f"normal, correlation {rho}", lambda rng, n: rng.standard_normal((n, d)) @ factor.T, entropy)


def mixture(d: int) -> Law:
    """Two normals, a half as wide as the other, apart along the first column; the others are normal."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        X = rng.standard_normal((n, d))
        X[:, 0] = np.where(rng.uniform(size=n) < 0.5, X[:, 0] - 2, 0.5 * X[:, 0] + 2)
        return X

    x = np.linspace(-12, 12, 200_001)
    p = (np.exp(-0.5 * (x + 2) ** 2) + 2 * np.exp(-2 * (x - 2) ** 2)) / math.sqrt(8 * math.pi)
    first = float(-(p * np.log(p)).sum() * (x[1] - x[0]))
    one = 0.5 * math.log(2 * math.pi * math.e)
    return Law("mixture", draw, lambda columns: sum(first if k == 0 else one for k in columns))


def alike(name: str, draw: Callable[[np.random.Generator, tuple[int, int]], np.ndarray], one: float, d: int) -> Law:
    """Independent columns of one distribution, of which the entropy is known."""
    return Law(name, lambda rng, n: draw(rng, (n, d)), lambda columns: one * len(columns))


def skewed(d: int) -> Law:
    """Columns of a gamma distribution of shape 2."""
    return alike("gamma", lambda rng, shape: rng.gamma(2.0, size=shape), 1 + float(np.euler_gamma), d)


def heavy(d: int) -> Law:
    """Columns of Student's t with 5 degrees of freedom, of which the integral is SciPy's."""
    from scipy import stats

    return alike("t of 5", lambda rng, shape: rng.standard_t(5, size=shape), float(stats.t(5).entropy()), d)


def neighbours(X: np.ndarray, k: int = 3) -> float:
    """Entropy by the distance to the k-th neighbour, columns in deviations (Kozachenko and Leonenko)."""
    from scipy.spatial import cKDTree
    from scipy.special import digamma, gammaln

    n, d = X.shape
    scale = X.std(axis=0)
    distance = cKDTree(X / scale).query(X / scale, k + 1)[0][:, -1]
    volume = 0.5 * d * math.log(math.pi) - gammaln(0.5 * d + 1)
    return float(digamma(n) - digamma(k) + volume + d * np.log(distance).mean() + np.log(scale).sum())


def of_entropy(law: Law, d: int) -> Quantity:
    def scipys(X: np.ndarray) -> float:
        from scipy.stats import differential_entropy

        return float(differential_entropy(X[:, 0]))

    rival = ("SciPy differential_entropy", scipys) if d == 1 else ("k nearest neighbours", neighbours)
    return Quantity(cukde.entropy, law.entropy([*range(d)]), rival)


def of_information(law: Law, d: int) -> Quantity:
    rest = [*range(1, d)]

    def sklearns(X: np.ndarray) -> float:
        from sklearn.feature_selection import mutual_info_regression

        return float(mutual_info_regression(X[:, :1], X[:, 1], random_state=0)[0])

    def call(X: Any, h: Any, **options: Any) -> cukde.Information:
        return cukde.mutual_information(X, 0, rest, h, **options)

    truth = law.entropy([0]) + law.entropy(rest) - law.entropy([0, *rest])
    return Quantity(call, truth, ("scikit-learn mutual_info_regression", sklearns) if d == 2 else None)


def of_conditional_information(law: Law, d: int) -> Quantity:
    """Of the first column about the second, given the last."""

    def call(X: Any, h: Any, **options: Any) -> cukde.Information:
        return cukde.mutual_information(X, 0, 1, h, given=[d - 1], **options)

    c = d - 1
    truth = law.entropy([0, c]) + law.entropy([1, c]) - law.entropy([0, 1, c]) - law.entropy([c])
    return Quantity(call, truth, None)


def of_divergence(law: Law, d: int) -> Quantity:
    """Of the law with unit deviations from independent normals, 1.2 times as wide and moved by 0.3."""

    def call(X: Any, h: Any, **options: Any) -> cukde.Information:
        rng = np.random.default_rng(abs(hash(float(X[0, 0]))))
        Z = dispatch.backend(X).asarray(0.3 + 1.2 * rng.standard_normal((len(X), d)))
        options.pop("local_factors", None)
        return cukde.kl_divergence(X, Z, h, **options)

    squares = d * (1 + 0.3**2) / 1.2**2
    cross = 0.5 * (d * math.log(2 * math.pi * 1.2**2) + squares)
    return Quantity(call, cross - law.entropy([*range(d)]), None)


QUANTITIES = {
    "entropy": of_entropy,
    "mutual_information": of_information,
    "conditional mutual_information": of_conditional_information,
    "kl_divergence": of_divergence,
}
LEAST = {"mutual_information": 2, "conditional mutual_information": 3}  # columns


def by_likelihood(X: Any) -> Any:
    """The bandwidth of each column, by leave-one-out likelihood."""
    return cukde.bandwidth.cross_validate(X, per_dimension=True).bandwidth


RULES = (
    Rule("silverman_covariance", functools.partial(cukde.bandwidth.silverman, covariance=True)),
    Rule("cross_validate", by_likelihood),
    Rule("cross_validate, factors", by_likelihood, factors=True),
)


def rows(wanted: argparse.Namespace, backend: ModuleType, clock: Clock) -> Iterator[dict[str, Any]]:
    """A row for each case that there is time for."""
    for n in wanted.sizes:
        for name in wanted.quantities:
            for d in (d for d in wanted.dimensions if d >= LEAST.get(name, 1)):
                laws = [normal(d, rho) for rho in ((0.0, 0.5, 0.9) if d > 1 else (0.0,))]
                if name in ("entropy", "mutual_information"):
                    laws.append(mixture(d))
                if name == "entropy":
                    laws += [skewed(d), heavy(d)]
                elif name == "kl_divergence":
                    laws = laws[:2]
                for law in laws:
                    for rule in RULES:
                        if clock.is_over:
                            yield {"op": "left_out", "what": f"{name} n={n} d={d} {law.name} {rule.name}"}
                        elif not (rule.factors and name == "kl_divergence"):
                            yield measured(name, law, rule, n, d, wanted.draws, backend)


def measured(name: str, law: Law, rule: Rule, n: int, d: int, draws: int, backend: ModuleType) -> dict[str, Any]:
    """What the samples of a case give."""
    quantity = QUANTITIES[name](law, d)
    found, plain, rivals = [], [], []
    times: dict[str, list[float]] = {"rule": [], "call": [], "rival": []}

    def timed(of: str, call: Callable[[], Any]) -> Any:
        begin = time.perf_counter()
        out = call()
        backend.xp.asarray(0.0).tolist()  # waits for a GPU
        times[of].append(1e3 * (time.perf_counter() - begin))
        return out

    for seed in range(draws):
        X = law.draw(np.random.default_rng([seed, n, d]), n)
        x = backend.asarray(X)
        h = timed("rule", lambda x=x: rule.bandwidth(x))
        options = {"local_factors": cukde.bandwidth.abramson(x, h)} if rule.factors else {}
        found.append(timed("call", lambda x=x, h=h, o=options: quantity.call(x, h, **o))[:2])
        plain.append(quantity.call(x, h, bias_correction=False, **options)[:2])
        if quantity.rival is not None and rule is RULES[0]:
            rivals.append(timed("rival", lambda X=X: quantity.rival[1](X)))
    row = {
        "op": name,
        "backend": backend.name,
        "shape": {"n": n, "d": d},
        "dtype": "float64",
        "law": law.name,
        "rule": rule.name,
        "draws": draws,
        "truth": quantity.truth,
        **outcome("", np.array(found), quantity.truth),
        **outcome("plain_", np.array(plain), quantity.truth),
        **{f"{of}_ms": statistics.median(each) for of, each in times.items() if each},
    }
    if rivals:
        assert quantity.rival is not None
        row |= {"rival": quantity.rival[0], "rival_rmse": rmse(np.array(rivals) - quantity.truth)}
        row["rival_bias"] = float(np.mean(rivals)) - quantity.truth
    return row


def outcome(prefix: str, found: np.ndarray, truth: float) -> dict[str, float]:
    """Bias, deviation, mean standard error, root mean square error, and the share covered."""
    off, errors = found[:, 0] - truth, found[:, 1]
    figures = {"bias": off.mean(), "sd": off.std(), "se": errors.mean(), "rmse": rmse(off)}
    return {
        prefix + key: float(value) for key, value in (figures | {"covers": (abs(off) <= 2 * errors).mean()}).items()
    }


def rmse(off: np.ndarray) -> float:
    return float(np.sqrt((off**2).mean()))


def line(row: dict[str, Any]) -> str:
    """A row for people."""
    if row["op"] == "left_out":
        return f"no time for {row['what']}"
    text = f"{row['op']:<30} n={row['shape']['n']:<6} d={row['shape']['d']} {row['law']:<24} {row['rule']:<28}"
    text += f" bias {row['bias']:7.4f} (plain {row['plain_bias']:7.4f}) sd {row['sd']:.4f} se {row['se']:.4f}"
    text += f" rmse {row['rmse']:.4f} covers {row['covers']:.2f} ({row['plain_covers']:.2f}) {row['call_ms']:.0f} ms"
    if "rival" in row:
        text += f"; {row['rival']}: rmse {row['rival_rmse']:.4f}, {row['rival_ms']:.0f} ms"
    return text


def main() -> None:
    parser = record.arguments("information.bench_information", __doc__)
    parser.add_argument("--backend", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--draws", type=int, default=200, help="samples of a case")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which nothing new begins")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--dimensions", type=int, nargs="+", choices=DIMENSIONS, default=DIMENSIONS)
    parser.add_argument("--quantities", nargs="+", choices=list(QUANTITIES), default=list(QUANTITIES))
    wanted = parser.parse_args()
    record.kept(rows(wanted, dispatch.named(wanted.backend), Clock(wanted.budget)), wanted.record, line)


if __name__ == "__main__":
    main()
