"""What plans are made from, for passes on the current device."""

from __future__ import annotations

import functools

from cukde.core.gpu import device
from cukde.density.options import Options
from cukde.density.plan.shape import Device, Shape
from cukde.density.sums import Output


def shape_of(
    output: Output,
    n: int,
    m: int,
    d: int,
    options: Options,
    *,
    k: int = 0,
    kernel: str = "gaussian",
    itself: bool = False,
    ratio: bool = False,
) -> Shape:
    """The shape of a pass; ``k`` columns of values."""
    return Shape(
        output,
        n,
        m,
        d,
        options.precision,
        k,
        kernel=kernel,
        itself=itself,
        weighted=options.log_weights is not None,
        local=options.local_factors is not None,
        own_out=options.own_out,
        deterministic=options.deterministic,
        ratio=ratio,
        rtol=options.rtol,
        atol=options.atol,
        captured=device.capturing(),
        device=current(),
    )


def current() -> Device:
    """The current device."""
    return _device(device.capability(), device.shared_bytes_of_block())


_device = functools.cache(Device)
