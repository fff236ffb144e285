"""What is asked of a density given values of some columns: the checked arguments of conditional functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cukde.core import check as core_check
from cukde.core.dask import check as dask_check
from cukde.core.over_dask import is_dask
from cukde.density import check as density_check, rules_by_name
from cukde.density.arguments import prepare
from cukde.density.compositions import check, columns as compositions_columns
from cukde.density.compositions.columns import ConditionalKernel, Widths
from cukde.density.problem import Problem


class Question(NamedTuple):
    """Checked data, the values of given columns, and the widths of all columns."""

    backend: ModuleType
    x: Any  # (n, d)
    y: Any | None  # (m, d - k): queries in the columns that are left
    rest: list[int]
    values: dict[int, Any]  # by the positions of their columns: a float, or an array (m,)
    widths: Widths
    options: dict[str, Any]  # of ``prepare``

    @classmethod
    def of(
        cls,
        backend: ModuleType,
        X: Any,
        given: Any,
        h: Any,
        options: dict[str, Any],
        Y: Any = None,
        *,
        one: str | None = None,
        takes_factors: bool = False,
    ) -> Question:
        """Check arguments, of which ``bounds`` and ``periods`` are taken out of the options.

        One column has to be left for the function ``one``. Without queries ``Y`` arrays are as long as the first.
        """
        ends: dict[str, Any] = {"bounds": options.pop("bounds", None), "periods": options.pop("periods", None)}
        x, _ = density_check.data(X, backend)
        d = x.shape[1]
        labels = compositions_columns.labels(X, d)
        conditions = check.conditions(given, labels, d)
        rest = compositions_columns.others(conditions, d)
        if one is not None:
            check.one_left(rest, labels, d, one)
        y = None if Y is None else check.queries(Y, len(rest), check.left(rest, labels), backend)
        h, factors = rules_by_name.with_factors(h, x, options.get("weights"), takes_factors=takes_factors, **ends)
        widths = Widths.of(h, **ends, d=d)
        values: dict[int, Any] = {}
        m = None if y is None else len(y)
        of = "each row of Y" if y is not None else "each row of the result"
        for column, value in conditions.items():
            dask_check.plain(check.condition_name(column, labels), is_dask(value))
            values[column] = check.condition(column, value, labels, m, backend, of)
            if not isinstance(values[column], float) and m is None:
                m = len(values[column])
        made = cls(backend, x, y, rest, values, widths, {**options, "local_factors": factors})
        density_check.precision(options.get("precision"), made.dtype)
        if widths.domain is not None or made.arrays:
            made._check_values(labels)
        return made

    def _check_values(self, labels: Sequence[Any] | None) -> None:
        check_finite = core_check.flag("check_finite", self.options.get("check_finite", True))
        numbers = {column: value for column, value in self.values.items() if isinstance(value, float)}
        if check_finite:
            arrays = {column: value for column, value in self.values.items() if column not in numbers}
            flags = [bool(self.backend.xp.isfinite(value).all()) for value in arrays.values()]
            names = [check.condition_name(column, labels) for column in arrays]
            core_check.finite(dict(zip(names, flags, strict=True)))
        checked = self.values if check_finite else numbers
        check.given_inside(checked, self.widths.domain, labels, self.backend)

    @property
    def given(self) -> list[int]:
        """Positions of the given columns."""
        return list(self.values)

    @property
    def arrays(self) -> list[Any]:
        """Values that are arrays."""
        return [value for value in self.values.values() if not isinstance(value, float)]

    @property
    def dtype(self) -> np.dtype:
        """Of the result."""
        return density_check.result_dtype(*(a for a in (self.x, self.y, *self.arrays) if a is not None))

    @property
    def kernel(self) -> ConditionalKernel:
        """The kernel about a point, given values."""
        return compositions_columns.conditional_kernel(self.widths.h, self.given)

    def at(self) -> Any:
        """Given values, (m, k); of numbers alone a single row, float64: rounded, one might lie beyond its bound."""
        arrays = self.arrays
        m, dtype = (len(arrays[0]), density_check.result_dtype(*arrays)) if arrays else (1, np.dtype(np.float64))
        at = self.backend.xp.empty((m, len(self.values)), dtype)
        for k, value in enumerate(self.values.values()):
            at[:, k] = value
        return at

    def of_given(self) -> Problem:
        """The density of the given columns at their values."""
        options = self.options | {"precision": density_check.precision(self.options.get("precision"), self.dtype)}
        return prepare(self.x[:, self.given], self.at(), **self.widths.of_columns(self.given), **options)[0]

    def of_rest(self) -> Problem:
        """The columns that are left, and queries in them, in double precision and by the kernel given values."""
        check.unlinked(self.widths.h, self.widths.domain)
        ends = self.widths.of_columns(self.rest) | {"h": self.kernel.h}
        options = self.options | {"precision": "float64", "weights": None}
        return prepare(self.x[:, self.rest], self.y, **ends, **options)[0]

    def moved(self, values: Any, at: Any, sign: float) -> Any:
        """Values (m, r) of the other columns, with their regression on the given ones at ``at`` (m, k) added or taken.

        Without covariances they stay.
        """
        slope = self.kernel.slope
        if slope is None:
            return values
        xp = self.backend.xp
        centre = self.x[:, self.given].astype(xp.float64).mean(axis=0)
        return values + sign * (at.astype(xp.float64) - centre) @ xp.asarray(slope.T)


def chosen_others(arguments: Mapping[str, Any], labels: Sequence[Any], d: int) -> list[int]:
    """Positions of the columns that are not given."""
    return compositions_columns.others(check.conditions(arguments.get("given"), labels, d), d)
