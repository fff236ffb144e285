"""Scores, debiased data and corrected densities with a factor of the bandwidth for each point, against float64 oracles.

Test bodies run on every backend: the CPU, the CUDA kernels emulated on the host, and a GPU where there is one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import cukde
from tests import reference, tolerances
from tests.conftest import Backend
from tests.density.test_local_factors import COVARIANCE, sample, skewed


def verify(
    backend: Backend,
    X: np.ndarray,
    Y: np.ndarray,
    h: Any,
    factors: np.ndarray,
    w: np.ndarray | None = None,
    precision: str | None = None,
    score_bandwidth: Any = None,
    **options: Any,
) -> list[np.ndarray]:
    """Check the score, with the density and without, the debiased data and both corrected densities; return all."""
    data, queries = backend.asarray(X), backend.asarray(Y)
    options |= {"local_factors": backend.asarray(factors), "weights": backend.asarray(w), "precision": precision}
    dtype = np.result_type(X, Y)
    taken = "float64" if (precision or str(dtype)) == "float64" else "ieee"
    of = reference.local(X, Y, h, factors, w)
    allowed = tolerances.log_error(backend.device, taken, of.exponent)

    log_p, score = map(backend.asnumpy, cukde.density_and_score(data, queries, h, **options))
    alone = backend.asnumpy(cukde.score(data, queries, h, **options))
    tolerances.check_log(log_p, of.log, allowed)
    rounding = 0.5 * np.finfo(dtype).eps * np.linalg.norm(reference.whiten_gradient(of.score, h), axis=1)
    for found in (score, alone):
        assert found.dtype == dtype
        error = np.linalg.norm(reference.whiten_gradient(found - of.score, h), axis=1)
        tolerances.check(error, allowed * np.maximum(1, of.steepness) + rounding, "score")

    corrected = backend.asnumpy(cukde.laplace_kde(data, queries, h, **options))
    tolerances.check_scaled(corrected, of.log, of.laplace, of.size, allowed, "laplace")

    moved = backend.asnumpy(cukde.debias(data, h, score_bandwidth=score_bandwidth, **options))
    want = reference.local_debias(X, h, factors, score_bandwidth, w)
    of_score = h if score_bandwidth is None else score_bandwidth
    at_data = reference.local(X, X, of_score, factors, w)
    allowed = tolerances.log_error(backend.device, taken, at_data.exponent) * np.maximum(1, at_data.reach)
    ratio = np.linalg.norm(reference.whiten(reference.whiten_gradient(np.eye(X.shape[1]), h), of_score), 2) ** 2
    rounding = np.finfo(dtype).eps * np.linalg.norm(reference.whiten(np.abs(want), h), axis=1)
    tolerances.check(np.linalg.norm(reference.whiten(moved - want, h), axis=1), ratio * allowed + rounding, "moved")

    log_sd = backend.asnumpy(cukde.sd_kde(data, queries, h, score_bandwidth=score_bandwidth, log=True, **options))
    of = reference.local(want, Y, h, factors, w)
    near = reference.Nearness(of.exponent, np.maximum(1, of.steepness), of.reach)
    single = "float64" if taken == "float64" else "float32"
    tolerances.check_log(log_sd, of.log, tolerances.sd_log_error(single, near, reference.size_in_bandwidths(X, h)))
    return [log_p, score, corrected, moved, log_sd]


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [1, 2, 5, 17])
def test_all_match_the_formulas(backend: Backend, d: int, dtype: str, weighted: bool) -> None:
    n, m = backend.size(700, 130), backend.size(200, 50)
    X, Y, factors = sample(d, n, m, dtype)
    verify(backend, X, Y, 0.5 * math.sqrt(d), factors, skewed(n) if weighted else None)


@pytest.mark.parametrize(("precision", "dtype"), [("ieee", "float64"), ("tf32", "float32"), ("float64", "float32")])
@pytest.mark.parametrize("form", ["scalar", "deviations", "covariance"])
def test_bandwidths_and_precisions_of_every_form(backend: Backend, form: str, dtype: str, precision: str) -> None:
    X, Y, factors = sample(3, backend.size(400, 100), 40, dtype, offset=100.0)
    h = {"scalar": 0.6, "deviations": np.diag(COVARIANCE), "covariance": COVARIANCE @ COVARIANCE.T}[form]
    other = {"scalar": 0.8, "deviations": COVARIANCE @ COVARIANCE.T, "covariance": 1.5}[form]
    verify(backend, X, Y, np.asarray(h), factors, precision=precision, score_bandwidth=other)
