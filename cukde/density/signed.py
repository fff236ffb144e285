"""Densities with weights of both signs: the difference of two, of the rows of each sign."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from cukde.core import check as core_check, dispatch
from cukde.density import check, results
from cukde.density.keywords import refuse, taken
from cukde.density.mixed import check as mixed_check
from cukde.density.stacks.check import is_stack

T = TypeVar("T", bound=Callable[..., Any])

_OF_ROWS = ("weights", "local_factors")


def with_signed(function: T) -> T:
    """Let a density that is linear in its weights take ``signed``.

    It is then the difference of two sums of positive terms, so that every pass serves, and its error is relative to
    their sum.
    """
    names = [*inspect.signature(function).parameters][:3]  # data, where the density is asked for, and the bandwidth

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if not core_check.flag("signed", taken(options, "signed")):
            return function(*args, **options)
        given = dict(zip(names, args, strict=False)) | options
        X, at, h = (given.pop(name) for name in names)
        if is_stack(X):
            refuse({"signed": True}, form="stacks")
        return function(*args, **options) if options.get("weights") is None else _difference(function, X, at, h, given)

    return call  # type: ignore[return-value]


def _difference(function: Callable[..., Any], X: Any, at: Any, h: Any, options: dict[str, Any]) -> Any:
    check.of_signed(options)
    check.no_rule_of_signed(h)
    factors = options.get("local_factors")
    backend = dispatch.backend(X, weights=options["weights"], local_factors=factors)
    with backend.device_of(X):
        xp = backend.xp
        x, _ = check.data(X, backend)
        if options.get("kinds") is not None:  # levels are those of all rows
            words, (options["kinds"], x) = options["kinds"], mixed_check.of_array(options["kinds"], x, backend)
            if options["kinds"] is not None and at is not None:
                queries = check.queries(at, x.shape[1], backend)[0]
                at = mixed_check.coded("Y", queries, options["kinds"], words, backend)
        of_rows = {
            name: check.weights(options[name], len(x), backend, name)
            for name in _OF_ROWS
            if options.get(name) is not None
        }
        w = of_rows["weights"]
        if options.get("check_finite", True):
            core_check.finite({"weights": bool(xp.isfinite(w).all())})
        if w.dtype.kind != "f":
            w = w.astype(xp.float64)
        scale = float(abs(w).max())
        check.weight_range(0.0, scale)
        least = 4 * float(xp.finfo(w.dtype).eps)  # a share of the sum of absolute weights that is rounding
        w = of_rows["weights"] = w.astype(xp.float64)
        signs = [rows for rows in (xp.flatnonzero(w > 0), xp.flatnonzero(w < 0)) if len(rows)]
        masses = [float((w[rows] / scale).sum()) for rows in signs]
        total = sum(masses)
        check.signed_sum(total, sum(map(abs, masses)), least)
        parts = []
        for rows in signs:
            given = {name: a[rows] for name, a in of_rows.items()} | {"weights": abs(w[rows])}
            parts.append(function(x[rows], x if at is None else at, h, **options | given))
        if len(parts) == 1:
            return parts[0]
        density = sum(mass / total * part.astype(xp.float64) for mass, part in zip(masses, parts, strict=True))
        return results.cast(density, parts[0].dtype)
