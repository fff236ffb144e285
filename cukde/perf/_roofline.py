"""Calls beside the peaks of a processor: the roof of each call, and how near it comes."""

from __future__ import annotations

import importlib.util
import inspect
import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cukde.core import check as core_check, extras
from cukde.core.cost.cost import UNITS, Unit
from cukde.core.cost.peaks import Peaks
from cukde.core.cost.registry import by_name, counted, told
from cukde.core.public import public_in
from cukde.perf import _text
from cukde.perf._explain import Explanation, from_memory
from cukde.perf._lookup import peaks
from cukde.perf._predict import Prediction, alone, predicted
from cukde.perf._roofline_points import RooflinePoint

_LISTED, _WHOLE = 35, 96  # characters for the sizes of a row in the table, and for those that rows share

_SHORT = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "complex64": "c64"}


@public_in("cukde.perf")
@dataclass(frozen=True, repr=False)
class Roofline:
    """Calls with the roofs that limit them: see :func:`roofline`. Its string is the table.

    The table and the picture number the points by family and operation. Their numbers are exactly those of the points.

    Attributes
    ----------
    on : Peaks
    points : tuple of RooflinePoint

    Examples
    --------
    >>> from cukde import perf
    >>> drawn = perf.roofline([("kde", {"n": 65536, "m": 65536, "d": 16}, 1.3e-3)], "H200")
    >>> drawn.on.name, len(drawn.points)
    ('H200', 1)
    """

    on: Peaks
    points: tuple[RooflinePoint, ...]

    def draw(self, path: Path | str) -> None:
        """Write the picture, a PNG, to ``path``; this needs Matplotlib."""
        _need_matplotlib()
        from cukde.perf import _roofline_figure

        numbered = [(number, point) for number, _, point in self._rows() if point is not None]
        _, *listed = self._lines()
        _roofline_figure.save(f"Roofline of {self.on.name}", numbered, listed, Path(path))

    def __repr__(self) -> str:
        """The table, as it is printed."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"roofline of {self.on.name}: operations a second of the unit that binds, or computes the longest"
        yield (
            f"{'':>3} {'operation':<{_LISTED + 1}}{'time':>8} {'binds':<15}{'intensity':>9}{'attained':>14}{'roof':>7}"
            f"{'of it':>6}"
        )
        for number, text, point in self._rows():
            if point is None:
                yield f"{'':>3} {text}"
                continue
            noun = _text.noun(point.unit)
            yield (
                f"{number:>3} {text:<{_LISTED + 1}}{_text.si(point.seconds, 's'):>8} "
                f"{point.binds:<15}{point.intensity:>9.3g}{_text.si(point.rate, noun + '/s'):>14}"
                f"{_text.si(point.roof, ''):>7}{point.percent:>5.0f}%"
            )

    def _rows(self) -> Iterator[tuple[int, str, RooflinePoint | None]]:
        """Lines by family, then by operation; sizes that an operation's points share stand once, above them."""
        operations: dict[str, dict[str, list[RooflinePoint]]] = {}
        for point in self.points:
            operations.setdefault(point.family, {}).setdefault(point.op, []).append(point)
        number = 0
        for op, alike in (item for family in operations.values() for item in family.items()):
            first = alike[0].shapes
            names = dict.fromkeys(name for point in alike for name in told(op, point.shapes))
            shared = [name for name in names if all(point.shapes.get(name) == first.get(name) for point in alike)]
            title = f"{op} {_words(first, shared)}".rstrip()
            own = [_words(point.shapes, [name for name in names if name not in shared]) for point in alike]
            if any(own):
                yield from ((0, line, None) for line in _wrapped(title, _WHOLE))
            for point, words in zip(alike, own, strict=True):
                number += 1
                line, *rest = _wrapped(words, _LISTED, "  ") if any(own) else _wrapped(title, _LISTED)
                yield number, line, point
                yield from ((0, line, None) for line in rest)


def _words(shapes: Mapping[str, Any], names: Sequence[str]) -> str:
    """Sizes in one line, the dtype first and short, without a precision that repeats it."""
    sizes = {name: shapes.get(name) for name in sorted(names, key=lambda name: name != "dtype")}
    if sizes.get("precision") == sizes.get("dtype"):
        sizes.pop("precision", None)
    return _text.sizes({name: _SHORT.get(str(value), value) for name, value in sizes.items() if value != ""})


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of a text; those after the first are indented by two more."""
    after = indent + "  "
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=after, break_on_hyphens=False) or [""]


def roofline(
    points: Iterable[RooflinePoint | Explanation | tuple[str, Mapping[str, Any], float] | Mapping[str, Any]],
    on: Peaks | str | None = None,
    path: Path | str | None = None,
) -> Roofline:
    r"""Compare calls with their rooflines, in a table and a picture.

    The unit that binds determines the roof. A call counts the operations of that unit, such as exponentials,
    multiply-adds or products of tensor cores. If memory binds, it counts those of the unit that computes the longest.
    The intensity I is the number of these operations for each byte:

    .. math:: roof = \min(peak, I \cdot bandwidth)

    Parameters
    ----------
    points : iterable
        Each is an :class:`Explanation`, a tuple ``(op, sizes, seconds)``, a row of a record, or a
        :class:`RooflinePoint`. A row has ``median_ms``, ``dtype``, ``precision`` and, in ``shape``, the sizes.
    on : str or Peaks, optional
        As for :func:`cukde.perf.peaks`. Default: the processor of the explanations, or else the device at hand.
    path : path-like, optional
        Where to write the picture, a PNG.

    Returns
    -------
    Roofline
        Its string is the table.

    Raises
    ------
    ImportError
        If ``path`` is given without Matplotlib.
    ValueError
        For explanations of another processor, for no points, for times that are not positive, and as
        :func:`cukde.perf.cost` does.
    TypeError
        For points of another kind.

    Examples
    --------
    >>> from cukde import perf
    >>> one = perf.roofline([("kde", {"n": 65536, "m": 65536, "d": 16}, 1.3e-3)], "H200").points[0]
    >>> one.unit
    'exponential'

    Notes
    -----
    A point is as accurate as its time. The roofs have the errors of the peaks, and the unit that binds has those of
    :func:`cukde.perf.predict`. Bytes are the least traffic of memory, each input and output once. If the cache binds or
    holds everything, they are the bytes requested from the cache. Other work, uneven blocks and repeated reads that
    miss the cache keep a point below its roof; its bound counts them.

    Williams, Waterman and Patterson (2009), "Roofline: an insightful visual performance model for multicore
    architectures", Communications of the ACM 52(4).
    """
    if path is not None:
        path = core_check.path("path", path)
        _need_matplotlib()
    every = core_check.sequence("points", points, "calls")
    if not every:
        raise ValueError("points must hold at least one call; got none")
    first = next((point for point in every if isinstance(point, Explanation)), None)
    processor = first.on if on is None and first is not None else peaks(on)
    drawn = Roofline(processor, tuple(_point(point, processor) for point in every))
    if path is not None:
        drawn.draw(path)
    return drawn


def _point(point: Any, on: Peaks) -> RooflinePoint:
    if isinstance(point, RooflinePoint):
        return point
    if isinstance(point, Explanation):
        if point.on != on:
            raise ValueError(f"points must be of one processor, {on.name}; got {point.op} on {point.on.name}")
        return _under(point.prediction, on, point.seconds)
    if isinstance(point, Mapping):
        if missing := [name for name in ("op", "shape", "median_ms") if name not in point]:
            raise ValueError(f"a row must have op, shape and median_ms; got one without {', '.join(missing)}")
        if point.get("backend", on.backend) != on.backend:
            raise ValueError(f"points must be of one processor, {on.name}; got a row of the {point['backend']} backend")
        taken = inspect.signature(by_name(point["op"]).formula).parameters
        beside = {name: point[name] for name in ("dtype", "precision") if name in point and name in taken}
        op, sizes, seconds = point["op"], beside | dict(point["shape"]), point["median_ms"] / 1e3
        cold = from_memory(on, cold=bool(point.get("cold", True)))
    elif isinstance(point, tuple) and len(point) == 3:
        (op, sizes, seconds), cold = point, True
    else:
        raise TypeError(
            "points must be explanations, (op, sizes, seconds), rows of a record or RooflinePoints; "
            f"got {type(point).__name__}"
        )
    if not (seconds > 0 and math.isfinite(seconds)):
        raise ValueError(f"the time of {op} must be positive and finite; got {seconds} s")
    return _under(predicted(counted(by_name(op), on, sizes), on, cold=cold), on, seconds)


def _under(model: Prediction, on: Peaks, seconds: float) -> RooflinePoint:
    """Choose the roof of a call."""
    cost = model.cost
    seconds_of = alone(model.parts)
    from_cache = (model.binds == "cache" or not seconds_of.get("memory")) and math.isfinite(on.rate("cache"))
    slope: Unit = "cache" if from_cache else "memory"
    traffic = sum(part.asked for part in cost.parts) if from_cache else cost.bytes
    moving = ("memory", "cache") if model.binds == "shared" else ("memory", "cache", "shared")
    computing = [unit for unit in UNITS if unit not in moving and cost.work(unit) > 0]
    unit: Unit = max(computing, key=lambda unit: (unit == model.binds, seconds_of.get(unit, 0.0)), default=slope)
    return RooflinePoint(
        cost.op,
        dict(cost.shapes),
        seconds,
        model.binds,
        unit,
        cost.work(unit) if computing else traffic,
        slope,
        traffic,
        on.rate(unit),
        on.rate(slope),
        model.bound,
    )


def _need_matplotlib() -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError(f"a picture of a roofline needs Matplotlib: {extras.install('plot')}")
