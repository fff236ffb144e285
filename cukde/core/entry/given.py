"""The arguments of a call of a public function, brought to arrays in the order of the data's columns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cost import arguments as core_arguments
from cukde.core.entry import check, missing, names, namespaces, outputs, plain
from cukde.core.frames import categories
from cukde.core.frames.columns import is_of_categories, labels_of, taken as taken_frame
from cukde.core.frames.labelled import labelled
from cukde.core.frames.libraries import known, library_of
from cukde.core.over_dask import is_dask

_DATA = {"X": ("weights", "local_factors", "V"), "Z": ("denominator_weights",)}
"""Data, and what has a number or a row for each of their rows."""

_BESIDE = {beside: data for data, others in _DATA.items() for beside in others}
_LIKE_X = ("Y", "Z", "seeds", "bandwidths")
_SAMPLES = ("A", "B", "x", "y")  # of Kendall's tau: missing values have their own policy there, and names no order
_ARRAYS = (*_DATA, *_BESIDE, *_LIKE_X, *_SAMPLES)

Chosen = Callable[[Mapping[str, Any], Sequence[Any], int], Sequence[int]]


class Entry(NamedTuple):
    """What is known of a function when it is defined."""

    positional: tuple[str, ...]
    needed: frozenset[str]
    own: frozenset[str]  # options that the function does not see
    chosen: Chosen | None
    takes_collections: bool  # of Dask; others would compute them as they are, their columns rounded to a common dtype
    takes_kinds: bool  # of columns, such as categories


class Given:
    """The arguments of one call, as they were given, and brought to arrays."""

    def __init__(self, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any], caller: Any) -> None:
        self._entry = entry
        self.args: tuple[Any, ...] = args
        self.arguments = kwargs
        self.given: dict[str, Any] = {}
        """Arguments by name, as they were given."""
        self._left_out: dict[str, Any] = {}
        self.forced = outputs.forced if outputs.asked_for(caller) else None
        self.lazy = False
        plain.see((*args, *kwargs.values()))
        # Calls that lack an argument, or have one twice, are left to the function's own TypeError.
        by_position = entry.positional[: len(args)]
        if len(args) > len(by_position) or not kwargs.keys().isdisjoint(by_position):
            return
        given = dict(zip(by_position, args, strict=True)) | kwargs
        if entry.needed <= given.keys():
            self.given, self.args, self.arguments = given, (), dict(given)
            self._take()

    def _take(self) -> None:
        """Bring the arguments to arrays, in one order of columns, without the rows that are left out."""
        a, own = self.arguments, self._entry.own
        policy = check.nan_policy(a.pop("nan_policy", "raise")) if "nan_policy" in own else "raise"
        if not self._entry.takes_collections:
            for name, value in a.items():
                core_check.no_collection(name, value)
        self.lazy = any(map(is_dask, a.values()))
        if self.lazy:
            check.eager(policy)
        self._refuses = policy == "raise" and is_true(a.get("check_finite", True))
        self._arrays: dict[int, Any] = {}
        for name in _ARRAYS:
            if (value := a.get(name)) is not None and type(value) not in plain.PLAIN and not is_dask(value):
                core_check.in_memory(name, value)
        X = a.get("X")
        self.labels = labels_of(X)
        self._kinds = self._kinds_of(X) if self._entry.takes_kinds else None
        d = self._take_points(X)
        a.update(names.by_column(self.given, self.labels or names.of_series(X), d))
        if self._kinds is not None:
            a["kinds"] = self._kinds
        if isinstance(a.get("axes"), list):
            a["axes"] = [self._array("axes", each) for each in a["axes"]]
        if policy == "omit" and X is not None:
            self._omit()
        if self._entry.chosen is not None and self.labels is not None and not is_dask(X):
            a["X"] = labelled(a["X"], self.labels)

    def _kinds_of(self, X: Any) -> categories.Kinds | None:
        """Levels of the columns of a frame or a series; None of one of numbers, and of arrays."""
        frame = X if library_of(X) is not None else known(X)
        if frame is None:
            return None
        labels = self.labels or names.of_series(X)
        d = len(self.labels) if self.labels is not None else 1
        kinds = names.by_column({"kinds": self.arguments.get("kinds")}, labels, d)
        return categories.of_frame(frame, kinds.get("kinds", self.arguments.get("kinds")))

    def _kinds_for(self, name: str, value: Any) -> categories.Kinds | None:
        """Levels of the columns of data or queries, in the order of those; None without any."""
        kinds, chosen = self._kinds, self._entry.chosen
        if kinds is None or name not in ("X", "Y"):
            return None
        labels = self.labels
        if name == "Y" and chosen is not None and labels is not None:
            places = chosen(self.arguments, labels, len(labels))
            kinds, labels = tuple(kinds[k] for k in places), tuple(labels[k] for k in places)
        own = labels_of(value)
        if own is None or own == labels or labels is None or set(labels).isdisjoint(own):
            return kinds if own is None or len(own) == len(kinds) else None
        return tuple(kinds[labels.index(each)] if each in labels else None for each in own)

    def _given_code(self, key: Any, value: Any) -> Any:
        """Return the code of a label, or codes of several, where the column of ``given`` is of categories."""
        if self._kinds is None or self.labels is None:
            return value
        found = self.labels.index(key) if key in self.labels else key
        of = self._kinds[found] if isinstance(found, int) and -len(self._kinds) <= found < len(self._kinds) else None
        if of is None:
            return value
        one = isinstance(value, str) or np.ndim(value) == 0
        codes = categories.coded_rows(f"given[{key!r}]", [value] if one else list(value), (of,))[:, 0]
        return float(codes[0]) if one else codes

    def _take_points(self, X: Any) -> int:
        """Bring whatever has rows to arrays; return the number of columns of X, 0 where it does not say."""
        a, chosen = self.arguments, self._entry.chosen
        if X is not None:
            a["X"] = self._points("X", X)
        d = _columns(a.get("X"))
        if self.labels is not None and len(self.labels) != d:
            self.labels = None
        for name in (*_LIKE_X, *_BESIDE, *_SAMPLES, "given", "mass", "q", "log_density"):
            if (value := a.get(name)) is None:
                continue
            if name in _LIKE_X and value is X and chosen is None:  # the data themselves, which passes take once
                a[name] = a["X"]
            elif name in _LIKE_X:
                reference = self._reference(name, d)
                of = "X" if reference == self.labels or reference is None else f"X[{list(reference)}]"
                a[name] = self._points(name, value, reference, of)
            elif name == "given" and isinstance(value, Mapping):
                a[name] = self._given_values(value)
            elif name in _BESIDE:
                a[name] = self._beside(name, value, _BESIDE[name])
            elif name == "B":
                a[name] = self._beside(name, value, "A")
            elif name == "y":
                names.same_rows(name, value, "x", self.given.get("x"))
                a[name] = self._points(name, value, _paired(labels_of(value), labels_of(self.given.get("x"))), of="x")
            else:
                a[name] = self._points(name, value)
        return d

    def _beside(self, name: str, value: Any, of: str) -> Any:
        """Return what has a number or a row for each row of another argument as an array."""
        names.same_rows(name, value, of, self.given.get(of))
        return self._points(name, value)

    def _given_values(self, given: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return values of columns as arrays, codes of labels; their rows go with those of Y and with each other."""
        called = {key: f"given[{key!r}]" for key in given}
        rows = {"Y": self.given.get("Y")} | {called[key]: value for key, value in given.items()}
        for (of, reference), (name, value) in itertools.combinations(rows.items(), 2):
            names.same_rows(name, value, of, reference)
        return {key: self._points(called[key], self._given_code(key, value)) for key, value in given.items()}

    def _reference(self, name: str, d: int) -> names.Labels:
        """Names whose order a frame of points is brought to."""
        chosen = self._entry.chosen
        if chosen is None or name != "Y" or self.labels is None:
            return self.labels
        return tuple(self.labels[k] for k in chosen(self.arguments, self.labels, d))

    def _points(self, name: str, value: Any, reference: names.Labels = None, of: str = "X") -> Any:
        """Return an argument as an array, its columns in the order of the reference; the same one for the same object.

        What is no frame and no array of another library is returned as it is.
        """
        labels = labels_of(value)
        along = names.order(name, labels, reference, of, among=self.labels if name in _LIKE_X else None)
        if is_dask(value):
            return value if along is None or labels is None else value[[labels[k] for k in along]]
        array = self._array(name, value)
        if labels is not None and array is value:  # a frame of a library that is not known here
            array = dispatch.backend(value, name).asarray(value)
        frame = value if library_of(value) is not None else known(value)
        if array is not value and self._refuses and name not in _SAMPLES and frame is not None:
            missing.refuse(name, frame, array, may_omit="nan_policy" in self._entry.own)
        return array if along is None else array[:, along]

    def _array(self, name: str, value: Any) -> Any:
        """Return a frame, a series or an array of another library as an array, anything else as it is."""
        kind, kinds = type(value), self._kinds_for(name, value)
        if kind in plain.PLAIN and kinds is None:
            return value
        if id(value) not in self._arrays:
            array = value
            if library_of(value) is not None:
                array = _numbers(name, value, kinds)
            elif kinds is not None and not namespaces.is_foreign(value) and known(value) is None:
                array = categories.coded_rows(name, value, kinds)
            elif namespaces.is_foreign(value):
                array = namespaces.taken(name, value)
            elif (series := known(value)) is not None:
                array = _numbers(name, series, kinds)
            self._arrays[id(value)] = array
        return self._arrays[id(value)]

    def _omit(self) -> None:
        """Leave out rows with missing values, of data and queries with all that goes with them; results have NaN."""
        a = self.arguments
        arrays = {name: a[name] for name in (*_DATA, *_BESIDE, "Y", "seeds") if a.get(name) is not None}
        X, Y = arrays.pop("X"), arrays.get("Y")
        self._backend = backend = dispatch.backend(X, **arrays)
        with backend.device_of(X):
            itself = Y is X
            if Y is not None and not itself and is_true(a.get("leave_one_out")):
                same = missing.same_points(X, Y, backend)
                a["X"], itself = (X, False) if same is None else (same, True)
            for name, others in _DATA.items():
                a.update(self._omit_rows(name, {other: a[other] for other in others if a.get(other) is not None}))
            for name in ("Y", "seeds"):
                if name == "Y" and itself:
                    a["Y"] = a["X"]
                    if "X" in self._left_out:
                        self._left_out["Y"] = self._left_out["X"]
                elif a.get(name) is not None:
                    given = a.get("given") if name == "Y" else None
                    if kept := self._omit_rows(name, given if isinstance(given, Mapping) else {}, "given[{!r}]"):
                        a["given"] = kept

    def _omit_rows(self, name: str, others: Mapping[Any, Any], called: str = "{}") -> dict[Any, Any]:
        """Leave out rows of an argument; return what goes with them, ``called`` so in errors, without those rows."""
        a, beside = self.arguments, dict(others)
        if a.get(name) is None:
            return beside
        own = core_check.array(name, a[name], self._backend, missing=True)
        arrays = {
            key: core_check.array(called.format(key), each, self._backend, missing=True, rounded=key in _BESIDE)
            for key, each in beside.items()
        }
        n = len(own) if own.ndim else 0
        named = [(name, own), *((called.format(key), array) for key, array in arrays.items())]
        flags = missing.rows_of(named, n, self._backend.xp)
        a[name], beside = own, beside | {key: array for key, array in arrays.items() if array.ndim}
        if flags is not None:
            self._left_out[name], a[name] = flags, own[~flags]
            beside |= {key: array[~flags] for key, array in arrays.items() if array.shape[:1] == (n,)}
        return beside

    def of_all_rows(self, result: Any, argument: str) -> Any:
        """Give a result the rows that were left out of an argument, NaN."""
        left_out = self._left_out.get(argument if self.given.get(argument) is not None else "X")
        return result if left_out is None else missing.filled(result, left_out, self._backend)


def is_true(flag: Any) -> bool:
    """Whether a flag is set; anything but a flag is refused later."""
    return isinstance(flag, bool | np.bool_ | int) and bool(flag)


def _columns(X: Any) -> int:
    """The number of columns of data, 0 of what is none."""
    try:
        shape = core_arguments.shape(X)
    except (TypeError, ValueError):  # refused later
        return 0
    return int(shape[1]) if len(shape) == 2 and shape[1] == shape[1] else int(len(shape) == 1)


def _numbers(name: str, a: Any, kinds: categories.Kinds | None) -> Any:
    """Return a frame or a series as an array; samples that are compared by NumPy, such as text, as they are."""
    try:
        return taken_frame(name, a, by_order=name in _SAMPLES, kinds=kinds)
    except TypeError:
        if name not in ("x", "y") or is_of_categories(a):
            raise
        return a


def _paired(labels: names.Labels, of: names.Labels) -> names.Labels:
    """Names that two samples of Kendall's tau are paired by: those of the first where both have any in common."""
    return of if labels is not None and of is not None and not set(labels).isdisjoint(of) else None
