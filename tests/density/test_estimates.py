"""The table of estimates says of each what is so."""

from __future__ import annotations

import inspect
import typing

import numpy as np
import pytest

import cukde
from cukde.density.estimates import ESTIMATES, NOT_NEGATIVE, Estimate, Method, NotNegative, with_methods

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = np.concatenate([RNG.normal(size=(5, 2)), [[0.0, 4.5]]])  # at the last the Laplace-corrected estimate is negative


def test_types_list_the_methods() -> None:
    assert typing.get_args(Method) == tuple(ESTIMATES)
    assert typing.get_args(NotNegative) == NOT_NEGATIVE
    assert with_methods(lambda each: each.mass) == 'method="positive"'
    assert with_methods(lambda each: each.order == 4) == 'method="sd", "laplace" or "positive"'


@pytest.mark.parametrize("estimate", ESTIMATES.values(), ids=ESTIMATES)
def test_functions_take_what_the_table_says(estimate: Estimate) -> None:
    taken = inspect.signature(estimate.density).parameters
    for name in ("score_bandwidth", "steps", "own_point"):
        assert (name in taken) == estimate.moves
    assert ("mass" in taken) == (estimate.mass is not None)
    if estimate.score is not None:
        assert ("bounds" in inspect.signature(estimate.score).parameters) == estimate.score_in_domain


@pytest.mark.parametrize("estimate", ESTIMATES.values(), ids=ESTIMATES)
def test_only_some_are_negative(estimate: Estimate) -> None:
    density = estimate.density(X, Y, 0.8)
    assert (density.min() < 0) == estimate.negative
    assert (density[:5] > 0).all()


@pytest.mark.parametrize("estimate", ESTIMATES.values(), ids=ESTIMATES)
def test_rules_and_searches_are_of_the_method(estimate: Estimate) -> None:
    h = getattr(cukde.bandwidth, estimate.rule)(X)
    np.testing.assert_array_equal(estimate.density(X, Y, estimate.rule), estimate.density(X, Y, h))
    objective = "least_squares" if estimate.negative else "likelihood"
    found = cukde.bandwidth.cross_validate(X, estimate.method, [0.5, 0.7], objective)
    np.testing.assert_array_equal(estimate.density(X, Y, found.bandwidth), estimate.density(X, Y, found))


@pytest.mark.parametrize("estimate", ESTIMATES.values(), ids=ESTIMATES)
def test_the_estimator_has_the_functions_of_its_method(estimate: Estimate) -> None:
    e = cukde.KernelDensity(bandwidth=0.8, method=estimate.method).fit(X)
    density = estimate.density(X, Y, 0.8)
    np.testing.assert_allclose(e.score_samples(Y)[density > 0], np.log(density[density > 0]), rtol=1e-10)
    if estimate.score is not None:
        centres = cukde.debias(X, 0.8) if estimate.moves else X
        np.testing.assert_allclose(e.grad_log_density(Y), estimate.score(centres, Y, 0.8), rtol=1e-9, atol=1e-12)
