"""Tables in text: which character is between cells, whether the first row has names, and which cells are missing.

NumPy reads plain lines of numbers. Python's own module reads all others, row by row: messages name the line of the
file, and cells are written again as they stand. numpy.loadtxt takes no missing cells, and counts rows, not lines;
pandas takes a short row for one with missing numbers; pandas and pyarrow are extras.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import itertools
import operator
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from cukde.cli.columns import EXACT, FILL, exact, together
from cukde.cli.errors import CommandError, note
from cukde.cli.sources import Source

SUFFIXES = (".csv", ".tsv", ".txt", ".dat", ".tab")

# Cells without a value, as pandas reads and R writes them; all but nan are no numbers to Python.
MISSING = frozenset(
    ("", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "<NA>", "NULL", "Null", "null", "None", "NaN", "nan")
) | {"-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"}

_SAMPLE = 100  # lines by which the form is told
_LONG = 2**18  # characters, likewise
_ROWS_AT_ONCE = 20_000

_WHITE_SPACE = " "  # stands for any number of spaces and tabs
_SEPARATORS = {"tab": "\t", "semicolon": ";", "comma": ",", "bar": "|", "space": _WHITE_SPACE}
_DECIMALS = {"point": ".", "comma": ","}
_QUOTED_OR_WHITE = re.compile(r'("(?:[^"]|"")*")|\s+')
_WHOLE = re.compile(r"[+-]?[0-9]+")
_LABEL = re.compile(r"0|[1-9][0-9]*")  # as a whole number is written that names a column
_WITH_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:[ ,.'_][0-9]{3})+(?:[.,][0-9]+)?")
_EXCEL = re.compile(r'"?sep=(.)"?\s*')  # a first line that names the separator

DEFAULTS = argparse.Namespace(header="auto", separator=None, decimal=None, index=None)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how text is read, and which column has labels of rows."""
    group = parser.add_argument_group("how files are read; notes say what was taken as what where that is uncertain")
    group.add_argument(
        "--header", choices=("auto", "yes", "no"), default="auto", help="whether the first row of text has names"
    )
    group.add_argument(
        "--separator",
        metavar="NAME",
        type=_separator,
        help=f"what is between cells of text: {', '.join(_SEPARATORS)} (any white space), or one character; default: "
        "what cuts all rows into the same number of cells",
    )
    group.add_argument(
        "--decimal",
        choices=_DECIMALS,
        help="decimal sign of text; default: point, or comma where cells are separated otherwise and no number has a "
        "point",
    )
    group.add_argument(
        "--index",
        metavar="COLUMN",
        help="column of row labels, which is left out unless --columns names it, or none; default: the index of "
        "pandas and the row names of R",
    )


def _separator(text: str) -> str:
    text = {"\\t": "tab", " ": "space"}.get(text, text)
    if text not in _SEPARATORS and (len(text) != 1 or text in '"\r\n'):
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(_SEPARATORS)}, or one character; got {text!r}")
    return _SEPARATORS.get(text, text)


class TextTable:
    """Text with one row a line.

    Blank lines are left out, and comments: lines that begin with # and have another number of cells, or stand before
    the data. The last of these may have the names, as numpy.savetxt writes them.
    """

    def __init__(self, source: Source, options: argparse.Namespace) -> None:
        self.path, self._source = source.path, source
        with self._opened() as file:
            lines = list(_beginning(file))
        excel = _EXCEL.fullmatch(lines[0]) if lines else None
        lines = lines[excel is not None :]
        separator = options.separator or (excel and excel[1])
        decimal = _DECIMALS.get(options.decimal)
        layout = _layout(lines, separator, decimal)
        if not layout.rows:
            raise CommandError(f"{self.path} is empty; expected a row of numbers on each line")
        self._delimiter, self._decimal, self.width = layout.separator, layout.decimal, layout.width
        if layout.rival is not None:
            names = {character: name for name, character in _SEPARATORS.items()}
            self._note(
                f"cells were taken to be separated by {names.get(self._delimiter, self._delimiter)}",
                f"--separator {names[layout.rival]} for the other reading",
            )
        if self._decimal == "," and decimal is None:
            self._decimal_comma(layout.rows)
        self.names: list[str] | None = None
        self.aside: dict[int, str] = {}
        self._begin(lines, options, skipped=int(excel is not None))

    def column(self, index: int) -> str:
        """Return a name in quotes, or an index if there are no names."""
        return f"column {self.names[index]!r}" if self.names else f"column {index}"

    def text_columns(self) -> dict[int, str]:
        """Return the columns with texts in the first row of data; a missing cell there is a missing number."""
        first = next(self._numbered(), None)
        if first is None:
            return {}
        line, row = first
        return {
            index: f"{cell!r} on line {line}{self._advice(cell)}"
            for index, cell in enumerate(row)
            if cell.strip() not in MISSING and _number(cell, self._decimal) is None
        }

    def read(self, columns: Sequence[int], *, finite: bool = True) -> np.ndarray:
        """Return the numbers of some columns, as float64, or as integers where only these are exact."""
        blocks = [np.empty((0, len(columns)))]
        begin = 0
        for values, rows in self._values(columns):
            for row, k in np.argwhere(~np.isfinite(values)):
                if finite or (rows is not None and not _is_value(rows[row][columns[k]], self._decimal)):
                    self._refuse(begin + int(row), columns[k])
            blocks.append(values)
            begin += len(values)
        A = np.concatenate(blocks)
        large = np.flatnonzero((abs(A) >= EXACT).any(axis=0))
        if not large.size:
            return A
        arrays = [self._exact(index, A[:, k]) if k in large else A[:, k] for k, index in enumerate(columns)]
        return together(self.path, arrays, [self.column(index) for index in columns])

    def cells(self) -> Iterator[list[str]]:
        """Yield the rows as in the file, but with decimal points."""
        rows = itertools.chain.from_iterable(self._blocks())
        if self._decimal == ".":
            return rows
        return ([_pointed(cell) if _WITH_COMMA.fullmatch(cell.strip()) else cell for cell in row] for row in rows)

    def arrow(self, names: list[str]) -> Any:
        """Let pyarrow tell the columns' types, by all rows of tables up to 2 GiB; missing cells are nulls."""
        from pyarrow import csv as arrow_csv

        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(self.cells())
        content = text.getvalue().encode()
        return arrow_csv.read_csv(
            io.BytesIO(content),
            arrow_csv.ReadOptions(column_names=names, block_size=min(len(content) + 1, 2**31 - 1)),
            arrow_csv.ParseOptions(newlines_in_values=True),
            arrow_csv.ConvertOptions(null_values=sorted(MISSING)),
        )

    def _begin(self, lines: list[str], options: argparse.Namespace, skipped: int) -> None:
        """Find the first row of data, the names of the columns, and the columns that hold no data."""
        rows = list(_parsed(lines, self._delimiter))
        start = 0
        comment: list[str] = []  # the last before the data
        while start < len(rows) and (_is_blank(rows[start], self.width) or _is_comment(rows[start])):
            if _is_comment(rows[start]):
                comment = _uncommented(rows[start], self._delimiter)
                numbers = sum(map(_is_number, comment))
                if len(rows[start]) == self.width > 1 and 0 < numbers < self.width:
                    break  # a text that begins with # in a row of data
            start += 1
        body = [row for row in rows[start:] if len(row) == self.width]
        first = rows[start] if start < len(rows) else []
        header = sure = options.header != "no" and bool(first)
        if options.header == "auto" and len(first) == self.width:
            header, sure = _header(first, body[1:])
        commented = not header and options.header == "auto" and len(comment) == self.width
        if commented and _header(comment, body)[0]:
            self.names = [name.strip() for name in comment]
            self._note(f"the comment {_shown(comment)} was taken as the header", "--header no if it is none")
            sure = True
        if options.header == "auto" and first and not sure:
            taken, other, answer = ("the header", "data", "no") if header else ("data", "the header", "yes")
            self._note(f"the first row, {_shown(first)}, was taken as {taken}", f"--header {answer} if it is {other}")
        if header:
            self.names = [cell.strip() for cell in (_uncommented(first, self._delimiter) if comment else first)]
            start += 1
            body = [row for row in rows[start:] if len(row) == self.width]
        self._skipped = skipped + start
        self._set_aside(body, options)

    def _set_aside(self, body: list[list[str]], options: argparse.Namespace) -> None:
        """Find columns of row labels, and an empty one that a separator at the ends of lines makes."""
        empty = bool(body) and self.width > 1 and not any(row[-1].strip() for row in body)
        if self.names is not None and len(self.names) == self.width - 1:
            decimals = self.width == 2 and self._delimiter == "," and all(map(_WHOLE.fullmatch, itertools.chain(*body)))
            if decimals and not empty and options.index is None:
                raise CommandError(
                    f"{self.path} has one name and two numbers a row: --index 0 if the first are labels of the rows; "
                    "--decimal comma if the comma is a decimal sign"
                )
            self.names = [*self.names, ""] if empty else ["", *self.names]
        if empty and (self.names is None or not self.names[-1]):
            self.aside[self.width - 1] = "empty"
        names = self.names or []
        unnamed = len(list(itertools.takewhile(lambda name: not name, names)))
        again = [k for k, name in enumerate(names) if re.fullmatch(r"Unnamed: 0(\.\d+)*", name)]
        for k in [*range(min(unnamed, self.width - 1)), *again]:
            self.aside.setdefault(k, "row labels")
        counts = [[str(k + one) for k in range(len(body))] for one in (0, 1)]
        if self.names is None and len(body) > 2 and self.width > 1 and [row[0].strip() for row in body] in counts:
            self._note("column 0, which counts the rows, was taken as data", "--index 0 if it has labels of rows")

    def _decimal_comma(self, rows: list[list[str]]) -> None:
        """Note commas taken as decimal signs; refuse those that are as likely between thousands."""
        cells = [cell.strip() for row in rows for cell in row if _WITH_COMMA.fullmatch(cell.strip())]
        if all(map(_THOUSANDS.fullmatch, cells)):
            raise CommandError(
                f"{self.path}: {cells[0]} may be {_pointed(cells[0])} or {cells[0].replace(',', '')}: --decimal comma "
                "for the first; otherwise write numbers without separators of thousands"
            )
        self._note(f"commas were taken as decimal signs, as in {cells[0]}", "--decimal point for others")

    def _values(self, columns: Sequence[int]) -> Iterator[tuple[np.ndarray, list[list[str]] | None]]:
        """Yield the numbers of some columns in blocks; NaN where there is none, and then the rows."""
        with self._opened() as file:
            lines = iter(file)
            for _ in itertools.islice(_parsed(lines, self._delimiter), self._skipped):
                pass
            while block := list(itertools.islice(lines, _ROWS_AT_ONCE)):
                values = self._plain(block, columns)
                if values is not None:
                    yield values, None
                    continue
                part = iter(block)
                if any('"' in line for line in block):  # a cell may go on beyond the block
                    part, lines = itertools.chain(block, lines), iter(())
                for rows in self._of_width(_parsed(part, self._delimiter)):
                    cells = [row[index] for row in rows for index in columns]
                    yield _numbers(cells, self._decimal).reshape(-1, len(columns)), rows

    def _plain(self, lines: list[str], columns: Sequence[int]) -> np.ndarray | None:
        """Read lines with NumPy, six times as fast, if they have no quotes and no missing cells; None for others."""
        white = self._delimiter == _WHITE_SPACE
        widths = (
            map(len, map(str.split, lines)) if white else map(operator.methodcaller("count", self._delimiter), lines)
        )
        if self._decimal == "," or set(widths) != {self.width - (not white)} or '"' in "".join(lines):
            return None
        with contextlib.suppress(ValueError):
            delimiter = None if white else self._delimiter
            values = np.loadtxt(lines, delimiter=delimiter, usecols=columns, comments=None, ndmin=2)
            if len(values) == len(lines):
                return values
        return None

    def _blocks(self) -> Iterator[list[list[str]]]:
        """Yield rows of data in lists, all of the same width."""
        with self._opened() as file:
            yield from self._of_width(itertools.islice(_parsed(file, self._delimiter), self._skipped, None))

    def _of_width(self, reader: Iterator[list[str]]) -> Iterator[list[list[str]]]:
        while rows := list(itertools.islice(reader, _ROWS_AT_ONCE)):
            if set(map(len, rows)) != {self.width} or self.width == 1:
                rows = [row for row in rows if not self._between_rows(row)]
                if set(map(len, rows)) - {self.width}:
                    for _ in self._numbered():  # which names the line
                        pass
            yield rows

    def _numbered(self) -> Iterator[tuple[int, list[str]]]:
        """Yield rows of data with their line numbers."""
        with self._opened() as file:
            reader = _parsed(file, self._delimiter)
            for number, row in enumerate(reader):
                if number < self._skipped or self._between_rows(row):
                    continue
                if len(row) != self.width:
                    raise CommandError(
                        f"{self.path}, line {reader.line_num}: expected {self.width} cells as in the first row; got "
                        f"{len(row)}"
                    )
                yield reader.line_num, row

    def _between_rows(self, row: list[str]) -> bool:
        """Whether a row is blank or a comment; a text of the first column may begin with #, too."""
        return _is_blank(row, self.width) or (_is_comment(row) and (len(row) != self.width or self.width == 1))

    def _exact(self, index: int, values: np.ndarray) -> np.ndarray:
        """Return a column with large numbers as integers where floats round one; refuse it where that is impossible."""
        cells = [row[index].strip() for rows in self._blocks() for row in rows]
        whole = [int(cell) if _WHOLE.fullmatch(cell) else None for cell in cells]
        return exact(self.path, self.column(index), whole, values)

    def _refuse(self, row: int, index: int) -> None:
        line, cells = next(itertools.islice(self._numbered(), row, None))
        cell = cells[index]
        where = f"{self.path}, line {line}, {self.column(index)}"
        if not cell.strip():
            raise CommandError(f"{where}: expected a number; the cell is empty, a missing value: {FILL}")
        if _is_value(cell, self._decimal):
            advice = f", a missing value: {FILL}" if cell.strip() in MISSING else ": fill or drop that row"
            raise CommandError(f"{where}: expected a finite number; got {cell!r}{advice}")
        example = "-1.5e3" if self._decimal == "." else "-1,5e3"
        advice = self._advice(cell)
        raise CommandError(f"{where}: expected a number such as {example}; got {cell!r}{advice}")

    def _advice(self, cell: str) -> str:
        """What to do about a cell that is a number to others."""
        if _THOUSANDS.fullmatch(cell.strip()):
            return ": write numbers without separators of thousands"
        if self._decimal == "." and _WITH_COMMA.fullmatch(cell.strip()):
            options = "--separator comma --decimal comma" if self._delimiter == "," else "--decimal comma"
            return f": give {options} if all numbers are written so"
        return ""

    def _note(self, text: str, advice: str) -> None:
        note(f"{self.path}: {text}{advice and f' ({advice})'}")

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Iterable[str]]:
        """Open the text; errors become messages."""
        try:
            with self._source.open() as binary, io.TextIOWrapper(binary, newline="", encoding="utf-8-sig") as file:
                yield file
        except UnicodeDecodeError as error:
            raise CommandError(f"{self.path} is not text in UTF-8: {error}") from None
        except csv.Error as error:
            raise CommandError(f"{self.path} cannot be read as CSV: {error}") from None


class _Layout(NamedTuple):
    """How a sample of text is cut into cells."""

    separator: str
    decimal: str
    width: int
    rows: list[list[str]]  # without blank ones and comments
    score: float  # share of numbers and missing cells below the first row
    rival: str | None = None  # another separator that suits as well


def _beginning(lines: Iterable[str]) -> Iterator[str]:
    """Yield the comments before the data, and as many lines as the form is told by, fewer of long ones."""
    left, length = _SAMPLE, 0
    for line in lines:
        if left == 0 or (length > _LONG and left < _SAMPLE - 4):
            break
        left -= left < _SAMPLE or not line.lstrip().startswith("#")
        length += len(line)
        yield line


def _layout(lines: list[str], separator: str | None, decimal: str | None) -> _Layout:
    """Find the separator that cuts all rows into the same number of cells, most of them numbers.

    Tab and semicolon come first, since their cells may contain commas, but rarely the reverse.
    """
    if separator is not None:
        return _cut(lines, separator, decimal)
    layouts = [_cut(lines, candidate, decimal) for candidate in _SEPARATORS.values() if candidate != decimal]
    even = [one for one in layouts if one.width > 1 and _is_even(one)]
    if not even:
        line = next((line for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
        most = max(",;\t" if decimal != "," else ";\t", key=line.count)
        return next(one for one in layouts if one.separator == most)
    best = max(even, key=lambda one: one.score)
    rivals = [one.separator for one in even if one.score == best.score > 0 and one.rows != best.rows]
    return best._replace(rival=rivals[0] if rivals else None)


def _is_even(layout: _Layout) -> bool:
    """Whether all rows have the same width; the header of row labels may be left out."""
    first, *below = map(len, layout.rows)
    return set(below) <= {layout.width} and first in (layout.width, layout.width - 1)


def _cut(lines: list[str], separator: str, decimal: str | None) -> _Layout:
    every = [row for row in _parsed(lines, separator) if row]
    every = every if len(lines) < _SAMPLE else every[:-1]  # perhaps a part of one
    rows = [row for row in every if not _is_comment(row)] or every
    if any(len(row) > 1 for row in rows):
        rows = [row for row in rows if not _is_blank(row, 2)]
    below = [cell.strip() for row in rows[1:] or rows for cell in row]
    if decimal is None:
        pointed = any("." in cell and _number(cell) is not None for cell in below)
        decimal = "," if separator != "," and not pointed and any(map(_WITH_COMMA.fullmatch, below)) else "."
    widths = [len(row) for row in rows]
    width = widths[1] if len(set(widths[1:])) == 1 and widths[1] == widths[0] + 1 else widths[0] if rows else 0
    numbers = sum(cell in MISSING or _number(cell, decimal) is not None for cell in below)
    return _Layout(separator, decimal, width, rows, numbers / max(1, len(below)))


def _parsed(lines: Iterable[str], separator: str) -> Any:
    """Cut lines into rows."""
    if separator != _WHITE_SPACE:
        return csv.reader(lines, delimiter=separator)
    tabbed = (
        "\t".join(line.split())
        if '"' not in line
        else _QUOTED_OR_WHITE.sub(lambda match: match[1] or "\t", line.strip())
        for line in lines
    )
    return csv.reader(tabbed, delimiter="\t")


def _is_blank(row: list[str], width: int) -> bool:
    return not row or (width > 1 and len(row) == 1 and not row[0].strip())


def _is_comment(row: list[str]) -> bool:
    return bool(row) and row[0].lstrip().startswith("#")


def _uncommented(row: list[str], separator: str) -> list[str]:
    """Return the cells of a comment as names; # alone is one where the separator follows it."""
    first = row[0].lstrip().lstrip("#").strip()
    if first:
        return [first, *row[1:]]
    return row[1:] if separator == _WHITE_SPACE else row


def _shown(row: list[str]) -> str:
    return ",".join(row[:6]) + (",..." if len(row) > 6 else "")


def _header(first: list[str], below: list[list[str]]) -> tuple[bool, bool]:
    """Judge whether a first row has names, and whether that is sure.

    A text above numbers is a name. Numbers may be names, too, if they count or are years, and those below do not.
    """
    cells = [cell.strip() for cell in first]
    columns: list[Sequence[str]] = list(zip(*below, strict=True)) if below else [()] * len(cells)
    texts = [cell not in MISSING and not _is_number(cell) for cell in cells]
    missing = [cell in MISSING for cell in cells]
    numeric = [sum(map(_is_number, column)) > 0.5 * sum(cell.strip() not in MISSING for cell in column)
               for column in columns]  # fmt: skip
    if not below:
        return any(texts), True
    if any(text and number for text, number in zip(texts, numeric, strict=True)):
        return True, True
    # pandas and R leave the name of the row labels empty.
    labelled = sum(1 for _ in itertools.takewhile(lambda cell: not cell, cells))
    if not all(cell.strip() for column in columns[:labelled] for cell in column):
        labelled = 0
    if 0 < labelled < len(cells) and not any(missing[labelled:]):
        counted = [cell.strip() for cell in columns[0]] == [str(k) for k in range(len(below))]
        if counted or all(texts[labelled:]):
            return True, True
    numbers = [cell for cell, text, none in zip(cells, texts, missing, strict=True) if not text and not none]
    if not numbers:
        return not any(missing), not any(missing) or all(missing)
    if not any(missing[labelled:]):
        others = [column for column, text in zip(columns, texts, strict=True) if not text][labelled:]
        rows = [[cell.strip() for cell in row if _is_number(cell)] for row in zip(*others, strict=True)]
        named = _names_columns(numbers, rows, beside_text=bool(labelled) or any(texts))
        if named is not None:
            return named, False
    # A text above texts, beside whole numbers: names as likely as not; and the first value of labelled rows is missing.
    return False, not labelled and not (any(texts) and all(map(_LABEL.fullmatch, numbers)))


def _names_columns(numbers: list[str], rows: list[list[str]], *, beside_text: bool) -> bool | None:
    """Whether numbers name columns, by those of the rows below; None if they do not look like names.

    Names are years, or rise or fall by equal steps. Rows of data may do so, too, if the next one has the same steps.
    """
    values = [float(_pointed(number)) for number in numbers]
    below = [float(_pointed(number)) for row in rows for number in row]
    labels = all(map(_LABEL.fullmatch, numbers))
    even = len(_steps(values)) == 1 and 0.0 not in _steps(values)
    if labels and (even or (beside_text and len(set(values)) == len(values))) and all(map(_is_year, values)):
        return not any(map(_is_year, below))
    counts = labels and _steps(values) == {1.0} and values[0] in (0.0, 1.0)
    if not even or (len(values) < 3 and not counts):
        return None
    whole = sum(bool(_LABEL.fullmatch(number)) for row in rows for number in row) > 0.5 * len(below)
    alike = len(values) > 2 and _steps(values) == _steps([float(_pointed(number)) for number in rows[0]])
    if alike or (whole and not beside_text) or (len(values) < 3 and values[0] == 1.0):
        return False if labels else None
    return (counts and not whole) or sum(min(values) <= value <= max(values) for value in below) < 0.5 * len(below)


def _steps(values: list[float]) -> set[float]:
    return {round(b - a, 9) for a, b in itertools.pairwise(values)}


def _is_year(value: float) -> bool:
    return 1800 <= value <= 2100


def _pointed(cell: str) -> str:
    return cell.replace(",", ".")


def _number(cell: str, decimal: str = ".") -> float | None:
    """Read a number, or return None, also for Python's 1_000."""
    if decimal == ",":
        cell = "_" if "." in cell else _pointed(cell)
    try:
        return float(cell) if "_" not in cell else None
    except ValueError:
        return None


def _is_number(cell: str) -> bool:
    """Whether a cell is a number with either decimal sign."""
    return cell.strip() not in MISSING and (_number(cell) is not None or bool(_WITH_COMMA.fullmatch(cell.strip())))


def _is_value(cell: str, decimal: str) -> bool:
    """Whether a cell is a number, or known to be missing."""
    return cell.strip() in MISSING or _number(cell, decimal) is not None


def _numbers(cells: list[str], decimal: str) -> np.ndarray:
    """Read many numbers; NaN where there is none."""
    text = "".join(cells)
    if "_" not in text and (decimal == "." or "." not in text):
        with contextlib.suppress(ValueError):
            return np.array(list(map(float, cells if decimal == "." else map(_pointed, cells))))
    return np.array([_number(cell, decimal) for cell in cells], dtype=np.float64)  # None becomes NaN
