"""From the arguments of a public function to a problem: every check, and where the arrays go."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sized
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.entry import missing
from cukde.density import backends, check, keywords, rules_by_name
from cukde.density.domains import check as domains_check
from cukde.density.domains.domain import Domain, domain_of
from cukde.density.options import Options
from cukde.density.plan import gpu as plan_gpu
from cukde.density.problem import SURE, Problem, Unchecked, checked_radius, least_factor, shares
from cukde.density.whitening import Whitening, whitening_of

_NUMBERS = float, np.float64
_LINE = (), (1,)  # shapes of a point


class Checked(NamedTuple):
    """Arguments of the right forms, whose values are unchecked; data and queries of two dimensions."""

    x: Any
    y: Any | None
    v: Any | None
    w: Any | None
    factors: Any | None
    query_shape: tuple[int, ...]
    dtype: np.dtype
    precision: str
    whitening: Whitening
    domain: Domain | None


def checked(
    backend: ModuleType,
    X: Any,
    Y: Any,
    h: Any,
    weights: Any = None,
    V: Any = None,
    local_factors: Any = None,
    precision: Any = None,
    method: str = "kde",
    bounds: Any = None,
    periods: Any = None,
    *,
    steps: int = 1,
    takes_factors: bool = False,
    boundary: str = "reflect",
) -> Checked:
    """Check forms, dtypes, the bandwidth and the precision; ``Y`` None stands for the data themselves.

    A rule by its name, for the ``method``, is applied when all forms have been checked.
    """
    x, query_shape = check.data(X, backend)
    n, d = x.shape
    y = None
    if Y is not None:
        y, query_shape = check.queries(Y, d, backend)
    v = None if V is None else check.values(V, n, backend)
    w = None if weights is None else check.weights(weights, n, backend)
    factors = None
    if local_factors is not None:
        factors = check.weights(local_factors, n, backend, "local_factors")
    dtype = check.result_dtype(*(a for a in (x, y, v) if a is not None))
    chosen = check.precision(precision, dtype)
    rule_takes = takes_factors and factors is None
    of_rule: dict[str, Any] = {"steps": steps, "bounds": bounds, "periods": periods, "takes_factors": rule_takes}
    h, own = rules_by_name.with_factors(h, x, w, method, **of_rule)
    factors = factors if own is None else own
    single = chosen != "float64" or backend.name == "gpu"
    whitening = whitening_of(h, d, factors=factors is not None, single=single)
    domain = domain_of(bounds, periods, d)
    if domain is not None:
        domains_check.bandwidth(whitening.bandwidth, domain.bounded, boundary=boundary)
    return Checked(x, y, v, w, factors, query_shape, dtype, chosen, whitening, domain)


def prepare(
    X: Any,
    Y: Any,
    h: Any,
    weights: Any = None,
    precision: Any = None,
    check_finite: bool = True,
    bounds: Any = None,
    periods: Any = None,
    *,
    V: Any = None,
    local_factors: Any = None,
    one_column: bool = False,
    may_be_unchecked: bool = False,
    leave_one_out: Any = False,
    method: str = "kde",
    steps: int = 1,
    takes_factors: bool = False,
    devices: Any = None,
    boundary: str = "reflect",
    **of_passes: Any,
) -> tuple[Problem, Any]:
    """Check every argument and lay it out for the backend; return the problem and the values ``V``.

    ``method`` and its ``steps`` are what a rule for the bandwidth is for; with ``takes_factors`` it may choose local
    ones; ``boundary`` is what kernels are at bounds; ``of_passes`` are :func:`cukde.density.keywords.of_passes`. With
    ``one_column`` data of several are refused. With ``may_be_unchecked`` values of arrays may be left so, for the
    backend's passes to look at them on their way: see :class:`cukde.density.problem.Unchecked`. With ``leave_one_out``
    queries have to be the data themselves, or the same values. ``devices`` take shares of the passes.

    Checks on the host come first (forms, dtypes, the bandwidth). With ``check_finite`` the pre-pass reductions follow,
    whose few numbers come back to the host in one copy.
    """
    passed = keywords.of_passes(of_passes)
    check_finite = core_check.flag("check_finite", check_finite)
    if core_check.flag("leave_one_out", leave_one_out):
        if not (Y is X or Y is None):
            with (backend := dispatch.backend(X, Y=Y)).device_of(X):
                X = Y = missing.same_points(X, Y, backend)
            check.queries_are_data(itself=X is not None)
        may_be_unchecked = False
    backend = dispatch.backend(X, Y=Y, weights=weights, V=V, local_factors=local_factors)
    numbers = _several(backend, devices, X, Y, at_data=method == "sd")
    if not numbers and may_be_unchecked and local_factors is None and bounds is None and periods is None:
        unchecked = _unchecked(backend, X, Y, h, weights, precision, check_finite, passed)
        if unchecked is not None:
            return unchecked, None
        if check_finite and weights is None:
            on_a_line = _on_a_line(backend, X, Y, h, precision, passed)
            if on_a_line is not None:
                return on_a_line, None
    with backend.device_of(X):
        xp = backend.xp
        itself = Y is X or Y is None
        of_arrays = backend, X, None if itself else Y, h, weights, V, local_factors
        x, y, v, w, factors, query_shape, dtype, chosen, whitening, domain = checked(
            *of_arrays, precision, method, bounds, periods, steps=steps, takes_factors=takes_factors, boundary=boundary
        )
        if one_column:
            check.one_column(x.shape[1])
        outside = None
        if domain is not None:
            x, y, outside = _placed(backend, domain, x, None if itself else y, check_finite)
        storage = xp.float64 if chosen == "float64" or domain is not None else dtype
        x = xp.ascontiguousarray(x, dtype=storage)
        y = x if itself else xp.ascontiguousarray(y, dtype=storage)
        v = None if v is None else xp.ascontiguousarray(v, dtype=storage)
        of_few = backends.few_queries(backend) if may_be_unchecked and method != "sd" else None  # which moves all data
        plain = y is not None and query_shape == y.shape and whitening.plain
        if of_few is not None and plain and v is None and factors is None and domain is None and not numbers:
            call = of_few.Call.of(x, y, w, chosen)
            if call is not None:

                def look() -> Problem:
                    return prepare(X, Y, whitening.h, weights, precision, check_finite, **passed)[0]

                options = Options(chosen, **passed)
                left = Unchecked(call, look)
                return Problem(backend, x, y, query_shape, dtype, options, whitening, unchecked=left), None
        radius, bounded = None, False
        ranges: dict[str, tuple[float, float]] = {}
        with np.errstate(over="ignore", invalid="ignore"):  # such data are refused
            centre = backend.mean(x)
            if check_finite:
                points = [("X", x)] if itself else [("X", x), ("Y", y)]
                named = {"weights": w, "local_factors": factors}
                ranged = {name: a for name, a in named.items() if a is not None}
                others = {} if v is None else {"V": v}
                radius, bounded, ranges = checked_radius(backend, points, centre, whitening, x, others, ranged)
        if radius is not None:
            if w is not None:
                check.weight_range(*ranges["weights"])
            narrowest = least_factor(factors, ranges.get("local_factors"))
            check.squared_radius(radius / narrowest**2, single=chosen != "float64")
        log_w = None if w is None else shares(backend, w)
        factors = None if factors is None else factors.astype(xp.float64, copy=False)
        options = Options(chosen, log_w, centre, radius, local_factors=factors, bounded=bounded, **passed)
        if leave_one_out:
            check.rows_to_leave_out(len(x) if w is None else int((w > 0).sum()))
        problem = Problem(backend, x, None if itself else y, query_shape, dtype, options, whitening)
        return problem._replace(domain=domain, outside=outside, leave_one_out=leave_one_out, devices=numbers), v


def problem_of(X: Any, Y: Any, h: Any, options: Mapping[str, Any], **more: Any) -> Problem:
    """The problem of a public call, with the options that its caller has given; see :func:`prepare`."""
    return prepare(X, Y, h, **options, **more)[0]


def _several(backend: ModuleType, devices: Any, X: Any, Y: Any, *, at_data: bool) -> tuple[int, ...]:
    """Devices that share a call: none of one device, and of too few pairs; of the data with themselves ``at_data``."""
    asked = core_check.devices(devices)
    if asked is None:
        return ()
    with backend.device_of(X):
        numbers: tuple[int, ...] = backend.several(asked)
    n = _rows(X)
    m = n if Y is None else _rows(Y)
    return numbers if plan_gpu.devices_pay(n, max(n, m) if at_data else m, len(numbers)) else ()


def _rows(a: Any) -> int:
    """Rows of what may be an array, before that is known; 0 of what has none."""
    if shape := getattr(a, "shape", ()):
        return int(shape[0])
    return len(a) if isinstance(a, Sized) else 0


def _unchecked(
    backend: ModuleType,
    X: Any,
    Y: Any,
    h: Any,
    weights: Any,
    precision: Any,
    check_finite: bool,
    passed: Mapping[str, Any],
) -> Problem | None:
    """The problem of arrays that are in order, where the backend has a pass that checks their values."""
    small, ahead = backends.small(backend), backends.ahead(backend)
    if type(h) not in _NUMBERS or not (precision is None or type(precision) is str):
        return None
    y = None if Y is X else Y
    if small is None or not (small.in_order(X) if y is None else small.in_order(X, y)):
        return None

    def of_many() -> Any | None:
        if ahead is None or weights is not None or not check_finite:
            return None
        of_call = Options(precision or "float32", **passed)
        return ahead.Call.of(X, y, precision, of_call, functools.partial(backends.all_pairs, backend, of_call))

    of_few = small.Call.of(X, y, precision, weights, check_finite)
    call = of_many() if of_few is None else of_few
    if call is None:
        return None
    whitening = whitening_of(float(h), X.shape[1] if X.ndim == 2 else 1)
    if not whitening.plain:
        return None
    options = Options(call.precision, **passed)

    def look() -> Problem:
        return prepare(X, Y, h, weights, precision, check_finite, **passed)[0]

    shape = (X if y is None else y).shape
    unchecked = Unchecked(call, look) if of_few is None else Unchecked(call, look, of_many)
    return Problem(backend, X, y, shape, X.dtype, options, whitening, unchecked=unchecked)


def _on_a_line(
    backend: ModuleType, X: Any, Y: Any, h: Any, precision: Any, passed: Mapping[str, Any]
) -> Problem | None:
    """The problem of arrays on a line that are in order, where the pass sorts them, which finds what a look would.

    None where it does not, and where values are odd.
    """
    if type(h) not in _NUMBERS or getattr(X, "shape", (0, 0))[1:] not in _LINE:
        return None
    arrays = [X] if Y is X or Y is None else [X, Y]
    line = backends.sorting(backend)
    if line is None or not all(a.shape[1:] in _LINE and a.size for a in arrays):
        return None
    chosen = line.precision(arrays, precision)
    whitening = whitening_of(float(h), 1, single=chosen != "float64" or backend.name == "gpu")
    if chosen is None or not whitening.plain:
        return None
    x, y, *_ = *(a.reshape(-1, 1) for a in arrays), None
    found = line.look(x, y, whitening.h, chosen, passed.get("rtol"))
    if found is None:
        return None
    store, most = found
    radius = (2 * most / whitening.h) ** 2
    if not radius < SURE:
        return None
    options = Options(chosen, None, x[0].astype(np.float64), radius, kept=store, bounded=True, **passed)
    return Problem(backend, x, y, arrays[-1].shape, X.dtype, options, whitening)


def _placed(backend: ModuleType, domain: Domain, x: Any, y: Any | None, check_finite: bool) -> tuple[Any, Any, Any]:
    """Bring data and queries into a domain, float64 from its origin; and say which queries lie outside."""
    xp = backend.xp
    with np.errstate(all="ignore"):
        outside = domain.outside(x, xp)
        if check_finite:
            # Infinite points might be brought onto a bound: here they are looked for first.
            named = [(name, a) for name, a in (("X", x), ("Y", y)) if a is not None]
            core_check.finite({name: bool(xp.isfinite(a).all()) for name, a in named})
            domains_check.inside(backend.asnumpy(outside.sum(axis=0)), len(x), domain.low, domain.high)
        of_queries = outside if y is None else domain.outside(y, xp)
        y = None if y is None else domain.anchored(y, xp)
        return domain.anchored(x, xp), y, of_queries.any(axis=1)
