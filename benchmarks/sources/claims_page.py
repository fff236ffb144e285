"""The tables of docs/sources.md: claims between its marks, made of the records.

python -m benchmarks.sources.claims_page
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.sources import claims_errors, claims_flash, claims_kernels
from benchmarks.sources.claim import Claim, table, there

PAGE = Path(__file__).parents[2] / "docs" / "sources.md"

TABLES: dict[str, Callable[[], list[Claim]]] = {
    "flash-sd-kde, 16 dimensions": claims_flash.sixteen_dimensions,
    "flash-sd-kde, one dimension": claims_flash.one_dimension,
    "flash-sd-kde, errors of estimates": claims_errors.sixteen_dimensions,
    "sd-kde": claims_errors.sd_kde,
    "kendall": claims_kernels.kendall,
    "piecewise": claims_kernels.piecewise,
    "convolution": claims_kernels.convolution,
}
"""What stands between marks of these names."""

LOSSES, OPEN = "losses", "open"

RUNS = (
    (
        "errors of Flash-SD-KDE's own densities",
        "an H200, two minutes",
        "benchmarks.sources.flash_errors --record FILE",
        claims_errors.OWN,
    ),
    (
        "its debiasing in float32",
        "an H200, two minutes",
        "pytest benchmarks/bench_tables.py -m gpu -k ordered_splitk --record FILE",
        claims_flash.SPLIT,
    ),
    (
        "times of Flash-SD-KDE and PyTorch",
        "an RTX A6000, which we do not have",
        "benchmarks.sources --section 1 2 3 --out DIR",
        None,
    ),
    ("PyKeOps", "a machine where it compiles; on ours it crashes", "benchmarks.sources --section 1 --out DIR", None),
    (
        "gpuKendall",
        "a TITAN Black, X or V, an RTX 2080 Ti or 4070, which we do not have",
        "benchmarks.sources --section 8 --out DIR",
        None,
    ),
    (
        "convolution",
        "a P100, which we do not have, and CuPy for CUDA 12",
        "benchmarks.conv1d.study_analysis --batch 8192 --channels 128 --length 48 --taps 48 "
        '--peaks "P100 PCIe" --record FILE',
        None,
    ),
    ("SD-KDE of MNIST", "the images and the trained network, which are not at hand", None, None),
)
"""What a run would decide, what it takes, the module that does it, and the record that closes it."""


def made() -> dict[str, str]:
    """What stands between each pair of marks."""
    lines = f"{claims_flash.losses()}\n{claims_kernels.other_losses()}"
    return {name: table(claims()) for name, claims in TABLES.items()} | {LOSSES: lines, OPEN: _open()}


def _open() -> str:
    lines = ["| what | it takes | command |", "|---|---|---|"]
    for what, takes, module, record in RUNS:
        if record is None or not there(record):
            lines.append(f"| {what} | {takes} | {f'`python -m {module}`' if module else ''} |")
    return "\n".join(lines)


def page_with(text: str, parts: dict[str, str]) -> str:
    """Return the page with other parts between its marks."""
    for name, part in parts.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n\n{part}\n\n{end}{rest.split(end)[1]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), made()), encoding="utf-8")
