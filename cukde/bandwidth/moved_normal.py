r"""Integrated variance of the score-debiased estimate of normal data, to first order in the noise of the data.

Data are from :math:`p = N(0, I)`, and units are those of ``normal_reference``. After k steps a point x lies at
:math:`a_k x`, and the density of these points with bandwidth h is :math:`p_k = N(0, a_k^2 + h^2)`. A row at z adds
:math:`W_k(x, z)` to it, by its own kernel and by moving all others:

.. math::

    W_k(x, z) = K_h(x - a_k z) + \int M_k(x, u)\, W_{k-1}(u, z)\, du, \qquad W_0(x, z) = K_h(x - z),

with the kernel that follows from :math:`dm_k = \frac{h^2}{2} \nabla (W_{k-1} / p_{k-1})` by parts,

.. math::

    M_k(x, u) = \frac{h^2}{2} \frac{p(u)}{p_{k-1}(u)} K_h(r) \Big[\frac{u \cdot r}{h^2}
        - a_k \Big(\frac{|r|^2}{h^4} - \frac d{h^2}\Big)\Big], \qquad r = x - a_k u.

So :math:`W_k` is a sum of k + 1 chains of Gaussians times quadratic forms, and :math:`\int E_z[W_k^2]` a sum of
Gaussian integrals of pairs of chains that meet at z and at y. A form Q is the coefficient of :math:`\epsilon` in
:math:`e^{\epsilon Q}`, where :math:`\epsilon^2 = 0`: with such numbers in its matrix A, a Gaussian integral is
:math:`(2\pi)^{Nd/2} \det(A)^{-d/2}`, and the coefficient of the product of all :math:`\epsilon` is the integral with
all the forms.

As h goes to 0 one step has :math:`r\, h^{-d}`, :math:`r = 1 + \frac d3 (\frac23)^{d/2} + \frac{d(d+2)}{64} 2^{-d/2}`.
"""

from __future__ import annotations

import functools
import math

import numpy as np


def deviations(h: np.ndarray, steps: int) -> list[np.ndarray]:
    """Standard deviations of the points before and after each of the steps."""
    a = [np.ones_like(h)]
    for _ in range(steps):
        a.append(1 - h * h / (2 * (a[-1] ** 2 + h * h)))
    return a


def log_square(h: np.ndarray, d: int, steps: int) -> np.ndarray:
    """Logarithm of the integral of E[W^2] after some steps."""
    a = deviations(h, steps)
    parts, logs = [], []
    for i in range(steps + 1):
        for j in range(i + 1):
            part, log_part = _pair(h, d, a, i, j)
            parts.append(part if i == j else 2 * part)
            logs.append(log_part)
    largest = np.max(logs, axis=0)
    total = sum(part * np.exp(log - largest) for part, log in zip(parts, logs, strict=True))
    return np.asarray(largest + np.log(total))


def _pair(h: np.ndarray, d: int, a: list[np.ndarray], i: int, j: int) -> tuple[np.ndarray, np.ndarray]:
    """Integral of the product of two chains of i and j moves, as a number and a logarithm by which it is scaled."""
    forms, variables = i + j, 2 + i + j  # y, z, and a point between any two kernels
    A = np.zeros((variables, variables, 1 << forms, len(h)))
    A[1, 1, 0] = 1  # the density of z
    beside = np.zeros((1 << forms, len(h)))  # what is not in a quadratic form
    beside[0] = 1
    log_scale = d / 2 * (np.log(2) + variables * math.log(2 * math.pi))
    for first, moves in ((0, i), (i, j)):
        at = [0, *range(2 + first, 2 + first + moves), 1]
        for move in range(moves):
            x, u, bit, k = at[move], at[move + 1], 1 << (first + move), len(a) - 1 - move
            variance = a[k - 1] ** 2 + h * h
            _add_kernel(A[:, :, 0], x, u, a[k], 1 / h**2)
            A[u, u, 0] += 1 - 1 / variance
            log_scale = log_scale + d / 2 * np.log(variance)
            # The form is that of -1/2 w A w: (u r - a r^2 / h^2) / 2, whose u r is r^2 and u^2 by r = x - a u.
            _add_kernel(A[:, :, bit], x, u, a[k], a[k] / h**2)
            A[u, u, bit] += a[k]
            A[x, u, bit] -= 0.5
            A[u, x, bit] -= 0.5
            factor = np.zeros_like(beside)
            factor[0], factor[bit] = 1, a[k] * d / 2
            beside = _product(beside, factor)
        _add_kernel(A[:, :, 0], at[-2], 1, a[len(a) - 1 - moves], 1 / h**2)
        log_scale = log_scale - (moves + 1) * d / 2 * np.log(2 * math.pi * h * h)
    log_determinant = np.zeros_like(beside)
    for last in range(variables - 1, -1, -1):
        pivot = A[last, last]
        log_determinant += _log(pivot)
        factors = _product(A[:last, last], _inverse(pivot))
        A[:last, :last] -= _product(factors[:, None], A[None, last, :last])
    log_scale = log_scale - d / 2 * log_determinant[0]
    return _product(_exp(-d / 2 * log_determinant), beside)[-1], log_scale


def _add_kernel(A: np.ndarray, x: int, u: int, a: np.ndarray, size: np.ndarray) -> None:
    """Add size |x - a u|^2 to the form of a matrix."""
    A[x, x] += size
    A[x, u] -= a * size
    A[u, x] -= a * size
    A[u, u] += a * a * size


# Numbers with infinitesimals, (..., 2^k, H): the coefficient of the product of those whose bits are set in the index.


@functools.cache
def _terms(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices of the factors of all terms of a product that are not 0, in the order of their product's, and starts."""
    pairs = sorted((one | other, one, other) for one in range(size) for other in range(size) if not one & other)
    products, first, second = np.array(pairs).T
    return first, second, np.searchsorted(products, np.arange(size))


def _product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    first, second, starts = _terms(x.shape[-2])
    return np.add.reduceat(x[..., first, :] * y[..., second, :], starts, axis=-2)


def _series(x: np.ndarray, coefficients: list[float]) -> np.ndarray:
    """A power series of the infinitesimal part of a number, which begins with the first power."""
    part = x.copy()
    part[0] = 0
    power, out = part, np.zeros_like(x)
    for coefficient in coefficients:
        out += coefficient * power
        power = _product(power, part)
    return out


def _inverse(x: np.ndarray) -> np.ndarray:
    out = _series(x / x[0], [(-1.0) ** k for k in _powers(x)])
    out[0] = 1
    return np.asarray(out / x[0])


def _log(x: np.ndarray) -> np.ndarray:
    out = _series(x / x[0], [-((-1.0) ** k) / k for k in _powers(x)])
    out[0] = np.log(x[0])
    return out


def _exp(x: np.ndarray) -> np.ndarray:
    """Exponential of the infinitesimal part."""
    out = _series(x, [1 / math.factorial(k) for k in _powers(x)])
    out[0] = 1
    return out


def _powers(x: np.ndarray) -> range:
    """Powers of an infinitesimal that are not 0, but for the zeroth."""
    return range(1, x.shape[-2].bit_length())
