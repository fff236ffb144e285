r"""Elementary functions of NumPy and CuPy arrays, computed as piecewise polynomials with cubic pieces of equal width.

Every function takes an array of any shape in float16, float32 or float64, and returns the same shape and dtype on the
same device. Integers become float64; an array of anything but real numbers of at most 64 bits is a TypeError. float16
is evaluated in float32 and rounded once. NaN gives NaN, and infinities give the limits. The pieces meet at their knots,
where they take the values of the function.

For every finite x the error \|computed - f(x)\| is at most the figure below times max(1, \|f(x)\|). For ``exp`` it is
at most the figure times f(x), down to the smallest normal number. Rounding to float16 adds 4.9e-4.

========  ==================  ======  =======  =======
function  pieces on           number  float64  float32
========  ==================  ======  =======  =======
gelu      [-6, 6]             128     6e-8       2e-7
silu      [-20, 20]           320     6e-8       2e-7
tanh      [-9, 9]             256     5e-8       2e-7
sigmoid   [-18, 18]           256     3e-8       2e-7
erf       [-4, 4]             128     4e-8       2e-7
softplus  [-18, 18]           256     3e-8       2e-7
exp       [-3/8, 3/8]         24      5e-10      2e-7
log       [3/4, 3/2]          24      8e-9       2e-7
========  ==================  ======  =======  =======

Beyond its pieces the value of a function is its limit: exactly 0, 1, -1 or x. ``exp`` and ``log`` have these errors for
all x. exp(x) is 2^n p(x - n log 2), which overflows to infinity and underflows to 0. log(m 2^n) is p(m) + n log 2; it
is minus infinity for 0 and NaN for negative x.

Each function costs one evaluation of a polynomial, which reads and writes memory once; ``exp`` and ``log`` reduce their
range in the same pass. On a CPU ``exp``, ``log`` and ``tanh`` are NumPy's, which are faster and more accurate, and many
numbers are shared by all threads; the other functions of NumPy and SciPy are slower than these.

Polynomials are fitted at first use, in a few milliseconds; :func:`polynomial` returns them.

Examples
--------
>>> import numpy as np
>>> from cukde import functions
>>> functions.gelu(np.array([-np.inf, -1, 0, 1, 100])).round(6)
array([  0.      ,  -0.158655,   0.      ,   0.841345, 100.      ])
>>> functions.polynomial("gelu")(np.float32([-1, 1]))
array([-0.15865526,  0.8413447 ], dtype=float32)
"""

from cukde.piecewise.functions import erf, exp, gelu, log, polynomial, sigmoid, silu, softplus, tanh

__all__ = ["erf", "exp", "gelu", "log", "polynomial", "sigmoid", "silu", "softplus", "tanh"]


def __dir__() -> list[str]:
    return sorted(__all__)
