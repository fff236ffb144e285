"""``cukde density``: the density of a file's rows, at these or at another file's rows."""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import cukde
from cukde.cli import columns, device, errors, output, sources, tables
from cukde.cli.errors import CommandError, note
from cukde.cli.progress import progress
from cukde.core import dispatch, extras
from cukde.density import rules_by_name
from cukde.density.estimates import ESTIMATES
from cukde.density.keywords import TABLE

_KEYWORDS = ("log", "leave_one_out", "precision")  # of the functions

_DESCRIPTION = """\
Estimate the density of the rows of TRAIN at the rows of QUERY, or at the rows of TRAIN itself.

A file is .npy (np.save), .parquet, or text (.csv, .tsv, .txt, .dat, .tab) with commas, semicolons, tabs, bars or
spaces; text and .npy also with .gz, .bz2 or .xz, and - is standard input. If both files have a header, the columns of
QUERY are found by name. Otherwise QUERY has all columns of TRAIN, or only the chosen ones, in order. Empty cells, NA,
NaN and nulls are missing values."""

_EXAMPLES = """\
examples:
  cukde density penguins.csv --columns bill_length,bill_depth --out density.csv
  cukde density penguins.parquet --columns mass --plot mass.png --out density.parquet
  cukde density train.npy query.npy --method sd --log --out log_density.npy
  cukde density prices.csv --columns 0 --bandwidth 0.25 --leave-one-out | sort -g | head"""


def add_parser(commands: Any) -> None:
    """Add this command to the ``cukde`` parser."""
    parser = commands.add_parser(
        "density",
        help="estimate the density of the rows of a CSV, Parquet or NPY file",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("train", metavar="TRAIN", type=Path, help="the data")
    parser.add_argument(
        "query",
        metavar="QUERY",
        type=Path,
        nargs="?",
        help="where to estimate the density; default: at the rows of TRAIN",
    )
    parser.add_argument("--method", choices=ESTIMATES, default="kde", help="the estimate; default: kde")
    parser.add_argument(
        "--bandwidth",
        metavar="H",
        help="a number, one number for each column (0.5,2), or a rule of cukde.bandwidth: scott, silverman, sd, "
        "laplace, positive, scott_covariance, silverman_covariance, isj (one column), cross_validate (leave-one-out "
        "over all pairs of rows), select (held-out rows; for kde with local factors where these are more likely); "
        "default: silverman for kde, and the method's own rule for the others",
    )
    parser.add_argument("--weights", metavar="COLUMN", help="column of TRAIN with the weights of the rows")
    for name in _KEYWORDS:
        _add_keyword(parser, name)
    parser.add_argument(
        "--nan-policy",
        choices=("raise", "omit"),
        default="raise",
        help="raise (default): a missing value is an error; omit: rows of TRAIN with one are left out, and the density "
        "at such rows of QUERY is nan",
    )
    tables.add_options(parser)
    parser.add_argument(
        "--plot",
        metavar="FILE.png",
        type=Path,
        help="draw the density of TRAIN: a curve for one column, contours for two, a pair plot for more",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        help="write the result. A .npy file has an array; .csv, .tsv and .parquet have the query rows with one more "
        "column; .txt has numbers. Default: numbers on the terminal",
    )
    parser.set_defaults(run=run)


def _add_keyword(parser: Any, name: str) -> None:
    """Add an option that is a keyword of the functions, with its sentence and the words of this command."""
    keyword = TABLE[name]
    of: dict[str, Any] = {"action": "store_true"} if keyword.default is False else {"choices": keyword.choices}
    said = keyword.meaning.removesuffix(".").replace("``Y`` must be ``X`` or None", "only without QUERY")
    parser.add_argument(f"--{name.replace('_', '-')}", help=said[0].lower() + said[1:], **of)


def run(args: argparse.Namespace) -> None:
    """Read, compute and write, with all checks before the computation."""
    if args.out is not None:
        output.check(args.out, [args.train, args.query] if args.query else [args.train])
    if args.train == args.query == sources.STDIN:
        raise CommandError("only one of TRAIN and QUERY can be standard input, -")
    to_device = device.asarray(args.gpu)
    if args.leave_one_out and args.query is not None:
        raise CommandError("--leave-one-out is for the density at TRAIN's own rows: leave out QUERY or the option")
    train = tables.open_table(args.train, args)
    query = tables.open_table(args.query, args) if args.query else train
    name = "log_density" if args.log else "density"
    if args.out is not None and args.out.suffix != ".npy" and name in (query.names or ()):
        raise CommandError(f"{query.path} has a column {name!r} already; write --out as .npy or .txt")

    weights_column = None if args.weights is None else columns.find(train, args.weights)
    train_columns = columns.chosen(train, args.columns, weights_column, args.index)
    query_columns = train_columns if query is train else columns.matching(query, train, train_columns)
    if args.plot is not None:
        check_picture(args.plot, len(train_columns))
    finite = args.nan_policy == "raise"
    X = tables.rows(train, train_columns, finite=finite)
    Y = X if query is train else query.read(query_columns, finite=finite)
    weights = None if weights_column is None else train.read([weights_column], finite=finite)[:, 0]
    kept = _complete(X, weights)
    asked = kept if query is train else _complete(Y, None)
    if not kept.all():
        note(f"{train.path}: {int((~kept).sum())} of {len(X)} rows have missing values and are left out")
        X, weights = X[kept], None if weights is None else weights[kept]
    with errors.of_data():
        X = to_device(X)
        with progress():
            h = bandwidth(args.bandwidth or ESTIMATES[args.method].rule, args.method, X, weights)
            options = {name: getattr(args, name) for name in _KEYWORDS}
            at = X if query is train else Y[asked]
            densities = _of_rows(asked, evaluate(args.method, X, at, h, weights=weights, **options))
        if args.plot is not None:
            names = [f"x{index}" if train.names is None else train.names[index] for index in train_columns]
            save_picture(args.plot, X, h, args.method, weights, names)
    if ESTIMATES[args.method].negative and args.log and (undefined := int(np.isnan(densities[asked]).sum())):
        note(f"{undefined} of {len(densities)} Laplace-corrected densities are negative; their logarithm is nan")
    if args.out is None:
        output.show(densities)
    else:
        output.save(densities, args.out, query, name)


def _complete(rows: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Which rows, and their weights, have no missing value."""
    complete: np.ndarray = ~np.isnan(rows).any(axis=1)
    return complete if weights is None else complete & ~np.isnan(weights)


def _of_rows(some: np.ndarray, densities: np.ndarray) -> np.ndarray:
    """Put densities of some rows where they belong, and NaN for the others."""
    if some.all():
        return densities
    out = np.full(len(some), np.nan, densities.dtype)
    out[some] = densities
    return out


def bandwidth(text: str, method: Any, X: Any, weights: np.ndarray | None = None) -> Any:
    """Return a bandwidth, or the result of a search, by a rule's name, a number, or one number for each column."""
    if text in rules_by_name.names():
        return _by_rule(text, method, X, weights)
    try:
        numbers = [float(number) for number in text.split(",")]
    except ValueError:
        rules = ", ".join(rules_by_name.names())
        raise CommandError(
            f"--bandwidth must be a number, numbers for the columns (0.5,2), or one of {rules}; got {text!r}"
        ) from None
    if not all(0 < number < np.inf for number in numbers):
        raise CommandError(f"--bandwidth must be positive and finite; got {text}")
    if len(numbers) not in (1, X.shape[1]):
        raise CommandError(f"--bandwidth must be one number or {X.shape[1]}, one a column; got {text}")
    return numbers[0] if len(numbers) == 1 else np.array(numbers)


def _by_rule(name: str, method: str, X: Any, weights: np.ndarray | None) -> Any:
    """Apply a rule to the rows; warnings are printed as notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", cukde.BandwidthRangeWarning)
        h = rules_by_name.applied(name, X, weights, method)
    for warning in caught:
        note(str(warning.message))
    return h


def evaluate(method: str, X: Any, Y: Any, h: Any, **options: Any) -> np.ndarray:
    """Compute the density on X's device, in one call: parts of the queries would each do what all of them share."""
    out: np.ndarray = dispatch.to_host(ESTIMATES[method].density(X, Y, h, **options))
    return out


def check_picture(path: Path, columns: int) -> None:
    """Refuse a picture that cannot be drawn or written."""
    if importlib.util.find_spec("matplotlib") is None:
        raise CommandError(f"--plot needs Matplotlib: {extras.install('plot')}")
    if path.suffix.lower() != ".png":
        raise CommandError(f"--plot must end in .png; got {path}")
    if columns > 16:
        raise CommandError(f"--plot draws up to 16 columns; got {columns}: choose some with --columns")
    output.placeable("--plot", path)


def save_picture(path: Path, X: Any, h: Any, method: Any, weights: Any, names: list[str]) -> None:
    """Draw the density of the rows, as a curve, contours or pairs by the number of columns, and write a PNG."""
    from matplotlib.figure import Figure

    from cukde.plot import artists, legends, pictures

    d = len(names)
    side = 6.4 if d < 3 else max(4.0, min(2.1 * d, 16.0))
    figure = Figure(figsize=(side, 4.4 if d < 3 else side), layout="constrained")
    if d < 3:
        ax = figure.subplots()
        ax.set_xlabel(legends.shown(names[0]))
        if d == 2:
            ax.set_ylabel(legends.shown(names[1]))
        (pictures.density if d == 1 else pictures.contours)(X, h, ax=ax, method=method, weights=weights)
    else:
        axes = pictures.pairs(X, h, ax=figure.subplots(d, d), names=names, method=method, weights=weights)
        artists.legend_of_pairs(axes, (0.95, 0.8, 0.5))
    output.save_figure(figure, path)
