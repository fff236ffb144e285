"""Few pairs beyond 64 dimensions on a GPU: differences take them, in one launch that splits the data and a merge."""

from __future__ import annotations

import numpy as np
import pytest

import cukde
from tests import reference
from tests.conftest import Backend
from tests.density.samples import OUTPUTS, Sample, verify
from tests.density.test_wide import DATA, sample
from tests.tolerances import DENSITY, check, check_log, check_score, log_error

pytestmark = pytest.mark.small
pytest.importorskip("cupy", reason="needs CuPy: install the test extra")


@pytest.mark.parametrize("precision", ["float32", "tf32"])
@pytest.mark.parametrize(("n", "m", "d"), [(300, 1, 220), (130, 70, 65), (700, 3, 129)])
def test_calls(device: Backend, launched: list[str], n: int, m: int, d: int, precision: str) -> None:
    s = Sample(n, m, d)
    X, Y, V = (device.asarray(a) for a in (s.X, s.Y, np.ascontiguousarray(s.V[:, :5])))
    allowed = DENSITY["gpu", "float32"].value
    options = {"precision": precision}
    got = device.asnumpy(cukde.kde(X, Y, s.h, log=True, **options))
    check_log(got, reference.log_kde(s.X, s.Y, s.h), np.full(m, allowed))
    error = s.h * (device.asnumpy(cukde.score(X, Y, s.h, **options)) - reference.score(s.X, s.Y, s.h))
    check_score(np.linalg.norm(error, axis=1), np.full(m, allowed), reference.nearness(s.X, s.Y, s.h).reach)
    total, size = reference.kernel_sum(s.X, s.V[:, :5], s.Y, s.h)
    check(np.abs(device.asnumpy(cukde.kernel_sum(X, V, Y, s.h, **options)) - total), allowed * size, "values")
    assert not [name for name in launched if "wide" in name]
    assert "merge_splits" in launched


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_many_splits(device: Backend, monkeypatch: pytest.MonkeyPatch, output: str, weighted: bool) -> None:
    """As many as tiles of the data where a device has that many blocks to run; 40 merge in two turns of a warp."""
    from cukde.density.pairs.gpu import difference, finish

    s = Sample(40 * 64 - 5, 3, 70, weighted=weighted and output != "values")
    log_weights = None if s.log_weights is None else device.asarray(s.log_weights)
    V = device.asarray(np.ascontiguousarray(s.V[:, :5])) if output == "values" else None
    k = {"moments": 70, "laplace": 1, "values": 5}.get(output, 0)
    out = finish.empty(3, k)
    monkeypatch.setattr("cukde.core.gpu.device.multiprocessors", lambda: 1000)
    launched = difference.launch(
        "float32", device.asarray(s.X), device.asarray(s.Y), s.h, output, V, log_weights, out=out
    )
    assert launched.parts == 40
    finish.merge(launched, out)
    sums = type(out)(*(None if a is None else device.asnumpy(a) for a in out))
    verify(s, output, sums, DENSITY["gpu", "float32"].value)


@pytest.mark.parametrize("data", DATA)
def test_far_data(device: Backend, data: str) -> None:
    s = sample(data, 200, 40, 70, 0.25)
    got = device.asnumpy(cukde.kde(device.asarray(s.X), device.asarray(s.Y), s.h, log=True))
    allowed = log_error("gpu", "float32", reference.nearness(s.X, s.Y, s.h).exponent)
    check_log(got, reference.log_kde(s.X, s.Y, s.h), allowed)
