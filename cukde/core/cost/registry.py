"""Every operation whose cost is known; each is declared where it is defined."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from cukde.core import check as core_check
from cukde.core.cost.cost import Cost
from cukde.core.cost.peaks import Peaks
from cukde.core.cost.sizes import Formula

Stages = Callable[..., Mapping[str, Callable[[], Any]]]
T = TypeVar("T", bound=Callable[..., Any])


class Observed(Protocol):
    """Sizes that only a run of a call knows, on a GPU or on the CPU."""

    def __call__(self, call: Callable[[], Any], *, gpu: bool) -> Mapping[str, Any]: ...


class Operation(NamedTuple):
    """An operation and its cost."""

    name: str
    formula: Formula
    shapes: Callable[..., Mapping[str, Any]]
    target: Callable[..., Any]
    stages: Stages | None
    observed: Observed | None = None


_NUMBERS = ("int", "float", int, float)
"""Annotations of sizes that are numbers; as text where annotations are postponed."""

_LATER = (
    "cukde.sphere",
    "cukde.density.hessian",
    "cukde.density.information.api",
    *(f"cukde.density.compositions.{name}" for name in ("conditional_distribution", "conditional_sample")),
    *(f"cukde.density.compositions.{name}" for name in ("interval", "outlines")),
)
"""Modules that are loaded when they are first asked for, and then declare operations."""

_BY_NAME: dict[str, Operation] = {}
_BY_TARGET: dict[Any, Operation] = {}


def declare(
    formula: Formula,
    shapes: Callable[..., Mapping[str, Any]],
    name: str | None = None,
    stages: Stages | None = None,
    observed: Observed | None = None,
) -> Callable[[T], T]:
    """Declare the cost of a function, or of calls of a class's objects; the decorated object is returned unchanged.

    Parameters
    ----------
    formula : callable
        ``formula(on, *, ...)`` returns the :class:`Counted` work on a processor of the given :class:`Peaks`, for sizes
        that are keyword arguments.
    shapes : callable
        Takes the arguments of a call, and returns the keyword arguments of the formula. If an object is called, it is
        the first argument.
    name : str, optional
        Default: that of the function.
    stages : callable, optional
        For a call that consists of several others: takes its arguments, and returns those calls by name, in order.
    observed : callable, optional
        For work that depends on the data: takes a call without arguments, and ``gpu``, whether it is on a GPU. It runs
        the call and returns further sizes, which only a run knows.

    Examples
    --------
    >>> from cukde import perf
    >>> def count(on, *, n):
    ...     return perf.Counted((perf.Part("all", bytes=16 * n, work={"fma": n}),), "counted by hand")
    >>> @perf.declare(count, lambda x: {"n": x.size})
    ... def double(x):
    ...     return 2 * x
    >>> perf.cost("double", n=1000).intensity
    0.0625

    Notes
    -----
    Calls do not become slower. Predictions are as accurate as the formula.
    """

    def declared(target: T) -> T:
        operation = Operation(name or target.__name__, formula, shapes, target, stages, observed)
        _BY_NAME[operation.name] = _BY_TARGET[target] = operation
        return target

    return declared


def operations() -> tuple[str, ...]:
    """Names of the operations whose cost is known: exactly those that :func:`cost` and :func:`predict` take.

    Examples
    --------
    >>> from cukde import perf
    >>> "sd_kde" in perf.operations()
    True
    """
    _load_all()
    return tuple(sorted(_BY_NAME))


def _load_all() -> None:
    for module in _LATER:
        importlib.import_module(module)


def by_name(op: str) -> Operation:
    """Look an operation up."""
    if isinstance(op, str) and op not in _BY_NAME:
        _load_all()
    operation = _BY_NAME.get(op) if isinstance(op, str) else None
    if operation is None:
        raise ValueError(
            f"op must be one of {', '.join(operations())}; got {op!r}: declare the cost of another operation by "
            "@cukde.perf.declare(formula, shapes)"
        )
    return operation


class Call(NamedTuple):
    """A call of an operation: its arguments as the operation's own functions take them."""

    operation: Operation
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def shapes(self) -> dict[str, Any]:
        """Its sizes."""
        return dict(self.operation.shapes(*self.args, **self.kwargs))

    @property
    def stages(self) -> dict[str, Callable[[], Any]]:
        """The calls that it consists of, in order; none where it has no stages."""
        stages = self.operation.stages
        return {} if stages is None else dict(stages(*self.args, **self.kwargs))


def found(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call | None:
    """The operation that a call is, if its cost is known."""
    if isinstance(fn, functools.partial):
        return found(fn.func, (*fn.args, *args), {**fn.keywords, **kwargs})
    if isinstance(fn, type):  # a call of a class makes an object, and is no operation
        return None
    for target, arguments in ((fn, args), (type(fn), (fn, *args))):
        try:
            operation = _BY_TARGET.get(target)
        except (TypeError, ValueError):  # not hashable; a memory view raises the latter
            continue
        if operation is not None:
            return Call(operation, arguments, dict(kwargs))
    return None


def call_of(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
    """The operation that a call is; an error where its cost is not known."""
    call = found(fn, args, kwargs)
    if call is None:
        raise ValueError(
            f"fn must be one of the operations {', '.join(operations())}; got {fn!r}: declare its cost by "
            "@cukde.perf.declare(formula, shapes), or time it by cukde.perf.measure"
        )
    return call


def called(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Operation, dict[str, Any]]:
    """The operation that a call is, and its sizes."""
    call = call_of(fn, args, kwargs)
    return call.operation, call.shapes


def told(op: str, shapes: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes that differ from the defaults of the formula, and the dtype."""
    operation = _BY_NAME.get(op)
    defaults = {} if operation is None else inspect.signature(operation.formula).parameters
    return {
        name: value
        for name, value in shapes.items()
        if name == "dtype" or name not in defaults or value != defaults[name].default
    }


def counted(operation: Operation, on: Peaks, shapes: Mapping[str, Any]) -> Cost:
    """Apply a formula."""
    parameters = inspect.signature(operation.formula).parameters
    names = list(parameters)[1:]
    required = {name for name in names if parameters[name].default is inspect.Parameter.empty}
    if not required <= set(shapes) <= set(names):
        optional = [name for name in names if name not in required]
        raise ValueError(
            f"{operation.name} takes the sizes {', '.join(sorted(required))}"
            + (f" (and {', '.join(optional)})" if optional else "")
            + f"; got {', '.join(shapes) or 'none'}"
        )
    # NumPy's integers would overflow in a formula.
    shapes = {name: value.item() if isinstance(value, np.generic) else value for name, value in shapes.items()}
    for name, value in shapes.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and not value >= 0:
            raise ValueError(f"{name} must not be negative; got {value}")
        if parameters[name].annotation in _NUMBERS:
            number = core_check.number(name, value)
            shapes[name] = value if isinstance(value, int) else number
        if name == "dtype":
            core_check.dtype(name, value)
    return operation.formula(on, **shapes).cost(operation.name, shapes)
