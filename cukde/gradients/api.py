"""The public functions of :mod:`cukde.torch` and :mod:`cukde.jax`, which know arrays of either by their type."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from cukde.conv1d import api as conv1d
from cukde.core import keywords, words
from cukde.core.entry import namespaces
from cukde.density import api as density
from cukde.density.grids import api as grids
from cukde.density.keywords import TABLE
from cukde.gradients.convolution import Convolution
from cukde.gradients.density import Density, Grid
from cukde.gradients.kernel_sum import KernelSum
from cukde.gradients.operation import Operation
from cukde.gradients.piecewise import Curve, Table
from cukde.gradients.score import Score
from cukde.piecewise import pwpa as pwpa_of_arrays
from cukde.piecewise.evaluator import Extrapolate
from cukde.piecewise.polynomial import PiecewisePolynomial

T = TypeVar("T", bound=Callable[..., Any])

_OF_ROWS = ("rtol", "precision", "deterministic", "check_finite")
_OF_SCORE = (*_OF_ROWS, "weights")
_OF_DENSITY = (*_OF_SCORE, "log", "leave_one_out")


def differentiable(
    of: type[Operation], like: Callable[..., Any], taken: Collection[str] = (), without: Collection[str] = ()
) -> Callable[[T], T]:
    """Make a public function that has the signature of ``like`` and gradients.

    Of the keywords of the density family it has those that are ``taken``, of others all but those it is ``without``.
    Arguments that its docstring leaves out are as in the function of that name.
    """
    without = {
        name for name in inspect.signature(like).parameters if name in without or name in TABLE.keys() - {*taken}
    }

    def decorated(function: T) -> T:
        name, own = function.__name__, inspect.signature(like)
        signature = own.replace(parameters=[each for each in own.parameters.values() if each.name not in without])

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for refused in kwargs.keys() & without:
                raise TypeError(
                    f"{refused} must be left out, as gradients with it are not computed; cukde.{name} takes it"
                )
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError as error:
                words.unknown_keyword(error, name, kwargs, signature.parameters)
                raise TypeError(f"{name}(): {error}") from None
            library = _library([given.get(each) for each in of.operands])
            if library is None:
                return like(*args, **kwargs)
            options = {each: value for each, value in given.items() if each not in of.operands}
            operands = {each: given.get(each) for each in of.operands}
            if "Y" in operands and operands["Y"] is operands["X"]:
                operands["Y"] = None
            module: Any = importlib.import_module(f"cukde.gradients.of_{library}")
            return module.call(of, operands, options)

        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__doc__ = keywords.documented(function.__doc__, [*signature.parameters], like=f"cukde.{name}")
        return call  # type: ignore[return-value]

    return decorated


def _library(operands: list[Any]) -> str | None:
    """The library that has an array among the operands; None if all are plain."""
    for a in operands:
        kind = type(a)
        if kind.__module__.partition(".")[0] in ("jax", "jaxlib"):
            return "jax"
        if namespaces.is_tensor(kind):
            return "torch"
    return None


@differentiable(Density, density.kde, _OF_DENSITY)
def kde(*args: Any, **kwargs: Any) -> Any:
    """Compute :func:`cukde.kde`, differentiable with respect to ``X``, ``Y``, ``h`` and ``weights``.

    Returns
    -------
    Tensor or jax.Array, shape (m,)
        That of :func:`cukde.kde`, of the library and on the device of ``X``. Arrays of NumPy and CuPy, where no operand
        is a tensor or of JAX, are passed to that function.

    Raises
    ------
    TypeError, ValueError
        As :func:`cukde.kde`, and for a bandwidth by the name of a rule.

    Examples
    --------
    >>> import torch, cukde.torch
    >>> X, h = torch.tensor([0.0, 1.0]), torch.tensor(1.0, requires_grad=True)
    >>> cukde.torch.kde(X, torch.tensor([0.5]), h, log=True).sum().backward()
    >>> h.grad
    tensor(-0.7500)

    Notes
    -----
    Gradients cost up to a pass for ``Y``, one for ``h``, and one for ``X`` and ``weights`` together, or two where
    incoming gradients have both signs. Errors are those of :func:`cukde.score`. See ``docs/gradients.md``.
    """


@differentiable(Score, density.score, _OF_SCORE)
def score(*args: Any, **kwargs: Any) -> Any:
    """Compute :func:`cukde.score`, differentiable with respect to ``X``, ``Y``, ``h`` and ``weights``.

    ``X`` has at most 16 columns. The result is that of :func:`cukde.score`, of the library and on the device of ``X``.

    Examples
    --------
    >>> import torch, cukde.torch
    >>> Y = torch.tensor([2.0], requires_grad=True)
    >>> cukde.torch.score(torch.tensor([0.0]), Y, 2.0).sum().backward()
    >>> Y.grad
    tensor([-0.2500])

    Notes
    -----
    Gradients cost two passes of up to d^2 + 3 d + 1 values, in float64. Their error, relative to the largest term, is
    1e-12 times the squared spread of the data in bandwidths. See ``docs/gradients.md``.
    """


@differentiable(KernelSum, density.kernel_sum, _OF_ROWS)
def kernel_sum(*args: Any, **kwargs: Any) -> Any:
    """Compute :func:`cukde.kernel_sum`, differentiable with respect to ``X``, ``V``, ``Y`` and ``h``.

    The result is that of :func:`cukde.kernel_sum`, of the library and on the device of ``X``.

    Examples
    --------
    >>> import torch, cukde.torch
    >>> V = torch.tensor([1.0, -1.0], requires_grad=True)
    >>> cukde.torch.kernel_sum(torch.tensor([0.0, 1.0]), V, torch.tensor([0.0]), 1.0).sum().backward()
    >>> V.grad
    tensor([1.0000, 0.6065])

    Notes
    -----
    The gradient of ``V`` alone costs one pass; those of ``X``, ``Y`` and ``h`` up to two for each column of ``V``.
    Errors are those of :func:`cukde.kernel_sum`, relative to the sum of absolute terms.
    """


@differentiable(Grid, grids.evaluate_grid, _OF_DENSITY)
def evaluate_grid(*args: Any, **kwargs: Any) -> Any:
    """Compute :func:`cukde.evaluate_grid`, differentiable with respect to ``X``, ``h`` and ``weights``.

    The result is that of :func:`cukde.evaluate_grid`, of the library and on the device of ``X``.

    Examples
    --------
    >>> import torch, cukde.torch
    >>> X = torch.tensor([0.0], requires_grad=True)
    >>> cukde.torch.evaluate_grid(X, torch.tensor([1.0]), 1.0).sum().backward()
    >>> X.grad
    tensor([0.2420])

    Notes
    -----
    Gradients are those of :func:`kde` at all points of the grid: as accurate whatever the algorithm, and at that cost.
    """


@differentiable(Convolution, conv1d.depthwise_conv1d, without=("state", "return_state"))
def depthwise_conv1d(*args: Any, **kwargs: Any) -> Any:
    """Compute :func:`cukde.depthwise_conv1d`, differentiable with respect to ``x``, ``w`` and ``bias``.

    An ``activation`` has a name, or is a :class:`cukde.PiecewisePolynomial`. The result is that of
    :func:`cukde.depthwise_conv1d`, of the library and on the device of ``x``.

    Examples
    --------
    >>> import torch, cukde.torch
    >>> w = torch.tensor([[-1.0, 1.0]], requires_grad=True)
    >>> cukde.torch.depthwise_conv1d(torch.tensor([[[1.0, 2.0, 4.0]]]), w).sum().backward()
    >>> w.grad
    tensor([[3., 7.]])

    Notes
    -----
    Gradients cost :func:`cukde.depthwise_conv1d_input_grad` and :func:`cukde.depthwise_conv1d_weight_grad`, whose
    errors they have, and with an activation the convolution once more.
    """


@differentiable(Table, pwpa_of_arrays.pwpa, without=("out",))
def pwpa(*args: Any, **kwargs: Any) -> Any:
    """Compute :func:`cukde.pwpa`, differentiable with respect to ``x`` and ``coefficients``.

    The result is that of :func:`cukde.pwpa`, of the library and on the device of ``x``.

    Examples
    --------
    >>> import torch, cukde.torch
    >>> a = torch.tensor([[1.0, 0.0, 0.0], [0.0, 2.0, -1.0]], requires_grad=True)  # x^2, then 2 x - 1
    >>> cukde.torch.pwpa(torch.tensor([0.5]), a, [0, 1, 2]).sum().backward()
    >>> a.grad
    tensor([[0.2500, 0.5000, 1.0000],
            [0.0000, 0.0000, 0.0000]])

    Notes
    -----
    The gradient of ``x`` costs one more evaluation, and that of ``coefficients`` a few passes over memory. Errors are
    those of :func:`cukde.pwpa`. With "clamp" the gradient of an ``x`` beyond the knots is 0.
    """


def _evaluated(p: PiecewisePolynomial, x: Any, nu: int = 0, extrapolate: Extrapolate | None = None) -> Any:
    if not isinstance(p, PiecewisePolynomial):
        raise TypeError(f"p must be a cukde.PiecewisePolynomial; got {type(p).__name__}")
    return p(x, nu, extrapolate)


@differentiable(Curve, _evaluated)
def evaluate(*args: Any, **kwargs: Any) -> Any:
    """Compute ``p(x, nu, extrapolate)`` of a :class:`cukde.PiecewisePolynomial`, differentiable with respect to ``x``.

    The result is that of the call, of the library and on the device of ``x``.

    Parameters
    ----------
    p, x, nu, extrapolate
        A polynomial, with fixed coefficients, and the arguments of its call.

    Examples
    --------
    >>> import torch, cukde.torch
    >>> p = cukde.PiecewisePolynomial([[1.0], [0.0], [0.0]], [0, 1])  # x^2
    >>> x = torch.tensor([0.5], requires_grad=True)
    >>> cukde.torch.evaluate(p, x).sum().backward()
    >>> x.grad
    tensor([1.])

    Notes
    -----
    The gradient costs one evaluation of the derivative, and has its errors.
    """
