"""Passes over several devices: each takes a share of the queries, or of the pairs of the data with themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar

from cukde.density import backends
from cukde.density.options import Options
from cukde.density.sums import Epilogue, Output, PartialSums, moment_columns, put, to_density

T = TypeVar("T")

_LEAST_PAIRS = 2e10
"""Pairs below which one device takes the whole pass, of all of them in some tens of milliseconds."""

_TOGETHER = 128
"""Neighbouring queries that stay together: the rows of an item of passes that leave out pairs."""


class OverDevices:
    """The functions of a module of passes over pairs, by several devices, but for the one that debiases.

    Operands come from the device of the data, once a pass, by copies from one device to the other, and results go back
    there. Queries are dealt out in the order of their places, a few neighbours at a time, so that every device has
    some everywhere: those among many data, and those of which all pairs are left out. Shares are then equal, and blocks
    of neighbours are as small as on one device.
    """

    def __init__(self, backend: ModuleType, devices: tuple[int, ...], d: int, options: Options) -> None:
        self._backend, self._devices = backend, devices
        self._passes, self._shares = backends.pairs(backend), backends.shares(backend)
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
        if sums is None and Y is None and output == "moments" and options.local_factors is None and self._pays(X, X):
            sums = self._shares.sums_once(X, h, options, self._spread, len(self._devices), ratio=ratio)
        if sums is not None:
            return sums
        compute = functools.partial(self._passes.partial_sums, ratio=ratio)

        def of_some(X: Any, Y: Any | None, options: Options, values: Any) -> PartialSums:
            sums: PartialSums = compute(X, Y, h, output, options, values=values)
            return sums

        parts = self._parts(X, Y, options, values, of_some)
        if len(parts) == 1:
            return parts[0][1]
        k, xp = moment_columns(output, X.shape[1], values), self._backend.xp
        m = len(X if Y is None else Y)
        out = PartialSums(xp.empty(m), xp.empty(m), xp.empty((m, k)) if k else None)
        for rows, part in parts:
            put(out, rows, PartialSums(*(None if a is None else self._backend.asarray(a) for a in part)))
        return out

    def density(
        self, X: Any, Y: Any | None, h: float, options: Options, epilogue: Epilogue, *, points: Any = None
    ) -> Any:
        """As of a module of passes; ``points`` is for one device alone."""
        sums = self._transformed(X, Y, h, "sum", options)
        if sums is not None:
            return to_density(sums, *epilogue, self._backend.xp)

        def of_some(X: Any, Y: Any | None, options: Options, _: Any) -> Any:
            return self._passes.density(X, Y, h, options, epilogue)

        return self._joined(X, Y, options, of_some, epilogue)

    @property
    def laplace_density(self) -> Callable[..., Any] | None:
        """As of a module of passes; None where it has none."""
        finished = getattr(self._passes, "laplace_density", None)
        if finished is None:
            return None

        def laplace_density(
            X: Any, Y: Any | None, h: float, options: Options, epilogue: Epilogue, *, positive: bool = False
        ) -> Any:
            def of_some(X: Any, Y: Any | None, options: Options, _: Any) -> Any:
                return finished(X, Y, h, options, epilogue, positive=positive)

            return self._joined(X, Y, options, of_some, epilogue)

        return laplace_density

    def _transformed(self, X: Any, Y: Any | None, h: float, output: Output, options: Options) -> PartialSums | None:
        """Sums by a transform, which takes the device of the data less time than pairs take several; None for pairs."""
        return None if self._transform is None else self._transform(X, Y, h, output, options)

    def _joined(self, X: Any, Y: Any | None, options: Options, of_some: Callable[..., Any], epilogue: Epilogue) -> Any:
        """Densities at all queries."""
        parts = self._parts(X, Y, options, None, of_some)
        if len(parts) == 1:
            return parts[0][1]
        out = self._backend.xp.empty(len(X if Y is None else Y), epilogue.dtype)
        for rows, part in parts:
            out[rows] = self._backend.asarray(part)
        return out

    def _parts(
        self, X: Any, Y: Any | None, options: Options, values: Any, of_some: Callable[..., T]
    ) -> list[tuple[Any, T]]:
        """Rows of queries that a device had, and what it has computed of them; of all on one where that is faster."""
        if not self._pays(X, X if Y is None else Y):
            return [(slice(None), of_some(X, Y, options, values))]
        queries = X if Y is None else Y
        shares = [self._backend.xp.ascontiguousarray(rows) for rows in self._dealt_out(X, queries)]

        def task(share: Any) -> T:
            """On a device that is the current one."""
            return of_some(self._here(X), self._here(share), self._options_here(options), self._here(values))

        tasks = [functools.partial(task, queries[rows]) for rows in shares]
        return list(zip(shares, self._spread(tasks), strict=True))

    def _pays(self, X: Any, Y: Any) -> bool:
        """Whether the pass takes so long that others should have a share."""
        return len(Y) >= len(self._devices) and len(X) * len(Y) >= _LEAST_PAIRS

    def _dealt_out(self, X: Any, Y: Any) -> list[Any]:
        """Rows of the queries of each device."""
        order = self._shares.order(X, Y)
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
