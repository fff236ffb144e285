"""Conditional densities of mixed columns: the joint density over that of the given columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cukde.core import dispatch
from cukde.core.frames import categories
from cukde.density import check as density_check, results
from cukde.density.arguments import problem_of
from cukde.density.compositions import check, columns as compositions_columns
from cukde.density.domains.domain import arguments_of, domain_of
from cukde.density.mixed import check as mixed_check, density as mixed_density


def conditional(
    X: Any, given: Mapping[Any, Any], Y: Any, h: Any, kinds: Any, options: dict[str, Any], *, log: bool
) -> Any | None:
    """Return the density of the other columns, given values of some; None where all columns are numbers.

    The kernels of the columns that are not given sum, or integrate, to 1: the marginal is the density of the others.
    """
    backend = dispatch.backend(X, Y=Y, weights=options.get("weights"), **check.values_by_name(given))
    with backend.device_of(X):
        x, _ = density_check.data(X, backend)
        d = x.shape[1]
        words = categories.words_of(kinds, d)
        if all(each in (None, "number") for each in words):
            return None
        labels = compositions_columns.labels(X, d)
        conditions = check.conditions(given, labels, d)
        rest = compositions_columns.others(conditions, d)
        y = check.queries(Y, len(rest), check.left(rest, labels), backend)
        values = {k: check.condition(k, value, labels, len(y), backend) for k, value in conditions.items()}
        numbers = {k: value for k, value in values.items() if isinstance(value, float)}
        arrays = [value for k, value in values.items() if k not in numbers]
        domain = domain_of(options.pop("bounds", None), options.pop("periods", None), d)
        check.given_inside(numbers, domain, labels, backend)
        widths = np.asarray(mixed_check.found(h, x, words, options.get("weights"), **arguments_of(domain)))
        dtype = density_check.result_dtype(x, y, *arrays)
        options["precision"] = density_check.precision(options.get("precision"), dtype)
        at = backend.xp.empty((len(y), d))
        at[:, rest] = y
        for column, value in values.items():
            at[:, column] = value

        def log_density(chosen: list[int], queries: Any) -> Any:
            some = {**options, **arguments_of(None if domain is None else domain.of_columns(chosen))}
            of = x[:, chosen], queries[:, chosen], widths[chosen] if widths.shape == (d,) else widths
            out = mixed_density.density(*of, [words[k] for k in chosen], some, log=True, exact=True)
            return problem_of(*of, some).density(log=True) if out is None else out

        log_p, log_q = log_density([*range(d)], at), log_density([*values], at if arrays else at[:1])
        return results.quotient(log_p, log_q, log=log, dtype=dtype, xp=backend.xp)
