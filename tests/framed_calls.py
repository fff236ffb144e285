"""Calls with data frames and names: a good call of arrays, and the same of frames whose columns are in another order.

Both give the same numbers; or else the frames lack a column, have one more, a missing value or a text, and the call is
an error that says so. Nothing in between: no wrong number without a word.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from tests.public_calls import CALLS, Call, Draw

Choose = Callable[[Sequence[Any]], Any]

NAMES = ["b", "größe", "a", "c d", "e", "f"]
"""Of columns; the alphabet's is another order."""

LABELS: dict[str, list[Any]] = {
    "text": NAMES,
    "integers": [3, 0, 2, 1, 5, 4],
    "tuples": [("u", "b"), ("u", "a"), ("v", "b"), ("a", "b"), ("v", "a"), ("w", "w")],
}
"""Of columns of pandas; of other libraries they are text."""


def _unlike(frame: pd.DataFrame) -> pd.DataFrame:
    """The same numbers, of columns of different kinds: nullable, Arrow's, NumPy's."""
    kinds = ["Float64", pd.ArrowDtype(pa.float64()), "float64"]
    if frame.dtypes.iloc[:1].eq("float32").any():
        kinds = ["Float32", pd.ArrowDtype(pa.float32()), "float32"]
    return frame.astype({name: kinds[k % 3] for k, name in enumerate(frame.columns)})


LIBRARIES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "pandas, labelled rows": lambda frame: frame.set_axis([f"row {k}" for k in range(len(frame))]),
    "pandas, nullable": _unlike,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}
if importlib.util.find_spec("polars"):
    import polars as pl

    LIBRARIES["polars"] = lambda frame: pl.DataFrame({name: frame[name].to_numpy() for name in frame.columns})

FRAMED = frozenset(
    name
    for name, call in CALLS.items()
    if not name.startswith(("dask.", "plot.", "perf.", "Kernel", "Outlier"))
    and {"X", "A"} & inspect.signature(call(Draw(0)).function).parameters.keys()
)
"""Functions of data in columns."""

SPOILT = ("a column less", "a column more", "a column renamed", "a missing value", "a text", "a key less", "a key more")


class Framed(NamedTuple):
    """Two calls that say the same, or one that is an error."""

    plain: Call
    framed: Call
    spoilt: str | None


def framed(name: str, choose: Choose, seed: int) -> Framed:
    """Draw a call of arrays, and bring it to frames."""
    call = CALLS[name](Draw(seed))
    parameters = [*inspect.signature(call.function).parameters]
    arguments = dict(zip(parameters, call.args, strict=False)) | call.kwargs
    if arguments.get("check_finite") is False:
        arguments["check_finite"] = True  # a missing value is looked for
    plain = Call(call.function, (), dict(arguments))
    if len(arguments.get("axes") or ()) == 1 and type(arguments["axes"]) is not list:
        arguments["axes"] = [arguments["axes"]]
    dressing = _Dressing(arguments, choose)
    dressing.dress()
    spoilt = dressing.spoil(choose(SPOILT)) if choose((False, True)) else None
    return Framed(plain, Call(call.function, (), dressing.framed), spoilt)


class _Dressing:
    """Arrays of a call as frames of one library, columns of all but the first moved."""

    def __init__(self, arguments: dict[str, Any], choose: Choose) -> None:
        self._plain, self._choose = arguments, choose
        self.framed = dict(arguments)
        self._data = "X" if "X" in arguments else "A"
        data = arguments[self._data]
        self._d = data.shape[1] if data.ndim == 2 else 0
        library = choose([*LIBRARIES])
        self._make = LIBRARIES[library]
        self._labels = choose([*LABELS]) if library.startswith("pandas") else "text"
        self._names: list[Any] = LABELS[self._labels][: self._d]
        self._tables: dict[str, pd.DataFrame] = {}

    def dress(self) -> None:
        a, d, names = self._plain, self._d, self._names
        for argument, of in (("X", names), ("A", names), ("B", ["u", "v"]), ("Z", names), ("seeds", names)):
            if d and a.get(argument) is not None:
                self._table(argument, a[argument], of, moved=argument in ("Z", "seeds"))
        if d and a.get("Y") is not None and a["Y"].ndim == 2:
            self._table("Y", a["Y"], self._of_queries(), moved=True)
        if not d:  # one dimension
            for argument in ("X", "Y"):
                if a.get(argument) is not None and a[argument].ndim == 1:
                    self.framed[argument] = pd.Series(a[argument], name="t")
            return
        named = self._labels == "integers"  # which are no positions
        for argument in ("columns", "columns_a", "columns_b", "given"):
            chosen = a.get(argument)
            if chosen is not None and (named or self._choose((False, True))):
                values = isinstance(chosen, dict)
                self.framed[argument] = {names[k]: chosen[k] for k in chosen} if values else [names[k] for k in chosen]
        for argument in ("h", "score_bandwidth", "denominator_bandwidth"):
            if np.ndim(a.get(argument)) and self._choose((False, True)):
                self.framed[argument] = self._bandwidth(np.asarray(a[argument]))
        for argument in ("bounds", "periods"):
            if a.get(argument) is not None and self._choose((False, True)):
                self.framed[argument] = self._domain(dict(zip(names, a[argument], strict=True)))
        if a.get("axes") is not None and self._choose((False, True)):
            given = dict(zip(names, a["axes"], strict=True))
            self.framed["axes"] = {name: given[name] for name in self._moved(names)}
        if a.get("weights") is not None and self._choose((False, True)):
            self.framed["weights"] = pd.Series(a["weights"])

    def _of_queries(self) -> list[Any]:
        if "columns" in self._plain:
            return [self._names[k] for k in self._plain["columns"]]
        given = self._plain.get("given", ())
        return [name for k, name in enumerate(self._names) if k not in given]

    def _table(self, argument: str, a: np.ndarray, names: list[Any], *, moved: bool) -> None:
        table = pd.DataFrame(a, columns=names)
        self._tables[argument] = table[self._moved(names)] if moved else table
        self.framed[argument] = self._make(self._tables[argument])

    def _moved(self, names: Sequence[Any]) -> list[Any]:
        start = self._choose(range(len(names)))
        turned = [*names[start:], *names[:start]]
        return turned[::-1] if self._choose((False, True)) else turned

    def _bandwidth(self, h: np.ndarray) -> Any:
        moved = self._moved(self._names)
        if h.ndim == 2:
            return pd.DataFrame(h, index=self._names, columns=self._names).loc[self._moved(self._names), moved]
        series = pd.Series(h, index=self._names)[moved]
        kinds = [pd.Series.copy, pd.Series.to_dict]
        if len(h) > 1:  # of one number a frame does not say what it is
            kinds.append(lambda series: self._make(series.to_frame().T))
        return self._choose(kinds)(series)

    def _domain(self, given: dict[Any, Any]) -> Any:
        values = {name: given[name] for name in self._moved([*given])}
        if self._choose((False, True)):
            return {name: value for name, value in values.items() if value is not None}
        out = pd.Series([None] * len(values), index=[*values], dtype=object)
        for k, value in enumerate(values.values()):
            out.iat[k] = value
        return out

    def spoil(self, how: str) -> str | None:
        """Spoil something, if there is such a thing; return what was done."""
        tables = [name for name in self._tables if name not in ("A", "B")]
        mappings = [name for name in ("h", "axes") if isinstance(self.framed.get(name), dict)]
        if "key" in how:
            if not mappings:
                return None
            changed = dict(self.framed[mappings[0]])
            if "less" in how:
                changed.popitem()
            else:
                changed["z"] = 1.0
            self.framed[mappings[0]] = changed
            return how
        if "column" in how:
            tables = [name for name in tables if name != "X"]
        if how == "a missing value" or how == "a text":
            tables = [name for name in tables if len(self._tables[name])]
        if not tables:
            return None
        argument = self._choose(tables)
        table = self._tables[argument].copy()
        if how == "a column less":
            table = table.iloc[:, 1:]
        elif how == "a column more":
            table["z"] = 1.0
        elif how == "a column renamed":
            table.columns = ["z", *list(table.columns)[1:]]
        elif how == "a missing value":
            table.iloc[len(table) // 2, 0] = np.nan
        else:
            table[table.columns[0]] = "x"
        self.framed[argument] = table
        return how


def silently_wrong(calls: Framed) -> str | None:
    """What a call of frames did that it may not: give other numbers than that of arrays, or none though it should."""
    try:
        want: Any = calls.plain()
    except (TypeError, ValueError) as error:
        want = error
    try:
        got: Any = calls.framed()
    except (TypeError, ValueError) as error:
        got = error
    if isinstance(got, Exception):
        return None if isinstance(want, Exception) or calls.spoilt else f"frames are refused: {got}"
    if calls.spoilt:
        return None if _is_empty(got) else f"nothing was said of {calls.spoilt}"
    if isinstance(want, Exception):
        return f"arrays are refused: {want}"
    return _different(got, want)


def _is_empty(result: Any) -> bool:
    """Whether a result has no number, as that of no query: then none is wrong."""
    if isinstance(result, tuple | list):
        return all(map(_is_empty, result))
    return numbers(result).size == 0


def _different(got: Any, want: Any) -> str | None:
    if isinstance(want, str):
        return None if got == want else f"{got!r} where arrays give {want!r}"
    if isinstance(want, tuple | list):
        assert len(got) == len(want)
        return next((found for each in zip(got, want, strict=True) if (found := _different(*each))), None)
    try:
        np.testing.assert_allclose(numbers(got), np.asarray(want), rtol=1e-12, atol=1e-12)
    except AssertionError as error:
        return str(error)
    return None


def numbers(result: Any) -> np.ndarray:
    """The numbers of a result of any library."""
    return np.asarray(result.to_pandas() if isinstance(result, pa.Table) else result)
