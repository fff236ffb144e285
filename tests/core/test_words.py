"""Misspelt options, and keywords of other libraries: an error that says what they are called here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import cukde
from cukde.bandwidth.names import OF_RULES

plot = importlib.import_module("cukde.plot")

X = np.random.default_rng(0).normal(size=(20, 1))
FRAME = pd.DataFrame(X, columns=["a"])


@pytest.mark.parametrize("data", [X, FRAME], ids=["array", "frame"])
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda X: cukde.kde(X, X, bandwidth=0.5),
            r"kde\(\) got an unexpected keyword argument 'bandwidth': here it is h",
        ),
        (lambda X: cukde.kde(X, X, 0.5, bandwidth=0.5), "'bandwidth': here it is h"),
        (
            lambda X: cukde.sd_kde(X, X, bw_method=0.5),
            "'bw_method': here it is h, in units of the data, not SciPy's factor",
        ),
        (lambda X: cukde.modes(X, bw=0.5), "'bw': here it is h"),
        (lambda X: cukde.kde(X, X, 0.5, sample_weight=X), "'sample_weight': here it is weights"),
        (lambda X: cukde.kde(X, X, 0.5, weigths=X), "'weigths': did you mean 'weights'"),
        (lambda X: plot.density(X, bandwidth=0.5), "plot.density has no option bandwidth: write h"),
        (lambda X: cukde.KernelDensity(h=0.5).fit(X), r"KernelDensity\(\) got .* 'h': here it is bandwidth"),
        (lambda X: cukde.KernelDensity().fit(X, weights=X), r"KernelDensity.fit\(\) got .* here it is sample_weight"),
        (lambda X: cukde.gaussian_kde(X.T, bandwidth=0.5), "'bandwidth': here it is bw_method"),
        (lambda X: cukde.kde(X, X, 0.5, other=1), r"keyword argument 'other'$"),
    ],
)
def test_keywords(call: Callable[[Any], Any], message: str, data: Any) -> None:
    with pytest.raises(TypeError, match=message):
        call(data)


RULES = [*OF_RULES.values()]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(word=st.sampled_from(RULES), place=st.integers(0, 30), kind=st.sampled_from(["twice", "less", "large"]))
def test_rules(word: str, place: int, kind: str) -> None:
    place %= len(word)
    wrong = {
        "twice": word[:place] + word[place] + word[place:],
        "less": word[:place] + word[place + 1 :],
        "large": word[:place] + word[place].upper() + word[place + 1 :],
    }[kind]
    if wrong in RULES or len(wrong) < 3:
        return
    for call in (
        lambda: cukde.kde(X, X, wrong),
        lambda: cukde.kde(FRAME, FRAME, wrong),
        lambda: cukde.KernelDensity(bandwidth=wrong).fit(X),
    ):
        with pytest.raises(ValueError, match=f"did you mean '{word}'"):
            call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cukde.gaussian_kde(X.T, "Silverman"), "'silverman'"),
        (lambda: cukde.KernelDensity(method="laplce").fit(X), "'laplace'"),
        (lambda: cukde.KernelDensity(kernel="epanechnikow").fit(X), "'epanechnikov'"),
        (lambda: cukde.kde(X, X, 0.5, precision="flot32"), "'float32'"),
        (lambda: cukde.kde(X, X, 0.5, nan_policy="Omit"), "'omit'"),
        (lambda: cukde.kendalltau(X, X, variant="B"), "'b'"),
        (lambda: plot.density(X, method="KDE"), "'kde'"),
        (lambda: cukde.functions.polynomial("Gelu"), "'gelu'"),
    ],
)
def test_options(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean {message}"):
        call()
