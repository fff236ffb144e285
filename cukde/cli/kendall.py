"""``cukde kendall``: Kendall's tau of all pairs of columns of a file, with p-values."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np

import cukde
from cukde.cli import columns, device, errors, output, tables
from cukde.cli.errors import CommandError
from cukde.cli.progress import progress
from cukde.core import aligned, dispatch

_SUFFIXES = (".npy", ".csv", ".tsv")

_DESCRIPTION = """\
Compute Kendall's tau of all pairs of columns, and two-sided p-values.

FILE is .npy, .parquet or text, as for `cukde density`. Empty cells, NA, NaN and nulls are missing values. Infinities
are ordinary values."""

_EXAMPLES = """\
examples:
  cukde kendall penguins.csv --columns bill_length,bill_depth,mass
  cukde kendall returns.parquet --nan-policy omit --out tau.csv"""


def add_parser(commands: Any) -> None:
    """Add this command to the ``cukde`` parser."""
    parser = commands.add_parser(
        "kendall",
        help="compute Kendall's tau of all pairs of columns of a file",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the data")
    parser.add_argument(
        "--variant",
        choices=("a", "b", "c"),
        default="b",
        help="tau-a, tau-b or tau-c, which differ in how ties count; default: b",
    )
    parser.add_argument(
        "--nan-policy",
        choices=("propagate", "omit", "raise"),
        default="propagate",
        help="propagate (default): a missing value makes the tau of its column nan; omit: it leaves its row out of the "
        "pairs with its column; raise: it is an error",
    )
    tables.add_options(parser)
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        help="write the result. A .csv or .tsv file has a row for each pair of columns; .npy has an array of shape (2, "
        "columns, columns), tau and then p-values. Default: two tables on the terminal",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Read, compute and write, with all checks before the computation."""
    if args.out is not None:
        output.check(args.out, [args.file], _SUFFIXES)
    to_device = device.asarray(args.gpu)
    table = tables.open_table(args.file, args)
    chosen = columns.chosen(table, args.columns, None, args.index)
    if len(chosen) < 2:
        raise CommandError(f"{args.file}: tau needs at least 2 columns; got {len(chosen)}")
    A = tables.rows(table, chosen, finite=False)
    names = [str(index) if table.names is None else table.names[index] for index in chosen]
    with errors.of_data(), progress():
        result: Any = cukde.kendall_matrix(to_device(A), variant=args.variant, nan_policy=args.nan_policy, pvalue=True)
        tau, pvalue = dispatch.to_host(result.statistic), dispatch.to_host(result.pvalue)
    if args.out is None:
        show(f"Kendall's tau-{args.variant}, {len(A):,} rows", names, tau, ".4f")
        print()
        show("p-values, two-sided", names, pvalue, ".3g")
    else:
        _save(args.out, names, tau, pvalue)


def show(title: str, names: list[str], matrix: np.ndarray, digits: str) -> None:
    """Print a table of numbers with the names of the columns."""
    cells = [[name, *(format(value, digits) for value in row)] for name, row in zip(names, matrix, strict=True)]
    rows = [["", *names], *cells]
    print(title, *aligned.lines(rows, range(1, len(rows))), sep="\n")


def _save(path: Path, names: list[str], tau: np.ndarray, pvalue: np.ndarray) -> None:
    suffix = path.suffix.lower()
    with output.replacing(path) as part:
        if suffix == ".npy":
            with part.open("wb") as binary:
                np.save(binary, np.stack([tau, pvalue]))
            return
        with part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
            writer.writerow(["first", "second", "tau", "pvalue"])
            for i, j in zip(*np.triu_indices(len(names), 1), strict=True):
                writer.writerow([names[i], names[j], str(tau[i, j]), str(pvalue[i, j])])
