"""Few samples on the CPU, by NumPy alone and as plain numbers: the integers and bits of the compiled passes."""

from __future__ import annotations

import itertools
import operator
import sys

import numpy as np
import pytest

import cukde
from cukde.kendall.cpu import few
from tests.private import kendall_matrix_on_cpu, kendall_pairs_on_cpu, statistics, tau_statistics

_ALTERNATIVES = ("two-sided", "less", "greater")


def _samples(seed: int, n: int, columns: int) -> np.ndarray:
    """Columns with few ties, with many, constant, and with NaN."""
    rng = np.random.default_rng(seed)
    out = rng.normal(size=(n, columns))
    out[:, 1::3] = rng.integers(0, 4, out[:, 1::3].shape)
    out[:, 2::4] = out[:, 2::4].round(1) * 0.0 if seed % 3 == 0 else out[:, 2::4].round(1)
    if seed % 2:
        out[rng.random(out.shape) < 0.1] = np.nan
    return out


@pytest.mark.parametrize("n", [0, 1, 2, 3, 63, 64, 65, 129, 400])
def test_pairs_are_counted_as_by_compiled_code(n: int) -> None:
    for seed in range(4):
        x, y = _samples(seed, n, 6).T, _samples(seed + 1, n, 6).T
        for a, b in zip(few.pairs(x, y).arrays, kendall_pairs_on_cpu(x, y).arrays, strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "i8", "f2", "f4", ">f8"])
def test_every_dtype_is_counted(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = (rng.integers(0, 2**63, (2, 70)) // (1 if dtype in ("u8", "i8") else 2**60)).astype(dtype)
    for a, b in zip(few.pairs(x[:1], x[1:]).arrays, kendall_pairs_on_cpu(x[:1], x[1:]).arrays, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("deletion", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_matrices_are_counted_as_by_compiled_code(seed: int, deletion: bool) -> None:
    A, B = _samples(seed, 80, 5), _samples(seed + 1, 80, 3)
    for arguments in ((A,), (A, B)):
        ours, theirs = few.matrix(*arguments, deletion=deletion), kendall_matrix_on_cpu(*arguments, deletion=deletion)
        for a, b in zip(ours.arrays, theirs.arrays, strict=True):
            np.testing.assert_array_equal(a, np.broadcast_to(b, a.shape))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_one_pair_has_the_bits_of_arrays() -> None:
    for seed, n in itertools.product(range(6), (0, 1, 2, 3, 5, 33, 34, 100)):
        counts = kendall_pairs_on_cpu(_samples(seed, n, 6).T, _samples(seed + 2, n, 6).T)
        for variant, distribution, alternative in itertools.product("abc", ("auto", "asymptotic"), _ALTERNATIVES):
            null = statistics.Null(distribution, alternative)
            tau, p = tau_statistics(counts, variant, null, n)
            for i in range(6):
                alone = tau_statistics(counts.map(operator.itemgetter(slice(i, i + 1))), variant, null, n)
                np.testing.assert_array_equal(alone, np.stack([tau, p])[:, i : i + 1])


def test_first_calls_end_with_their_number_and_with_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few, "_COMPILED", "cukde.not_loaded")
    monkeypatch.setattr(few, "_left", 3)
    assert [few.serves(1, 9) for _ in range(5)] == [True, True, True, False, False]
    monkeypatch.setattr(few, "_left", 3)
    assert few.serves(1, 9)
    monkeypatch.setitem(sys.modules, "cukde.not_loaded", cukde)
    assert not few.serves(1, 9)
