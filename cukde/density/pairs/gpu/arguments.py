"""The arguments of a pass over pairs on the GPU, but for what it sums."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from cukde.core.gpu import device, survey
from cukde.density.options import Options
from cukde.density.pairs.gpu import operands as pairs_operands
from cukde.density.pairs.gpu.shape import shape_of
from cukde.density.plan import gpu as plan_gpu
from cukde.density.plan.gpu import Dense, Form
from cukde.density.plan.shape import Shape
from cukde.density.sums import Output


class Arguments(NamedTuple):
    """The arguments of a pass, but for what it sums."""

    X: Any
    Y: Any | None
    h: float
    options: Options  # with a centre
    base: Shape  # of sums

    @property
    def m(self) -> int:
        """Number of queries."""
        return int((self.X if self.Y is None else self.Y).shape[0])

    def shape(self, output: Output, *, k: int = 0, ratio: bool = False) -> Shape:
        """What a plan of the pass is made from; with ``k`` columns of values."""
        return self.base._replace(output=output, k=k, ratio=ratio)

    def engine(self, output: Output, *, k: int = 0, ratio: bool = False) -> Dense:
        """Which pass over all pairs takes it. Of an unknown scaled squared radius it is one that serves any."""
        return plan_gpu.served(self.shape(output, k=k, ratio=ratio), self.options.squared_radius)

    def form(self, output: Output) -> Form:
        """How the float16 engines make exponents."""
        form = plan_gpu.form(self.options.precision, self.X.shape[1], self.options.squared_radius, output)
        assert form is not None  # or the engine would be another
        return form


def prepare(X: Any, Y: Any | None, h: float, options: Options) -> Arguments:
    """Prepare a pass on the current device, :func:`located`."""
    X, Y = pairs_operands.of_one_dtype(X, Y)
    options = located(X, Y, h, options)
    m = len(X if Y is None else Y)
    return Arguments(X, Y, h, options, shape_of("sum", X.shape[0], m, X.shape[1], options, itself=Y is None))


def located(X: Any, Y: Any | None, h: float, options: Options) -> Options:
    """Return the options with a centre and the scaled squared radius; the host waits for the device to find it.

    It stays None where no engine asks for it, and while a stream is captured, which may not wait. With NaN or infinity
    among the points it is infinite, and all pairs are taken by differences.
    """
    if options.centre is None:
        options = options._replace(centre=survey.mean(X))
    unasked = options.precision == "ieee" or X.shape[1] == 1
    if options.squared_radius is not None or unasked or device.capturing():
        return options
    look = survey.look(*pairs_operands.of_one_dtype(X, Y), options.centre)
    radius = look.squared / h / h
    return options._replace(squared_radius=radius if all(look.finite) else math.inf)
