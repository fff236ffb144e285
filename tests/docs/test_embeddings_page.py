"""What the pages of embeddings say is what their record has, and the recipe is what was measured."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln
from sklearn.decomposition import PCA

from benchmarks.density.bench_embeddings import LOOKED_AT, NORMAL, NUMBERS_OF_AXES
from benchmarks.density.embedding_axes import Axes
from benchmarks.density.embedding_detectors import DETECTORS
from benchmarks.density.embeddings import DIMENSIONS, SETS
from benchmarks.density.embeddings_page import PAGE, PARTS, RECORD, Numbers, page_with
from benchmarks.tools import records
from tests.docs import code_blocks

TEXT = PAGE.read_text(encoding="utf-8")
NUMBERS = Numbers(records.read(RECORD))


def auroc(op: str, of: str, d: int = LOOKED_AT, k: int | None = None) -> float:
    return float(NUMBERS.row(op, of, d, k)["auroc"])


def functions() -> dict[str, Any]:
    """Those that the page defines."""
    names: dict[str, Any] = {"np": np, "gammaln": gammaln}
    for block in (each for each in code_blocks.blocks(TEXT) if each.language == "python"):
        found = [node for node in ast.parse(block.code).body if isinstance(node, ast.FunctionDef)]
        exec(compile(ast.Module(found, []), str(PAGE), "exec"), names)
    return names


@pytest.mark.parametrize("page", PARTS, ids=lambda page: page.stem)
def test_numbers_are_those_of_the_record(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert page_with(text, PARTS[page], NUMBERS) == text, "run python -m benchmarks.density.embeddings_page"


@pytest.mark.parametrize("k", [1, 5])
def test_the_recipe_is_what_was_measured(k: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 7)) @ rng.standard_normal((7, 7))
    Y, log_f = rng.standard_normal((9, 7)), rng.standard_normal(9)
    recipe, axes = functions(), Axes.of(PCA(svd_solver="full").fit(X), k)
    pca = PCA(k, svd_solver="full").fit(X)
    columns = recipe["axes_and_rest"](pca, Y)
    np.testing.assert_allclose(columns, axes.columns(Y), rtol=1e-9)
    np.testing.assert_allclose(recipe["of_all_columns"](pca, log_f, columns), axes.of_all_columns(log_f, columns))


def test_own_kernels_of_normal_rows() -> None:
    """What docs/bandwidths.md says of eight columns."""
    few, eight = (NUMBERS.row("own share", NORMAL, d) for d in (4, 8))
    assert few["own_share"] < 0.5 < eight["own_share"]
    assert eight["shape"]["n"] == 1000


class TestProse:
    """Sentences that are written by hand."""

    def test_the_nearest_neighbour_wins_among_docstrings(self) -> None:
        for d in DIMENSIONS:
            others = (
                "KDE of axes and rest",
                "LocalOutlierFactor",
                "IsolationForest",
                "fifth neighbour",
                "the rest alone",
            )
            assert auroc("nearest neighbour", "docstrings", d) > max(auroc(op, "docstrings", d) for op in others) + 0.02
            assert auroc("fifth neighbour", "docstrings", d) < auroc("nearest neighbour", "docstrings", d) - 0.05

    def test_the_rest_alone_on_docstrings(self) -> None:
        for d in DIMENSIONS:
            assert auroc("the rest alone", "docstrings", d) > auroc("KDE of axes and rest", "docstrings", d)
        of_all = ("KDE, its rule", "SD-KDE, its rule", "KDE, cross-validated", "nearest neighbour")
        others = {detector.name for detector in DETECTORS} - {"the rest alone", *of_all}
        assert auroc("the rest alone", "docstrings", 4096) > max(auroc(op, "docstrings", 4096) for op in others)

    def test_many_axes_are_level_on_nine_digits(self) -> None:
        assert NUMBERS.row("KDE of axes and rest", "nine digits", LOOKED_AT)["k"] == 12
        few = auroc("KDE of axes and rest", "nine digits")
        many = auroc("so many axes", "nine digits", k=max(NUMBERS_OF_AXES))
        assert few < auroc("nearest neighbour", "nine digits") - 0.01 < many

    def test_axes_and_rest_and_the_forest_win_on_photographs(self) -> None:
        for d in DIMENSIONS:
            ours, forest = (auroc(op, "photographs", d) for op in ("KDE of axes and rest", "IsolationForest"))
            assert ours > auroc("nearest neighbour", "photographs", d) + 0.02
            assert ours == pytest.approx(forest, abs=0.01)
            assert NUMBERS.row("KDE of axes and rest", "photographs", d)["k"] <= 2

    def test_the_forest_is_last_of_all(self) -> None:
        rivals = ("nearest neighbour", "fifth neighbour", "LocalOutlierFactor", "KDE of axes and rest", "KDE, its rule")
        for of in ("docstrings", "nine digits"):
            assert auroc("IsolationForest", of) < min(auroc(op, of) for op in rivals)

    def test_the_nearest_neighbour_is_ahead_of_local_outlier_factors(self) -> None:
        for of in SETS:
            for d in DIMENSIONS:
                assert auroc("nearest neighbour", of.name, d) > auroc("LocalOutlierFactor", of.name, d)

    def test_bias_reduction_brings_nothing(self) -> None:
        for of in SETS:
            for d in DIMENSIONS:
                assert auroc("SD-KDE, its rule", of.name, d) == pytest.approx(
                    auroc("KDE, its rule", of.name, d), abs=1e-3
                )
                assert auroc("Laplace, its rule", of.name, d) < auroc("KDE, its rule", of.name, d) + 0.002

    def test_likelihood_rises_with_axes(self) -> None:
        for of in SETS:
            most = 32 if of.name == "one digit" else max(NUMBERS_OF_AXES)
            rows = [NUMBERS.row("so many axes", of.name, LOOKED_AT, k) for k in NUMBERS_OF_AXES if k <= most]
            assert (np.diff([row["log_density"] for row in rows]) > 0).all()

    def test_more_axes_predict_photographs_better_than_all_columns(self) -> None:
        rule, few = (NUMBERS.row(op, "photographs", LOOKED_AT) for op in ("KDE, its rule", "KDE of axes and rest"))
        more = NUMBERS.row("so many axes", "photographs", LOOKED_AT, 4)
        assert few["log_density"] < rule["log_density"] < more["log_density"]
