"""Depthwise 1-D convolution and its gradients."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from cukde.conv1d import check, cost, state as conv1d_state
from cukde.conv1d.geometry import Layout, Padding
from cukde.core import dispatch, dtypes
from cukde.core.check import flag
from cukde.core.cost.registry import declare
from cukde.core.entry.over_arrays import over_arrays
from cukde.core.gpu import kernel_cache
from cukde.core.over_dask import over_dask
from cukde.core.types import Array, ArrayLike

_passes = partial(dispatch.passes, "cukde.conv1d")


@declare(cost.forward, cost.forward_sizes)
@over_arrays
@over_dask("cukde.conv1d.dask")
def depthwise_conv1d(
    x: ArrayLike,
    w: ArrayLike,
    *,
    bias: ArrayLike | None = None,
    padding: Padding = "causal",
    stride: int = 1,
    dilation: int = 1,
    activation: str | Callable[[Any], Any] | None = None,
    layout: Layout = "BCL",
    flip: bool = False,
    state: ArrayLike | None = None,
    return_state: bool = False,
) -> Array | Any:
    r"""Convolve every channel of a batch of signals with its own taps.

    Inputs outside of x are 0; p of them stand before it:

    .. math:: y_{b,c,i} = f\Bigl(bias_c + \sum_{k=0}^{K-1} w_{c,k} \, x_{b,\,c,\,i\,stride + k\,dilation - p}\Bigr)

    Parameters
    ----------
    x : array_like (B, C, L), or (B, L, C)
        Signals by batch, channel and position. If ``x`` is a GPU array, the call computes on the GPU. If any array is a
        Dask array, the call is lazy.
    w : array_like (C, K), or (C, 1, K)
        Taps; the second shape is PyTorch's.
    bias : array_like (C,), optional
        Added to each channel.
    padding : {"causal", "same", "valid"} or int
        Zeros around x. "causal" puts (K - 1) dilation zeros before x, so that no output depends on later inputs; "same"
        puts half of that number before x, rounded down, and the rest after it; "valid" adds none; an integer is the
        number on either side.
    stride : int
        Distance of adjacent outputs, in inputs.
    dilation : int
        Distance of adjacent taps, in inputs.
    activation : {"silu", "gelu"}, str or callable, optional
        The function f: x / (1 + exp(-x)) for "silu", x times the standard normal distribution function for "gelu";
        another name of :mod:`cukde.functions`; or any function of an array, such as a :class:`PiecewisePolynomial`.
    layout : {"BCL", "BLC"}
        The order of the axes of x, of the result and of states.
    flip : bool
        Whether to reverse the taps: True is the convolution of signal processing and of S4, False the cross-correlation
        that deep learning calls convolution.
    state : array_like (B, C, (K - 1) dilation), or (B, (K - 1) dilation, C), optional
        The inputs before x in the sequence, as the previous call returned them; zeros by default. Only for
        ``padding="causal"``.
    return_state : bool
        Whether to return the state for the next call, so that a sequence may be convolved in chunks.

    Returns
    -------
    y : ndarray (B, C, M), or (B, M, C)
        M = (padded L - (K - 1) dilation - 1) // stride + 1, of the promoted dtype of x and w; integers become float64.
        Dask in, Dask out, for the state too.
    state : ndarray
        With ``return_state``: of the shape of ``state`` above and the dtype of y.

    Raises
    ------
    TypeError, ValueError
        For arrays that do not hold real numbers of at most 64 bits, or are on the GPU with x on the CPU; for
        incompatible shapes, taps that reach beyond the padded input, unknown options, a stride or dilation below 1, a
        state without causal padding, ``return_state`` if L is not a multiple of the stride, and an ``activation`` that
        returns another shape or dtype.

    Examples
    --------
    >>> import cukde
    >>> x = [[[1.0, 2.0, 4.0, 8.0]]]
    >>> cukde.depthwise_conv1d(x, [[-1.0, 1.0]])
    array([[[1., 1., 2., 4.]]])
    >>> y, state = cukde.depthwise_conv1d(x, [[-1.0, 1.0]], return_state=True)
    >>> cukde.depthwise_conv1d([[[16.0, 32.0]]], [[-1.0, 1.0]], state=state)
    array([[[ 8., 16.]]])

    See Also
    --------
    depthwise_conv1d_input_grad, depthwise_conv1d_weight_grad, activation_grad

    Notes
    -----
    Sums are taken in float64 for float64, else in float32, and rounded once to the dtype of y. Relative to the sum of
    the absolute terms of an output, the error is at most 1e-6 in float32 and 2e-15 in float64 for up to 512 taps;
    float16 adds half a unit in the last place. NaN and infinities affect the outputs that depend on them, and no
    others.

    Cost: 2 B C M K operations, and at least one pass over x and y. With some hundreds of taps FFTs are used where they
    are faster: see ``docs/convolution.md``.

    References
    ----------
    - Gu, A., Goel, K. and Re, C. (2022). Efficiently modeling long sequences with structured state spaces. ICLR.
    """
    fused, after = check.activation(activation)
    gpu = None
    if state is None and return_state is False and dispatch.is_gpu_array(x):
        gpu = _passes_on_gpu()
        w = check.per_channel(w)
        arrays, given = (x, w, bias), (padding, stride, dilation, fused, layout, flip)
        y = gpu.REPEATED.result(arrays, *given)
        if y is not None:
            return y if after is None else check.activated(after(y), y)
    options = check.options(padding, stride, dilation, layout, flip)
    return_state = flag("return_state", return_state)
    backend = dispatch.backend(x, "x", w=w, bias=bias, state=state)
    with backend.device_of(x):
        signal, taps, bias, state, g, dtype = check.operands(x, w, bias, state, backend, options, return_state)
        if bias is not None:
            bias = _contiguous(backend, bias, dtypes.arithmetic(dtype))
        if state is not None:
            state = _contiguous(backend, state, dtype)
        signal, taps = _contiguous(backend, signal, dtype), _contiguous(backend, taps, dtype)
        if state is None:
            y = _passes(backend).forward(signal, taps, bias, g, fused)
            if gpu is not None:
                gpu.keep((signal, taps, bias), g, fused, arrays, given)
        else:
            y = conv1d_state.forward(_passes(backend), backend.xp, signal, taps, bias, state, g, fused)
        if after is not None:
            y = check.activated(after(y), y)
        if not return_state:
            return y
        if state is None:
            state = backend.xp.zeros(g.shape(g.reach), dtype)
        return y, conv1d_state.following(backend.xp, signal, state, g)


@declare(cost.input_grad, cost.input_grad_sizes)
@over_arrays
def depthwise_conv1d_input_grad(
    dy: ArrayLike,
    w: ArrayLike,
    *,
    input_length: int | None = None,
    padding: Padding = "causal",
    stride: int = 1,
    dilation: int = 1,
    layout: Layout = "BCL",
    flip: bool = False,
) -> Array:
    r"""Gradient of a loss with respect to the input of :func:`depthwise_conv1d`.

    It is the adjoint of the convolution without bias and activation:

    .. math:: dx_{b,c,j} = \sum_{i\,stride + k\,dilation - p = j} w_{c,k} \, dy_{b,c,i}

    Parameters
    ----------
    dy : array_like (B, C, M), or (B, M, C)
        Gradient with respect to the sums before the activation: the gradient with respect to the result times
        :func:`activation_grad` of the sums. If ``dy`` is a GPU array, the call computes on the GPU.
    w : array_like (C, K), or (C, 1, K)
        Taps.
    input_length : int, optional
        L, the length of the input; required for a stride above 1, where M does not determine it.
    padding, stride, dilation, layout, flip
        Those of the convolution.

    Returns
    -------
    ndarray (B, C, L), or (B, L, C)
        Of the promoted dtype of dy and w; integers become float64. 0 for inputs that no output depends on.

    Raises
    ------
    ValueError
        As :func:`depthwise_conv1d`, and for an ``input_length`` that is missing or does not give M outputs.
    TypeError
        As :func:`depthwise_conv1d`.

    Examples
    --------
    >>> import cukde
    >>> cukde.depthwise_conv1d_input_grad([[[1.0, 0.0, 0.0, 1.0]]], [[-1.0, 1.0]])
    array([[[ 1.,  0., -1.,  1.]]])

    See Also
    --------
    depthwise_conv1d_weight_grad, activation_grad

    Notes
    -----
    Arithmetic, accuracy and cost are those of :func:`depthwise_conv1d`.
    """
    options = check.options(padding, stride, dilation, layout, flip)
    backend = dispatch.backend(dy, "dy", w=w)
    with backend.device_of(dy):
        gradient = check.signal("dy", dy, layout, backend)
        batch, channels, outputs = (gradient.shape[layout.index(axis)] for axis in "BCL")
        taps = check.weights(w, channels, "dy", backend)
        length = check.input_length(input_length, outputs, taps.shape[1], options)
        g = check.geometry(options.shape(batch, channels, length), taps.shape[1], options)
        dtype = check.result_dtype(gradient, taps)
        return _passes(backend).input_grad(_contiguous(backend, gradient, dtype), _contiguous(backend, taps, dtype), g)


@declare(cost.weight_grad, cost.weight_grad_sizes)
@over_arrays
def depthwise_conv1d_weight_grad(
    x: ArrayLike,
    dy: ArrayLike,
    kernel_size: int,
    *,
    padding: Padding = "causal",
    stride: int = 1,
    dilation: int = 1,
    layout: Layout = "BCL",
    flip: bool = False,
    bias: bool = False,
) -> Array | Any:
    r"""Gradient of a loss with respect to the taps and the bias of :func:`depthwise_conv1d`.

    .. math:: dw_{c,k} = \sum_{b,i} dy_{b,c,i} \, x_{b,\,c,\,i\,stride + k\,dilation - p}, \qquad
              dbias_c = \sum_{b,i} dy_{b,c,i}

    Parameters
    ----------
    x : array_like (B, C, L), or (B, L, C)
        The input. If ``x`` is a GPU array, the call computes on the GPU.
    dy : array_like (B, C, M), or (B, M, C)
        Gradient with respect to the sums before the activation: the gradient with respect to the result times
        :func:`activation_grad` of the sums.
    kernel_size : int
        K, the number of taps.
    padding, stride, dilation, layout, flip
        Those of the convolution.
    bias : bool
        Whether to return the gradient with respect to the bias too.

    Returns
    -------
    dw : ndarray (C, K)
        Of the promoted dtype of x and dy; integers become float64.
    dbias : ndarray (C,)
        With ``bias``, of that dtype.

    Raises
    ------
    ValueError
        As :func:`depthwise_conv1d`, and for a dy of another shape than the convolution.
    TypeError
        As :func:`depthwise_conv1d`.

    Examples
    --------
    >>> import cukde
    >>> cukde.depthwise_conv1d_weight_grad([[[1.0, 2.0, 4.0]]], [[[1.0, 1.0, 1.0]]], 2, bias=True)
    (array([[3., 7.]]), array([3.]))

    See Also
    --------
    depthwise_conv1d_input_grad, activation_grad

    Notes
    -----
    Every run gives the same bits: the sizes alone determine the order of the sums. Arithmetic and cost are those of
    :func:`depthwise_conv1d`; blocks of outputs are summed in float32 or float64, and their sums in float64.
    """
    options = check.options(padding, stride, dilation, layout, flip)
    bias, count = flag("bias", bias), check.size("kernel_size", kernel_size)
    backend = dispatch.backend(x, "x", dy=dy)
    with backend.device_of(x):
        signal = check.signal("x", x, layout, backend)
        gradient = check.signal("dy", dy, layout, backend)
        g = check.geometry(signal.shape, count, options)
        check.gradient(gradient, g)
        dtype = check.result_dtype(signal, gradient)
        dw, dbias = _passes(backend).weight_grad(
            _contiguous(backend, signal, dtype), _contiguous(backend, gradient, dtype), g, bias
        )
        return (dw, dbias) if bias else dw


@functools.cache
def _passes_on_gpu() -> ModuleType:
    """The GPU's passes, loaded by the first call there; a call of few numbers has no time to find them again."""
    kernel_cache.ensure()
    return importlib.import_module("cukde.conv1d.gpu.passes")


def _contiguous(backend: Any, a: Any, dtype: np.dtype) -> Any:
    if a.dtype == dtype and a.flags.c_contiguous:
        return a
    with np.errstate(over="ignore"):  # overflow gives infinity, as on the GPU
        return backend.xp.ascontiguousarray(a, dtype)
