"""Calls with arguments that do not fit: good calls, of which some arguments are replaced, damaged, dropped or added."""

from __future__ import annotations

import datetime
import decimal
import fractions
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse
from hypothesis import strategies as st
from hypothesis.extra.numpy import (
    array_shapes,
    arrays,
    complex_number_dtypes,
    datetime64_dtypes,
    floating_dtypes,
    integer_dtypes,
    unicode_string_dtypes,
)

from tests import extended
from tests.array_api import Tensor
from tests.public_calls import CALLS, Call, Draw, only_documented_warnings

Choose = Callable[[Sequence[Any]], Any]
"""Picks one of several: by hypothesis, which then finds the simplest call that fails, or at random."""


class _Nothing:
    """Holds nothing, has nothing."""

    def __repr__(self) -> str:
        return "<an object>"


class Lazy:
    """As a frame of polars that is computed when it is collected."""

    def __init__(self, a: np.ndarray) -> None:
        self._frame = pd.DataFrame(a)

    @property
    def columns(self) -> list[str]:
        raise AssertionError("asked for its names, which takes work")

    def collect(self) -> pd.DataFrame:
        return self._frame


def _read_only(a: np.ndarray) -> np.ndarray:
    a.flags.writeable = False
    return a


WRONG: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "an empty text": lambda: "",
    "a text": lambda: "abc",
    "a word with a line end": lambda: "kde\n",
    "a text with a zero": lambda: "a\0b",
    "a long text": lambda: "x" * 5000,
    "bytes": lambda: b"abc",
    "an object": _Nothing,
    "a type": lambda: float,
    "a function": lambda: len,
    "an ellipsis": lambda: ...,
    "a slice": lambda: slice(3),
    "an empty dictionary": dict,
    "a dictionary": lambda: {"a": [1.0]},
    "a set": lambda: {1.0, 2.0},
    "an iterator": lambda: iter([1.0, 2.0]),
    "a range": lambda: range(3),
    "an empty list": list,
    "an empty tuple": tuple,
    "a ragged list": lambda: [[1.0], [1.0, 2.0]],
    "a list with None": lambda: [1.0, None],
    "a list of text": lambda: ["1", "b"],
    "a list of objects": lambda: [_Nothing(), _Nothing()],
    "a deep list": lambda: [[[[1.0]]]],
    "a list that holds a huge integer": lambda: [1, 10**30],
    "a pair": lambda: (1.0, 2.0),
    "a complex number": lambda: 1j,
    "complex numbers": lambda: np.ones((3, 2), complex),
    "a date": lambda: datetime.datetime(2020, 1, 1),
    "dates": lambda: np.array(["2020-01-01", "NaT"], "datetime64[D]"),
    "durations": lambda: np.arange(3).astype("timedelta64[s]"),
    "a structured array": lambda: np.zeros(3, [("a", float), ("b", int)]),
    "a masked array": lambda: np.ma.masked_equal([[1.0, 2.0], [3.0, 4.0]], 2),
    "an unmasked masked array": lambda: np.ma.array([[1.0, 2.0], [3.0, 4.0]]),
    "an array of no dimension": lambda: np.array(1.5),
    "an array of three dimensions": lambda: np.ones((2, 3, 2)),
    "an array of five dimensions": lambda: np.ones((1, 2, 1, 2, 1)),
    "an empty array": lambda: np.empty(0),
    "no rows": lambda: np.empty((0, 3)),
    "no columns": lambda: np.empty((3, 0)),
    "an array of text": lambda: np.array(["a", "bc"]),
    "an array of objects": lambda: np.array([1.0, None], object),
    "an array of integers as objects": lambda: np.array([1, 10**30], object),
    "bytes in an array": lambda: np.array([b"a", b"bc"]),
    "void": lambda: np.zeros(2, "V8"),
    **({} if extended.IS_DOUBLE else {"long doubles": lambda: np.ones(3, np.longdouble)}),
    "float16": lambda: np.linspace(0, 6e4, 6, dtype=np.float16).reshape(3, 2),
    "numbers of the other byte order": lambda: np.arange(6.0).astype(">f8").reshape(3, 2),
    "unsigned integers": lambda: np.arange(6, dtype=np.uint64).reshape(3, 2) + 2**63,
    "booleans": lambda: np.eye(3, dtype=bool),
    "negative strides": lambda: np.arange(12.0)[::-2].reshape(3, 2),
    "a broadcast array": lambda: np.broadcast_to(1.0, (3, 2)),
    "a read-only array": lambda: _read_only(np.arange(6.0).reshape(3, 2)),
    "a matrix": lambda: np.array([[1.0, 0.2], [0.2, 1.0]]),
    "a singular matrix": lambda: np.ones((2, 2)),
    "NaN in an array": lambda: np.array([[1.0, np.nan], [2.0, 3.0]]),
    "infinity in an array": lambda: np.array([[1.0, -np.inf], [2.0, 3.0]]),
    "huge numbers": lambda: np.array([[1e308, -1e308], [1e200, 0.0]]),
    "tiny numbers": lambda: np.full((3, 2), 5e-324),
    "a memory view": lambda: memoryview(np.arange(3.0)),
    "a table": lambda: pd.DataFrame({"a": [1.0, 2.0], "b": ["x", None]}),
    "a table of missing numbers": lambda: pd.DataFrame({"a": pd.array([1, None], "Int64")}),
    "a categorical column": lambda: pd.Series(["a", "b"], dtype="category"),
    "a table with names": lambda: pd.DataFrame({"b": [1.0, 2.0, 0.5], "a": [0.5, 3.0, 1.0]}),
    "a table of Arrow": lambda: pa.table({"a": [1.0, None], "b": [True, False]}),
    "a series with labels": lambda: pd.Series({"b": 0.5, "a": 1.0}),
    "an array of another library": lambda: Tensor(np.linspace(-1, 1, 6).reshape(3, 2)),
    "numbers by names": lambda: {"a": 1.0, "b": 0.5},
    "numbers by positions": lambda: {0: 1.0, 1: 0.5},
    "a missing value": lambda: pd.NA,
    "a generator": lambda: (each for each in (1.0, 2.0)),
    "values of a dictionary": lambda: {"a": 1.0, "b": 2.0}.values(),
    "a sparse matrix": lambda: scipy.sparse.eye_array(3, 2, format="csr"),
    "a lazy frame": lambda: Lazy(np.eye(2)),
    "integers that float64 does not have": lambda: np.arange(6).reshape(3, 2) + 2**53,
    "integers beside floats": lambda: [[2**53 + 1, 0.5], [3, 1.5]],
    "integers, missing": lambda: pd.array([2**53 + 1, None, 3], "Int64"),
    "objects, missing": lambda: pd.DataFrame({"a": [2**70, None, 1], "b": [1, pd.NA, 2.5]}, dtype=object),
    "ordered categories": lambda: pd.Series(pd.Categorical(["b", None, "a"], ["b", "a"], ordered=True)),
    "intervals": lambda: pd.Series(pd.interval_range(0, 3)),
    "a dictionary of Arrow": lambda: pa.array(["a", None, "b"]).dictionary_encode(),
    "numbers of Arrow as decimals": lambda: pa.array([decimal.Decimal("0.5"), None]),
    "0": lambda: 0,
    "-1": lambda: -1,
    "1": lambda: 1,
    "a huge integer": lambda: 10**30,
    "a huge negative integer": lambda: -(10**30),
    "an integer of 64 bits": lambda: 2**63,
    "an integer beyond memory": lambda: 2**62,
    "a fraction": lambda: fractions.Fraction(1, 3),
    "a decimal": lambda: decimal.Decimal("0.5"),
    "NumPy's integer": lambda: np.int8(3),
    "NumPy's boolean": lambda: np.bool_(True),
    "0.5": lambda: 0.5,
    "-0.5": lambda: -0.5,
    "NaN": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "minus infinity": lambda: float("-inf"),
    "a huge number": lambda: 1e308,
    "a tiny number": lambda: 5e-324,
    "an option of another function": lambda: "float32",
    "an option in capitals": lambda: "SAME",
}
"""What may stand where something else is expected; some fit here and there."""


def _planted(value: float) -> Callable[[np.ndarray], np.ndarray]:
    def planted(a: np.ndarray) -> np.ndarray:
        out = a.copy()
        out.flat[out.size // 2] = value
        return out

    return planted


def _structured(a: np.ndarray) -> np.ndarray:
    return a.astype([("a", a.dtype), ("b", a.dtype)])


DAMAGE: dict[str, Callable[[np.ndarray], Any]] = {
    "NaN": _planted(np.nan),
    "infinity": _planted(np.inf),
    "a huge entry": _planted(3e38),
    "a negative entry": _planted(-1.0),
    "zeros": np.zeros_like,
    "a scale of 1e-300": lambda a: a.astype(np.float64) * 1e-300,
    "a scale of 1e300": lambda a: a.astype(np.float64) * 1e300,
    "one axis more": lambda a: a[None],
    "one more behind": lambda a: a[..., None],
    "flat": lambda a: a.ravel(),
    "transposed": lambda a: a.T,
    "a row less": lambda a: a[1:],
    "a column less": lambda a: a[..., 1:],
    "no row": lambda a: a[:0],
    "no column": lambda a: a[..., :0],
    "one row": lambda a: a[:1],
    "twice": lambda a: np.concatenate([a, a]),
    "its first entry": lambda a: a.flat[0],
    "reversed": lambda a: a[::-1],
    "sorted": lambda a: np.sort(a, axis=0),
    "a list": lambda a: a.tolist(),
    "complex": lambda a: a.astype(complex),
    "text": lambda a: a.astype(str),
    "objects": lambda a: a.astype(object),
    "objects and None": lambda a: np.append(a.astype(object), None),
    "integers": lambda a: np.round(4 * a).astype(np.int8),
    "booleans": lambda a: a > 0,
    "float16": lambda a: a.astype(np.float16),
    **({} if extended.IS_DOUBLE else {"long doubles": lambda a: a.astype(np.longdouble)}),
    "the other byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "dates": lambda a: np.round(a).astype("datetime64[s]"),
    "structured": _structured,
    "masked": lambda a: np.ma.masked_greater(a, 0.5),
    "masked as a whole": lambda a: np.ma.masked_all_like(a),
    "objects and pandas.NA": lambda a: np.append(a.astype(object), pd.NA),
    "integers that float64 does not have": lambda a: np.round(9 * np.clip(a, -9, 9)).astype(np.int64) + 2**60,
    "nullable": lambda a: pd.DataFrame(a.reshape(len(a), -1)).convert_dtypes(),
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "read-only": lambda a: _read_only(a.copy()),
    "a table": lambda a: pd.DataFrame(a) if a.ndim == 2 else pd.Series(a.ravel()),
    "a tensor": lambda a: Tensor(a.astype(np.float64)) if a.dtype.itemsize > 8 or not a.dtype.isnative else Tensor(a),
}
"""What may happen to an array."""

_SURPLUS: tuple[tuple[str, Any], ...] = (
    ("surplus", 1),
    ("out", None),
    ("nan_policy", "omit"),
    ("Xs", None),
    ("n", 10),
    ("dtype", "float32"),
)


_WAITED_FOR = ("seconds", "calls")
"""Options that say how long to measure, and long means long."""


def malformed(name: str, choose: Choose, seed: int, anything: Callable[[], Any] | None = None) -> Call:
    """Damage a good call of a function in one place or a few.

    ``anything`` makes up values of any kind.
    """
    call = CALLS[name](Draw(seed))
    for _ in range(choose((1, 1, 1, 2, 3))):
        call = _damaged(call, choose, anything)
    return call


def _damaged(call: Call, choose: Choose, anything: Callable[[], Any] | None) -> Call:
    places = [*range(len(call.args)), *call.kwargs]
    how = choose(("replace", "damage", "replace", "damage", "replace", "damage", "drop", "surplus", "surplus option"))
    if how == "surplus option" or not places:
        key, value = choose(_SURPLUS)
        return replace(call, kwargs={key: value} | call.kwargs)
    if how == "surplus":
        return replace(call, args=(*call.args, choose([*WRONG.values()])()))
    where = choose(places)
    old = call.args[where] if isinstance(where, int) else call.kwargs[where]
    if how == "drop":
        if isinstance(where, int):
            return replace(call, args=call.args[:where] + call.args[where + 1 :])
        return replace(call, kwargs={k: v for k, v in call.kwargs.items() if k != where})
    if how == "damage" and type(old) is np.ndarray and old.size and old.ndim and old.dtype.kind == "f":
        new = _made(choose([*DAMAGE.values()]), old)
    elif anything is not None and choose((False, False, True)):
        new = anything()
    else:
        new = choose([*WRONG.values()])()
    if where in _WAITED_FOR and isinstance(new, int | float) and new > 0.01:
        return call
    if isinstance(where, int):
        return replace(call, args=(*call.args[:where], new, *call.args[where + 1 :]))
    return replace(call, kwargs={**call.kwargs, where: new})


def _made(damage: Callable[[np.ndarray], Any], old: np.ndarray) -> Any:
    with np.errstate(all="ignore"):
        return damage(old)


DOCUMENTED: Mapping[str, tuple[type[Exception], ...]] = {
    "KernelDensity.fit": (RuntimeError,),  # no GPU works
    "KernelDensity.grad_log_density": (NotImplementedError, RuntimeError),
    "KernelDensity.sample": (NotImplementedError,),
    "KernelDensity.save": (OSError,),
    "KernelDensity.load": (OSError,),
    "perf.measure": (RuntimeError,),
    "perf.measure_peaks": (RuntimeError,),
    "perf.roofline": (OSError,),
    "warmup": (RuntimeError,),
}
"""Errors that functions say they raise beside TypeError and ValueError: of files, and where no GPU works."""

_CONTENTS = (bytes, str, int, float, bool, type(None), range)


def _contents(a: Any) -> Any:
    """What an argument holds, to be compared."""
    if isinstance(a, np.ndarray):
        plain = np.asarray(a)
        return (type(a), a.dtype, a.shape, a.strides, np.ma.getmaskarray(a).tobytes(), plain.tobytes())
    if isinstance(a, list | tuple | set):
        return [_contents(each) for each in a]
    if isinstance(a, dict):
        return [(key, _contents(value)) for key, value in a.items()]
    if isinstance(a, pd.DataFrame | pd.Series):
        return a.shape, [repr(each) for each in a.to_numpy().flat]
    return repr(a) if isinstance(a, _CONTENTS) else id(a)


def broken_promise(name: str, call: Call) -> str | None:
    """Make a call, and say what it did that no call may: raise another error or a warning, or change its arguments."""
    given = {place: a for place, a in (*enumerate(call.args), *call.kwargs.items()) if place != "out"}
    before = _contents(given)
    try:
        with warnings.catch_warnings():
            only_documented_warnings()
            call()
    except (TypeError, ValueError, *DOCUMENTED.get(name, ())):
        pass
    except Exception as error:  # whatever else it is, it is what is looked for
        return f"{name} raised {type(error).__name__}: {error}"
    if _contents(given) != before:
        return f"{name} changed its arguments"
    return None


_NUMBERS = st.floats(allow_subnormal=True) | st.integers(-(2**70), -1) | st.integers(0, 50) | st.complex_numbers()
_PLAIN = (
    st.none() | st.booleans() | _NUMBERS | st.text(max_size=8) | st.binary(max_size=8) | st.dates() | st.fractions()
)
_DTYPES = st.one_of(
    floating_dtypes(), integer_dtypes(), complex_number_dtypes(), datetime64_dtypes(), unicode_string_dtypes(max_len=3)
)
ANYTHING: st.SearchStrategy[Any] = st.one_of(
    _PLAIN,
    st.lists(st.lists(_PLAIN, max_size=3) | _PLAIN, max_size=4),
    st.dictionaries(st.text(max_size=3), _PLAIN, max_size=3),
    st.sets(st.integers(0, 9), max_size=3),
    arrays(_DTYPES, array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)),
)
"""Values of any kind."""


@st.composite
def calls(draw: st.DrawFn, name: str) -> Call:
    """Malformed calls of a function."""
    return malformed(
        name, lambda options: draw(st.sampled_from(options)), draw(st.integers(0, 999)), lambda: draw(ANYTHING)
    )
