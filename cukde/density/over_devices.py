"""Passes over several devices: each takes a share of the queries, or of the pairs of the data with themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from cukde.density import backends
from cukde.density.options import Options
from cukde.density.plan import gpu as plan_gpu
from cukde.density.sums import Epilogue, Output, PartialSums, debiased, to_density

T = TypeVar("T")

_LEAST_TOGETHER, _MOST_TOGETHER, _GROUPS = 128, 8192, 32
"""Rows of a group of neighbouring queries, which one device takes: at least those of an item of passes that leave out
pairs, at most 8,192, and else so many that each device has 32 groups. Items side by side read the same data."""


class _Found(NamedTuple):
    """What the passes of :meth:`OverDevices.debias` leave for the density of the moved points."""

    look: Any  # at the data
    copies: dict[Hashable, Any]  # of the points, by device


class OverDevices:
    """The functions of a module of passes over pairs, by several devices.

    Operands come from the device of the data, once a pass, by copies from one device to the other, and results go back
    there; points that have been moved are on every device. Queries are dealt out in the order of their places, in
    groups of neighbours, so that every device has some everywhere: those among many data, and those of which all pairs
    are left out. Shares are then equal, and blocks of neighbours are as small as on one device.
    """

    def __init__(self, backend: ModuleType, devices: tuple[int, ...], d: int, options: Options) -> None:
        self._backend, self._devices = backend, devices
        self._passes: ModuleType = backends.pairs(backend)
        self._shares: Any = backends.shares(backend)
        factors = options.local_factors is not None
        self._transform = None if factors else backends.transform(backend, d, options)

    def partial_sums(
        self,
        X: Any,
        Y: Any | None,
        h: float,
        output: Output,
        options: Options,
        *,
        values: Any = None,
        ratio: bool = False,
    ) -> PartialSums:
        """As of a module of passes."""
        sums = self._transformed(X, Y, h, output, options)
        if sums is not None:
            return sums
        if Y is None and output == "moments":
            slices, _ = self._once(X, h, options, lambda points, sums: sums, ratio=ratio)
            if slices is not None:
                rows, parts = zip(*slices, strict=True)
                whole: PartialSums = parts[0]
                return whole if rows[0] is None else PartialSums(*self._columns(parts, rows))
        return self._by_queries(X, Y, h, output, options, values, ratio=ratio)

    def sums_without_own(self, X: Any, Y: Any | None, h: float, output: Output, options: Options) -> PartialSums | None:
        """As of a module of passes, by one device; None where several take shares, but not with local factors."""
        shared = options.local_factors is None and self._pays(X, X)
        return None if shared else self._passes.sums_without_own(X, Y, h, output, options)

    def debias(self, X: Any, Y: Any, h: float, score_h: float, options: Options) -> tuple[Any, Any, Any]:
        """As of a module of passes; the density can start from what the score has found."""
        of_score, step = options.at_ratio(h / score_h), 0.5 * (h / score_h) ** 2

        def moved(points: Any, sums: PartialSums) -> Any:
            return debiased(points, sums, step)

        queries, found = Y.astype(np.float64, copy=False), None
        sums = self._transformed(X, None, score_h, "moments", of_score)
        if sums is None:
            slices, look = self._once(X, score_h, of_score, moved, ratio=True, following=Y)
            if slices is not None:
                points, copies = self._everywhere(slices, self._pays(X, Y))
                return points, queries, _Found(look, copies)
            found = _Found(look, {})
            sums = self._by_queries(X, None, score_h, "moments", of_score, None, ratio=True)
        return moved(X, sums), queries, found

    def _once(
        self,
        X: Any,
        h: float,
        options: Options,
        make: Callable[[Any, PartialSums], Any],
        *,
        ratio: bool,
        following: Any | None = None,
    ) -> tuple[Any, Any]:
        """Slices of the data and what was made of their sums, or None where pairs are not taken once; and a look."""
        if options.local_factors is not None or not self._pays(X, X):
            return None, None
        lead, shares = self._shares.Lead(following=following), len(self._devices)
        arguments = lead, self._options_here, self._spread, shares, make
        return self._shares.sums_once(X, h, options, *arguments, ratio=ratio), lead.look

    def _everywhere(self, slices: Sequence[Any], shared: bool) -> tuple[Any, dict[Hashable, Any]]:
        """All points of slices, on the current device, and on the others where a pass over them is shared."""
        parts = [one.made for one in slices]
        if len(parts) == 1:
            return parts[0], {}

        def together() -> tuple[Hashable, Any]:
            return self._backend.device_key(), self._backend.xp.concatenate([self._here(part) for part in parts])

        copies = dict(self._spread([together] * (len(self._devices) if shared else 1)))
        here = copies.get(self._backend.device_key())
        return self._here(next(iter(copies.values()))) if here is None else here, copies

    def _by_queries(
        self, X: Any, Y: Any | None, h: float, output: Output, options: Options, values: Any, *, ratio: bool
    ) -> PartialSums:
        """Sums at queries that are dealt out."""

        def of_some(X: Any, Y: Any | None, options: Options, values: Any, choose: Any) -> PartialSums:
            more = {"values": values, "ratio": ratio, "choose": choose}
            sums: PartialSums = self._passes.partial_sums(X, Y, h, output, options, **more)
            return sums

        return PartialSums(*self._shared(X, Y, options, of_some, values))

    def density(
        self, X: Any, Y: Any | None, h: float, options: Options, epilogue: Epilogue, *, points: Any = None
    ) -> Any:
        """As of a module of passes; ``points`` is what :meth:`debias` returned beside these data."""
        sums = self._transformed(X, Y, h, "sum", options)
        if sums is not None:
            return to_density(sums, *epilogue, self._backend.xp)

        def of_some(X: Any, Y: Any | None, options: Options, _: Any, choose: Any) -> tuple[Any]:
            return (self._passes.density(X, Y, h, options, epilogue, choose=choose),)

        return self._shared(X, Y, options, of_some, found=points)[0]

    def laplace_density(
        self, X: Any, Y: Any | None, h: float, options: Options, epilogue: Epilogue, *, positive: bool = False
    ) -> Any:
        """As of a module of passes."""

        def of_some(X: Any, Y: Any | None, options: Options, _: Any, choose: Any) -> tuple[Any]:
            return (self._passes.laplace_density(X, Y, h, options, epilogue, positive=positive, choose=choose),)

        return self._shared(X, Y, options, of_some)[0]

    def _transformed(self, X: Any, Y: Any | None, h: float, output: Output, options: Options) -> PartialSums | None:
        """Sums by a transform, which takes the device of the data less time than pairs take several; None for pairs."""
        return None if self._transform is None else self._transform(X, Y, h, output, options)

    def _shared(
        self,
        X: Any,
        Y: Any | None,
        options: Options,
        of_some: Callable[..., tuple[Any, ...]],
        values: Any = None,
        found: Any | None = None,
    ) -> tuple[Any, ...]:
        """Arrays, or None, with a row for each query: of shares of the queries, or of all where that is faster.

        ``found`` is what :meth:`debias` has found on the way to these data.
        """
        queries = X if Y is None else Y
        if not self._pays(X, queries):
            return of_some(X, Y, options, values, None)
        look, copies = (None, {}) if found is None else found
        shares = [self._backend.xp.ascontiguousarray(rows) for rows in self._dealt_out(X, queries, look)]
        lead = self._shares.Lead(look)

        def task(i: int, share: Any) -> tuple[Any, ...]:
            """On a device that is the current one."""
            data = copies.get(self._backend.device_key(), X)
            operands = self._here(data), self._here(share), self._options_here(options), self._here(values)
            out: tuple[Any, ...] = lead.run(i, functools.partial(of_some, *operands))
            return out

        parts = self._spread([functools.partial(task, i, queries[rows]) for i, rows in enumerate(shares)])
        return self._columns(parts, shares)

    def _columns(self, parts: Sequence[tuple[Any, ...]], shares: Sequence[Any]) -> tuple[Any, ...]:
        """Put each array of the results of shares together."""
        return tuple(self._together(arrays, shares) for arrays in zip(*parts, strict=True))

    def _together(self, parts: Sequence[Any], shares: Sequence[Any]) -> Any:
        """Put arrays of shares together on the device of the data."""
        if parts[0] is None:
            return None
        out = self._backend.xp.empty((sum(map(len, shares)), *parts[0].shape[1:]), parts[0].dtype)
        for rows, part in zip(shares, parts, strict=True):
            out[self._here(rows)] = self._here(part)
        return out

    def _pays(self, X: Any, Y: Any) -> bool:
        return plan_gpu.devices_pay(len(X), len(Y), len(self._devices))

    def _dealt_out(self, X: Any, Y: Any, look: Any | None) -> list[Any]:
        """Rows of the queries of each device."""
        order = self._shares.order(X, Y, look)
        xp, count = self._backend.xp, len(self._devices)
        if order is None:
            order = xp.arange(len(Y))
        groups = len(Y) // (_GROUPS * count) // _LEAST_TOGETHER
        together = min(max(1, groups) * _LEAST_TOGETHER, _MOST_TOGETHER)
        whole = len(Y) // (together * count) * (together * count)
        dealt = order[:whole].reshape(-1, count, together)
        rest = xp.array_split(order[whole:], count)
        return [xp.concatenate((dealt[:, i].ravel(), rest[i])) for i in range(count)]

    def _spread(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        out: list[T] = self._backend.spread(tasks, self._devices)
        return out

    def _here(self, a: Any) -> Any:
        """An array, or None, on the current device."""
        return None if a is None else self._backend.asarray(a)

    def _options_here(self, options: Options) -> Options:
        """Options with their arrays on the current device, of a call of its own."""
        log_weights, centre, factors = map(self._here, (options.log_weights, options.centre, options.local_factors))
        return options._replace(log_weights=log_weights, centre=centre, local_factors=factors, kept=None)
