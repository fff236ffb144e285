"""Costs of depthwise convolution: that they are those of the kernels that run, what they count, and measured times."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks.conv1d import study_cost
from cukde import perf
from tests.perf.processors import H200
from tests.private import Geometry, called, predicted, sums_kernel

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"

CPU = perf.Peaks(
    "a CPU",
    "cpu",
    {"memory": 1e10, "fma": 1e11, "float64": 5e10, "exponential": 1e9, "exponential_f64": 5e8, "scalar": 5e9},
    5e-5,
    2,
    2.5e9,
    32 * 2**20,
    (0, 0),
    "made up",
)
OPERATIONS = {
    "forward": "depthwise_conv1d",
    "input_grad": "depthwise_conv1d_input_grad",
    "weight_grad": "depthwise_conv1d_weight_grad",
}
SIZES = {"batch": 64, "channels": 256, "length": 2048, "taps": 31}


def sizes(
    batch: int, channels: int, length: int, taps: int, stride: int = 1, dilation: int = 1, last: bool = False
) -> Geometry:
    return Geometry(batch, channels, length, taps, stride, dilation, (taps - 1) * dilation, 0, last, False)


# ------------------------------------------------------------------------- which kernel: the library's own rules


GRID = [
    sizes(*given)
    for given in itertools.product(
        (1, 5, 64), (1, 3, 64), (7, 64, 256, 600, 2048, 4099), (1, 4, 7, 31, 100), (1, 2), (1, 3), (False, True)
    )
]


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_kernel_of_direct_sums(bits: int) -> None:
    direct = pytest.importorskip("cukde.conv1d.gpu.direct", reason="needs CuPy: install the test extra")
    for g in GRID:
        launch = direct.launch(g, np.dtype(f"f{bits // 8}"), True, None, None)
        assert "conv1d/" + sums_kernel("forward", g, bits, True) == launch.kernel.stem, g


# -------------------------------------------------------------------------------------------------- what is counted


@pytest.mark.parametrize("path", OPERATIONS)
@pytest.mark.parametrize("on", [H200, CPU], ids=["gpu", "cpu"])
@pytest.mark.parametrize(("dtype", "size"), [("float16", 2), ("float32", 4), ("float64", 8)])
def test_the_source_counts(path: str, on: perf.Peaks, dtype: str, size: int) -> None:
    """Two operations a product, and x, y and w once."""
    cost = perf.cost(OPERATIONS[path], on, **SIZES, dtype=dtype)
    assert cost.textbook_flops == 2 * 64 * 256 * 2048 * 31
    assert cost.textbook_bytes == size * (2 * 64 * 256 * 2048 + 256 * 31)
    assert cost.textbook_bytes <= cost.bytes <= 1.1 * cost.textbook_bytes
    assert cost.flops + cost.tensor_flops >= cost.textbook_flops


def test_what_tensor_cores_multiply() -> None:
    """512 taps and alignment in 17 blocks of 32, three products of two float16 terms each."""
    of = {"batch": 16, "channels": 128, "length": 4096, "taps": 512}
    outputs = 16 * 128 * 4096
    assert perf.cost("depthwise_conv1d", H200, **of).tensor_flops == 2 * 32 * 17 * 3 * outputs
    assert perf.cost("depthwise_conv1d", H200, **of, dtype="float16").tensor_flops == 2 * 32 * 17 * outputs
    before = perf.Peaks(**{**H200.__dict__, "capability": (7, 5)})
    cost = perf.cost("depthwise_conv1d", before, **of)
    assert (cost.tensor_flops, cost.flops) == (0, 2 * 512 * outputs)


def test_few_taps_take_what_their_kernels_say() -> None:
    outputs = 64 * 256 * 2048
    for path in ("depthwise_conv1d", "depthwise_conv1d_input_grad"):
        part = perf.cost(path, H200, **{**SIZES, "taps": 4}, dtype="float16").parts[0]
        assert (part.name, part.work["instruction"]) == ("few taps", 11 * outputs)
    sums, finish = perf.cost("depthwise_conv1d_weight_grad", H200, **{**SIZES, "taps": 4}, dtype="float16").parts
    assert sums.work["instruction"] - sums.reduction == 11 * outputs
    assert 0 < sums.reduction < 0.1 * sums.work["instruction"]
    assert finish.reduction == finish.work["instruction"] > 0


def test_windows_of_neighbouring_channels_are_read_again() -> None:
    """4 windows of 8 outputs lie beside each other in a block, and meet 30 inputs more."""
    part = perf.cost("depthwise_conv1d", H200, **SIZES, layout="BLC").parts[0]
    assert part.requested - part.bytes == pytest.approx(4 * 64 * 256 * 2048 * 30 / 32)
    assert part.footprint == 0


def test_other_engines() -> None:
    def names(path: str, **more: Any) -> list[str]:
        return [part.name for part in perf.cost(OPERATIONS[path], H200, **{**SIZES, **more}).parts]

    assert names("forward", length=64, activation="gelu") == ["short rows"]
    assert names("forward", stride=2) == names("input_grad", stride=2) == names("forward", dilation=3) == ["any stride"]
    fourier = {"batch": 2, "channels": 64, "length": 65536, "taps": 16384}
    assert names("forward", **fourier, activation="silu") == ["to spectra", "products", "to rows", "activation"]
    assert names("weight_grad", **fourier)[-1] == "to weights"
    assert names("forward", batch=0) == []
    cpu = perf.cost("depthwise_conv1d", CPU, **SIZES, layout="BLC", dtype="float16", activation="gelu")
    assert [part.name for part in cpu.parts] == ["layout", "conversion", "sums", "chunks", "exponentials", "activation"]
    assert cpu.launches == 1
    long = perf.cost("depthwise_conv1d", CPU, batch=4, channels=32, length=16384, taps=4096)
    assert [part.name for part in long.parts] == ["transforms", "chunks"]
    assert long.flops < long.textbook_flops / 10


def test_activations_take_an_exponential_each() -> None:
    bare = perf.cost("depthwise_conv1d", H200, **SIZES)
    silu = perf.cost("depthwise_conv1d", H200, **SIZES, activation="silu")
    assert (bare.exponentials, silu.exponentials) == (0, 64 * 256 * 2048)
    assert silu.work("instruction") - bare.work("instruction") == 10 * 64 * 256 * 2048


def test_derivatives_of_activations() -> None:
    """Passes over memory, a kernel each on a GPU: numbers of 4 bytes, a comparison's of one."""
    silu, gelu = (perf.cost("activation_grad", H200, n=1000, name=name) for name in ("silu", "gelu"))
    assert (silu.bytes, silu.launches, silu.exponentials) == (1000 * (25 * 4 + 2), 11, 1000)
    assert (gelu.bytes, gelu.launches, gelu.exponentials) == (1000 * (52 * 4 + 2), 23, 3000)
    narrow = perf.cost("activation_grad", H200, n=1000, name="silu", dtype="float16")
    assert (narrow.bytes, narrow.launches) == (1000 * 112, 13)  # read and kept in 2 bytes, computed in 4
    assert perf.cost("activation_grad", CPU, n=1000, name="silu").bytes == silu.bytes
    assert perf.cost("activation_grad", H200, n=1000, name=None).bytes == 4000
    tanh, log = (perf.cost("activation_grad", H200, n=1000, name=name) for name in ("tanh", "log"))
    assert (tanh.bytes, tanh.launches, tanh.exponentials) == (1000 * (2 * 8 + 3 * 8 + 3 * 12), 8, 1000)
    assert (log.launches, log.exponentials) == (4, 0)


def test_activations_after_the_sums_are_further_passes() -> None:
    bare = perf.cost("depthwise_conv1d", H200, **SIZES)
    outputs = SIZES["batch"] * SIZES["channels"] * SIZES["length"]
    for activation, named in (("tanh", True), (cukde.functions.tanh, True), (np.tanh, False)):
        cost = perf.cost("depthwise_conv1d", H200, **SIZES, activation=activation)
        assert cost.parts[: len(bare.parts)] == bare.parts
        assert all(part.name.startswith("activation") for part in cost.parts[len(bare.parts) :])
        function = perf.cost("functions.tanh", H200, n=outputs, dtype="float32") if named else None
        assert cost.bytes - bare.bytes == (function.bytes if function else 8 * outputs)


# ------------------------------------------------------------------------------------------------ calls and errors


def test_sizes_of_a_call() -> None:
    x, w = np.zeros((2, 3, 50), np.float32), np.zeros((3, 5), np.float16)
    operation, found = called(cukde.depthwise_conv1d, (x, w), {"activation": "silu", "bias": np.zeros(3), "flip": True})
    assert operation.name == "depthwise_conv1d"
    wanted = {"batch": 2, "channels": 3, "length": 50, "taps": 5, "dtype": "float32", "layout": "BCL"}
    assert found == {**wanted, "activation": "silu"}
    _, found = called(cukde.depthwise_conv1d, (x.transpose(0, 2, 1).tolist(), w), {"layout": "BLC", "padding": "same"})
    assert found == {**wanted, "dtype": "float64", "layout": "BLC", "padding": "same"}
    _, found = called(cukde.depthwise_conv1d_input_grad, (x[..., :25], w), {"input_length": 50, "stride": 2})
    assert found == {**wanted, "stride": 2}
    _, found = called(cukde.depthwise_conv1d_input_grad, (x[..., :46], w), {"padding": "valid"})
    assert found == {**wanted, "padding": "valid"}
    _, found = called(cukde.depthwise_conv1d_weight_grad, (x.astype(int), x, 5), {"bias": True})
    assert found == {**wanted, "dtype": "float64", "bias": True}
    assert called(cukde.activation_grad, ("silu", x), {})[1] == {"n": 300, "name": "silu", "dtype": "float32"}
    for call, of in (
        (cukde.depthwise_conv1d, (x, w)),
        (cukde.depthwise_conv1d_input_grad, (x, w)),
        (cukde.depthwise_conv1d_weight_grad, (x, x, 5)),
        (cukde.activation_grad, ("gelu", x)),
    ):
        operation, found = called(call, of, {})
        assert perf.predict(operation.name, H200, **found).seconds > 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"taps": 4000, "padding": "valid"}, "4000 taps of w must fit"),
        ({"taps": 0}, r"^kernel_size\b.*1"),
        ({"stride": 0}, r"^stride\b.*1"),
        ({"activation": "relu"}, r"^activation\b"),
        ({"layout": "LBC"}, r"^layout\b"),
        ({"batch": -1}, "batch must not be negative"),
    ],
)
def test_errors(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        perf.cost("depthwise_conv1d", H200, **{**SIZES, **given})


def test_costs_need_no_cupy() -> None:
    program = (
        "import sys; sys.modules['cupy'] = None\n"
        "from cukde import perf; import cukde\n"
        f"print(perf.cost('depthwise_conv1d', **{SIZES}).textbook_flops, 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2080374784.0", "False"]


# -------------------------------------------------------------------------------------------------------- the study


def study(path: str, variant: str, on: perf.Peaks = H200, **more: int) -> perf.Cost:
    of = {**SIZES, **more}
    return study_cost.FORMULAS[path](on, variant=variant, **of).cost(path, of)


def test_naive_threads_wait_for_one_bank() -> None:
    """32 sequences of 2,048 numbers meet in one bank; of 2,047, in 32. Taps 31 apart do not meet, those 4 apart do.

    Where a sequence begins, fewer taps meet an input: 465 fewer of 31 and 6 of 4, in 2,048 outputs.
    """
    warps = 64 * 256 * 2048 / 32
    assert study("forward", "naive").work("shared") == 128 * warps * ((32 - 465 / 2048) * 32 + 31)
    assert study("forward", "naive", taps=4).work("shared") == 128 * warps * ((5 - 6 / 2048) * 32 + 4 * 4)
    assert study("forward", "naive", length=2047).work("shared") == pytest.approx(
        128 * 64 * 8 * (2047 * (32 + 31) - 465)
    )


def test_study_is_declared() -> None:
    launchers = pytest.importorskip("benchmarks.conv1d.study", reason="needs CuPy: install the test extra")
    x, w = np.zeros((2, 3, 50), np.float32), np.zeros((3, 5), np.float32)
    wanted = {"variant": "naive", "batch": 2, "channels": 3, "length": 50, "taps": 5}
    for path in study_cost.PATHS:
        arguments = ("naive", x, x, 5) if path == "weight_grad" else ("naive", x, w)
        operation, found = called(getattr(launchers, path), arguments, {})
        assert (operation.name, found) == (f"study.conv1d_{path}", wanted)
        assert perf.predict(operation.name, H200, **found).seconds > 0


# -------------------------------------------------------------------------------------------------- measured times


def ratios() -> dict[str, float]:
    """Modelled over measured time of the records' rows above 50 us, the library's and the study's."""
    found = {}
    library, study_rows = (
        json.loads((RESULTS / f"{name}.json").read_text())["rows"] for name in ("conv1d_h200", "sources_h200/section-8")
    )
    for row in library + [row for row in study_rows if row["op"].startswith("study, ")]:
        shape, path = row["shape"], row["op"].removeprefix("study, ")
        if path not in OPERATIONS or "median_ms" not in row:
            continue
        of = dict(zip(("batch", "channels", "length", "taps"), (shape[name] for name in "BCLK"), strict=True))
        if path == row["op"]:
            time = perf.predict(OPERATIONS[path], H200, **of, dtype=row["dtype"], layout=shape["layout"])
            timed = {" ".join(map(str, (path, *shape.values(), row["dtype"]))): (time, row["median_ms"])}
        else:
            both = {row["variant"]: row["median_ms"], row["peer"]["name"]: row["peer"]["median_ms"]}
            timed = {
                f"{path} {of['taps']} {variant}": (predicted(study(path, variant, **of), H200), ms)
                for variant, ms in both.items()
                if variant in study_cost.VARIANTS
            }
        found |= {name: 1e3 * time.seconds / ms for name, (time, ms) in timed.items() if ms > 0.05}
    return found


def test_modelled_times_are_those_of_the_record() -> None:
    """Kernels that came later, and their sizes, are not among those that the model was compared with."""
    found = ratios()
    later = {name: of for name, of in found.items() if "naive-by-row" in name or name.split()[1] == "48"}
    assert (len(found) - len(later), len(later)) == (23 + 24, 21)
    for of, each in ((found.keys() - later.keys(), 1.3), (later.keys(), 1.45)):
        errors = {name: abs(math.log(found[name])) for name in of}
        assert math.exp(np.mean(list(errors.values()))) < (1.15 if each < 1.4 else 1.25), each
        assert max(errors.values()) < math.log(each), sorted(found.items(), key=lambda item: item[1])


# --------------------------------------------------------------------------- what the model's core has for it


def one(**fields: Any) -> perf.Prediction:
    return predicted(perf.Counted((perf.Part("a", **fields),), "by hand").cost("a", {}), H200, overlap=1)


def test_memory_and_its_cache_are_one_stream() -> None:
    both = one(bytes=4.2e9, requested=1.1e10, footprint=0)
    assert both.parts[0].units == pytest.approx({"memory": 1e-3, "cache": 2e-3})
    assert both.seconds == pytest.approx(2e-3)
    assert one(bytes=4.2e9, requested=1.1e10).parts[0].units["memory"] == pytest.approx(1.1e10 / 4.2e12)


def test_products_are_among_instructions() -> None:
    assert one(work={"fma": 6.2e10, "instruction": 6.2e10}).seconds == pytest.approx(2e-3)


def test_efficiency_is_that_of_all_but_memory() -> None:
    assert one(work={"fma": 6.2e10}, efficiency=0.5).seconds == pytest.approx(2e-3)
    assert one(bytes=4.2e9, efficiency=0.5).seconds == pytest.approx(1e-3)


def test_rate_of_shared_memory() -> None:
    assert H200.rate("shared") == 128 * 132 * 1.755e9
