"""``cukde density``: the density of a file's rows, at themselves or at another file's rows."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import cukde
from cukde.cli import device
from cukde.cli.errors import CommandError
from cukde.cli.progress import progress
from cukde.core import dispatch
from cukde.density.check import PRECISIONS, result_dtype

_RULE_OF_METHOD = {"kde": "silverman", "sd": "sd", "laplace": "laplace"}
_RULES = ("scott", *_RULE_OF_METHOD.values(), "isj", "cross_validate")

# About two seconds of work on a small machine: often enough for a progress bar and for Ctrl-C. In one
# dimension the cost of a pass is that of the data, not of the pairs, so passes should be few.
_PAIRS_AT_ONCE = 2**31
_LEAST_QUERIES_AT_ONCE = {True: 2**20, False: 2**10}  # whether there is one dimension

_DESCRIPTION = """\
Estimate the density of the rows of TRAIN at the rows of QUERY, or at TRAIN's own rows.

Files are .npy (np.save), .parquet, or text (.csv, .tsv, .txt) with commas, semicolons or tabs, whose first row
is a header unless it holds numbers where the second row does. QUERY's columns are found by name where both
files have a header; otherwise QUERY is laid out like TRAIN or holds the chosen columns alone."""

_EXAMPLES = """\
examples:
  cukde density penguins.csv --columns bill_length,bill_depth --out density.csv
  cukde density penguins.parquet --columns mass --plot mass.png --out density.parquet
  cukde density train.npy query.npy --method sd --log --out log_density.npy
  cukde density prices.csv --columns 0 --bandwidth 0.25 | sort -g | head"""


def add_parser(commands: Any) -> None:
    """Add this command to the ``cukde`` parser."""
    parser = commands.add_parser(
        "density",
        help="density of the rows of a CSV, Parquet or NPY file",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("train", metavar="TRAIN", type=Path, help="the data")
    parser.add_argument("query", metavar="QUERY", type=Path, nargs="?", help="where to take the density")
    parser.add_argument("--method", choices=_RULE_OF_METHOD, default="kde", help="default: kde")
    parser.add_argument(
        "--bandwidth",
        metavar="H",
        help="a number, numbers for the columns (0.5,2), or a rule: scott, silverman, sd, laplace, isj (one column), "
        "cross_validate (by leaving each row out: all pairs of rows); "
        "default: silverman for kde, and the method's own rule for sd and laplace",
    )
    parser.add_argument("--columns", metavar="A,B", help="columns by name, or by index from 0 without a header")
    parser.add_argument("--weights", metavar="COLUMN", help="column of TRAIN that holds the rows' weights")
    parser.add_argument("--log", action="store_true", help="give the logarithm of the density")
    parser.add_argument("--precision", choices=PRECISIONS, help="arithmetic; default: that of the data")
    device.add_option(parser)
    parser.add_argument(
        "--plot",
        metavar="FILE.png",
        type=Path,
        help="draw the density of TRAIN: one column as a curve, two as contours, more by pairs",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        help=".npy an array; .csv, .tsv or .parquet the query rows with one more column; .txt numbers; "
        "default: numbers on the terminal",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Read, compute, write; everything that can be refused is refused before the computing."""
    from cukde.cli import columns, density_picture, output
    from cukde.cli.tables import open_table

    if args.out is not None:
        output.check(args.out, [args.train, args.query] if args.query else [args.train])
    to_device = device.asarray(args.gpu)
    train = open_table(args.train)
    query = open_table(args.query) if args.query else train
    name = "log_density" if args.log else "density"
    if args.out is not None and args.out.suffix != ".npy" and name in (query.names or ()):
        raise CommandError(f"{query.path} has a column {name!r} already; write --out as .npy or .txt")

    of_weights = None if args.weights is None else columns.find(train, args.weights)
    of_train = columns.chosen(train, args.columns, of_weights)
    of_query = of_train if query is train else columns.matching(query, train, of_train)
    if args.plot is not None:
        density_picture.check(args.plot, len(of_train))
    X = train.read(of_train)
    if len(X) == 0:
        raise CommandError(f"{train.path} holds no rows of data")
    Y = X if query is train else query.read(of_query)
    weights = None if of_weights is None else train.read([of_weights])[:, 0]
    try:
        X = to_device(X)
        h = bandwidth(args.bandwidth or _RULE_OF_METHOD[args.method], args.method, X, weights)
        with progress(len(X) * (args.method == "sd") + len(Y), worth_it=len(X) * len(Y) > _PAIRS_AT_ONCE) as advance:
            densities = evaluate(
                args.method, X, Y, h, weights=weights, log=args.log, precision=args.precision, advance=advance
            )
        if args.plot is not None:
            names = [f"x{index}" if train.names is None else train.names[index] for index in of_train]
            density_picture.save(args.plot, X, h, args.method, weights, names)
    except ValueError as error:  # every refusal of the library is one
        raise CommandError(str(error)) from error
    if args.method == "laplace" and args.log and (undefined := int(np.isnan(densities).sum())):
        print(
            f"cukde: note: {undefined} of {len(densities)} Laplace-corrected densities are negative; "
            "their logarithm is nan",
            file=sys.stderr,
        )
    if args.out is None:
        output.show(densities)
    else:
        output.save(densities, args.out, query, name)


def bandwidth(text: str, method: Any, X: Any, weights: np.ndarray | None = None) -> Any:
    """Turn a rule's name, a number, or one number a column into a bandwidth."""
    if text == "cross_validate":
        return _cross_validated(method, X, weights)
    if text in _RULES:
        return getattr(cukde.bandwidth, text)(X, weights=weights)
    try:
        numbers = [float(number) for number in text.split(",")]
    except ValueError:
        raise CommandError(
            f"--bandwidth must be a number, numbers for the columns (0.5,2), or one of {', '.join(_RULES)}; "
            f"got {text!r}"
        ) from None
    if not all(0 < number < np.inf for number in numbers):
        raise CommandError(f"--bandwidth must be positive and finite; got {text}")
    if len(numbers) not in (1, X.shape[1]):
        raise CommandError(f"--bandwidth must be one number or {X.shape[1]}, one a column; got {text}")
    return numbers[0] if len(numbers) == 1 else np.array(numbers)


def _cross_validated(method: Any, X: Any, weights: np.ndarray | None) -> Any:
    """By likelihood where the method has one; what would be a warning is a note."""
    objective: Any = "least_squares" if method == "laplace" else "likelihood"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", cukde.BandwidthRangeWarning)
        found = cukde.bandwidth.cross_validate(X, method, objective=objective, weights=weights)
    for warning in caught:
        print(f"cukde: note: {warning.message}", file=sys.stderr)
    return found.bandwidth


def evaluate(
    method: str,
    X: Any,
    Y: np.ndarray,
    h: Any,
    *,
    weights: np.ndarray | None = None,
    log: bool = False,
    precision: str | None = None,
    advance: Callable[[int], None] = lambda queries: None,
) -> np.ndarray:
    """Take the density a bounded number of pairs at a time, where X is; ``advance`` hears of every query done.

    The result is that of ``cukde.kde``, ``cukde.sd_kde`` or ``cukde.laplace_kde`` in one piece. SD-KDE's data
    are moved once and kept in float64, as ``cukde.sd_kde`` keeps them, with the pairs in the precision asked.
    """
    density = cukde.laplace_kde if method == "laplace" else cukde.kde
    dtype = result_dtype(X, Y)
    if method == "sd":
        precision = precision or dtype.name
        X = cukde.debias(X.astype(np.float64), h, weights=weights, precision=precision)
        advance(len(X))
    out = np.empty(len(Y), dtype=dtype)
    for part in _parts(len(X), len(Y), one_dimension=X.shape[1] == 1):
        out[part] = dispatch.to_host(density(X, Y[part], h, weights=weights, log=log, precision=precision))
        advance(part.stop - part.start)
    return out


def _parts(n: int, m: int, *, one_dimension: bool) -> Iterator[slice]:
    """Cut ``m`` queries so that each part against ``n`` rows is a bounded piece of work."""
    step = max(_LEAST_QUERIES_AT_ONCE[one_dimension], _PAIRS_AT_ONCE // n)
    return (slice(start, min(start + step, m)) for start in range(0, m, step))
