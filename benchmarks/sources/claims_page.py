"""The tables of docs/sources.md: claims between its marks, made of the records.

python -m benchmarks.sources.claims_page
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.sources import claims_errors, claims_flash, claims_kernels
from benchmarks.sources.claim import Claim, table

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

LOSSES = "losses"


def made() -> dict[str, str]:
    """What stands between each pair of marks."""
    lines = f"{claims_flash.losses()}\n{claims_kernels.other_losses()}"
    return {name: table(claims()) for name, claims in TABLES.items()} | {LOSSES: lines}


def page_with(text: str, parts: dict[str, str]) -> str:
    """Return the page with other parts between its marks."""
    for name, part in parts.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n\n{part}\n\n{end}{rest.split(end)[1]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), made()), encoding="utf-8")
