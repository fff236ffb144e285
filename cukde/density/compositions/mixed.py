"""Conditional densities of mixed columns: the joint density over that of the given columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cukde.density import check as density_check, results
from cukde.density.compositions import check, columns as compositions_columns
from cukde.density.domains.domain import domain_of
from cukde.density.mixed import check as mixed_check, density as mixed_density
from cukde.density.mixed.density import Columns
from cukde.density.mixed.kernels import Mixed


def conditional(
    X: Any, given: Mapping[Any, Any], Y: Any, h: Any, kinds: Any, options: dict[str, Any], *, log: bool
) -> Any | None:
    """Return the density of the other columns, given values of some; None where all columns are numbers.

    The kernels of the columns that are not given sum, or integrate, to 1: the marginal is the density of the others.
    """
    weights = options.get("weights")
    columns = Columns.of(X, kinds, Y=Y, weights=weights, **check.values_by_name(given))
    if columns is None:
        return None
    backend, x = columns.backend, columns.x
    with backend.device_of(x):
        d = x.shape[1]
        labels = compositions_columns.labels(X, d)
        conditions = check.conditions(given, labels, d)
        rest, held = compositions_columns.others(conditions, d), list(conditions)
        y = check.queries(Y, len(rest), check.left(rest, labels), backend)
        values = {
            column: check.condition(column, value, labels, len(y), backend) for column, value in conditions.items()
        }
        mixed = Mixed(
            columns.kinds, mixed_check.of_data(h, x, columns.kinds, weights, **mixed_density.of_search(options))
        )
        domain = domain_of(options.pop("bounds", None), options.pop("periods", None), d)
        check.given_inside({k: v for k, v in values.items() if isinstance(v, float)}, domain, labels, backend)
        arrays = [value for value in values.values() if not isinstance(value, float)]
        dtype = density_check.result_dtype(x, y, *arrays)
        options["precision"] = density_check.precision(options.get("precision"), dtype)
        at = backend.xp.empty((len(y), d))
        at[:, rest] = columns.coded("Y", y, rest)
        for column, value in values.items():
            array = backend.asarray(np.full((1, 1), value)) if isinstance(value, float) else value[:, None]
            at[:, [column]] = columns.coded(check.condition_name(column, labels), array, [column])

        def log_density(chosen: list[int], queries: Any) -> Any:
            part = None if domain is None else domain.of_columns(chosen)
            of_some = {**options, **({} if part is None else part.arguments)}
            kernel = mixed.of_columns(chosen)
            return mixed_density.of_points(kernel, x[:, chosen], queries, backend, of_some, log=True, exact=True)

        log_p = log_density([*range(d)], at)
        log_q = log_density(held, at[:, held] if arrays else at[:1, held])
        return results.quotient(log_p, log_q, log=log, dtype=dtype, xp=backend.xp)
