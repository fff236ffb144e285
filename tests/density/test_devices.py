"""Calls on several GPUs: what they return beside one, errors, and devices that fail."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cukde
from cukde.core.plan import only
from tests.conftest import Backend, why_no_gpu

DEVICES = 3
"""Of the emulation; on a GPU so many threads take turns on it, or on all that there are."""

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "kde": cukde.kde,
    "score": cukde.score,
    "density_and_score": cukde.density_and_score,
    "sd_kde": cukde.sd_kde,
    "laplace_kde": cukde.laplace_kde,
    "positive_kde": lambda X, Y, h, **options: cukde.positive_kde(X, Y, h, mass=1.5, **options),
    "positive_score": cukde.positive_score,
    "debias": lambda X, Y, h, **options: cukde.debias(X, h, **options),
    "kernel_sum": lambda X, Y, h, **options: cukde.kernel_sum(X, X[:, :2] - 0.3, Y, h, **options),
}


class Emulated:
    """Several devices that take their tasks one after the other."""

    def __init__(self) -> None:
        self.current = 0
        self.calls: list[tuple[int, int]] = []  # device, and how many tasks there were

    def spread(self, tasks: Any, devices: tuple[int, ...]) -> list[Any]:
        """As of ``cukde.core.gpu.devices``."""
        out = []
        for number, task in zip(devices, tasks, strict=True):
            self.current = number
            self.calls.append((number, len(tasks)))
            out.append(task())
        self.current = devices[0]
        return out


@pytest.fixture
def several(device: Backend, monkeypatch: pytest.MonkeyPatch) -> Emulated:
    """Calls may ask for several devices."""
    emulated = Emulated()
    if device.name == "emulated":
        arrays = importlib.import_module("cukde.core.gpu.arrays")
        monkeypatch.setattr(arrays, "several", lambda devices: tuple(range(DEVICES)))
        monkeypatch.setattr(arrays, "spread", emulated.spread)
        monkeypatch.setattr("cukde.core.gpu.device.current", lambda: emulated.current)
        monkeypatch.setattr("cukde.core.gpu.device.holder", lambda _: emulated.current)
    else:
        import cupy

        if cupy.cuda.runtime.getDeviceCount() == 1:
            monkeypatch.setattr("cukde.core.gpu.arrays.several", lambda devices: (0,) * DEVICES)
    return emulated


@pytest.fixture
def of_any_size() -> Iterator[None]:
    """Passes of any size are shared."""
    with only("devices"):
        yield


@pytest.fixture
def shared(several: Emulated, of_any_size: None) -> Emulated:
    """Passes of any size are shared by them."""
    return several


@pytest.fixture
def leaving_out(shared: Emulated) -> Iterator[None]:
    """Passes leave out pairs however few there are."""
    with only("devices", "skipping"):
        yield


def points(d: int, dtype: str, n: int = 700, m: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Two clumps, and a few points far from both."""
    rng = np.random.default_rng(d)
    X, Y = (rng.standard_normal((rows, d)) + 4.0 * (rng.random((rows, 1)) < 0.4) for rows in (n, m))
    X[:3] += 20.0
    return X.astype(dtype), Y.astype(dtype)


def both(device: Backend, name: str, d: int, dtype: str, h: float, **options: Any) -> list[tuple[Any, Any]]:
    """Results of several devices and of one, on the host."""
    X, Y = (device.asarray(a) for a in points(d, dtype))
    if options.pop("itself", False):
        Y = X
    got = FUNCTIONS[name](X, Y, h, devices="all", **options)
    want = FUNCTIONS[name](X, Y, h, **options)
    pairs = zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]
    return [(device.asnumpy(a), device.asnumpy(b)) for a, b in pairs]


def check(pairs: list[tuple[Any, Any]], dtype: str, single: float = 2e-3) -> None:
    for got, want in pairs:
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        tolerance = 1e-12 if dtype == "float64" else single
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * np.abs(want).max(initial=0))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("d", [2, 3, 17])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_one_device(shared: Emulated, device: Backend, name: str, d: int, dtype: str) -> None:
    check(both(device, name, d, dtype, 0.5 * d**0.5), dtype)
    if device.name == "emulated":
        assert len(shared.calls) >= DEVICES
        assert {count for _, count in shared.calls} == {DEVICES}


@pytest.mark.usefixtures("leaving_out")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("d", [3, 5, 8, 20, 40])
@pytest.mark.parametrize("name", ["kde", "sd_kde", "laplace_kde", "debias"])
def test_passes_that_leave_out_pairs(shared: Emulated, device: Backend, name: str, d: int, dtype: str) -> None:
    check(both(device, name, d, dtype, 0.15 * d**0.5), dtype)


@pytest.mark.parametrize(
    "options",
    [
        {"leave_one_out": True, "itself": True},
        {"deterministic": True, "itself": True},
        {"bounds": [(-30.0, 30.0), None, (-30.0, None)]},
        {"weighted": True},
        {"factors": True},
        {"check_finite": False},
        {"precision": "ieee"},
        {"log": True},
    ],
    ids=lambda options: next(iter(options)),
)
@pytest.mark.parametrize("name", ["kde", "sd_kde"])
@pytest.mark.usefixtures("shared")
def test_options(device: Backend, name: str, options: dict[str, Any]) -> None:
    options = dict(options)
    rng = np.random.default_rng(1)
    if options.pop("weighted", False):
        options["weights"] = device.asarray(rng.random(700))
    if options.pop("factors", False):
        options["local_factors"] = device.asarray(0.5 + rng.random(700))
    check(both(device, name, 3, "float64", 0.8, **options), "float64")


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("name", ["kde", "score", "sd_kde"])
def test_one_device_that_is_not_that_of_the_data(device: Backend, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """On a GPU of its own the test of all devices has it."""
    monkeypatch.setattr("cukde.core.gpu.arrays.several", lambda devices: (0,))
    check(both(device, name, 3, "float64", 0.8), "float64")


@pytest.mark.usefixtures("shared")
def test_few_queries_and_none(device: Backend) -> None:
    X, Y = (device.asarray(a) for a in points(3, "float64"))
    for m in (0, 1, 2, 5):
        got, want = cukde.kde(X, Y[:m], 0.5, devices="all"), cukde.kde(X, Y[:m], 0.5)
        check([(device.asnumpy(got), device.asnumpy(want))], "float64")


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.usefixtures("shared")
def test_steps_and_another_bandwidth_of_the_score(device: Backend, steps: int) -> None:
    check(both(device, "sd_kde", 3, "float64", 0.8, steps=steps, score_bandwidth=1.1, own_point=False), "float64")


def test_shares_of_a_pass_add_up(device: Backend) -> None:
    """Of all pairs, and of those that matter: whatever the number of shares, each pair is in one of them."""
    from cukde.density.options import Options
    from cukde.density.pairs.gpu import f16_symmetric, operands
    from cukde.density.pairs.gpu.share import Share
    from cukde.density.pairs.gpu.skipping import bounds, frame, passes, plan

    for d in (3, 8):
        X = device.asarray(points(d, "float32")[0])
        centre = X.astype("f8").mean(axis=0)
        operand, _ = operands.prepare(X, None, centre, 2.0, split=True, symmetric=True)
        of = frame.frame(frame.sample(X))
        prepared = plan.prepare(X, None, 0.3 * d**0.5, "moments", Options("float32"), of, 1e-5, ratio=True)
        assert prepared.plan.once
        limits = bounds.bounds_of(prepared)
        for count in (2, 5):
            shares = [Share(i, count) for i in range(count)]
            for whole, parts in (
                (f16_symmetric.launch(operand), [f16_symmetric.launch(operand, share=share) for share in shares]),
                (
                    passes.summed(prepared, limits)[1:3],
                    [passes.summed(prepared, limits, share)[1:3] for share in shares],
                ),
            ):
                for total, some in zip(whole, zip(*parts, strict=True), strict=True):
                    total, added = device.asnumpy(total), sum(device.asnumpy(a).astype("f8") for a in some)
                    assert sum(bool(device.asnumpy(a).any()) for a in some) > 1
                    np.testing.assert_allclose(added, total, rtol=1e-4, atol=1e-5 * np.abs(total).max())


@pytest.mark.small
def test_few_pairs_take_the_paths_of_one_device(
    several: Emulated, device: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that begin before values are looked at, too."""
    from cukde.density.pairs.gpu import small

    begun: list[int] = []
    of = small.Call.of
    monkeypatch.setattr(small.Call, "of", lambda *args: begun.append(1) or of(*args))
    X, Y = (device.asarray(a) for a in points(3, "float32"))
    for call in (cukde.kde, cukde.sd_kde):
        got, want = (device.asnumpy(call(X, Y, 0.5, **options)) for options in ({"devices": "all"}, {}))
        np.testing.assert_array_equal(got, want)
    assert len(begun) == 4
    assert not several.calls


@pytest.mark.usefixtures("leaving_out")
@pytest.mark.parametrize("device", ["emulated"], indirect=True)
def test_what_devices_share_of_sd_kde(shared: Emulated, device: Backend) -> None:
    """Sums of pairs, slices of the whole sums, copies of all moved points, and densities of queries."""
    check(both(device, "sd_kde", 20, "float32", 0.7), "float32")
    assert len(shared.calls) == 4 * DEVICES


@pytest.mark.usefixtures("leaving_out")
@pytest.mark.parametrize("device", ["emulated"], indirect=True)
def test_shares_of_other_blocks_are_not_added(
    shared: Emulated, device: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices of two models might round distances differently: then queries are dealt out instead."""
    from cukde.density.pairs.gpu import shares

    X = points(20, "float32")[0]
    want = cukde.debias(X, 0.5)
    check([(cukde.debias(X, 0.5, devices="all"), want)], "float32")
    assert len(shared.calls) == 2 * DEVICES  # of the same blocks they are, in slices
    shared.calls.clear()
    prepare, once = shares._pass_in_order, []

    def other(*args: Any, **options: Any) -> Any:
        made = prepare(*args, **options)
        data = made.data._replace(kinds=made.data.kinds + 1)
        once.append(made.plan.once)
        return made._replace(data=data, queries=data) if made.itself else made

    monkeypatch.setattr(shares, "_pass_in_order", other)
    monkeypatch.setattr(shares, "_slice", None)
    got = cukde.debias(X, 0.5, devices="all")
    assert True in once
    check([(got, want)], "float32")
    assert len(shared.calls) == 2 * DEVICES


def test_without_its_lead_a_share_chooses_itself(emulated_device: None) -> None:
    from cukde.density.options import Options
    from cukde.density.pairs.gpu import passes, shares
    from cukde.density.pairs.gpu.skipping import choice

    X, Y = points(8, "float32")
    arguments = passes.prepare(X, Y, 0.5, Options("float32", squared_radius=9.0))
    lead = shares.Lead()

    def fails(choose: Any) -> None:
        raise MemoryError("none is left")

    with pytest.raises(MemoryError):
        lead.run(0, fails)
    assert lead.failed
    for share in (0, 1):  # the first of them once more
        assert lead.run(share, lambda choose: choose(arguments, "sum")) == choice.near(arguments, "sum")


class TestArguments:
    """Errors before any work."""

    X = np.random.default_rng(0).standard_normal((20, 2))

    @pytest.mark.parametrize("devices", ["some", 0, [True], [0.5], np.array([0.0])])
    def test_of_another_type(self, devices: object) -> None:
        with pytest.raises(TypeError, match=r'devices must be "all", None or numbers of GPUs, each once; got'):
            cukde.kde(self.X, self.X, 1.0, devices=devices)

    @pytest.mark.parametrize("devices", [[], [0, 0], [-1]])
    def test_that_cannot_be(self, devices: object) -> None:
        with pytest.raises(ValueError, match=r'devices must be "all", None or numbers of GPUs, each once; got'):
            cukde.kde(self.X, self.X, 1.0, devices=devices)

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_all_of_a_cpu_is_that_cpu(self, name: str) -> None:
        pairs = [FUNCTIONS[name](self.X, self.X, 1.0, **options) for options in ({"devices": "all"}, {})]
        for got, want in zip(*(pair if isinstance(pair, tuple) else (pair,) for pair in pairs), strict=True):
            np.testing.assert_array_equal(got, want)
        with pytest.raises(ValueError, match=r'devices must be "all" or None for arrays on the CPU'):
            FUNCTIONS[name](self.X, self.X, 1.0, devices=[0, 1])


class _Cuda:
    """What tasks on devices ask of CuPy; device 9 is not there."""

    class Stream(contextlib.nullcontext[None]):
        """A stream."""

        def __init__(self, non_blocking: bool = True) -> None:
            super().__init__()

        def synchronize(self) -> None:
            """Do nothing."""

    @classmethod
    def get_current_stream(cls) -> Any:
        """Return a stream."""
        return cls.Stream()

    @staticmethod
    @contextlib.contextmanager
    def Device(number: int) -> Iterator[None]:
        """Make a device the current one."""
        if number == 9:
            raise RuntimeError("no such device")
        yield


class TestSpread:
    """Tasks on devices, some of which fail."""

    @pytest.fixture
    def spread(self, emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> Any:
        module = importlib.import_module("cukde.core.gpu.devices")
        monkeypatch.setattr(module.cp, "cuda", _Cuda, raising=False)
        return module.spread

    def test_results_are_in_the_order_of_the_tasks(self, spread: Any) -> None:
        assert spread([lambda i=i: i * i for i in range(20)], (0, 1, 2)) == [i * i for i in range(20)]
        assert spread([], (0, 1)) == []

    @pytest.mark.parametrize("error", [RuntimeError("cudaErrorECCUncorrectable"), MemoryError("out of memory")])
    def test_others_do_what_a_lost_device_had(self, spread: Any, error: Exception) -> None:
        caller = threading.get_ident()

        def task(i: int) -> int:
            if threading.get_ident() != caller:
                raise error
            return i

        with pytest.warns(
            cukde.DeviceWarning, match=f"GPU 1 failed, and the other devices computed its share: {error}"
        ):
            assert spread([lambda i=i: task(i) for i in range(6)], (0, 1)) == list(range(6))

    def test_what_a_device_had_done_is_done_again(self, spread: Any) -> None:
        caller, ran = threading.get_ident(), []
        begun = threading.Event()

        def task(i: int) -> tuple[int, bool]:
            ran.append(i)
            if threading.get_ident() == caller:
                begun.wait(5)  # the other device has done one, and failed at the next
                return i, True
            if len(ran) > 2:
                begun.set()
                raise RuntimeError("lost")
            return i, False

        with pytest.warns(cukde.DeviceWarning):
            results = spread([lambda i=i: task(i) for i in range(4)], (0, 1))
        assert results == [(i, True) for i in range(4)]

    def test_a_device_that_is_not_there(self, spread: Any) -> None:
        with pytest.warns(cukde.DeviceWarning, match="GPU 9 failed"):
            assert spread([lambda: 1, lambda: 2], (0, 9)) == [1, 2]

    def test_the_error_of_the_last_device_is_raised(self, spread: Any) -> None:
        def task() -> None:
            raise MemoryError("none is left")

        with pytest.raises(MemoryError, match="none is left"):
            spread([task, task, task], (0, 1))

    def test_other_errors_are_raised_at_once(self, spread: Any) -> None:
        ran = []

        def task() -> None:
            ran.append(1)
            raise ValueError("bad data")

        with pytest.raises(ValueError, match="bad data"):
            spread([task] * 50, (0, 1))
        assert len(ran) <= 2


@pytest.mark.gpu
class TestOnGpus:
    """On as many GPUs as there are."""

    def test_numbers_beyond_those_there_are(self) -> None:
        import cupy

        X = cupy.zeros((5, 2))
        with pytest.raises(ValueError, match=r"devices must be numbers of GPUs that are there, from 0 to \d+; got 99"):
            cukde.kde(X, X, 1.0, devices=[0, 99])

    def test_every_device_takes_a_share(self, of_any_size: None) -> None:
        """The result is on the device of the data; a large pass, and a device without memory for its share."""
        import cupy

        count = cupy.cuda.runtime.getDeviceCount()
        if count == 1:
            pytest.skip("there is one GPU")
        rng = np.random.default_rng(0)
        with cupy.cuda.Device(count - 1):
            X, Y = (cupy.asarray(rng.standard_normal((rows, 3))) for rows in (40_000, 10_000))
            want = cupy.asnumpy(cukde.sd_kde(X, Y, 0.4, log=True))
        for devices in ("all", [0, count - 1], [0]):
            got = cukde.sd_kde(X, Y, 0.4, log=True, devices=devices)
            assert got.device.id == count - 1
            np.testing.assert_allclose(cupy.asnumpy(got), want, rtol=1e-12)

        pool = cupy.get_default_memory_pool()
        with cupy.cuda.Device(0):
            pool.free_all_blocks()
            limit = pool.get_limit()
            pool.set_limit(size=2**20)
        try:
            with pytest.warns(cukde.DeviceWarning, match="GPU 0 failed"):
                got = cukde.sd_kde(X, Y, 0.4, log=True, devices="all")
        finally:
            with cupy.cuda.Device(0):
                pool.set_limit(size=limit)
        np.testing.assert_allclose(cupy.asnumpy(got), want, rtol=1e-12)


@pytest.mark.skipif(why_no_gpu() is None, reason="there is a GPU")
def test_nothing_of_a_gpu_is_loaded_for_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cukde.density.backends.shares", lambda _: pytest.fail("the GPU's passes were loaded"))
    X = np.random.default_rng(0).standard_normal((20, 2))
    assert cukde.kde(X, X, 1.0, devices="all").shape == (20,)
