"""Keywords of the density family: the only place that declares them. ``docs/densities.md`` says more of each."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from cukde.core import check as core_check, keywords
from cukde.core.keywords import Keyword
from cukde.core.types import ArrayLike, Bandwidth, Devices, Domain
from cukde.density import check

_EACH = {"stacks": "call for each member"}

TABLE = {
    "score_bandwidth": Keyword(
        None,
        "float, array_like or str, optional",
        'Bandwidth of the score, in the forms of ``h``; default ``h``. "cross_validate" is that of :func:`cukde.kde`.',
    ),
    "steps": Keyword(
        1,
        "int",
        "Number of steps, at least 1, that move the points, each from the original data, by the score of those that "
        "the last step moved. More steps leave less bias, and need a wider bandwidth.",
    ),
    "own_point": Keyword(
        True,
        "bool",
        "Whether a point's own kernel counts in its score. Without it, a few rows with many columns move as far as "
        "many rows would, and points without neighbours stay.",
        _EACH,
    ),
    "weights": Keyword(
        None, "array_like, shape (n,), optional", "Non-negative weights, normalised to sum to 1. Default: 1/n each."
    ),
    "signed": Keyword(
        False,
        "bool",
        "Whether weights may be negative. Their sum must be positive, and the result may be negative.",
        {
            "stacks": "call for each member",
            "Dask arrays": "take the rows of each sign by themselves, and the difference of the two densities",
        },
    ),
    "local_factors": Keyword(
        None,
        "array_like, shape (n,), optional",
        "Factor of ``h`` for each point, 1e-8 to 1e16: see :func:`cukde.bandwidth.abramson`.",
        _EACH,
    ),
    "n_eff": Keyword(
        None,
        'float or "autocorrelation", optional',
        'Effective number of rows, in (0, n], of rows that depend on each other; "autocorrelation" finds it from the '
        "rows in their order, as of a Markov chain. Default: all rows.",
    ),
    "rtol": Keyword(
        None,
        "float, optional",
        "Share of a density that may be left out, 0 to 0.1; 0 sums all pairs. Default: about rounding.",
        of_passes=check.tolerance,
    ),
    "log": Keyword(False, "bool", "Return the log density, finite for any finite query."),
    "precision": Keyword(
        None,
        '{"float32", "tf32", "ieee", "float64"}, optional',
        "Arithmetic of the pairs. Default: that of the dtype.",
    ),
    "deterministic": Keyword(
        False,
        "bool",
        "Give the same bits on every run on the same machine.",
        of_passes=functools.partial(core_check.flag, "deterministic"),
    ),
    "check_finite": Keyword(True, "bool", "Refuse NaN and infinity."),
    "bounds": Keyword(
        None,
        "sequence of length d or mapping, optional",
        "For each column (low, high) with None for an open end, or None. The density integrates to 1 there.",
        _EACH,
    ),
    "periods": Keyword(
        None,
        "sequence of length d or mapping, optional",
        "For each column its period, or None. The density integrates to 1 over a period.",
        _EACH,
    ),
    "kinds": Keyword(
        None,
        "sequence of length d or mapping, optional",
        'For each column "number", "categorical" or "ordered", or None: by the dtype of a frame. Bandwidths are then '
        "one for each column: see ``docs/mixed.md``.",
        {
            "stacks": "call for each member",
            "Dask arrays": "densities of categories take data in memory",
        },
    ),
    "boundary": Keyword(
        "reflect",
        '{"reflect", "linear"}',
        'Kernels at a bound: "linear" keeps the slope there, where reflection has none. See ``docs/domains.md``.',
        {**_EACH, "Dask arrays": "compute it of arrays in memory"},
    ),
    "leave_one_out": Keyword(False, "bool", "Leave out each row's own kernel; ``Y`` must be ``X`` or None.", _EACH),
    "devices": Keyword(
        None,
        '"all" or sequence of int, optional',
        "GPUs that share the call. Default: that of ``X``, or of each block. Not for stacks.",
        {"stacks": "call for each member, or with a part of the members each"},
    ),
    "nan_policy": Keyword(
        "raise",
        '{"raise", "omit"}',
        '"omit" leaves out data with missing values; such queries give NaN.',
        {"stacks": "leave out the rows of each member", "Dask arrays": "write X.dropna()"},  # refused with all frames
    ),
}
"""What a call that leaves a keyword out takes, and what the keyword is, in the order of signatures."""

refuse = functools.partial(keywords.refuse, table=TABLE)
"""Raise for keywords that a form does not take: "stacks" or "Dask arrays"."""

OF_PASSES = {name: each.of_passes for name, each in TABLE.items() if each.of_passes is not None}
"""Checks of the keywords that passes take: fields of :class:`cukde.density.options.Options`."""


def of_passes(options: Mapping[str, Any]) -> dict[str, Any]:
    """Check keywords that passes take, and return them."""
    return {name: OF_PASSES[name](value) for name, value in options.items()}


taken = functools.partial(keywords.taken, table=TABLE)
"""Take a keyword out of the options of a call: its value, or its default."""

takes = functools.partial(keywords.takes, table=TABLE)
"""Decorator of functions with ``**options``: see :func:`cukde.core.keywords.takes`."""


def before_dask(given: dict[str, Any]) -> None:
    """Raise for keywords that Dask arrays do not take, and take them out of the arguments."""
    refuse(given, form="Dask arrays")
    for name, keyword in TABLE.items():
        if "Dask arrays" in keyword.not_of:
            given.pop(name, None)


class Moving(TypedDict, total=False):
    """How points are moved by their score."""

    score_bandwidth: Bandwidth | None
    steps: int
    own_point: bool


class Computed(TypedDict, total=False):
    """How a result is computed."""

    precision: str | None
    deterministic: bool
    check_finite: bool
    nan_policy: Literal["raise", "omit"]


class Shared(Computed, total=False):
    """The same of sums that leave out pairs, or share them among GPUs."""

    rtol: float | None
    devices: Devices | None


class OfValues(Shared, total=False):
    """The same of sums of values, or their logarithms."""

    log: bool


class Weighted(Shared, total=False):
    """The same with weights."""

    weights: ArrayLike | None


class OfInterval(Weighted, total=False):
    """Of intervals for a density."""

    n_eff: float | None


class LogWeighted(Weighted, total=False):
    """The same, or their logarithms."""

    log: bool


class OfRows(Weighted, total=False):
    """Of sums at queries that may be the rows themselves."""

    leave_one_out: bool


class LogOfRows(OfRows, total=False):
    """The same, or their logarithms."""

    log: bool


class OfClimb(Computed, total=False):
    """Of points that climb a density without ends."""

    weights: ArrayLike | None


class OfRowWeights(TypedDict, total=False):
    """Of rules for densities without ends."""

    weights: ArrayLike | None
    nan_policy: Literal["raise", "omit"]


class OfPrecision(OfRowWeights, total=False):
    """Of their cross-validation."""

    precision: str | None


class OfRule(TypedDict, total=False):
    """Of rules for the bandwidth: what they know of a density."""

    weights: ArrayLike | None
    bounds: Domain | None
    periods: Domain | None
    nan_policy: Literal["raise", "omit"]


class OfReference(OfRule, total=False):
    """Of rules that depend on the number of rows."""

    n_eff: float | str | None


class OfValidation(OfRule, total=False):
    """Of what rules know, and the arithmetic of pairs."""

    precision: str | None


class InDomain(OfValidation, total=False):
    """Of densities with weights and ends."""

    deterministic: bool
    check_finite: bool


class Kinds(TypedDict, total=False):
    """Of functions that take columns of categories."""

    kinds: Sequence[str | None] | Mapping[Any, str] | None


class OfSearch(OfValidation, OfReference, Kinds, total=False):
    """Of cross-validation."""


class LogInDomain(InDomain, total=False):
    """The same, or their logarithms."""

    log: bool


class OfGrid(LogInDomain, total=False):
    """The same where they are linear in the weights."""

    signed: bool


class LogOfKinds(LogInDomain, Kinds, total=False):
    """The same, of columns of categories too."""


class OfMass(InDomain, total=False):
    """Of integrals over all space."""

    local_factors: ArrayLike | None
    rtol: float | None


class OfData(OfMass, total=False):
    """Of what is computed at the data."""

    devices: Devices | None


class OfScore(OfData, total=False):
    """Of scores at queries."""

    leave_one_out: bool


class OfDensity(OfScore, total=False):
    """Of densities at queries."""

    log: bool


class OfLinear(OfDensity, total=False):
    """Of densities that are linear in the weights."""

    signed: bool


class OfKde(OfLinear, Kinds, total=False):
    """Of the kernel density itself."""

    boundary: Literal["reflect", "linear"]


class OfCurvature(TypedDict, total=False):
    """Of second derivatives at queries, which are always summed in double precision."""

    weights: ArrayLike | None
    local_factors: ArrayLike | None
    rtol: float | None
    log: bool
    deterministic: bool
    check_finite: bool
    devices: Devices | None
    nan_policy: Literal["raise", "omit"]


class OfMoved(OfData, Moving, total=False):
    """Of points that are moved."""


class OfMovedDensity(OfDensity, Moving, total=False):
    """Of densities of points that are moved: all that there are but kinds."""
