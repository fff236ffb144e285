"""Which backend an array belongs to, and what an import costs."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import cukde
from cukde.core import gpu as core_gpu
from cukde.core.cpu import arrays as core_arrays
from tests.private import backend_of, dispatch, to_host

HEAVY = ("cupy", "numba", "scipy", "sklearn", "matplotlib", "pandas", "dask")


def loaded_after(code: str) -> set[str]:
    """Which heavy modules a fresh interpreter has loaded after running ``code``."""
    script = f"import sys\n{code}\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


class TestImports:
    def test_import_loads_nothing_heavy(self) -> None:
        assert loaded_after("import cukde") == set()

    def test_errors_on_the_host_load_no_gpu_library(self) -> None:
        code = "import cukde\ntry:\n    cukde.kde([1.0], [1.0], -1.0)\nexcept ValueError:\n    pass"
        assert "cupy" not in loaded_after(code)

    def test_the_cpu_path_loads_no_gpu_library(self) -> None:
        assert "cupy" not in loaded_after("import cukde\ncukde.kde([1.0, 2.0], [1.5], 1.0)")


class _Cuda:
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (2,), "typestr": "<f8", "data": (0, False), "version": 3}


class _Cudf:
    """Like cuDF: knows how to become CuPy, and refuses to become NumPy."""

    def to_cupy(self) -> Any:
        raise AssertionError("asked for data before the backend is chosen")

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("implicit conversion to a host array")


class _Dlpack:
    """A foreign array that speaks nothing but DLPack."""

    def __init__(self, a: np.ndarray, device: tuple[int, int] = (1, 0)) -> None:
        self._a = a
        self._device = device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, **options: Any) -> Any:
        return self._a.__dlpack__(**options)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A GPU backend that only knows its own fake arrays."""
    module = ModuleType("cukde.core.gpu.arrays")
    vars(module)["asarray"] = lambda a: ("on the gpu", a)
    vars(module)["asnumpy"] = lambda a: np.array(2.0) if a[0] == "on the gpu" else None
    monkeypatch.setitem(sys.modules, "cukde.core.gpu.arrays", module)
    monkeypatch.setattr(core_gpu, "arrays", module, raising=False)  # the package has it where it was imported
    return module


class TestWhere:
    def test_the_interface_of_a_cupy_array_is_not_made(self) -> None:
        def made(a: Any) -> None:
            raise AssertionError("it takes a microsecond")

        kind = type("ndarray", (), {"__module__": "cupy", "__cuda_array_interface__": property(made)})
        assert dispatch.is_gpu_array(kind())

    @pytest.mark.parametrize(
        "a",
        [np.zeros(2), np.float32(1), [1.0], (1,), 1, 1.0, True, None, "scott", object(), _Dlpack(np.zeros(2))],
        ids=lambda a: type(a).__name__,
    )
    def test_host_arrays(self, a: Any) -> None:
        assert not dispatch.is_gpu_array(a)
        assert backend_of(a) is core_arrays
        assert to_host(a) is a

    def test_pinned_host_memory_is_host_memory(self) -> None:
        assert not dispatch.is_gpu_array(_Dlpack(np.zeros(2), (3, 0)))

    @pytest.mark.parametrize(
        "a",
        [_Cuda(), _Cudf(), _Dlpack(np.zeros(2), (2, 0)), _Dlpack(np.zeros(2), (2, 5)), _Dlpack(np.zeros(2), (13, 0))],
        ids=["cuda-array-interface", "to_cupy", "dlpack-cuda", "dlpack-cuda-5", "dlpack-managed"],
    )
    def test_gpu_arrays(self, a: Any, gpu: ModuleType) -> None:
        assert dispatch.is_gpu_array(a)
        assert backend_of(a) is gpu
        assert to_host(a) == 2.0

    @pytest.mark.parametrize("device", [(4, 0), (7, 0), (8, 0), (10, 0), (14, 0)])
    def test_devices_that_no_backend_serves(self, device: tuple[int, int]) -> None:
        for call in (dispatch.is_gpu_array, backend_of):
            with pytest.raises(TypeError, match=f"CUDA device; got DLPack device type {device[0]}"):
                call(_Dlpack(np.zeros(2), device))

    def test_the_data_decide(self, gpu: ModuleType) -> None:
        host = np.zeros(2)
        assert backend_of(_Cuda(), Y=host, weights=None, V=[1.0]) is gpu
        assert backend_of(_Cuda(), Y=_Cuda(), weights=_Cudf()) is gpu
        assert backend_of(host, Y=host, weights=None, V=None) is core_arrays
        for name in ("Y", "weights", "V"):
            with pytest.raises(TypeError, match=rf"^{name} is on the GPU but X is not.*cupy.asnumpy\({name}\)"):
                backend_of(host, **{name: _Cuda()})

    def test_a_bandwidth_on_the_gpu_is_copied_to_the_host(self, gpu: ModuleType) -> None:
        X, Y = np.zeros((1, 1)), np.ones((1, 1))
        np.testing.assert_array_equal(cukde.kde(X, Y, _Cuda()), cukde.kde(X, Y, 2.0))


class TestHostArrays:
    def test_dlpack_is_taken_without_a_copy(self) -> None:
        a = np.arange(6.0).reshape(3, 2)
        assert np.shares_memory(core_arrays.asarray(_Dlpack(a)), a)

    def test_numpy_is_taken_as_it_is(self) -> None:
        a = np.arange(6.0)[::2]
        assert core_arrays.asarray(a) is a
        assert core_arrays.asnumpy(a) is a

    @pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
    def test_every_argument_may_be_dlpack(self, dtype: str) -> None:
        X, Y, w = (np.arange(k).reshape(shape).astype(dtype) for k, shape in ((6, (3, 2)), (4, (2, 2)), (3, (3,))))
        got = cukde.kde(_Dlpack(X), _Dlpack(Y), 1.5, weights=_Dlpack(w))
        np.testing.assert_array_equal(got, cukde.kde(X, Y, 1.5, weights=w))
        got = cukde.kernel_sum(_Dlpack(X), _Dlpack(X), _Dlpack(Y), 1.5)
        np.testing.assert_array_equal(got, cukde.kernel_sum(X, X, Y, 1.5))
        assert isinstance(got, np.ndarray)
