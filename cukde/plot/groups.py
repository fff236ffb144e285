"""Rows that are drawn alike: those of a label of ``hue``, or all; rows with NaN are left out."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.over_dask import is_dask
from cukde.density import check as density_check, rows_by_weight
from cukde.plot import check


class Group(NamedTuple):
    """Rows of one label, without those of weight 0."""

    label: str | None  # None: there is no hue
    X: Any  # (n, d) float64; of columns on a logarithmic axis log10
    weights: Any | None  # (n,) float64, all positive
    share: float  # of all groups together, by weight


class Rows(NamedTuple):
    """The rows of a picture."""

    backend: ModuleType
    groups: list[Group]
    title: str | None  # name of the column that tells the groups apart
    log: tuple[bool, ...]  # whether the axis of each column is logarithmic
    left_out: int  # rows with NaN
    names: list[str]  # of the columns

    @property
    def columns(self) -> int:
        """Return the number of columns."""
        return len(self.log)

    @property
    def drawn(self) -> int:
        """Return the number of rows that are drawn."""
        return sum(len(group.X) for group in self.groups)


def taken(X: Any, hue: Any, name: str = "X") -> tuple[list[Any] | None, Any, str | None]:
    """Return the names of the columns that ``hue`` does not name, the labels of the rows, and their name."""
    for argument, a in ((name, X), ("hue", hue)):
        check.in_memory(argument, is_dask(a))
    names = list(X.columns) if hasattr(X, "columns") else None
    if not isinstance(hue, str | int | np.integer):
        title = getattr(hue, "name", None)
        return names, dispatch.to_host(hue), title if isinstance(title, str) and title else None
    check.column_of_labels(hue, names)
    return [each for each in names or () if each != hue], dispatch.to_host(X[hue]), str(hue)


def chosen(X: Any, hue: Any, columns: Any) -> tuple[Any, list[str], Any, str | None]:
    """Return the columns to draw, their names, the labels of the rows, and the name of these."""
    drawn, labels, title = taken(X, hue)
    if drawn is None:
        if columns is None:
            return X, [], labels, title
        X = density_check.data(X, dispatch.backend(X))[0]
        places = check.chosen(columns, None, X.shape[1])
        return X[:, places], [f"x{k}" for k in places], labels, title
    if columns is not None:
        names = list(X.columns)
        drawn = [names[k] for k in check.chosen(columns, names, X.shape[1])]
    return X if drawn == list(X.columns) else X[drawn], [str(name) for name in drawn], labels, title


def rows(X: Any, names: list[str], hue: Any, title: str | None, weights: Any, log_scale: Any) -> Rows:
    """Check data, weights and labels, and return the rows in groups. Unnamed columns are x, or x0, x1, ..."""
    check.in_memory("weights", is_dask(weights))
    backend = dispatch.backend(X, weights=weights)
    with backend.device_of(X):
        xp = backend.xp
        x = xp.ascontiguousarray(density_check.data(X, backend)[0], dtype=xp.float64)
        n, d = x.shape
        log = check.log_scale(log_scale, d)
        w = None if weights is None else density_check.weights(weights, n, backend).astype(xp.float64)
        labels, which = (None, None) if hue is None else check.row_labels("hue", hue, n)
        _, finite = backend.look(x, None, None, [] if w is None else [w])
        kept = None if which is None or (which >= 0).all() else backend.asarray(which >= 0)
        if not all(finite):
            whole = ~xp.isnan(x).any(axis=1)
            whole = whole if w is None else whole & ~xp.isnan(w)
            kept = whole if kept is None else kept & whole
        if kept is not None:
            x, w = x[kept], None if w is None else w[kept]
            which = None if which is None else which[backend.asnumpy(kept)]
            check.rows(len(x), False)
            _, finite = backend.look(x, None, None, [] if w is None else [w])
        core_check.finite(dict(zip(("X", "weights"), finite, strict=False)))
        left_out = n - len(x)
        if w is not None:
            density_check.weight_range(float(w.min()), float(w.max()))
            positive = w > 0
            x, w = x[positive], rows_by_weight.scaled(w[positive], xp)[0]
            which = None if which is None else which[backend.asnumpy(positive)]
        names = names or _names(X, d)
        x = _logarithms(x, log, names, xp)
        groups = [Group(None, x, w, 1.0)]
        if labels is not None and which is not None:
            total = len(x) if w is None else float(w.sum())
            groups = []
            for k, label in enumerate(labels):
                of = backend.asarray(which == k)
                own = None if w is None else w[of]
                share = float(of.sum() if own is None else own.sum()) / total
                groups.append(Group(str(label), xp.ascontiguousarray(x[of]), own, share))
        for group in groups:
            check.rows(len(group.X), w is not None, group.label)
        return Rows(backend, groups, title, log, left_out, names)


def _names(X: Any, d: int) -> list[str]:
    """Return names of columns without names: x, or that of a series, and x0, x1, ... for several."""
    name = getattr(X, "name", None)
    if d == 1:
        return [name if isinstance(name, str) and name else "x"]
    return [f"x{k}" for k in range(d)]


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
