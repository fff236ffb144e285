"""Sizes of calls of the density family."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cukde.core.cost import arguments
from cukde.core.cost.registry import Observed
from cukde.core.plan import traced
from cukde.density import check as density_check
from cukde.density.mass_sizes import SAMPLES
from cukde.density.sums import Output

Sizes = dict[str, Any]


def of_queries(
    X: Any,
    Y: Any,
    h: Any = None,
    *,
    weights: Any = None,
    local_factors: Any = None,
    rtol: float | None = None,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    **others: Any,
) -> Sizes:
    """Sizes of a call with data and queries; other arguments do not change them.

    Images of data over bounds and periods are not counted: the data decide how many matter.
    """
    n, d = _rows(X)
    at_data = Y is None or Y is X
    sizes = {
        "n": n,
        "m": n if at_data else _rows(Y, "Y")[0],
        "d": d,
        "dtype": arguments.promoted(X) if at_data else arguments.promoted(X, Y),
        "at_data": at_data,
        "precision": precision,
        "deterministic": bool(deterministic),
        "check_finite": bool(check_finite),
        "weighted": weights is not None,
    }
    sizes |= {} if local_factors is None else {"local": True}
    return sizes if rtol is None else sizes | {"rtol": density_check.tolerance(rtol)}


def of_density(X: Any, Y: Any, h: Any = None, *, leave_one_out: bool = False, **options: Any) -> Sizes:
    """Sizes of a call of a density, at queries that may each leave out their own row."""
    sizes = of_queries(X, Y, h, **options)
    return sizes | {"leave_one_out": True} if leave_one_out else sizes


def of_positive(X: Any, Y: Any, h: Any = None, *, mass: Any = None, **options: Any) -> Sizes:
    """Sizes of a call of the positive density, with what finds its mass."""
    return of_queries(X, Y, h, **options) | {"samples": SAMPLES if mass is None else 0}


def of_mass(X: Any, h: Any = None, *, axes: Any = None, samples: int = SAMPLES, **options: Any) -> Sizes:
    """Sizes of a call for the mass; nodes of a grid are as many points."""
    if axes is not None:
        samples = of_grid(X, axes, h)["m"]
    return of_data(X, h, **options) | {"samples": samples}


def of_data(X: Any, h: Any = None, **options: Any) -> Sizes:
    """Sizes of a call with the data alone."""
    sizes = of_queries(X, None, h, **options)
    return {name: size for name, size in sizes.items() if name not in ("m", "at_data")}


def of_debias(X: Any, h: Any = None, *, steps: int = 1, **options: Any) -> Sizes:
    """Sizes of a call that moves the data."""
    return of_data(X, h, **options) | _of_steps(steps)


def of_sd_kde(X: Any, Y: Any, h: Any = None, *, steps: int = 1, **options: Any) -> Sizes:
    """Sizes of a call of the density of moved data."""
    return of_queries(X, Y, h, **options) | _of_steps(steps)


def _of_steps(steps: int) -> Sizes:
    return {} if steps == 1 else {"steps": density_check.steps(steps)}


def taken(*outputs: Output) -> Observed:
    """What :func:`cukde.core.cost.registry.declare` calls ``observed``, for an operation of passes with these outputs.

    What is found is None where no pass leaves out pairs, is a transform, and so on; of several passes there is one
    each.
    """

    def observed(call: Callable[[], Any], *, gpu: bool) -> Sizes:
        with traced() as ran:
            call()

        def found(name: str) -> dict[Output, Any]:
            return {one.found["output"]: one.found[name] for one in ran if name in one.found}

        cells = found("cells")
        shares = {output: share() for output, share in found("share").items() if output not in cells}
        sizes: Sizes = {"share": _each(shares, outputs)}
        names = {one.found["output"]: one.name for one in ran if one.found.keys() == {"output"}}
        sizes["ran"] = _each(names, outputs)
        others = {"cells": cells} | {name: found(name) for name in ("screened", "again", "in_vain")}
        if boxes := found("boxes"):
            sizes["boxes"] = max(boxes.values())
        return sizes | {name: _each(value, outputs) for name, value in others.items() if value}

    return observed


def _each(found: Mapping[Output, Any], outputs: Sequence[Output]) -> Any:
    """What was found of one output, or of each; None where nothing was."""
    each = tuple(found.get(output) for output in outputs)
    if not any(value is not None for value in each):
        return None
    return each[0] if len(each) == 1 else each


def of_modes(X: Any, h: Any = None, *, seeds: Any = None, **options: Any) -> Sizes:
    """Sizes of a search for modes; its time also depends on the data."""
    return of_queries(X, seeds, h, **options)


def of_values(X: Any, V: Any, Y: Any, h: Any = None, *, log: bool = False, **options: Any) -> Sizes:
    """Sizes of a call with values, which takes no weights."""
    shape = arguments.shape(V)
    sizes = of_queries(X, Y, h, **options)
    del sizes["weighted"]
    dtype = arguments.promoted(X, V, *(() if Y is None else (Y,)))
    sizes |= {"dtype": dtype, "k": shape[1] if len(shape) > 1 else 1}
    return sizes | {"log": True} if log else sizes


def of_marginal(X: Any, columns: Any, Y: Any, h: Any = None, **options: Any) -> Sizes:
    """Sizes of a call for some of the columns."""
    sizes = of_queries(X, Y, h, **options)
    m, d = _rows(Y, "Y")
    return sizes | {"d": d, "m": m, "at_data": False}


def of_conditional(X: Any, given: Any, Y: Any, h: Any = None, **options: Any) -> Sizes:
    """Sizes of a call with values of some of the columns."""
    sizes = of_queries(X, Y, h, **options)
    in_domain = any(options.get(name) is not None for name in ("bounds", "periods"))
    each = in_domain or any(len(arguments.shape(value)) for value in given.values())
    del sizes["at_data"]
    return sizes | {"m": _rows(Y)[0], "given": len(given), "each": each}


def of_quantile(X: Any, given: Any, q: Any, h: Any = None, **options: Any) -> Sizes:
    """Sizes of a call with values of some of the columns, and levels."""
    sizes = of_conditional(X, given, _of_values(given, math.prod(arguments.shape(q))), h, **options)
    return sizes | {"dtype": arguments.promoted(X)}


def of_sample(
    X: Any, given: Any, h: Any = None, *, size: Any = None, random_state: Any = None, **options: Any
) -> Sizes:
    """Sizes of a call with values of some of the columns, each a query."""
    sizes = of_conditional(X, given, _of_values(given, 1), h, **options)
    return sizes | {"dtype": arguments.promoted(X)}


def _of_values(given: Any, least: int) -> Any:
    """As many queries as there are given values."""
    return np.empty(max([least, *(math.prod(arguments.shape(value)) for value in given.values())]), np.float32)


def of_threshold(X: Any, h: Any = None, mass: Any = None, *, method: str = "kde", **options: Any) -> Sizes:
    """Sizes of a call for levels of the density at the data."""
    return of_data(X, h, **options) | {"method": method}


def of_regions(
    X: Any, h: Any = None, mass: Any = None, *, accuracy: float = 1e-3, degrees: bool = False, **options: Any
) -> Sizes:
    """Sizes of a call for regions."""
    return of_data(X, h, **options)


def of_entropy(X: Any, h: Any = None, columns: Any = None, *, given: Any = None, **options: Any) -> Sizes:
    """Sizes of a call for the entropy of some columns."""
    sizes, of_given = _of_information(X, h, options), _columns(given)
    return sizes | {"d": sizes["d"] if columns is None else _columns(columns) + of_given, "given": of_given}


def of_mutual_information(
    X: Any, columns_a: Any, columns_b: Any, h: Any = None, *, given: Any = None, **options: Any
) -> Sizes:
    """Sizes of a call for the information of some columns about others."""
    sizes, a, of_given = _of_information(X, h, options), _columns(columns_a), _columns(given)
    d = sizes["d"] if columns_b is None else a + _columns(columns_b) + of_given
    return sizes | {"d": d, "a": a, "given": of_given}


def of_divergence(X: Any, Z: Any, h: Any = None, *, denominator_weights: Any = None, **options: Any) -> Sizes:
    """Sizes of a call with the data of two densities, at those of the first."""
    sizes = _of_information(X, h, options)
    weighted = sizes["weighted"] or denominator_weights is not None
    return sizes | {"k": _rows(Z)[0], "dtype": arguments.promoted(X, Z), "weighted": weighted}


def _of_information(X: Any, h: Any, options: Mapping[str, Any]) -> Sizes:
    corrected = {} if options.get("bias_correction", True) else {"bias_correction": False}
    sizes = of_data(X, h, **options) | corrected
    sizes.pop("rtol", None)
    return sizes


def _columns(columns: Any) -> int:
    """How many columns an argument names: a number or a text is one."""
    return 0 if columns is None else len(columns) if isinstance(columns, list | tuple) else 1


def of_ratio(X: Any, Z: Any, Y: Any, h: Any = None, *, denominator_weights: Any = None, **options: Any) -> Sizes:
    """Sizes of a call with the data of two densities."""
    sizes = of_queries(X, Y, h, **options)
    del sizes["at_data"]
    weighted = sizes["weighted"] or denominator_weights is not None
    dtype = arguments.promoted(X, Z, Y)
    return sizes | {"k": _rows(Z)[0], "m": _rows(Y)[0], "dtype": dtype, "weighted": weighted}


def of_interval(
    X: Any, Y: Any, h: Any = None, level: Any = None, *, simultaneous: bool = False, draws: int = 1000, **options: Any
) -> Sizes:
    """Sizes of a call for intervals; with ``draws`` where they are simultaneous."""
    sizes = of_queries(X, Y, h, **options)
    sizes.pop("rtol", None)
    return sizes | {"draws": int(draws) if simultaneous else 0}


def of_bandwidth(
    X: Any,
    *,
    weights: Any = None,
    covariance: bool = False,
    steps: int = 1,
    bounds: Any = None,
    periods: Any = None,
    n_eff: Any = None,
) -> Sizes:
    """Sizes of a call of a rule for the bandwidth; images, steps and autocorrelations are not counted."""
    n, d = _rows(X)
    sizes = {"n": n, "d": d, "dtype": arguments.promoted(X), "weighted": weights is not None}
    return sizes | {"covariance": True} if covariance else sizes


def of_abramson(X: Any, h: Any = None, *, alpha: float = 0.5, weights: Any = None, **others: Any) -> Sizes:
    """Sizes of a call of the rule for local factors."""
    return of_bandwidth(X, weights=weights)


def of_grid(X: Any, axes: Any, h: Any = None, *, log: bool = False, algorithm: str = "auto", **options: Any) -> Sizes:
    """Sizes of a call on a product grid."""
    sizes = of_data(X, h, **options)
    one = len(arguments.shape(axes)) == 1 if hasattr(axes, "shape") else not any(len(arguments.shape(g)) for g in axes)
    parts = [axes] if one else list(axes)
    return {
        "n": sizes["n"],
        "m": math.prod(math.prod(arguments.shape(g)) for g in parts),
        "d": sizes["d"],
        "dtype": arguments.promoted(X, *parts),
        "precision": sizes["precision"],
        "weighted": sizes["weighted"],
        "log": bool(log),
        "algorithm": algorithm,
        "check_finite": sizes["check_finite"],
    }


def _rows(a: Any, name: str = "X") -> tuple[int, int]:
    shape = arguments.shape(a)
    no_model(name, shape)
    return int(shape[0]), int(shape[1]) if len(shape) > 1 else 1


def no_model(name: str, shape: tuple[int, ...]) -> None:
    """Raise where the performance model is asked about a stack."""
    if len(shape) > 2:
        raise ValueError(
            f"{name} must have shape (rows, columns) for the performance model, which has no stacks; got {shape}: "
            f"ask about one member, {name}[0]"
        )
