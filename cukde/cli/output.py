"""Results are written completely or not at all, and never over an input."""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from cukde.cli import parquet
from cukde.cli.columns import Table
from cukde.cli.errors import CommandError, file_errors, note
from cukde.core import extras

_LINES_AT_ONCE = 256
_SUFFIXES = (".npy", ".csv", ".tsv", ".txt", parquet.SUFFIX)


def check(path: Path, inputs: list[Path], suffixes: Sequence[str] = _SUFFIXES) -> None:
    """Refuse an output that has no known format, is an input, or cannot be written."""
    if path.suffix.lower() not in suffixes:
        raise CommandError(f"--out must end in one of {', '.join(suffixes)}; got {path}")
    if path.suffix.lower() == parquet.SUFFIX:
        parquet.require()
    placeable("--out", path)
    if path.exists() and any(other.exists() and path.samefile(other) for other in inputs):
        raise CommandError(f"--out must not be an input file; got {path}")


def placeable(option: str, path: Path) -> None:
    """Refuse a file that cannot be written at its place."""
    if path.is_dir() or not path.parent.is_dir():
        raise CommandError(f"{option} must be a file in an existing folder; got {path}")
    if not os.access(path.parent, os.W_OK):
        raise CommandError(f"{option} must be in a folder that you may write to; got {path}")


def add_picture_option(parser: Any, name: str) -> None:
    """Add ``--out`` for a picture, by default ``name`` in the working folder."""
    text = f"a folder for {name}, or a .png file; default: the working folder"
    parser.add_argument("--out", metavar="DIR_OR_FILE", type=Path, default=Path(), help=text)


def picture_path(out: Path, name: str) -> Path | None:
    """Return the PNG to write: ``out``, or ``name`` in the folder ``out``, which is made; None without Matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        note(f"no picture without Matplotlib: {extras.install('plot')}")
        return None
    if out.suffix.lower() != ".png" and out.suffix and not out.is_dir():
        raise CommandError(f"--out must be a folder or a .png file; got {out}")
    path = out if out.suffix.lower() == ".png" and not out.is_dir() else out / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"--out: cannot make the folder {path.parent}: {error.strerror}") from None
    placeable("--out", path)
    return path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a new file beside ``path`` that replaces it when the block succeeds.

    If the block fails or is interrupted, ``path`` stays unchanged.
    """
    target = path.resolve()  # a symbolic link stays a link
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with file_errors("write", path):
            part.touch(exist_ok=False)
            if target.exists():
                shutil.copymode(target, part)
            yield part
            part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure of Matplotlib as a PNG."""
    with replacing(path) as part, part.open("wb") as file:
        figure.savefig(file, format="png", dpi=130)


def save(densities: np.ndarray, path: Path, table: Table, name: str) -> None:
    """Write densities in the format of the suffix; tables have the query's columns and one more."""
    suffix = path.suffix.lower()
    names = table.names or [f"x{index}" for index in range(table.width)]
    with replacing(path) as part:
        if suffix == ".npy":
            with part.open("wb") as binary:
                np.save(binary, densities)
            return
        if suffix == parquet.SUFFIX:
            parquet.write(part, table, names, densities, name)
            return
        with part.open("w", newline="", encoding="utf-8") as file:
            if suffix == ".txt":
                _write(densities, file)
                return
            writer = csv.writer(file, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
            writer.writerow([*names, name])
            writer.writerows([*cells, number] for cells, number in zip(table.cells(), _digits(densities), strict=True))


def show(densities: np.ndarray) -> None:
    """Print one density a line."""
    _write(densities, sys.stdout)


def _write(densities: np.ndarray, file: TextIO) -> None:
    """Write one number a line, as many at once as a buffer takes."""
    for start in range(0, len(densities), _LINES_AT_ONCE):
        file.write("\n".join(_digits(densities[start : start + _LINES_AT_ONCE])) + "\n")


def _digits(densities: np.ndarray) -> Iterator[str]:
    """Yield numbers with every digit that their dtype holds."""
    return map(repr, densities.tolist()) if densities.dtype == np.float64 else map(str, densities)
