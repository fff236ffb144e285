"""Calls drawn by seeds: what is drawn, what rivals compute, and how errors count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cukde
from benchmarks.density import any_case, bench_any
from benchmarks.tools import calibration, records

MOST = {"most_pairs": 3e4, "largest": 2000}


def test_a_seed_is_a_case() -> None:
    drawn = [any_case.case(seed, **MOST) for seed in range(200)]
    assert drawn == [any_case.case(seed, **MOST) for seed in range(200)]
    assert len({of._replace(seed=0) for of in drawn}) == 200
    assert {of.op for of in drawn} == {
        "kde",
        "sd_kde",
        "score",
        "laplace_kde",
        "density_and_score",
        "debias",
        "positive_kde",
    }
    assert max(of.d for of in drawn) > 128
    for of in drawn:
        assert of.n * of.m <= 3e4 * 1.1
        assert of.m == of.n or of.op != "debias"


@pytest.mark.parametrize("data", any_case.DATA)
def test_queries_are_of_the_same_population(data: str) -> None:
    of = any_case.Case(3, "kde", 400, 300, 3, data, 1.0, "float64", "")
    X, Y, h, _ = any_case.arrays(of)
    assert (X.shape, Y.shape) == ((400, 3), (300, 3))
    assert h > 0
    assert np.isfinite(X).all()
    assert not np.array_equal(X[:300], Y)
    middle = np.median(X, axis=0), np.median(Y, axis=0)
    spread = 1 + np.percentile(X, 90, axis=0) - np.percentile(X, 10, axis=0)
    assert (abs(middle[0] - middle[1]) <= spread).all()


@pytest.mark.parametrize("op", ["kde", "sd_kde", "score", "laplace_kde", "density_and_score", "debias", "positive_kde"])
@pytest.mark.parametrize("option", ["", "weights"])
def test_a_user_computes_the_same(op: str, option: str) -> None:
    check(any_case.Case(1, op, 60, 60 if op == "debias" else 11, 2, "normal", 1.0, "float64", option))


@pytest.mark.parametrize("op", ["kde", "sd_kde"])
def test_a_user_leaves_out_own_points(op: str) -> None:
    check(any_case.Case(1, op, 60, 60, 2, "normal", 1.0, "float64", "leave_one_out"))


def check(of: any_case.Case) -> None:
    """Hold a call against what a user writes; its error is counted, and so is one that is too large."""
    op = of.op
    X, Y, h, options = any_case.arrays(of)
    if op == "positive_kde":
        options["mass"] = 1.0
    got = getattr(cukde, op)(*((X, h) if op == "debias" else (X, Y, h)), **options)
    want = bench_any.as_users_write_it(of, np, X, Y, h, options.get("weights"))
    for one, other in zip(got, want, strict=True) if op == "density_and_score" else [(got, want)]:
        np.testing.assert_allclose(one, other, rtol=1e-10)
    result = np.log(got) if op in ("kde", "sd_kde") else got
    error = bench_any.oracle(of, X, Y, h, options, np)
    assert error(result) <= 1
    assert error(want, plain=True) <= 1
    wrong = [got[0], got[1] * (1 + 1e-9)] if op == "density_and_score" else got * (1 + 1e-9)
    wrong = np.log(wrong) if op in ("kde", "sd_kde") else wrong
    assert error(wrong) > 1


def test_rows_and_the_worst(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "calibrate", lambda before=None: {"cpu": {"copy": {"median_ms": 2.0}}})
    path = tmp_path / "any.json"
    given = ["--cases", "3", "--seed", "11", "--backend", "cpu", "--pairs", "3e4", "--largest", "2000"]
    assert bench_any.main([*given, "--record", str(path)]) == 0
    rows = records.read(path)["rows"]
    assert {row["shape"]["seed"] for row in rows} == {11, 12, 13}
    assert all(row["error_over_promise"] <= 1 for row in rows)
    printed = capsys.readouterr().out
    assert "errors beyond the promise: 0" in printed
    assert "NumPy: 3 cases" in printed
    assert all(row["peer"]["error_over_promise"] is not None for row in rows if row["peer"]["name"] != "SciPy")


def test_the_dense_limit() -> None:
    of = any_case.Case(0, "kde", 10**6, 10**5, 2, "normal", 1.0, "float32", "")
    assert bench_any.limit_ms(of) == pytest.approx(1e11 / 4.1e12 * 1e3)
    assert bench_any.limit_ms(of._replace(dtype="float64")) == pytest.approx(2e11 / 4.1e12 * 1e3)
    assert bench_any.limit_ms(of._replace(d=384)) == pytest.approx(4 * 384 * 1e11 / 6e14 * 1e3)
    assert bench_any.limit_ms(of._replace(op="sd_kde")) == pytest.approx((1e11 + 5e11) / 4.1e12 * 1e3)
