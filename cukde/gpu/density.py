"""The density family on the GPU: one pass over all pairs, by the engine that suits it."""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

from cukde._partial import Output, PartialSums
from cukde.gpu import _device, _difference, _f16, _f16_symmetric, _operands, _reductions, _results, _specialise, _tf32


def partial_sums(
    X: Any,
    Y: Any | None,
    h: float,
    output: Output,
    *,
    values: Any = None,
    log_weights: Any = None,
    precision: str,
    centre: Any = None,
    spread: float | None = None,
    deterministic: bool = False,
) -> PartialSums:
    """Sum over all data rows for each query, on the current device and stream; nothing waits for the result.

    Parameters
    ----------
    X : array, shape (n, d)
        Data, float32 or float64, C-contiguous.
    Y : array, shape (m, d), optional
        Queries, likewise; None are the data themselves.
    h : float
        Bandwidth, in the units of ``X``.
    output : {"sum", "moments", "laplace", "values"}
        What to sum; see :class:`cukde._partial.PartialSums`.
    values : array, shape (n, k)
        For output "values".
    log_weights : array, shape (n,), optional
        Float64; -1e30 stands for the logarithm of zero.
    precision : {"float32", "tf32", "ieee", "float64"}
        Arithmetic of the pairs. "float32" and "tf32" run on the tensor cores, in two float16 terms of each
        point or in one, where d is from 2 to 64 and the spread at most 700 (in two terms 3500/d, where that is
        less); otherwise, as "ieee" does, by differences, where float64 arrays keep 48 bits of each coordinate.
    centre : array, shape (d,), optional
        Where the tensor cores take points from; default the mean of ``X``.
    spread : float, optional
        Largest squared distance to the centre, in bandwidths. Where it is not known, the device finds it and
        decides which kernel works.
    deterministic : bool
        Sum in one order, to the same bits on every run. Only the pass of data against themselves is the
        slower for it.

    Notes
    -----
    Memory beside the result: float16 operands of the size of X and Y, and what the splits of the data leave,
    at most 64 MB where there is more than one.
    """
    d = X.shape[1]
    m = X.shape[0] if Y is None else Y.shape[0]
    k = {"moments": d, "values": 0 if values is None else values.shape[1]}.get(output, 0)
    if m == 0:
        return _results.empty(0, k)
    if Y is not None and X.dtype != Y.dtype:
        storage = np.promote_types(X.dtype, Y.dtype)
        X, Y = X.astype(storage, copy=False), Y.astype(storage, copy=False)
    engine = _specialise.engine(
        output,
        precision,
        X.shape[0],
        d,
        k,
        spread=spread,
        capability=_device.capability(),
        symmetric=Y is None and log_weights is None and not deterministic,
    )
    if engine == "difference":
        return _by_differences(X, Y, h, output, values, log_weights, precision)
    if centre is None:
        centre = _reductions.mean(X)
    if engine == "tf32":
        chosen = _tf32.specialise(output, d, k)
        return _tf32.run(chosen, X, Y, h, output, values, log_weights, centre)
    form = _f16.form(precision, d, spread)
    assert form is not None  # or the engine would be another
    if engine == "f16_symmetric":
        return _symmetric_score(X, h, form, centre, spread_known=spread is not None)
    return _f16.run(
        X,
        Y,
        h,
        output,
        values,
        log_weights,
        form=form,
        centre=centre,
        spread_known=spread is not None,
    )


def _by_differences(
    X: Any, Y: Any, h: float, output: Output, values: Any, log_weights: Any, precision: str
) -> PartialSums:
    k = X.shape[1] if output == "moments" else 0 if values is None else values.shape[1]
    chosen = _difference.specialise(output, precision, X.dtype, X.shape[1], k)
    out = _results.empty((X if Y is None else Y).shape[0], k)
    splits = _difference.launch(chosen, X, Y, h, output, values, log_weights, out=out)
    return _results.merge(splits, out)


def _symmetric_score(X: Any, h: float, form: _f16.Form, centre: Any, *, spread_known: bool) -> PartialSums:
    """Moments of the data at their own points, each exponential taken once."""
    n, d = X.shape
    spread = None if spread_known else cp.zeros(1, np.float32)
    operand, _ = _operands.prepare(X, None, centre, h, split=form.split, spread=spread)
    limit = form.length_limit
    S, T = _f16_symmetric.launch(operand, spread=spread, limit=limit)
    out = _results.empty(n, d)
    if spread is not None:
        stand_in = _difference.specialise("moments", "float32", X.dtype, d, d)
        guard = _difference.Guard(spread, limit, None, _f16.LEAST)
        _difference.launch(stand_in, X, None, h, "moments", None, None, out=out, guard=guard, one_split=True)
    return _f16_symmetric.finish(operand, S, T, n, d, h, spread=spread, limit=limit, out=out)
