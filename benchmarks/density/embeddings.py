"""Embeddings of 384 to 4,096 columns, made of data that installed packages bring: rows, and rows of another kind.

Texts are the docstrings of four packages, counted by hashed sequences of three to five characters and weighted by
inverse document frequency. Pictures are seen through random filters: a convolution, what is positive of it, and means
over the four quarters of the picture. No network is trained and nothing is downloaded.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DIMENSIONS = (384, 1024, 4096)

PACKAGES = ("numpy", "scipy", "sklearn", "pandas")
SHORTEST = 300  # characters of a docstring that is taken
_HASHED = 12_288  # columns, a multiple of all dimensions: sums of them are the columns of fewer

PATCH = 16  # pixels along a side
_FILTER = 5
_BLOCK = 200  # pictures that are convolved together
_LEAST_DEVIATION = 1e-6  # of a column; filters that see nothing positive in the fitted rows leave out theirs


class Draw(NamedTuple):
    """Rows of an embedding, float32, of which those of ``fitted`` and ``ordinary`` are of one kind."""

    fitted: np.ndarray  # (n, d)
    ordinary: np.ndarray  # (m, d), not fitted
    anomalies: np.ndarray  # (m, d), of another kind

    @property
    def queries(self) -> np.ndarray:
        """Ordinary rows and anomalies, (2 m, d)."""
        return np.concatenate([self.ordinary, self.anomalies])

    @property
    def anomaly(self) -> np.ndarray:
        """Which queries are anomalies, (2 m,) bool."""
        return np.repeat([False, True], [len(self.ordinary), len(self.anomalies)])

    def varying(self) -> Draw:
        """The columns that vary among the fitted rows: no rule has a bandwidth for the others."""
        kept = self.fitted.std(axis=0) > _LEAST_DEVIATION
        return Draw(*(np.ascontiguousarray(rows[:, kept]) for rows in self))


class Set(NamedTuple):
    """A kind of data, of which draws are made."""

    name: str
    draw: Callable[[int, int], Draw]  # of the number of columns and a seed
    what: str


def docstrings(package: str) -> list[str]:
    """Different docstrings of an installed package in the order of its files; nothing of it is imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"expected the package {package}, whose docstrings are data here; install it")
    found: dict[str, None] = {}
    root = Path(spec.submodule_search_locations[0])
    for path in sorted(root.rglob("*.py")):
        if "tests" in path.relative_to(root).parts:
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except SyntaxError:  # a template
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node) or ""
                if len(text) >= SHORTEST:
                    found[text] = None
    return list(found)


@functools.cache
def _counts() -> tuple[Any, np.ndarray]:
    """Counts of hashed sequences, sparse, and the number of the package of each row."""
    from scipy import sparse
    from sklearn.feature_extraction.text import HashingVectorizer

    texts = [docstrings(package) for package in PACKAGES]
    hashed = HashingVectorizer(
        analyzer="char_wb", ngram_range=(3, 5), n_features=_HASHED, norm=None, alternate_sign=False
    )
    counts = sparse.vstack([hashed.transform(of_package) for of_package in texts]).tocsr()
    return counts, np.repeat(np.arange(len(texts)), [len(of_package) for of_package in texts])


@functools.lru_cache(maxsize=1)
def _folded(d: int) -> Any:
    """Counts in d columns: ``HashingVectorizer`` takes hashes modulo the number of columns."""
    from scipy import sparse

    ones = np.ones(_HASHED)
    return _counts()[0] @ sparse.csr_array((ones, (np.arange(_HASHED), np.arange(_HASHED) % d)), shape=(_HASHED, d))


def texts(d: int, seed: int) -> Draw:
    """Docstrings of one package, and of the others: 700 are fitted."""
    from sklearn.feature_extraction.text import TfidfTransformer

    counts, package = _folded(d), _counts()[1]
    parts = _parts(package == seed % len(PACKAGES), 700, 200, seed)
    weighted = TfidfTransformer().fit(counts[parts[0]])
    return Draw(*(weighted.transform(counts[rows]).toarray().astype(np.float32) for rows in parts))


@functools.lru_cache(maxsize=2)
def _digits(d: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    pictures, digit = load_digits(return_X_y=True)
    return filtered(pictures.reshape(-1, 8, 8, 1) / 16, d), digit


@functools.lru_cache(maxsize=1)
def _patches(d: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_sample_images

    patches = [in_squares(picture / 255, PATCH) for picture in load_sample_images().images]
    photograph = np.repeat(np.arange(len(patches)), [len(of_picture) for of_picture in patches])
    return filtered(np.concatenate(patches), d), photograph


def in_squares(picture: np.ndarray, side: int) -> np.ndarray:
    """Squares beside each other of a picture (height, width, colours): (squares, side, side, colours)."""
    height, width, colours = picture.shape
    rows, columns = height // side, width // side
    cut = picture[: rows * side, : columns * side].reshape(rows, side, columns, side, colours)
    return cut.swapaxes(1, 2).reshape(-1, side, side, colours)


def filtered(pictures: np.ndarray, d: int) -> np.ndarray:
    """Embeddings (n, d) of pictures (n, height, width, colours) by d / 4 random filters."""
    windows = np.lib.stride_tricks.sliding_window_view(pictures, (_FILTER, _FILTER), axis=(1, 2))
    n, height, width = windows.shape[:3]
    size = windows[0, 0, 0].size
    filters = np.random.default_rng(0).standard_normal((size, d // 4)).astype(np.float32) / np.sqrt(size)
    out = np.empty((n, 4, d // 4), np.float32)
    halves = [(slice(None, length // 2), slice(length // 2, None)) for length in (height, width)]
    for start in range(0, n, _BLOCK):
        block = windows[start : start + _BLOCK].astype(np.float32).reshape(-1, height, width, size)
        positive = np.maximum(block @ filters, 0)
        for number, (rows, columns) in enumerate((r, c) for r in halves[0] for c in halves[1]):
            out[start : start + _BLOCK, number] = positive[:, rows, columns].mean(axis=(1, 2))
    return out.reshape(n, d)


def one_digit(d: int, seed: int) -> Draw:
    """Pictures of one digit, and of the others: three quarters of about 180 are fitted."""
    rows, digit = _digits(d)
    chosen = digit == seed % 10
    fitted = round(0.75 * chosen.sum())
    return _of(rows, _parts(chosen, fitted, chosen.sum() - fitted, seed))


def nine_digits(d: int, seed: int) -> Draw:
    """Pictures of nine digits, and of the one that is left out: 1,000 are fitted."""
    rows, digit = _digits(d)
    return _of(rows, _parts(digit != seed % 10, 1000, 170, seed))


def photographs(d: int, seed: int) -> Draw:
    """Squares of one photograph, and of another: 740 of 1,040 are fitted."""
    rows, photograph = _patches(d)
    return _of(rows, _parts(photograph == seed % 2, 740, 200, seed))


def _parts(chosen: np.ndarray, fitted: int, m: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of rows: some of the chosen to fit, others of them, and as many that are not chosen."""
    rng = np.random.default_rng(seed)
    own, other = rng.permutation(np.flatnonzero(chosen)), rng.permutation(np.flatnonzero(~chosen))
    return own[:fitted], own[fitted : fitted + m], other[:m]


def _of(rows: np.ndarray, parts: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Draw:
    return Draw(*(rows[numbers] for numbers in parts)).varying()


SETS = (
    Set("docstrings", texts, "texts of one of four packages, among those of the others"),
    Set("one digit", one_digit, "pictures of one digit, among those of the others"),
    Set("nine digits", nine_digits, "pictures of nine digits, among those of the tenth"),
    Set("photographs", photographs, "squares of one photograph, among those of another"),
)
