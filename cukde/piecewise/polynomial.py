"""Piecewise polynomials with the interface of :class:`scipy.interpolate.PPoly`, on NumPy and CuPy arrays."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cost.registry import declare
from cukde.core.entry.over_arrays import over_arrays
from cukde.core.over_dask import is_dask
from cukde.core.public import public_in
from cukde.core.quiet import quiet_methods
from cukde.core.types import Array, ArrayLike
from cukde.piecewise import calculus, check, cost, foreign
from cukde.piecewise.evaluator import Evaluator, Extrapolate
from cukde.piecewise.pieces import Pieces


@declare(cost.polynomial, cost.of_polynomial)
@public_in("cukde")
@quiet_methods
class PiecewisePolynomial:
    r"""A piecewise polynomial like SciPy's ``PPoly``, for float16, float32 and float64, on the CPU and the GPU.

    Between ``x[i]`` and ``x[i + 1]``, with k coefficients a piece,

    .. math:: p(t) = \sum_{j=0}^{k-1} c_{j,i} \, (t - x_i)^{k-1-j}

    Parameters
    ----------
    c : array_like (k, m, ...)
        Coefficients of m pieces, the leading one first; further axes hold several values at each point. They keep their
        floating-point dtype (integers become float64). GPU arrays make a polynomial that stays and computes on the GPU.
    x : array_like (m + 1,)
        Knots, strictly increasing or strictly decreasing.
    extrapolate : {True, False, "periodic", "clamp", "raise"}
        Values beyond the knots: with True the polynomials of the first and the last piece go on, False gives NaN,
        "periodic" repeats the range of the knots, "clamp" gives the value at the nearer end, and "raise" is a
        ValueError that names the first such x. The check of "raise" reads the values once more, and on a GPU it waits
        for them; while a CUDA graph is captured, NaN is given instead of an error.

    Attributes
    ----------
    c, x : ndarray
        Copies of the coefficients and knots; do not change them.
    extrapolate : {True, False, "periodic", "clamp", "raise"}
        As given.
    axis : int
        Always 0: in results the axes of the points come before the further axes of c.
    max_error : float or None
        Largest error of a fit to a function.

    Raises
    ------
    ValueError
        For knots that are not in order, incompatible shapes, entries that are not finite, and unknown options.
    TypeError
        For arrays that do not hold real numbers of at most 64 bits.

    Examples
    --------
    >>> import numpy as np
    >>> import cukde
    >>> p = cukde.PiecewisePolynomial([[1.0, 0.0], [0.0, 1.0]], [0, 1, 2], extrapolate="clamp")  # x, then 1
    >>> p([0.25, 1.5, 9.0])
    array([0.25, 1.  , 1.  ])
    >>> p(np.float32([0.25, np.nan]))
    array([0.25,  nan], dtype=float32)
    >>> float(p.integrate(0, 2))
    1.5

    See Also
    --------
    pwpa : A single evaluation, from plain arrays of coefficients.

    Notes
    -----
    Values are accurate to 1e-13 in float64 and 1e-6 in float32, relative to the sum of absolute terms
    (``tests/piecewise/test_polynomial.py``); float16 is computed in float32 and rounded. An evaluation costs one pass
    over the points. A piece begins at its knot and ends before the next; the last piece includes its end. The choice of
    the piece is exact.

    Derivatives, antiderivatives and integrals are computed in float64 on the host.
    """

    axis = 0

    def __init__(self, c: ArrayLike, x: ArrayLike, *, extrapolate: Extrapolate = True) -> None:
        self._hold(c, x, extrapolate, equal_ends=False)

    def _hold(self, c: Any, x: Any, extrapolate: Any, equal_ends: bool) -> None:
        """Take what defines the polynomial; end pieces of foreign polynomials may have no width."""
        self.extrapolate: Extrapolate = check.extrapolate(extrapolate)
        self.max_error: float | None = None
        held_c, held_x = check.held("c", c), check.held("x", x)
        check.knots("x", held_x, decreasing=True, equal_ends=equal_ends)
        check.coefficients(held_c, len(held_x) - 1)
        self.c: Any = held_c
        self.x: Any = held_x
        self._c, self._x = held_c.astype(np.float64, copy=False), held_x.astype(np.float64, copy=False)
        if dispatch.is_gpu_array(c):
            gpu = dispatch.backend(c, "c")
            with gpu.device_of(c):
                self.c, self.x = gpu.asarray(held_c), gpu.asarray(held_x)
        self._derivatives: dict[int, PiecewisePolynomial] = {}

    @over_arrays
    def __call__(self, x: ArrayLike, nu: int = 0, extrapolate: Extrapolate | None = None) -> Array:
        r"""Evaluate the polynomial or one of its derivatives.

        Parameters
        ----------
        x : array_like
            Points, of any shape. NaN gives NaN. A GPU array is evaluated on the GPU, a host array on the CPU unless the
            polynomial is on the GPU, and a Dask array lazily, block by block.
        nu : int
            Order of the derivative, at least 0.
        extrapolate : {True, False, "periodic", "clamp", "raise"}, optional
            Overrides the attribute. "clamp" replaces x beyond the knots by the nearer end, or by the nearest number of
            its dtype in the piece there; derivatives are then those at the end.

        Returns
        -------
        ndarray
            Of the shape of x and the further axes of c, and of the dtype of x (integers become float64). So the dtype
            of x chooses between speed and accuracy; SciPy always computes in float64.

        Raises
        ------
        ValueError
            For a negative ``nu``, an unknown option, knots or coefficients that the dtype of x cannot hold, and with
            "raise" for x beyond the knots.
        TypeError
            For x that does not hold real numbers of at most 64 bits.

        Notes
        -----
        The arithmetic is in the dtype of x. float16 is computed in float32 and rounded once; periodic functions are
        computed in float64, since float32 would lose a point's place in the period. With u = x - x[i] the error is at
        most 1e-13 of :math:`\sum_j |c_{j,i}| |u|^{k-1-j}` in float64 and 1e-6 of it in float32, for up to 13
        coefficients. Below a first knot that float32 does not have, \|u\| counts as two of its steps larger.

        With ``extrapolate=True`` the value at an infinite point is the limit of the polynomial of the first or last
        piece: the constant of a constant piece, otherwise infinity with the sign of the limit. SciPy gives NaN there if
        the first coefficient is 0 or terms have opposite signs.

        Cost: each value reads and writes memory once and takes k - 1 multiplications and additions. A few comparisons
        find its piece, or O(log m) if many of the m pieces lie in a small part of the range.
        """
        if type(nu) is int and nu == 0 and self._c.ndim == 2 and dispatch.is_gpu_array(x) and not self._falls:
            values = self._evaluator.again(x, self.extrapolate if extrapolate is None else extrapolate)
            if values is not None:
                return values
        nu = check.order(nu)
        if nu < 0:
            raise ValueError(f"nu must be at least 0; got {nu}: write antiderivative({-nu})(x)")
        beyond = self._beyond(extrapolate)
        if is_dask(x):
            lazily: Any = importlib.import_module("cukde.piecewise.dask")
            return lazily.values(self, x, nu, beyond)
        if nu > 0:
            if nu not in self._derivatives:
                self._derivatives[nu] = self.derivative(nu)
            return self._derivatives[nu](x, extrapolate=beyond)
        place = self.c if dispatch.is_gpu_array(self.c) and not dispatch.is_gpu_array(x) else x
        backend = dispatch.backend(place, "x")
        with backend.device_of(place):
            points = core_check.floating("x", x, backend)
            if beyond == "raise" and self._falls:  # an error tells x, not -x
                values = self._evaluator(_negative(points), False, backend)
                check.within(values, points, self._x[::-1], backend)
            else:
                values = self._evaluator(_negative(points) if self._falls else points, beyond, backend)
            shape = points.shape + self._c.shape[2:]
            return values if values.shape == shape else values.reshape(shape)

    def __repr__(self) -> str:
        k, m, *further = self._c.shape
        words = [f"{m} piece{'s' * (m > 1)} of degree {k - 1} on [{self._x.min():g}, {self._x.max():g}]"]
        if further:
            words.append(f"values of shape {tuple(further)}")
        words.append(f"extrapolate={self.extrapolate!r}")
        if self.max_error is not None:
            words.append(f"max_error={self.max_error:.3g}")
        if dispatch.is_gpu_array(self.c):
            words.append("on the GPU")
        return f"{type(self).__name__}({', '.join(words)})"

    def _beyond(self, extrapolate: Extrapolate | None) -> Extrapolate:
        """The option of a call, by default the attribute."""
        return self.extrapolate if extrapolate is None else check.extrapolate(extrapolate)

    @functools.cached_property
    def _falls(self) -> bool:
        return bool(self._x[0] > self._x[-1])

    @functools.cached_property
    def _evaluator(self) -> Evaluator:
        return Evaluator(self._pieces())

    def _pieces(self) -> Pieces:
        """The polynomial of x, or of -x if knots decrease; a change of signs rounds nothing."""
        c = self._c.reshape(*self._c.shape[:2], -1)
        if not self._falls:
            return Pieces(c, self._x, local=True)
        sign = (-1.0) ** np.arange(len(c) - 1, -1, -1)
        return Pieces(c * sign[:, None, None], -self._x, local=True)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the evaluator, which belongs to devices of this process."""
        return {name: value for name, value in self.__dict__.items() if name != "_evaluator"}

    def __dask_tokenize__(self) -> Any:
        """Return all that results depend on."""
        return type(self.c).__module__, self._c, self._x, self.extrapolate

    def derivative(self, nu: int = 1) -> PiecewisePolynomial:
        """Return the derivative of order ``nu``, or the antiderivative if ``nu`` is negative.

        ``extrapolate`` stays the same; with "clamp" the derivative at each end is also its value beyond that end.
        """
        nu = check.order(nu)
        if nu < 0:
            return self.antiderivative(-nu)
        return self._like(calculus.derivative(self._c, nu), self._x, self.extrapolate)

    def antiderivative(self, nu: int = 1) -> PiecewisePolynomial:
        """Return the antiderivative of order ``nu``, or the derivative if ``nu`` is negative.

        It and its first nu - 1 derivatives are continuous, and 0 at the first knot. The antiderivative of a periodic
        function is not periodic: its ``extrapolate`` is False, as in SciPy. With "clamp" a constant piece is added on
        either side before integration, and ``extrapolate`` is True.
        """
        nu = check.order(nu)
        if nu <= 0:
            return self.derivative(-nu)
        check.order_of_antiderivative(nu)
        if self.extrapolate == "clamp":
            c, x = calculus.clamped(self._c, self._x)
            return self._like(calculus.antiderivative(c, x, nu, origin=1), x, True)
        beyond = False if self.extrapolate == "periodic" else self.extrapolate
        return self._like(calculus.antiderivative(self._c, self._x, nu), self._x, beyond)

    def integrate(self, a: float, b: float, extrapolate: Extrapolate | None = None) -> Array:
        """Return the integral from ``a`` to ``b``, in float64, with the shape of the further axes of c.

        ``extrapolate``, by default the attribute, determines the values beyond the knots. Integrals that reach beyond
        them are NaN with False, and a ValueError with "raise".
        """
        beyond = self._beyond(extrapolate)
        a, b = check.bound("a", a), check.bound("b", b)
        if beyond == "raise":
            check.limits_within(a, b, self._x[::-1] if self._falls else self._x)
        pieces, sign = self._pieces(), 1.0
        if self._falls:
            a, b, sign = -a, -b, -1.0
        c, knots = pieces.coefficients, pieces.knots
        inside = knots[0] <= min(a, b) and max(a, b) <= knots[-1]
        if np.isnan(a) or np.isnan(b) or (beyond is False and not inside):
            total = np.full(c.shape[2:], np.nan)
        elif beyond == "periodic":
            total = calculus.integral_over_period(c, knots, a, b)
        elif beyond == "clamp":
            total = calculus.integral(*calculus.clamped(c, knots), a, b)
        else:
            total = calculus.integral(c, knots, a, b)
        return _beside((sign * total).reshape(self._c.shape[2:]), self.c)

    @classmethod
    def from_spline(cls, tck: Any, *, extrapolate: Extrapolate | None = None) -> PiecewisePolynomial:
        """Return a spline as a piecewise polynomial on its base interval, from t[k] to t[n].

        Parameters
        ----------
        tck : BSpline, UnivariateSpline or tuple (t, c, k)
            A spline of one variable, SciPy's or CuPy's, with any number of values at a point. Pieces between equal
            knots are left out, but for those at the ends that are evaluated at the last knot or beyond.
        extrapolate : {True, False, "periodic", "clamp", "raise"}, optional
            Default the spline's, or True for a tuple.

        Raises
        ------
        TypeError, ValueError
            For anything but ordered knots, matching coefficients and a degree.
        """
        c, x, own, like = foreign.of_spline(tck)
        return cls._with_ends(c, x, own if extrapolate is None else extrapolate, like)

    @classmethod
    def from_scipy(cls, p: Any, *, extrapolate: Extrapolate | None = None) -> PiecewisePolynomial:
        """Convert ``p``, a ``PPoly`` or ``BPoly`` of SciPy or CuPy, or of a subclass such as ``CubicSpline``.

        Pieces between equal knots are left out, but for those at the ends that are evaluated at the last knot or
        beyond. ``extrapolate`` is by default that of ``p``. Raises TypeError for anything else, and ValueError for an
        ``axis`` other than 0.
        """
        c, x, own, like = foreign.of_polynomial(p)
        return cls._with_ends(c, x, own if extrapolate is None else extrapolate, like)

    @classmethod
    def _with_ends(cls, c: np.ndarray, x: np.ndarray, extrapolate: Any, like: Any) -> PiecewisePolynomial:
        """Make a polynomial whose end pieces may have no width, on the device of ``like``."""
        out = cls.__new__(cls)
        out._hold(_beside(c, like), _beside(x, like), extrapolate, equal_ends=True)
        return out

    def to_scipy(self) -> Any:
        """Convert to SciPy's ``PPoly``, on the host and in float64.

        SciPy has no "clamp", so a constant piece is added on either side and extrapolated; "raise" becomes False.
        """
        from scipy.interpolate import PPoly

        if self.extrapolate == "clamp":
            return PPoly(*calculus.clamped(self._c, self._x), extrapolate=True)
        beyond = False if self.extrapolate == "raise" else self.extrapolate
        return PPoly(self._c.copy(), self._x.copy(), extrapolate=beyond)

    def _like(self, c: np.ndarray, x: np.ndarray, extrapolate: Extrapolate) -> PiecewisePolynomial:
        """Return another polynomial on the device of this one."""
        return PiecewisePolynomial._with_ends(c, x, extrapolate, self.c)


def _beside(a: np.ndarray, like: Any) -> Any:
    """Return an array on the device of ``like``."""
    if not dispatch.is_gpu_array(like):
        return a
    gpu = dispatch.backend(like, "c")
    with gpu.device_of(like):
        return gpu.asarray(a)


def _negative(points: Any) -> Any:
    """-points of floating point numbers, by their signs: CuPy's own takes denormal numbers for zero."""
    bits = np.dtype(f"u{points.itemsize}")
    return (points.view(bits) ^ bits.type(1 << (8 * points.itemsize - 1))).view(points.dtype)
