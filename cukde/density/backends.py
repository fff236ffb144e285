"""The passes of a backend, loaded by the first call that needs them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from types import ModuleType
from typing import Any

from cukde.core import dispatch
from cukde.core.cpu import arrays as cpu
from cukde.density.one_dimension.cpu import few as few_of_line
from cukde.density.options import Options
from cukde.density.pairs.cpu import few_queries as on_few_queries, radial_few
from cukde.density.plan import cpu as plan_cpu, gpu as plan_gpu
from cukde.density.plane import plan as plane_plan

pairs = partial(dispatch.passes, "cukde.density.pairs")  # Gaussian sums over all pairs
one_dimension = partial(dispatch.passes, "cukde.density.one_dimension")  # Gaussian sums of one column
plane = partial(dispatch.passes, "cukde.density.plane")  # Gaussian sums of two or three columns, to a tolerance


def has_few(backend: ModuleType, X: Any, Y: Any | None, columns: int = 0) -> bool:
    """Whether pairs are so few that the CPU takes them by passes of their own; ``columns`` are those of values."""
    return backend is cpu and plan_cpu.few_serve(len(X), len(X if Y is None else Y), max(X.shape[1], columns))


def may_hand_over(X: Any, Y: Any, columns: int = 0) -> bool:
    """Whether the CPU has passes for so few pairs that leave them to those of many where points lie far apart."""
    if has_few(cpu, X, Y, columns):
        return plan_cpu.few_may_pass_on(len(X), len(Y), X.shape[1])
    return X.shape[1] == 1 and plan_cpu.line_is_few(len(X), len(Y))


def line(backend: ModuleType, X: Any, Y: Any | None) -> ModuleType:
    """Sums of one column; the CPU takes few points by passes of their own."""
    is_few = backend is cpu and plan_cpu.line_is_few(len(X), len(X if Y is None else Y))
    return few_of_line if is_few else one_dimension(backend)


def passes(backend: ModuleType, d: int, options: Options) -> ModuleType:
    """Gaussian sums of ``d`` columns without local factors, of many pairs, by what the options allow."""
    if d == 1:
        return one_dimension(backend)
    to_a_tolerance = options.rtol != 0 and options.precision != "ieee"
    return plane(backend) if d in plane_plan.COLUMNS and to_a_tolerance else pairs(backend)


def all_pairs(backend: ModuleType, options: Options, n: int, m: int, d: int) -> bool:
    """Whether passes over pairs take a problem of this size on a GPU, but for what they leave out themselves."""
    if passes(backend, d, options) is pairs(backend):
        return True
    return d in plane_plan.COLUMNS and plan_gpu.plane_is_too_small(n, m, options.precision, options.squared_radius)


def transform(backend: ModuleType, d: int, options: Options) -> Callable[..., Any] | None:
    """Sums of ``d`` columns by a transform alone, which returns None where pairs are faster; None where none is."""
    chosen = passes(backend, d, options)
    return None if chosen is pairs(backend) else getattr(chosen, "transformed", None)


def _of_gpu(module: str) -> Callable[[ModuleType], ModuleType | None]:
    """What loads a module for pairs that a GPU alone has; None on the CPU."""

    @cache
    def load(backend: ModuleType) -> ModuleType | None:
        return pairs(backend, module) if backend.name == "gpu" else None

    return load


small = _of_gpu("small")  # small problems from their unchecked arguments to their results
ahead = _of_gpu("ahead")  # problems that are launched before their values are looked at
ends = _of_gpu("ends")  # what becomes of sums
weights = _of_gpu("weights")  # logarithms of weights
shares = _of_gpu("shares")  # passes of which several GPUs take shares


def few_queries(backend: ModuleType) -> ModuleType | None:
    """Problems of few queries, whose values are looked at on the way, where the backend has such a path."""
    return on_few_queries if backend is cpu else None


def radial(backend: ModuleType, X: Any, Y: Any | None) -> ModuleType:
    """Sums of the other kernels over all pairs; the CPU takes few by passes of their own."""
    return radial_few if has_few(backend, X, Y) else pairs(backend, "radial")


def sorting(backend: ModuleType) -> ModuleType | None:
    """Passes of one dimension that look at data by sorting them, where the backend has such."""
    return one_dimension(backend) if backend.name == "gpu" else None
