"""Tables of text, as reports print them."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def lines(rows: Sequence[Sequence[str]], numbers: Collection[int]) -> list[str]:
    """Return a line for each row, columns of ``numbers`` aligned on the right; columns without text are left out."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            f"{cell:>{width}}" if index in numbers else f"{cell:<{width}}"
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
            if width
        ).rstrip()
        for row in rows
    ]
