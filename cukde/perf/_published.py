"""Peaks that makers of GPUs publish, and the row that a device's name means."""

from __future__ import annotations

import re
from typing import NamedTuple

from cukde.core.cost.cost import Unit
from cukde.core.cost.peaks import Peaks

LAUNCH = 5e-6
"""Seconds of a launch by the report; makers publish none."""


class Lanes(NamedTuple):
    """Results in a clock cycle on a multiprocessor."""

    fma: int
    float64: int
    exponential: int


# By compute capability: "Throughput of native arithmetic instructions" in NVIDIA's CUDA C++ Programming Guide,
# https://docs.nvidia.com/cuda/cuda-c-programming-guide/#arithmetic-instructions
LANES = {
    (3, 5): Lanes(192, 64, 32),
    (5, 2): Lanes(128, 4, 32),
    (6, 0): Lanes(64, 32, 16),
    (7, 0): Lanes(64, 32, 16),
    (7, 5): Lanes(64, 2, 16),
    (8, 0): Lanes(64, 32, 16),
    (8, 6): Lanes(128, 2, 16),
    (8, 9): Lanes(128, 2, 16),
    (9, 0): Lanes(128, 64, 16),
}


class _Gpu(NamedTuple):
    """A row: figures as published, in the publisher's units."""

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    mhz: float  # clock of the float32 figure: the boost clock, but the base clock for the report's older two GPUs
    fp32: float  # TFLOP/s
    memory: float  # GB/s
    cache: float  # MiB, of the L2
    gigabytes: tuple[int, ...]  # of memory, on the boards that share these figures
    board: str  # regular expression for the form of the board in names of such a device
    tensor: dict[Unit, float]  # TFLOP/s or TOP/s of dense matrices; float16 has float32 sums
    source: str


_REPORT = "CUDA gpuKendall Kernel Execution Time Prediction Report, section 4"
_PAPER = "Flash-SD-KDE, section 2"
_WHITEPAPERS = "https://images.nvidia.com/"
_PASCAL = _WHITEPAPERS + "content/pdf/tesla/whitepaper/pascal-architecture-whitepaper.pdf"
_VOLTA = _WHITEPAPERS + "content/volta-architecture/pdf/volta-architecture-whitepaper.pdf"
_TURING = (
    _WHITEPAPERS + "aem-dam/en-zz/Solutions/design-visualization/technologies/turing-architecture/"
    "NVIDIA-Turing-Architecture-Whitepaper.pdf"
)
_AMPERE = _WHITEPAPERS + "aem-dam/en-zz/Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf"
_GA102 = "https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf"
_ADA = _WHITEPAPERS + "aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf"

# GeForce boards multiply float16 with float32 sums at half the rate of others with the same chip.
_OF_A100: dict[Unit, float] = {
    "tensor_f16": 312,
    "tensor_tf32": 156,
    "tensor_f64": 19.5,
    "tensor_s8": 624,
    "tensor_b1": 4992,
}
_OF_HOPPER: dict[Unit, float] = {"tensor_f16": 989.4, "tensor_tf32": 494.7, "tensor_f64": 66.9, "tensor_s8": 1978.9}

_GPUS = (
    _Gpu("TITAN Black", (3, 5), 15, 889, 5.12, 336, 1.5, (6,), "", {}, _REPORT),
    _Gpu("TITAN X", (5, 2), 24, 1000, 6.14, 336.5, 3, (12,), "", {}, _REPORT),
    _Gpu(
        *("TITAN V", (7, 0), 80, 1455, 14.9, 652.8, 4.5, (12,), ""),
        {"tensor_f16": 110},
        _REPORT + "; https://www.nvidia.com/en-us/titan/titan-v/",
    ),
    _Gpu(
        *("RTX 2080 Ti", (7, 5), 68, 1545, 13.45, 616, 5.5, (11,), ""),
        {"tensor_f16": 53.8, "tensor_s8": 215.2},
        f"{_REPORT}; {_TURING}",
    ),
    # Tensor cores: 512, 256 and 2048 operations in a cycle on a multiprocessor, as of the RTX 4090.
    _Gpu(
        *("RTX 4070", (8, 9), 46, 2475, 29, 504, 36, (12,), ""),
        {"tensor_f16": 58.3, "tensor_tf32": 29.1, "tensor_s8": 233.2},
        f"{_REPORT}; {_ADA}",
    ),
    _Gpu(
        *("RTX A6000", (8, 6), 84, 1800, 40, 770, 6, (48,), ""),
        {"tensor_f16": 155, "tensor_tf32": 77.4, "tensor_s8": 309.7},
        f"{_PAPER}; {_GA102}",
    ),
    _Gpu("P100", (6, 0), 56, 1480, 10.6, 732, 4, (16,), "sxm2", {}, _PASCAL),
    _Gpu(
        *("P100 PCIe", (6, 0), 56, 1303, 9.3, 732, 4, (16,), "", {}),
        _WHITEPAPERS + "content/tesla/pdf/nvidia-tesla-p100-PCIe-datasheet.pdf",
    ),
    _Gpu("V100", (7, 0), 80, 1530, 15.7, 900, 6, (16, 32), "sxm2", {"tensor_f16": 125}, _VOLTA),
    _Gpu("A100", (8, 0), 108, 1410, 19.5, 2039, 40, (80,), "sxm4?", _OF_A100, _AMPERE),
    _Gpu("A100 40GB", (8, 0), 108, 1410, 19.5, 1555, 40, (40,), "sxm4?|pcie", _OF_A100, _AMPERE),
    # Tensor cores at 1,830 MHz, except in float64.
    _Gpu(
        *("H100", (9, 0), 132, 1980, 66.9, 3350, 50, (80,), "sxm5?", _OF_HOPPER),
        "https://resources.nvidia.com/en-us-tensor-core/gtc22-whitepaper-hopper",
    ),
    _Gpu(
        *("H200", (9, 0), 132, 1980, 66.9, 4800, 50, (141,), "sxm5?", _OF_HOPPER),
        "https://www.nvidia.com/en-us/data-center/h200/",
    ),
    _Gpu(
        *("L40S", (8, 9), 142, 2520, 91.6, 864, 96, (48,), ""),
        {"tensor_f16": 362.05, "tensor_tf32": 183, "tensor_s8": 733},
        "https://www.nvidia.com/en-us/data-center/l40s/",
    ),
    _Gpu(
        *("RTX 4090", (8, 9), 128, 2520, 82.6, 1008, 72, (24,), ""),
        {"tensor_f16": 165.2, "tensor_tf32": 82.6, "tensor_s8": 660.6},
        _ADA,
    ),
)


def _peaks(gpu: _Gpu) -> Peaks:
    lanes = LANES[gpu.capability]
    clock, fma = 1e6 * gpu.mhz, 1e12 * gpu.fp32
    rates: dict[Unit, float] = {
        "memory": 1e9 * gpu.memory,
        "fma": fma,
        "float64": fma * lanes.float64 / lanes.fma,
        "exponential": lanes.exponential * gpu.multiprocessors * clock,
    }
    rates |= {unit: 1e12 * rate for unit, rate in gpu.tensor.items()}
    return Peaks(
        *(gpu.name, "gpu", rates, LAUNCH, gpu.multiprocessors, clock, 2**20 * gpu.cache, gpu.capability, gpu.source)
    )


TABLE = {gpu.name: _peaks(gpu) for gpu in _GPUS}

# Words of a name beside the model: the maker and the brand before it; the form, the memory and "GPU" after it.
_BRANDS = r"(nvidia)?(geforce|tesla|quadro)?(gtx|rtx)?"
_MEMORY = r"((?P<gigabytes>\d+)gb)?(hbm\d\w?|gddr\d\w?)?(gpu)?"


def find(name: str) -> Peaks | None:
    """Peaks of the GPU that a name means; None if there is no such row.

    Case, spaces, hyphens, the maker and the brand do not count. The board's form and memory do not count where all such
    boards share the figures of the row. Any other word makes it another GPU.
    """
    text = re.sub(r"[^a-z0-9]", "", name.lower())
    for gpu in _GPUS:
        model = re.sub(rf"^{_BRANDS}|\d+gb$|[^a-z0-9]", "", gpu.name.lower())
        match = re.fullmatch(rf"{_BRANDS}{model}({gpu.board})?{_MEMORY}", text)
        if match is None:
            continue
        size = match["gigabytes"]
        # A name without a size does not mean a row that has one in its own name.
        if not gpu.name.endswith("GB") if size is None else int(size) in gpu.gigabytes:
            return TABLE[gpu.name]
    return None
