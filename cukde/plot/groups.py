"""Rows that are drawn alike: those of a label of ``hue``, or all; rows with NaN are left out."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.entry import names as entry_names, points as entry_points
from cukde.core.frames.columns import labels_of
from cukde.core.frames.libraries import library_of
from cukde.core.over_dask import is_dask
from cukde.density import check as density_check, rows_by_weight
from cukde.plot import check


class Group(NamedTuple):
    """Rows of one label, without those of weight 0."""

    label: str | None  # None: there is no hue
    X: Any  # (n, d) float64; of columns on a logarithmic axis log10
    weights: Any | None  # (n,) float64, all positive
    share: float  # of all groups together, by weight
    number: int = 0  # among all labels


class Rows(NamedTuple):
    """The rows of a picture."""

    backend: ModuleType
    groups: list[Group]
    title: str | None  # name of the column that tells the groups apart
    log: tuple[bool, ...]  # whether the axis of each column is logarithmic
    notes: list[str]  # for the legend, of rows that are not drawn
    names: list[str]  # of the columns, as they are written
    called: entry_names.Labels  # their names as they are, for arguments by name

    @property
    def columns(self) -> int:
        """Return the number of columns."""
        return len(self.log)

    @property
    def drawn(self) -> int:
        """Return the number of rows that are drawn."""
        return sum(len(group.X) for group in self.groups)

    def without(self, faults: dict[int, str]) -> Rows:
        """Return the rows without some groups, of which a note says what they lack."""
        left, notes = [], list(self.notes)
        for group in self.groups:
            if group.number in faults:
                n = len(group.X)
                notes.append(f"{group.label}: {n:,} row{'s' * (n != 1)}, {faults[group.number]}not drawn")
            else:
                left.append(group)
        return self._replace(groups=left, notes=notes)


def taken(X: Any, hue: Any, name: str = "X") -> tuple[int | None, Any, str | None]:
    """Return the position of the column that ``hue`` names, None of labels; the labels of the rows, and their name."""
    for argument, a in ((name, X), ("hue", hue)):
        check.in_memory(argument, is_dask(a))
    labels = labels_of(X)
    if not isinstance(hue, str | int | np.integer) and not (isinstance(hue, tuple) and hue in (labels or ())):
        entry_names.same_rows("hue", hue, name, X)
        title = getattr(hue, "name", None)
        return None, dispatch.to_host(hue), title if isinstance(title, str) and title else None
    check.column_of_labels(hue, labels)
    place, library = (labels or ()).index(hue), library_of(X)
    return place, dispatch.to_host(X[hue] if library is None else list(library.columns(X))[place]), str(hue)


def chosen(X: Any, hue: Any, columns: Any) -> tuple[Any, entry_names.Labels, Any, str | None]:
    """Return the columns to draw, their names, the labels of the rows, and the name of these."""
    place, which, title = taken(X, hue)
    labels = labels_of(X)
    if columns is None and place is None:
        return X, labels or entry_names.of_series(X), which, title
    if labels is None:
        X = density_check.data(X, dispatch.backend(X))[0]
    d = X.shape[1] if labels is None else len(labels)
    places = [k for k in range(d) if k != place] if columns is None else check.chosen(columns, labels, d)
    if labels is None:
        return X[:, places], tuple(f"x{k}" for k in places), which, title
    library, labels = library_of(X), tuple(labels[k] for k in places)
    return X[list(labels)] if library is None else library.chosen(X, places), labels, which, title


def rows(X: Any, called: entry_names.Labels, hue: Any, title: str | None, weights: Any, log_scale: Any) -> Rows:
    """Check data, weights and labels of rows, and return the rows in groups. Unnamed columns are x, or x0, x1, ..."""
    check.in_memory("weights", is_dask(weights))
    entry_names.same_rows("weights", weights, "X", X)
    names = _names(X, called)
    X, weights = (
        entry_points.taken(name, a, missing=True, rounded=name == "weights")
        for name, a in (("X", X), ("weights", weights))
    )
    backend = dispatch.backend(X, weights=weights)
    with backend.device_of(X):
        xp = backend.xp
        x = xp.ascontiguousarray(density_check.data(X, backend)[0], dtype=xp.float64)
        n, d = x.shape
        log = check.log_scale(log_scale, d)
        w = None if weights is None else density_check.weights(weights, n, backend).astype(xp.float64)
        labels, which = (None, None) if hue is None else check.row_labels("hue", hue, n)
        _, finite, ranges = backend.look(x, None, None, [], [] if w is None else [w])
        kept = None if which is None or (which >= 0).all() else backend.asarray(which >= 0)
        if not all(finite):
            whole = ~xp.isnan(x).any(axis=1)
            whole = whole if w is None else whole & ~xp.isnan(w)
            kept = whole if kept is None else kept & whole
        if kept is not None:
            x, w = x[kept], None if w is None else w[kept]
            which = None if which is None else which[backend.asnumpy(kept)]
            check.rows(len(x), False)
            _, finite, ranges = backend.look(x, None, None, [], [] if w is None else [w])
        core_check.finite(dict(zip(("X", "weights"), finite, strict=False)))
        left_out = n - len(x)
        if w is not None:
            density_check.weight_range(*ranges[0])
            positive = w > 0
            x, w = x[positive], rows_by_weight.scaled(w[positive], xp)[0]
            which = None if which is None else which[backend.asnumpy(positive)]
        names = names or [f"x{k}" if d > 1 else "x" for k in range(d)]
        x = _logarithms(x, log, names, xp)
        groups = [Group(None, x, w, 1.0)]
        if labels is not None and which is not None:
            total = len(x) if w is None else float(w.sum())
            groups = []
            for k, label in enumerate(labels):
                of = backend.asarray(which == k)
                own = None if w is None else w[of]
                share = float(of.sum() if own is None else own.sum()) / total
                groups.append(Group(shown_label(label), xp.ascontiguousarray(x[of]), own, share, k))
        check.rows(max(len(group.X) for group in groups), w is not None, in_groups=labels is not None)
        out = Rows(backend, groups, title, log, without_nan(left_out), names, called)
        return out.without({group.number: "" for group in groups if len(group.X) < 2})


def shown_label(label: Any) -> str:
    """Return the text of a label; Matplotlib leaves out of legends what begins with an underscore."""
    if isinstance(label, np.datetime64) and label == label.astype("datetime64[D]"):
        label = label.astype("datetime64[D]")
    return f" {label}" if str(label).startswith("_") else str(label)


def without_nan(left_out: int) -> list[str]:
    """Return what a legend says of so many rows with NaN."""
    return [f"{left_out:,} row{'s' * (left_out > 1)} with NaN left out"] if left_out else []


def _names(X: Any, called: entry_names.Labels) -> list[str]:
    """Return what columns are called in a picture; nothing of those without names."""
    if not called or (labels_of(X) is None and not isinstance(called[0], str)):
        return []
    return [str(label) for label in called]


def _logarithms(x: Any, log: tuple[bool, ...], names: list[str], xp: ModuleType) -> Any:
    if not any(log):
        return x
    scaled = [k for k, logarithmic in enumerate(log) if logarithmic]
    low, high = x[:, scaled].min(axis=0), x[:, scaled].max(axis=0)
    for k, lowest, highest in zip(scaled, low, high, strict=True):
        check.positive(names[k], float(lowest), float(highest), int((x[:, k] <= 0).sum()), len(x))
    out = x.copy()
    out[:, scaled] = xp.log10(x[:, scaled])
    return out
