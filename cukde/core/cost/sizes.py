"""Sizes that the cost formulas of a family share: names, defaults and annotations stand in one class of the family."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

from cukde.core.cost.cost import Counted
from cukde.core.cost.peaks import Peaks

Formula = Callable[..., Counted]


def takes(kind: type, names: str, **defaults: Any) -> Callable[[Formula], Formula]:
    """Make a formula of ``count(on, sizes, ...)``, where ``sizes`` is of a dataclass ``kind``.

    The formula's keyword arguments are ``names``, in this order: parameters of ``count`` itself, and fields of
    ``kind``. ``defaults`` replace those of the fields. A field without a default that the formula does not take is 0.

    Formulas call each other with the sizes as they are, and with those that differ: ``formula(on, sizes, d=1)``.
    """
    shared = inspect.signature(kind).parameters
    absent = {
        name: 0 for name in shared if shared[name].default is inspect.Parameter.empty and name not in names.split()
    }

    def made(count: Formula) -> Formula:
        first, _, *others = inspect.signature(count).parameters.values()
        own = {parameter.name: parameter for parameter in others}
        parameters = [
            (own.get(name) or shared[name]).replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in names.split()
        ]
        changed = [p.replace(default=defaults.get(p.name, p.default)) for p in parameters]

        @functools.wraps(count)
        def formula(on: Peaks, sizes: Any = None, /, **given: Any) -> Counted:
            beside = {name: given.pop(name) for name in own if name in given}
            sizes = kind(**{**absent, **defaults, **given}) if sizes is None else dataclasses.replace(sizes, **given)
            return count(on, sizes, **beside)

        formula.__signature__ = inspect.Signature([first, *changed])  # type: ignore[attr-defined]
        return formula

    return made
