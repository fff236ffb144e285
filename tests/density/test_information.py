"""Information against sums written from the formulas, closed forms, and what holds whatever the numbers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import integrate, special, stats

import cukde
from cukde import perf
from cukde.core.cost.registry import called
from tests.conftest import Backend
from tests.perf.processors import H200

OF_ITSELF, OF_ANOTHER = np.array([32, -12, 1]) / 21, np.array([8, -6, 1]) / 3
CPU = perf.Peaks("two cores", "cpu", {"memory": 2e10, "fma": 1e11}, 0.0, 2, 3e9, 2**25, (0, 0), "made up")


class Logs(NamedTuple):
    corrected: np.ndarray
    share: np.ndarray  # 1 over the number of neighbours


def covariance(h: Any, d: int) -> np.ndarray:
    h = np.asarray(h, np.float64)
    return h if h.ndim == 2 else np.diag(np.broadcast_to(h, d) ** 2)


def kernels(X: np.ndarray, Y: np.ndarray, H: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Normal densities about the data, a row a query."""
    z = np.linalg.solve(np.linalg.cholesky(H), (Y[:, None] - X).reshape(-1, X.shape[1]).T)
    q = (z**2).sum(axis=0).reshape(len(Y), len(X))
    return np.exp(-0.5 * q / f**2) / (f ** X.shape[1] * math.sqrt(np.linalg.det(2 * np.pi * H)))


def logs(
    X: Any, Y: Any, h: Any, w: Any = None, f: Any = None, factors: np.ndarray = OF_ITSELF, *, alone: bool = False
) -> Logs:
    """Corrected log densities, from the formula; with ``alone`` each row without its own kernel."""
    X, Y = (np.asarray(a, np.float64).reshape(len(a), -1) for a in (X, Y))
    n, d = X.shape
    w = np.full(n, 1 / n) if w is None else w / w.sum()
    f = np.ones(n) if f is None else f
    out, first = 0.0, None
    for factor, t in zip(factors, (1, 2, 4), strict=False):
        K = w * kernels(X, Y, t * covariance(h, d), f)
        if alone:
            np.fill_diagonal(K, 0)
        share = (K**2).sum(axis=1) / K.sum(axis=1) ** 2
        p = np.log(K.sum(axis=1)) - (np.log1p(-w) if alone else 0)
        if len(factors) > 1:
            everybody = 1 / (w**2).sum()
            p += np.log(1 / share) - special.digamma(1 / share)
            p -= np.log(everybody) - special.digamma(everybody)
        out = out + factor * p
        first = share if first is None else first
    assert first is not None
    return Logs(out if len(factors) == 1 else (1 - first**2) * out + first**2 * p, first)


def drawn(X: np.ndarray, h: Any, w: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the density with sqrt(2) times the bandwidth, shrunk to the covariance; its centres; its covariance."""
    n, d = X.shape
    w = np.full(n, 1 / n) if w is None else w / w.sum()
    S, H = np.cov(X.T, aweights=w, ddof=0).reshape(d, d), 2 * covariance(h, d)
    A = np.linalg.cholesky(S) @ np.linalg.inv(np.linalg.cholesky(S + H))
    rng = np.random.default_rng(0)
    centres = w @ X + (X - w @ X) @ A.T
    rows, steps = centres[rng.choice(n, n, p=w)], rng.standard_normal((n, d))
    return rows + steps @ np.linalg.cholesky(A @ H @ A.T).T, centres, A @ H @ A.T


def error(terms: np.ndarray, w: Any, share: Any, more: float = 0.0) -> float:
    w = np.full(len(terms), 1 / len(terms)) if w is None else w / w.sum()
    value = (w * terms).sum()
    return math.sqrt((w**2 * (terms - value) ** 2).sum() + (w**2).sum() * (w * share).sum() + more)


def sample(n: int, d: int, rho: float = 0.5, seed: int = 0) -> np.ndarray:
    S = np.full((d, d), rho) + (1 - rho) * np.eye(d)
    return np.random.default_rng([seed, d]).multivariate_normal(np.zeros(d), S, n)


def check(backend: Backend, found: Any, terms: np.ndarray, w: Any, se: float, dtype: str = "float64") -> None:
    tight = 1e-4 if dtype == "float32" else 5e-5  # the series of the digamma function is right to 2e-5
    assert backend.asnumpy(found.terms).dtype == dtype
    np.testing.assert_allclose(backend.asnumpy(found.terms), terms, rtol=tight, atol=tight)
    value = terms.mean() if w is None else (w * terms).sum() / w.sum()
    assert isinstance(found.value, float)
    assert found.value == pytest.approx(value, abs=tight)
    assert found.standard_error == pytest.approx(se, rel=1e-3)


WIDTHS = {"a number": 0.6, "deviations": np.array([0.5, 0.7, 0.6]), "a covariance": 0.3 * np.eye(3) + 0.1}


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("h", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("weighted", [False, True])
def test_entropy_is_the_mean_of_its_formula(backend: Backend, h: Any, weighted: bool, corrected: bool) -> None:
    X = sample(90, 3)
    w = np.r_[0, np.random.default_rng(1).uniform(0.1, 3, 89)] if weighted else None
    found = cukde.entropy(backend.asarray(X), h, weights=backend.asarray(w), bias_correction=corrected)
    p = logs(X, X, h, w, factors=OF_ITSELF if corrected else np.ones(1), alone=True)
    se, terms = error(p.corrected, w, p.share if corrected else np.zeros(90)), -p.corrected
    if corrected:
        Z, centres, H = drawn(X, h, w)
        q = logs(Z, Z, h, w, alone=True)
        off = logs(centres, Z, H, w, factors=np.ones(1)).corrected - q.corrected
        terms, se = terms - np.average(off, weights=w), math.hypot(se, error(off, w, q.share))
    check(backend, found, terms, w, se)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_local_factors_and_offsets(backend: Backend, dtype: str) -> None:
    X = (sample(80, 2) + 1000).astype(dtype)
    f, w = np.random.default_rng(0).uniform(0.5, 2, (2, 80))
    found = cukde.entropy(backend.asarray(X), 0.5, local_factors=backend.asarray(f), weights=backend.asarray(w))
    p = logs(X, X, 0.5, w, f, alone=True)
    check(backend, found, -p.corrected, w, error(p.corrected, w, p.share), dtype)


@pytest.mark.parametrize("given", [None, [2]])
def test_mutual_information_is_a_sum_of_entropies(backend: Backend, given: Any) -> None:
    X, h = sample(70, 4), np.array([0.5, 0.6, 0.7, 0.8])
    found = cukde.mutual_information(backend.asarray(X), [3], [0, 1], h, given=given)
    of_given = given or []
    terms, off = 0.0, 0.0
    joint = [3, 0, 1, *of_given]
    Z, centres, H = drawn(X[:, joint], h[joint])
    for sign, chosen in ((1, [3, 0, 1, *of_given]), (-1, [3, *of_given]), (-1, [0, 1, *of_given]), (1, of_given)):
        if chosen:
            p = logs(X[:, chosen], X[:, chosen], h[chosen], alone=True)
            terms = terms + sign * p.corrected
            at = [joint.index(column) for column in chosen]
            q = logs(Z[:, at], Z[:, at], h[chosen], alone=True).corrected
            off = off + sign * (q - logs(centres[:, at], Z[:, at], H[np.ix_(at, at)], factors=np.ones(1)).corrected)
    share, more = (logs(A, A, h[joint], alone=True).share for A in (X[:, joint], Z))
    se = math.hypot(error(terms, None, share), error(off, None, more))
    check(backend, found, terms - np.mean(off), None, se)


def test_a_conditional_entropy_is_that_of_all_less_that_of_the_given(backend: Backend) -> None:
    X = backend.asarray(sample(60, 3))
    of_two = cukde.entropy(X, 0.5, [0], given=[2]).value
    assert of_two == pytest.approx(cukde.entropy(X, 0.5, [0, 2]).value - cukde.entropy(X, 0.5, 2).value, abs=1e-12)
    assert cukde.entropy(X, 0.5, given=2).value == cukde.entropy(X, 0.5, [0, 1], given=2).value


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("corrected", [True, False])
def test_divergence_is_the_mean_of_its_formula(backend: Backend, corrected: bool, weighted: bool) -> None:
    rng = np.random.default_rng(5)
    X, Z = sample(60, 2), 0.4 + 1.2 * sample(50, 2, 0.2, 1)
    w, v = (rng.uniform(0.1, 2, k) if weighted else None for k in (60, 50))
    x, z, weights, others = (backend.asarray(a) for a in (X, Z, w, v))
    widths: dict[str, Any] = {"denominator_bandwidth": [0.6, 0.7]} if weighted else {}
    found = cukde.kl_divergence(
        x, z, 0.5, weights=weights, denominator_weights=others, bias_correction=corrected, **widths
    )
    hz = widths.get("denominator_bandwidth", 0.5)
    terms, se = divergence(X, Z, hz, w, v, corrected=corrected)
    check(backend, found, terms, w, se)


def divergence(X: np.ndarray, Z: np.ndarray, hz: Any, w: Any, v: Any, *, corrected: bool) -> tuple[np.ndarray, float]:
    """Terms and their error, by the formula."""
    factors, d = OF_ANOTHER if corrected else np.ones(1), X.shape[1]
    p, q = logs(X, X, 0.5, w, factors=factors, alone=True), logs(Z, X, hz, v, factors=factors)
    w_, v_ = (np.full(len(A), 1 / len(A)) if a is None else a / a.sum() for A, a in ((X, w), (Z, v)))
    K = kernels(Z, X, covariance(hz, d), np.ones(len(Z)))
    quotients = (w_[:, None] * K / (K @ v_)[:, None]).sum(axis=0)
    more = (v_**2 * (quotients - 1) ** 2).sum()
    terms = p.corrected - q.corrected
    return terms, error(terms, w, p.share if corrected else np.zeros(len(X)), more)


@pytest.mark.parametrize("weighted", [False, True])
def test_divergence_of_four_columns_less_that_of_drawn_rows(backend: Backend, weighted: bool) -> None:
    rng = np.random.default_rng(5)
    X, Z = 50 + sample(60, 4), 50.4 + 1.2 * sample(50, 4, 0.2, 1)
    w, v = (rng.uniform(0.1, 2, k) if weighted else None for k in (60, 50))
    x, z, weights, others = (backend.asarray(a) for a in (X, Z, w, v))
    found = cukde.kl_divergence(x, z, 0.5, weights=weights, denominator_weights=others)
    (terms, se), (A, C, H), (B, D, G) = divergence(X, Z, 0.5, w, v, corrected=True), drawn(X, 0.5, w), drawn(Z, 0.5, v)
    off, noise = divergence(A, B, 0.5, w, v, corrected=True)
    known = [logs(c, A, S, u, factors=np.ones(1)).corrected for c, S, u in ((C, H, w), (D, G, v))]
    bias = np.average(off - known[0] + known[1], weights=w)
    off_alone = off - known[0] + known[1]
    noise2 = noise**2 - error(off, w, np.zeros(60)) ** 2 + error(off_alone, w, np.zeros(60)) ** 2
    check(backend, found, terms - bias, w, math.sqrt(se**2 + noise2))


def normal_entropy(d: int, rho: float) -> float:
    S = np.full((d, d), rho) + (1 - rho) * np.eye(d)
    return float(0.5 * np.linalg.slogdet(2 * np.pi * math.e * S)[1])


def within(found: Any, truth: float) -> None:
    assert 0 < found.standard_error < 0.05
    assert abs(found.value - truth) < 2.5 * found.standard_error


@pytest.mark.parametrize(("d", "rho"), [(1, 0.0), (2, 0.0), (2, 0.8), (3, 0.5)])
def test_of_normals(either: Backend, d: int, rho: float) -> None:
    X = either.asarray(sample(3000, d, rho))
    within(cukde.entropy(X, "silverman_covariance"), normal_entropy(d, rho))
    if d > 1:
        truth = normal_entropy(d - 1, rho) + normal_entropy(1, rho) - normal_entropy(d, rho)
        within(cukde.mutual_information(X, 0, None, "silverman_covariance"), truth)


def test_of_a_mixture(either: Backend) -> None:
    rng = np.random.default_rng(3)
    X = np.where(rng.uniform(size=3000) < 0.6, rng.normal(-2, 1, 3000), rng.normal(2, 0.4, 3000))

    def p(x: float) -> float:
        return float(0.6 * stats.norm.pdf(x, -2, 1) + 0.4 * stats.norm.pdf(x, 2, 0.4))

    truth = integrate.quad(lambda x: -p(x) * math.log(p(x)), -10, 6, limit=200)[0]
    within(cukde.entropy(either.asarray(X), "cross_validate"), truth)


def test_the_correction_brings_values_closer(either: Backend) -> None:
    """In the mean over samples: what is left of the bias is a third of it or less."""
    bias = []
    for corrected in (False, True):
        found = [
            cukde.entropy(either.asarray(sample(400, 3, 0.5, seed)), "silverman_covariance", bias_correction=corrected)
            for seed in range(11)
        ]
        bias.append(np.mean([each.value for each in found]) - normal_entropy(3, 0.5))
    assert bias[0] > 0.06
    assert abs(bias[1]) < bias[0] / 2


def test_values_in_five_columns_are_within_their_errors() -> None:
    """Samples of a law of which the bias without drawn rows is one to three standard errors."""
    n, d = 500, 5
    inside: dict[str, list[float]] = {"entropy": [], "information": [], "divergence": []}
    for seed in range(12):
        rng = np.random.default_rng([seed, 5])
        X, Z = sample(n, d, 0.5, seed), 0.3 + 1.2 * rng.standard_normal((n, d))
        h = cukde.bandwidth.cross_validate(X, per_dimension=True).bandwidth
        t = normal_entropy(d, 0.5)
        truths = [t, normal_entropy(1, 0.0) + normal_entropy(4, 0.5) - t]
        truths.append(0.5 * d * (math.log(2 * np.pi * 1.44) + 1.09 / 1.44) - t)
        found = cukde.entropy(X, h), cukde.mutual_information(X, 0, None, h), cukde.kl_divergence(X, Z, h)
        for name, one, truth in zip(inside, found, truths, strict=True):
            inside[name].append((one.value - truth) / one.standard_error)
    for name, off in inside.items():
        assert abs(np.mean(off)) < 0.8, name
        assert np.mean(np.abs(off) < 2) >= 0.8, name


def test_conditional_information_of_a_chain(either: Backend) -> None:
    """Of a -> c -> b nothing is left of what a says about b once c is given."""
    a, e, f = np.random.default_rng(2).normal(size=(3, 3000))
    c = a + e
    X = either.asarray(np.column_stack([a, c, c + f]))
    h = cukde.bandwidth.silverman(X, covariance=True)
    within(cukde.mutual_information(X, 0, 2, h), -0.5 * math.log(1 - 1 / 3))
    within(cukde.mutual_information(X, 0, 2, h, given=1), 0.0)


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (0.6, 1.0), (0.3, 1.4)])
def test_divergence_of_normals(either: Backend, shift: float, scale: float) -> None:
    rng = np.random.default_rng(9)
    X, Z = either.asarray(rng.normal(size=(3000, 2))), either.asarray(shift + scale * rng.normal(size=(2000, 2)))
    truth = 2 * math.log(scale) + (1 + shift**2) / scale**2 - 1
    within(cukde.kl_divergence(X, Z, "silverman"), truth)


def test_a_domain(either: Backend) -> None:
    X = np.random.default_rng(0).uniform(0, 2, 400)
    for ends in ({"bounds": [(0, 2)]}, {"periods": [2.0]}):
        found = cukde.entropy(either.asarray(X), 0.1, **ends)
        assert found.value == pytest.approx(math.log(2), abs=0.02)


def test_units_change_as_they_should(either: Backend) -> None:
    X = sample(300, 2)
    moved = either.asarray(X @ np.diag([3.0, 0.5]) + [50, -7])
    x, h = either.asarray(X), np.array([0.4, 0.5])
    there = h * [3, 0.5]
    before, after = cukde.entropy(x, h), cukde.entropy(moved, there)
    assert after.value - before.value == pytest.approx(math.log(1.5), abs=1e-9)
    for f in (lambda a, b: cukde.mutual_information(a, 0, 1, b), lambda a, b: cukde.kl_divergence(a, a[:100], b)):
        assert f(moved, there).value == pytest.approx(f(x, h).value, abs=1e-9)


def test_far_samples_are_finite(backend: Backend) -> None:
    X = backend.asarray(np.arange(6.0))
    found = cukde.kl_divergence(X, X + 1e4, 0.5)
    assert math.isfinite(found.value)
    assert math.isfinite(found.standard_error)
    assert found.value > 1e7
    assert math.isfinite(cukde.entropy(backend.asarray(np.r_[np.zeros(3), 1e6]), 1e-3).value)


def test_frames() -> None:
    pd = pytest.importorskip("pandas")
    X = sample(50, 3)
    table = pd.DataFrame(X, columns=list("abc"), index=range(100, 150))
    h = {"c": 0.5, "b": 0.6, "a": 0.7}
    width = np.array([0.7, 0.6, 0.5])
    found = cukde.mutual_information(table, "c", ["a"], h, given="b")
    want = cukde.mutual_information(X, 2, 0, width, given=1)
    assert found[:2] == want[:2]
    assert list(found.terms.index) == list(table.index)
    assert found.terms.name == "terms"
    table.loc[103, "a"] = np.nan
    omitted = cukde.entropy(table, h, nan_policy="omit")
    assert omitted.value == cukde.entropy(np.delete(X, 3, axis=0), width).value
    assert np.flatnonzero(omitted.terms.isna()).tolist() == [3]


def wrong(X: np.ndarray) -> dict[str, Any]:
    table = pytest.importorskip("pandas").DataFrame(X, columns=["a", "b"])
    dask_array = pytest.importorskip("dask.array")
    return {
        "columns_a and columns_b must have no column in common; both have 0": lambda: cukde.mutual_information(
            X, 0, [-2], 1.0
        ),
        "both have 'a'": lambda: cukde.entropy(table, 1.0, "a", given=["a"]),
        "columns_b must name columns where": lambda: cukde.mutual_information(X, [0, 1], None, 1.0),
        "columns must name columns where": lambda: cukde.entropy(X, 1.0, given=[0, 1]),
        "columns must name columns of X": lambda: cukde.entropy(table, 1.0, "c"),
        "columns_a must hold columns of X": lambda: cukde.mutual_information(X, 2, 0, 1.0),
        "bias_correction must be True or False": lambda: cukde.entropy(X, 1.0, bias_correction="yes"),
        "Z must have 2 columns": lambda: cukde.kl_divergence(X, X[:, :1], 1.0),
        "needs two rows or more": lambda: cukde.entropy(X[:1], 1.0),
        "X must be|in memory": lambda: cukde.entropy(dask_array.from_array(X), 1.0),
        "Z must not contain NaN|Z must be finite|Z": lambda: cukde.kl_divergence(X, X * np.nan, 1.0),
    }


@pytest.mark.parametrize("message", range(11))
def test_errors(message: int) -> None:
    text, call = list(wrong(sample(20, 2)).items())[message]
    with pytest.raises((TypeError, ValueError), match=text):
        call()


def test_costs_are_those_of_the_densities() -> None:
    X = np.zeros((4096, 3), np.float32)
    of = {"d": 3, "n": 4096}
    for on in (H200, CPU):
        one, of_weights = (
            {k: perf.cost("kde", on, n=4096, m=4096, d=k, at_data=True, weighted=w).exponentials for k in (1, 2, 3)}
            for w in (False, True)
        )
        # Of drawn rows, whose density is asked at other rows than its own.
        of_drawn = {k: perf.cost("kde", on, n=4096, m=4096, d=k).exponentials for k in (1, 2, 3)}
        assert perf.cost("entropy", on, **of).exponentials == 8 * one[3] + of_drawn[3]
        assert perf.cost("entropy", on, **of, weighted=True, given=1).exponentials == 13 * (
            of_weights[3] + of_weights[1]
        )
        assert perf.cost("entropy", on, **of, bias_correction=False).exponentials == one[3]
        assert perf.cost("mutual_information", on, **of, a=2).exponentials == 8 * sum(one.values()) + sum(
            of_drawn.values()
        )
        assert perf.cost("entropy", on, n=4096, d=2).exponentials == 4 * one[2]
        assert perf.cost("kl_divergence", on, **of, k=100).exponentials >= 4 * one[3]
    sizes = called(cukde.mutual_information, (X, 0, None, 1.0), {"given": [1]})[1]
    assert {"d": 3, "a": 1, "given": 1, "n": 4096}.items() <= sizes.items()
    assert called(cukde.entropy, (X, 1.0, [1]), {"bias_correction": False})[1]["d"] == 1
    assert called(cukde.kl_divergence, (X, X[:9], 1.0), {})[1]["k"] == 9


def test_a_rule_counts_the_columns_that_are_named(backend: Backend) -> None:
    """Columns that nobody asks for change nothing."""
    rng = np.random.default_rng(8)
    X = backend.asarray(rng.normal(size=(backend.size(400, 120), 6)) * np.arange(1, 7))
    domain: dict[str, Any] = {"bounds": [None] * 3 + [(-60, 60)] + [None] * 2}
    some = {"bounds": [None, (-60, 60)]}
    pair = X[:, [1, 3]]
    for of_all, of_pair in (
        (cukde.mutual_information(X, 1, 3, "silverman"), cukde.mutual_information(pair, 0, 1, "silverman")),
        (
            cukde.mutual_information(X, 3, 1, "silverman", **domain),
            cukde.mutual_information(pair, 0, 1, "silverman", **some),
        ),
        (cukde.entropy(X, "silverman", 3, given=1), cukde.entropy(pair, "silverman", 1, given=0)),
    ):
        assert of_all.value == pytest.approx(of_pair.value, rel=1e-9)


@pytest.mark.parametrize("name", ["entropy", "mutual_information", "kl_divergence"])
def test_columns_that_depend_on_each_other_have_no_correction(name: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    calls: dict[str, Any] = {
        "entropy": lambda X, **options: cukde.entropy(X, 0.5, **options),
        "mutual_information": lambda X, **options: cukde.mutual_information(X, [0, 1], [2, 3], 0.5, **options),
        "kl_divergence": lambda X, **options: cukde.kl_divergence(rng.normal(size=(200, 4)), X, 0.5, **options),
    }
    few, constant, dependent = X[:4], X.copy(), X.copy()
    constant[:, 1] = 0
    dependent[:, 1] = X[:, 0] + X[:, 2]
    for wrong in (few, constant, dependent, X * 1e-170):
        with pytest.raises(ValueError, match=r"^bias_correction needs more rows than columns"):
            calls[name](wrong)
    assert np.isfinite(calls[name](dependent, bias_correction=False).value)


def test_weights_that_leave_few_rows_have_no_correction() -> None:
    X, w = np.random.default_rng(0).normal(size=(200, 4)), np.r_[np.ones(3), np.full(197, 1e-12)]
    with pytest.raises(ValueError, match=r"got 3 effective rows of 4 columns"):
        cukde.entropy(X, 0.5, weights=w)
    with pytest.raises(ValueError, match=r"got 3 effective rows of 4 columns"):
        cukde.kl_divergence(X[::-1], X, 0.5, denominator_weights=w)


def test_a_large_bias_is_told() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8))
    with pytest.warns(cukde.ConvergenceWarning, match=r"^rows are few for so many columns: a bias of 0\.\d+ was found"):
        cukde.entropy(X, cukde.bandwidth.silverman(X))
    cukde.entropy(X, cukde.bandwidth.silverman(X), bias_correction=False)
    cukde.entropy(X[:, :3], cukde.bandwidth.silverman(X[:, :3]))
