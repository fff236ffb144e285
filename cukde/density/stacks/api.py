"""Stacks, many densities of one size: the checks of their arguments, and problems with the methods of single ones.

Small members are summed at once, in one pass of the backend's ``stacks``; large ones by the passes of single
densities, one after the other.
"""

from __future__ import annotations

import functools
import math
from types import ModuleType
from typing import Any

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cpu import meanwhile
from cukde.density import check as density_check, keywords, rules_by_name
from cukde.density.options import Options
from cukde.density.plan import compositions as plan_compositions
from cukde.density.problem import Problem, log_weights
from cukde.density.stacks import check
from cukde.density.sums import Output, PartialSums, moment_columns
from cukde.density.whitening import Whitening

_passes = functools.partial(dispatch.passes, "cukde.density.stacks")  # sums of small members, all in one pass


class Stack(Problem):
    """The problems of all members, with an axis of members before the others.

    X (b, n, d), Y (b, m, d), or (1, m, d) where members share them; of the options log_weights (b, n) or (1, n), centre
    (b, d), squared_radius (b,) on the host.
    """

    __slots__ = ()

    @property
    def log_constant(self) -> Any:
        """Logarithms of the normalising constants, (b, 1), with 1/n in them where there are no weights."""
        share = 0.0 if self.options.log_weights is not None else -math.log(self.X.shape[1])
        return self.whitening.of_queries(self.whitening.log_norm + share, self.xp)

    @property
    def _by_sums(self) -> bool:
        return True

    @property
    def _ends(self) -> None:
        return None

    def sums(self, output: Output, values: None = None, *, ratio: bool = False) -> PartialSums:
        """Sums of all members at their queries; arrays begin with the axis of members."""
        (b, n, d), m = self.X.shape, (self.X if self.Y is None else self.Y).shape[1]
        stacks, options = _passes(self.backend), self.options
        if plan_compositions.stack_pays(self.backend.name, b, n, m, d, options.precision) and not self._reaches_far:
            X, Y = self.whitened()
            of_all = X, X if Y is None else Y, self.whitening.h, output
            mode = meanwhile.WAITING if options.deterministic else meanwhile.mode.get()
            with meanwhile.within(mode):
                return stacks.partial_sums(*of_all, log_weights=options.log_weights, precision=options.precision)
        xp, k = self.xp, moment_columns(output, d)
        if b == 0:
            return PartialSums(xp.zeros((0, m)), xp.zeros((0, m)), xp.zeros((0, m, k)) if k else None)
        parts = [self._member(i).sums(output, ratio=ratio) for i in range(b)]
        return PartialSums(*(None if arrays[0] is None else xp.stack(arrays) for arrays in zip(*parts, strict=True)))

    @property
    def _reaches_far(self) -> bool:
        """Whether single densities take what rounding has taken from whitened points, as their passes do."""
        radii = self.options.squared_radius
        if self.whitening.plain or self.backend.name == "gpu" or self.options.precision != "float64":
            return False
        return radii is None or bool(plan_compositions.reaches_far(radii).any())

    def of_score_bandwidth(self, score_bandwidth: Any) -> Stack:
        """The scores of the data at the data (Y = X) as problems; ``score_bandwidth`` None is the stack's own."""
        if score_bandwidth is None:
            return self._replace(Y=None)
        b, _, d = self.X.shape
        name = "score_bandwidth"
        log_w = self.options.log_weights
        weights = None if log_w is None else self.xp.exp(log_w)
        widths = check.bandwidths(_bandwidths(score_bandwidth, self.X, weights, "kde", name), b, d, name)
        estimate = self._replace(
            Y=None, whitening=Whitening(widths, d, name, stacked=True, single=self.whitening.single)
        )
        return estimate if self.options.squared_radius is None else estimate.located()

    def located(self, name: str = "X") -> Stack:
        """Return the same with scaled squared radii by its own bandwidths and points, which are checked."""
        centres, xp = self.options.centre, self.xp
        with self.device, np.errstate(over="ignore", invalid="ignore"):
            origins = self.whitening.image(centres, xp)
            whitened = [self.whitening.apply(a, centres, xp) for a in (self.X, self.Y) if a is not None]
            return self.with_radii([_passes(self.backend).look(a, origins)[0] for a in whitened])

    def with_radii(self, radii: list[np.ndarray]) -> Stack:
        """Return the same with checked radii: the largest of squared distances (b,) to the centres."""
        scaled = np.max(radii, axis=0) / self.whitening.h**2
        check.squared_radii(scaled, single=self.options.precision != "float64")
        return self._replace(options=self.options._replace(squared_radius=scaled))

    def _member(self, i: int) -> Problem:
        """Take one member as a single density."""

        def of(a: Any) -> Any:
            return None if a is None else a[min(i, len(a) - 1)]

        options = self.options
        radius = None if options.squared_radius is None else float(options.squared_radius[i])
        options = options._replace(log_weights=of(options.log_weights), centre=options.centre[i], squared_radius=radius)
        return Problem(self.backend, self.X[i], of(self.Y), (), self.dtype, options, self.whitening.member(i))


def prepare(
    X: Any,
    Y: Any,
    h: Any,
    weights: Any = None,
    precision: Any = None,
    check_finite: bool = True,
    *,
    method: str = "kde",
    steps: int = 1,
    **of_single: Any,
) -> Stack:
    """Check every argument and lay it out for the backend: those of :func:`cukde.density.arguments.prepare`.

    Of the others, ``of_single``, stacks take what passes take; what only single densities have is refused, and how
    their passes may take them ignored. Checks on the host come first; then, with ``check_finite``, the reductions over
    all members at once.
    """
    keywords.refuse(of_single, form="stacks")
    passed = keywords.of_passes({name: of_single[name] for name in keywords.OF_PASSES.keys() & of_single.keys()})
    check_finite = core_check.flag("check_finite", check_finite)
    backend = dispatch.backend(X, Y=Y, weights=weights)
    with backend.device_of(X):
        xp = backend.xp
        itself = Y is X or Y is None
        x = check.data(X, backend)
        b, _, d = x.shape
        y, query_shape = (x, x.shape) if itself else check.queries(Y, x.shape, backend)
        w = None if weights is None else check.weights(weights, x.shape, backend)
        dtype = density_check.result_dtype(x, y)
        chosen = density_check.precision(precision, dtype)
        h = _bandwidths(h, x, w, method, steps=steps)
        single = chosen != "float64" or backend.name == "gpu"
        whitening = Whitening(check.bandwidths(h, b, d), d, stacked=True, single=single)
        storage = xp.float64 if chosen == "float64" else dtype
        x = xp.ascontiguousarray(x, dtype=storage)
        y = None if itself else xp.ascontiguousarray(y, dtype=storage)
        with np.errstate(over="ignore", invalid="ignore"):  # such data are refused below
            centres = _passes(backend).means(x)
        options = Options(chosen, centre=centres, **passed)
        stack = Stack(backend, x, y, query_shape, dtype, options, whitening)
        if check_finite:
            stack = _checked(stack, w)
        if w is None:
            return stack
        return stack._replace(options=stack.options._replace(log_weights=log_weights(w, xp)[0]))


def _bandwidths(h: Any, x: Any, w: Any, method: str, name: str = "h", steps: int = 1) -> Any:
    """Return bandwidths on the host: those given, or by the name of a rule one of each member."""
    options: dict[str, Any] = {"steps": steps, "name": name}
    if not isinstance(h, str) or len(x) == 0:
        return rules_by_name.bandwidth(h, x, w, method, **options)
    rows = [None if w is None else w[min(i, len(w) - 1)] for i in range(len(x))]
    return np.stack([rules_by_name.bandwidth(h, *member, method, **options) for member in zip(x, rows, strict=True)])


def _checked(stack: Stack, w: Any) -> Stack:
    """Check that arrays are finite, weights are weights, and the scaled squared radii."""
    with np.errstate(over="ignore", invalid="ignore"):
        looked = {
            name: _passes(stack.backend).look(a, stack.options.centre)
            for name, a in (("X", stack.X), ("Y", stack.Y))
            if a is not None
        }
    flags = {name: finite for name, (_, finite) in looked.items()}
    if stack.Y is not None and len(stack.Y) == 1:  # shared by all members
        flags["Y"] = flags["Y"][:1]
    if w is not None:
        finite, least, largest = _of_weights(w, stack.xp, stack.backend)
        flags["weights"] = finite
    check.finite(flags)
    if w is not None:
        check.weight_ranges(least, largest)
    return stack.with_radii([radii for radii, _ in looked.values()]) if stack.whitening.plain else stack.located()


def _of_weights(w: Any, xp: Any, backend: ModuleType) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each row of weights whether all are finite, and the smallest and the largest."""
    summary = backend.asnumpy(
        xp.stack([a.astype(np.float64) for a in (xp.isfinite(w).all(axis=1), w.min(axis=1), w.max(axis=1))])
    )
    return summary[0] > 0, summary[1], summary[2]
