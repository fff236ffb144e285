"""Passes over several devices: each takes a share of the queries, or of the pairs of the data with themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar

from cukde.density import backends
from cukde.density.options import Options
from cukde.density.plan import gpu as plan_gpu
from cukde.density.sums import Epilogue, Output, PartialSums, ready, to_density

T = TypeVar("T")

_TOGETHER = 128
"""Neighbouring queries that stay together: the rows of an item of passes that leave out pairs."""


class OverDevices:
    """The functions of a module of passes over pairs, by several devices.

    Operands come from the device of the data, once a pass, by copies from one device to the other, and results go back
    there. Queries are dealt out in the order of their places, a few neighbours at a time, so that every device has
    some everywhere: those among many data, and those of which all pairs are left out. Shares are then equal, and blocks
    of neighbours are as small as on one device.
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
        if sums is None and Y is None and output == "moments":
            sums, _ = self._once(X, h, options, ratio=ratio)
        return self._by_queries(X, Y, h, output, options, values, ratio=ratio) if sums is None else sums

    def sums_without_own(self, X: Any, Y: Any | None, h: float, output: Output, options: Options) -> PartialSums | None:
        """As of a module of passes, by one device; None where several take shares, but not with local factors."""
        shared = options.local_factors is None and self._pays(X, X)
        return None if shared else self._passes.sums_without_own(X, Y, h, output, options)

    def debias(self, X: Any, Y: Any, h: float, score_h: float, options: Options) -> tuple[Any, Any, Any]:
        """As of a module of passes; the density can start from what the score has found."""
        of_score, found = options.at_ratio(h / score_h), None
        sums = self._transformed(X, None, score_h, "moments", of_score)
        if sums is None:
            sums, found = self._once(X, score_h, of_score, ratio=True, following=Y)
        if sums is None:
            sums = self._by_queries(X, None, score_h, "moments", of_score, None, ratio=True)
        return *ready(X, Y, sums, h, score_h), found

    def _once(
        self, X: Any, h: float, options: Options, *, ratio: bool, following: Any | None = None
    ) -> tuple[PartialSums | None, Any]:
        """Moments of the data at themselves, or None where pairs are not taken once; and what was found on the way."""
        if options.local_factors is not None or not self._pays(X, X):
            return None, None
        lead, shares = self._shares.Lead(following=following), len(self._devices)
        arguments = lead, self._options_here, self._spread, shares
        return self._shares.sums_once(X, h, options, *arguments, ratio=ratio), lead.look

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

        ``found`` is what a pass over data near these has found.
        """
        queries = X if Y is None else Y
        if not self._pays(X, queries):
            return of_some(X, Y, options, values, None)
        shares = [self._backend.xp.ascontiguousarray(rows) for rows in self._dealt_out(X, queries, found)]
        lead = self._shares.Lead(found)

        def task(i: int, share: Any) -> tuple[Any, ...]:
            """On a device that is the current one."""
            operands = self._here(X), self._here(share), self._options_here(options), self._here(values)
            out: tuple[Any, ...] = lead.run(i, functools.partial(of_some, *operands))
            return out

        parts = self._spread([functools.partial(task, i, queries[rows]) for i, rows in enumerate(shares)])
        return tuple(self._together(arrays, shares) for arrays in zip(*parts, strict=True))

    def _together(self, parts: Sequence[Any], shares: Sequence[Any]) -> Any:
        """Put arrays of shares together on the device of the data."""
        if parts[0] is None:
            return None
        out = self._backend.xp.empty((sum(map(len, shares)), *parts[0].shape[1:]), parts[0].dtype)
        for rows, part in zip(shares, parts, strict=True):
            out[rows] = self._here(part)
        return out

    def _pays(self, X: Any, Y: Any) -> bool:
        return plan_gpu.devices_pay(len(X), len(Y), len(self._devices))

    def _dealt_out(self, X: Any, Y: Any, found: Any | None) -> list[Any]:
        """Rows of the queries of each device."""
        order = self._shares.order(X, Y, found)
        xp, count = self._backend.xp, len(self._devices)
        if order is None:
            order = xp.arange(len(Y))
        whole = len(Y) // (_TOGETHER * count) * (_TOGETHER * count)
        dealt = order[:whole].reshape(-1, count, _TOGETHER)
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
