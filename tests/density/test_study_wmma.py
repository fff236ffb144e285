"""The wmma kernel that benchmarks measure against: it compiles without spills, and its density is the oracle's."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from cukde.core.gpu import compile as core_compile
from tests import host_emulation, reference
from tests.compilation import ARCHITECTURES, compile_for


@pytest.fixture
def wmma() -> ModuleType:
    pytest.importorskip("cupy", reason="the launcher needs CuPy: install the test extra")
    from benchmarks.density import study_wmma as wmma

    return wmma


@pytest.mark.parametrize("depth", [8, 16, 64])
@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if a >= 80])
def test_it_compiles_without_spills(wmma: ModuleType, architecture: int, depth: int) -> None:
    if wmma.why_absent():
        pytest.skip(wmma.why_absent())
    code, options = core_compile.code(wmma.STEM, wmma.defines(depth)), core_compile.options(wmma.headers())
    taken = compile_for(architecture, code, options)
    assert taken.spills == taken.stack == 0
    assert taken.shared <= 48 * 1024


@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 1), (63, 65, 3), (200, 70, 16), (64, 64, 17), (130, 129, 64)])
def test_it_matches_the_reference(
    wmma: ModuleType, emulated_device: None, monkeypatch: pytest.MonkeyPatch, n: int, m: int, d: int
) -> None:
    monkeypatch.setattr(wmma, "cp", wmma._tf32.cp)

    def emulated(stem: str, name: str, defines: Any, headers: Any) -> Any:
        return host_emulation.kernel(stem, name, defines)

    monkeypatch.setattr(core_compile, "kernel", emulated)
    rng = np.random.default_rng([n, m, d])
    # In units that keep a density of 64 dimensions within float32.
    X, Y = (0.1 * (3 + rng.standard_normal((rows, d)).astype(np.float32)) for rows in (n, m))
    h = 0.05 * d**0.5
    np.testing.assert_allclose(wmma.kde(X, Y, h), reference.kde(X, Y, h), rtol=1e-2)  # 11 bits of z
