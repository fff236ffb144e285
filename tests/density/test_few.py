"""Sums over few pairs, and by products, on the CPU, against an oracle in extended precision; when pairs are few."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import pytest

import cukde
from cukde.core.cpu import arrays
from cukde.core.plan import only, traced
from cukde.density import backends
from cukde.density.arguments import prepare
from cukde.density.options import Options
from cukde.density.pairs.cpu import few, passes
from tests import extended, processes, reference, tolerances
from tests.conftest import Backend


class Case(NamedTuple):
    """One setting: bandwidths in deviations of the data, and the least distance of queries from the data."""

    n: int
    m: int
    d: int
    h: float = 0.4
    offset: float = 0.0
    away: float = 0.0
    weights: str = ""  # skewed, zeros
    precision: str | None = None  # that of the dtype
    compiled: bool = False  # whether compiled loops are faster


CASES = {
    "one-query": Case(100, 1, 2),
    "one-dimension": Case(100, 3, 1, offset=1e4),
    "many-dimensions": Case(60, 5, 100, h=4.0),
    "product": Case(130, 90, 3, offset=1e4),
    "near": Case(130, 90, 3, h=1.5),
    "product-weighted": Case(130, 90, 5, h=0.7, weights="zeros"),
    "product-at-its-limit": Case(120, 100, 2, h=0.084),
    "too-wide-for-a-product": Case(120, 100, 2, h=0.01, weights="skewed"),
    "compiled-loops": Case(200, 200, 4, h=0.01, weights="zeros", compiled=True),
    "blocks": Case(250, 260, 3, offset=1e4, weights="skewed"),
    "blocks-of-differences": Case(150, 150, 4, h=0.01, weights="zeros"),
    "far": Case(100, 4, 3, away=1e5, weights="zeros"),
    "far-product": Case(100, 40, 3, away=20.0, weights="zeros"),
    "by-differences": Case(60, 60, 2, precision="ieee"),
}


def _drawn(case: Case, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    rng = np.random.default_rng([case.n, case.m, case.d])
    X = (case.offset + rng.standard_normal((case.n, case.d))).astype(dtype)
    Y = (case.offset + case.away + rng.standard_normal((case.m, case.d))).astype(dtype)
    w = np.exp(-20 * rng.random(case.n)) if case.weights else None
    if case.weights == "zeros":
        w[X[:, 0] > np.quantile(X[:, 0], 0.7)] = 0  # the nearest to queries that are away
    return X, Y, w


@extended.needed
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["few", "product float64"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_sums_match_the_oracle(case: Case, name: str, dtype: str) -> None:
    X, Y, w = _drawn(case, dtype)
    log_w = None
    if w is not None:
        with np.errstate(divide="ignore"):
            log_w = np.maximum(np.log(w / w.sum()), -1e30)
    V = np.random.default_rng(3).standard_normal((case.n, 3)).astype(dtype)
    options = Options(case.precision or dtype, log_w, X.mean(axis=0, dtype=np.float64))
    # Few pairs are always taken in double. Products for results in single precision may round more.
    arithmetic = dtype if case.compiled or name != "few" else "float64"
    sums = (few if name == "few" else passes).partial_sums
    for queries in (Y, None):
        steps = (X[None].astype(np.longdouble) - (X if queries is None else queries)[:, None]) / case.h
        half = 0.5 * (steps**2).sum(axis=2)
        exponents = -half if log_w is None else np.where(w > 0, log_w - half, -np.inf)
        top = exponents.max(axis=1)
        terms = np.exp(exponents - top[:, None])
        least = half.min(axis=1) if w is None else half[:, w > 0].min(axis=1)
        allowed = tolerances.log_error("cpu", arithmetic, least)
        whole = terms.sum(axis=1)
        constant = 1 + 0.5 * case.d
        for output, want, size in (
            ("sum", None, None),
            ("moments", steps, 2 * (1 + np.abs(steps))),
            ("values", V, np.abs(V)),
            ("laplace", (constant - half)[..., None], (constant + half)[..., None]),
            (
                "laplace_moments",
                (constant + 1 - half)[..., None] * steps,
                2 * (constant + 1 + half)[..., None] * (1 + np.abs(steps)),
            ),
        ):
            with only(name):
                got = sums(X, queries, case.h, output, options, values=V if output == "values" else None)
            scale = np.exp(got.reference - top)
            tolerances.check(np.abs(got.total * scale - whole), allowed * whole, output)
            if want is None:
                assert got.moments is None
                continue
            assert got.moments.flags.c_contiguous
            width = case.h if "moments" in output else 1.0
            error = np.abs(got.moments / width * scale[:, None] - _summed(terms, want))
            tolerances.check(error, allowed[:, None] * _summed(terms, size), output)


def _summed(terms: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Sums of terms times columns of pairs, (m, n, k), or of data, (n, k)."""
    return terms @ of if of.ndim == 2 else np.einsum("ij,ijk->ik", terms, of)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("d", "h"), [(48, 3.0), (130, 5.0), (301, 30.0)])
def test_densities_by_products(d: int, h: float, dtype: str, weighted: bool) -> None:
    rng = np.random.default_rng([d, weighted])
    X, Y = ((1e2 + rng.standard_normal((rows, d))).astype(dtype) for rows in (700, 300))
    X[1] = X[0]
    options = {"weights": rng.uniform(0.5, 2, 700) if weighted else None}
    with traced() as ran, only("product float64"):
        found = {
            "density": cukde.kde(X, Y, h, log=True, **options),
            "score": cukde.score(X, Y, h, **options),
            "moved": cukde.debias(X, h, **options),
            "own": cukde.kde(X, None, h, log=True, leave_one_out=True, **options),
        }
    assert {each.name for each in ran} == {"product float64"}
    with only("difference float64"):
        X, Y = X.astype(np.float64), Y.astype(np.float64)
        want = {
            "density": cukde.kde(X, Y, h, log=True, **options),
            "score": cukde.score(X, Y, h, **options),
            "moved": cukde.debias(X, h, **options),
            "own": cukde.kde(X, None, h, log=True, leave_one_out=True, **options),
        }
    rtol = 1e-5 if dtype == "float32" else 1e-12
    for name, each in want.items():
        # Logarithms are large, and scores are differences of numbers as large as the distances from the centre.
        atol = rtol if name in ("density", "own") else rtol * d**0.5
        np.testing.assert_allclose(found[name], each, rtol=rtol, atol=atol, err_msg=name)


def test_values_of_many_columns() -> None:
    X, Y, _ = _drawn(Case(300, 200, 1), "float64")
    V = np.random.default_rng(0).standard_normal((300, 90))
    total, size = reference.kernel_sum(X, V, Y, 0.4)
    tolerances.check(np.abs(cukde.kernel_sum(X, V, Y, 0.4) - total), 1e-12 * size, "values")


@pytest.mark.parametrize("output", ["sum", "moments", "laplace", "laplace_moments", "values"])
def test_data_without_weight_add_nothing(output: Any) -> None:
    X, Y, _ = _drawn(Case(20, 3, 2), "float64")
    values = np.ones((20, 2)) if output == "values" else None
    sums = few.partial_sums(X, Y, 0.5, output, Options("float64", np.full(20, -1e30), X[0]), values=values)
    assert (sums.total == 0).all()
    assert (sums.reference < -1e300).all()


FORMS = {
    "float": 0.5,
    "numpy": np.float64(0.5),
    "integer": 1,
    "deviations": np.array([0.5, 0.7]),
    "list": [0.5, 0.7],
    "covariance": np.array([[0.3, 0.1], [0.1, 0.2]]),
    "tiny": 1e-14,
}


@pytest.mark.parametrize("h", FORMS.values(), ids=FORMS)
def test_every_form_of_bandwidth(h: Any) -> None:
    X, Y, _ = _drawn(Case(100, 4, 2), "float64")
    Y[-1] += 1e3  # log densities are finite at any distance
    want = reference.log_kde(X, Y, h)
    exponent = reference.nearness(X, Y, h).exponent
    for _ in range(2):  # the second call has the bandwidth's whitening already
        got = cukde.kde(X, Y, h, log=True)
        tolerances.check_log(got, want, tolerances.log_error("cpu", "float64", exponent))


@pytest.mark.parametrize(
    ("n", "m", "d", "are_few"),
    [
        (2**15, 2, 2, True),
        (2**15 + 1, 1, 2, False),
        (2**8, 2**8 + 1, 2, False),
        (64, 160, 100, True),
        (64, 161, 100, False),
        (100, 0, 2, False),
    ],
)
def test_pairs_are_few_up_to_a_limit(n: int, m: int, d: int, are_few: bool) -> None:
    X, Y, _ = _drawn(Case(n, m, d), "float64")
    problem, _ = prepare(X, Y, 0.4)
    assert (problem.passes() is few) == are_few == backends.has_few(arrays, X, Y)
    assert not (problem.options.bounded and not are_few)
    same = problem._replace(Y=X[:2000], query_shape=(min(n, 2000), d))
    for prepared, at in ((problem, Y), (same, X[:2000])):  # whose radius may be known as a bound alone
        got = prepared.density(log=True)
        allowed = tolerances.log_error("cpu", "float64", reference.nearness(X[::8], at, 0.4).exponent)
        tolerances.check_log(got[-5:], reference.log_kde(X, at[-5:], 0.4), allowed[-5:])


def test_calls_of_few_pairs_load_no_compiler() -> None:
    """A first call in a new process then takes no time to compile, or to load what was compiled."""
    script = """
import sys
import numpy as np
import cukde
from cukde.density.kernel_density import kernel_density
X = np.random.default_rng(0).standard_normal((100, 2))
w = np.ones(100)
for h in (0.5, [0.5, 0.6], np.eye(2)):
    cukde.sd_kde(X, X[:1], h, weights=w)
    cukde.laplace_kde(X, X[:1], h)
    cukde.density_and_score(X, X[:1], h)
    cukde.kernel_sum(X, w, X[:1], h)
    cukde.debias(np.concatenate([X, X]), h)
line, Y = np.random.default_rng(1).standard_normal((2, 900))
cukde.kde(line, Y[:50], 0.5)
cukde.sd_kde(line, Y, 0.5, weights=line**2)
cukde.log_cdf(line, Y, 0.5)
kernel_density(X, X, 0.5, kernel="cosine")
cukde.kernel_sum(line[:250], np.ones((250, 100)), Y[:400], 0.5)
print("numba" in sys.modules)
"""
    assert processes.finished(processes.start("-c", script))[0].strip() == "False"


def test_a_query_that_is_no_number_leaves_others_as_they_are(backend: Backend) -> None:
    X = np.random.default_rng(3).normal(size=(backend.size(5000, 60), 3))
    Y = X[:4].copy()
    Y[3] += 1e3
    Y[1, 0], Y[2, 1] = np.nan, np.inf
    x, y, rest = (backend.asarray(a) for a in (X, Y, Y[[0, 3]]))
    for function in (functools.partial(cukde.kde, log=True), cukde.score, functools.partial(cukde.hessian, log=True)):
        got, want = function(x, y, 0.5, check_finite=False), function(x, rest, 0.5)
        np.testing.assert_allclose(backend.asnumpy(got)[[0, 3]], backend.asnumpy(want), rtol=1e-7, atol=1e-8)
