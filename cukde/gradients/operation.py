"""What an operation is whose gradients are computed: the base class of all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.frames.libraries import library_of

Arrays = Mapping[str, Any]


class Struct(NamedTuple):
    """Shape and dtype of a result."""

    shape: tuple[int, ...]
    dtype: np.dtype


def refuse(name: str, value: Any, what: str) -> None:
    """Raise for an operand that has no gradient, not being ``what``: rules, mappings, frames and Dask collections."""
    if isinstance(value, str | dict) or callable(value) or hasattr(value, "bandwidth"):
        raise TypeError(f"{name} must be {what} for gradients, or a number; got {value!r}")
    if library_of(value) is not None:
        raise TypeError(f"{name} must be {what} for gradients, not a frame: write {name}.to_numpy()")
    core_check.no_collection(name, value)


class Operation(ABC):
    """A call: its operands by name, arrays of one backend or None, and its options.

    Values are checked by the constructor, before any work.
    """

    operands: ClassVar[tuple[str, ...]]
    """What it is differentiable with respect to, in the order of arguments."""

    def __init__(self, arrays: Arrays, options: Mapping[str, Any]) -> None:
        self.arrays, self.options = arrays, dict(options)
        first = next(a for a in arrays.values() if a is not None)
        self.backend = dispatch.backend(first, next(iter(arrays)))
        self.device = self.backend.device_of(first)
        self.xp = self.backend.xp
        with self.device, np.errstate(all="ignore"):
            self._prepare()

    @classmethod
    @abstractmethod
    def struct(cls, arrays: Arrays, options: Mapping[str, Any]) -> Struct:
        """Check forms and options, of arrays on the host whose values are of no matter, and say what the result is."""

    def result(self, wanted: Collection[str] = ()) -> Any:
        """Compute; sums that the gradients ``wanted`` need as well are kept for them."""
        with self.device, np.errstate(all="ignore"):
            return self._result(frozenset(wanted))

    def gradients(self, g: Any, wanted: Collection[str]) -> dict[str, Any]:
        """Return the gradients with respect to the operands ``wanted``, in their shapes.

        They are NaN if any entry of ``g`` is NaN or infinite.
        """
        with self.device, np.errstate(all="ignore"):
            if not bool(self.xp.isfinite(g).all()):
                return {name: self.xp.full(np.shape(self.arrays[name]), np.nan) for name in wanted}
            found = self._gradients(g, frozenset(wanted))
            return {name: self.xp.asarray(found[name]).reshape(np.shape(self.arrays[name])) for name in wanted}

    @property
    def itself(self) -> bool:
        """Whether the data are the queries: gradients with respect to those are then the data's."""
        return self.arrays.get("Y") is None

    def _prepare(self) -> None:  # noqa: B027 - some operations have nothing to check
        """Check values."""

    @abstractmethod
    def _result(self, wanted: frozenset[str]) -> Any:
        """Return the result, and keep what the wanted gradients need of it."""

    @abstractmethod
    def _gradients(self, g: Any, wanted: frozenset[str]) -> dict[str, Any]:
        """Return the wanted gradients of the sum of ``g`` times the result."""
