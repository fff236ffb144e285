"""Time of passes by differences beyond 64 dimensions: by it few pairs choose them over the tensor cores."""

from __future__ import annotations

# Picoseconds on an H200 for a difference and its square, or for a term of a moment: those of 128 dimensions.
_TERM, _TERM_DOUBLE = 0.156, 0.208
_COLUMNS = 64  # of moments or values that a block of threads has, which takes its distances anew

# Pairs of a tile, and tiles under way at a time: fewer take as long.
_TILE, _TILES = 64, 264

# What the tensor cores take: picoseconds for a pair and a dimension, and milliseconds beside, for their operands and
# their launches. Moments and values have two passes, and a library's products.
_WIDE = 0.017
_WIDE_MS, _WIDE_STAGED_MS = 0.25, 0.5


def rate(d: int, columns: int, *, double: bool = False) -> float:
    """Picoseconds a pair, with so many columns of moments or values beside the sum."""
    terms = -(-columns // _COLUMNS) * (d + _COLUMNS) if columns else d
    return terms * (_TERM_DOUBLE if double else _TERM)


def serve(n: int, m: int, d: int, columns: int) -> bool:
    """Whether differences in float32 take few pairs in less time than the tensor cores do."""
    blocks = -(-columns // _COLUMNS) if columns else 1
    tiles = -(-n // _TILE) * -(-m // _TILE) + _TILES / blocks
    wide = (_WIDE_STAGED_MS if columns else _WIDE_MS) + 1e-9 * n * m * d * _WIDE
    return 1e-9 * tiles * _TILE**2 * rate(d, columns) < wide
