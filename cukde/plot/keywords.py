"""Keywords of all pictures of densities, each declared once; those of :mod:`cukde.density.keywords` are as there."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypedDict

from cukde.core import check as core_check, keywords
from cukde.core.keywords import Keyword
from cukde.core.random_state import DEFAULT, RandomState, integer
from cukde.core.types import ArrayLike, Domain
from cukde.density import keywords as keywords_of_density
from cukde.density.estimates import ESTIMATES, METHODS, Method

_FUNCTIONS = ", ".join(f":func:`cukde.{each.density.__name__}`" for each in ESTIMATES.values())

TABLE = {
    "method": Keyword("kde", METHODS, f"The estimate: {_FUNCTIONS}. Negative values are drawn too."),
    "color": Keyword(
        None,
        "color, list or mapping, optional",
        "Colour in any form of Matplotlib's; with ``hue`` a list in the order of the labels, or a mapping from them.",
    ),
    "hue": Keyword(
        None,
        "array_like, shape (n,), or str, optional",
        "Labels of the rows, up to 7 different ones, or the name of their column of ``X``. Each group has its own "
        "density and bandwidth.",
    ),
    "bw_adjust": Keyword(1.0, "float", "Factor by which the bandwidth is multiplied, that of the rule or ``h``."),
    "log_scale": Keyword(
        False,
        "bool, or sequence of d bool",
        "Whether axes are logarithmic, all or each separately. Densities are then those of log10 of these columns, per "
        "decade, and ``h`` is in decades.",
    ),
    "random_state": Keyword(
        DEFAULT,
        "int, numpy.random.Generator, numpy.random.RandomState or None",
        "Random state of all that is drawn at random: the same integer gives the same picture.",
    ),
    "seed": Keyword(None, "optional", "Another name of ``random_state``."),
}
"""Those of pictures alone."""

_OF_DENSITY = {name: keywords_of_density.TABLE[name] for name in ("weights", "bounds", "periods")}

takes = functools.partial(keywords.takes, table=TABLE | _OF_DENSITY)
"""Decorator of pictures with ``**options``: see :func:`cukde.core.keywords.takes`."""


class OfPicture(TypedDict, total=False):
    """Of all pictures of densities."""

    method: Method
    color: str | Sequence[Any] | Mapping[Any, Any] | None
    hue: ArrayLike | None
    bw_adjust: float
    log_scale: bool | Sequence[bool]
    random_state: RandomState
    seed: RandomState
    weights: ArrayLike | None
    bounds: Domain | None
    periods: Domain | None


def filled(options: OfPicture) -> SimpleNamespace:
    """The options of a call, and the defaults of those that it leaves out; the seed is a number."""
    out = SimpleNamespace(**{name: keyword.default for name, keyword in (TABLE | _OF_DENSITY).items()} | options)
    core_check.option("method", out.method, tuple(ESTIMATES))
    out.seed = integer(out.random_state, out.seed)
    return out
