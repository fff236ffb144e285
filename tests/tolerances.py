"""Every tolerance of the density tests with its reason, and how an error is judged against it.

Errors are allowed by what the arithmetic can do, query by query: ``exponent`` below is the smallest
r^2/(2h^2) of a query, ``reach`` the mean distance of the data that contribute to it, in bandwidths,
weighted by their shares in the sum and at least 1 (:func:`tests.reference.nearness`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tests.reference import LeaveOneOut, Nearness


class Tolerance(NamedTuple):
    value: float
    reason: str


NEAR = Tolerance(80.0, "an exponent up to which a density is a normal float32 and judged by its relative error")

DENSITY = {
    ("cpu", "float32"): Tolerance(
        1e-5, "inner products only where the spread is small: measured 7e-6 of duplicates at the limit"
    ),
    ("cpu", "tf32"): Tolerance(1e-5, "means float32 on the CPU"),
    ("cpu", "ieee"): Tolerance(1e-5, "squared differences"),
    ("cpu", "float64"): Tolerance(
        1e-12, "80 times a few eps, and inner products: measured 6e-13 of duplicates at their limit"
    ),
    ("gpu", "float32"): Tolerance(3e-5, "float32 accumulators round exponents up to 80: measured 1.2e-5"),
    ("gpu", "tf32"): Tolerance(6e-2, "11 bits of z: an exponent is off by r/h sqrt(spread) 2^-12; worst 5e-2"),
    ("gpu", "ieee"): Tolerance(3e-5, "a squared difference is off by 3 eps of an exponent up to 80"),
    ("gpu", "float64"): Tolerance(1e-12, "80 times a few eps: measured 2.3e-13"),
}
"""Worst relative error of a density (absolute error of its log) by device and precision."""

LINE = {
    "float32": Tolerance(1e-6, "what the transform is asked for; its arithmetic is double precision"),
    "float64": Tolerance(1e-12, "what the transform is asked for"),
}
"""The same in one dimension, beside the rounding of the result."""

GRID = {
    "float32": Tolerance(1e-6, "what a transform is planned for, and the rounding of the result"),
    "float64": Tolerance(1e-10, "what a transform is planned for"),
}
"""Error of a density on a product grid, relative to the largest of the grid."""

SD_DENSITY = {
    "float32": Tolerance(3e-4, "the points move by up to a density error times reach; so does the density"),
    "float64": Tolerance(3e-11, "the same, from 1e-12"),
}
"""The same for :func:`cukde.sd_kde`."""

MEAN_SHIFT = Tolerance(2.0**-12, "each coordinate is one float16 number there; measured 2^-13")
"""Error of the score of equal weights at the data on a GPU in float32, in units of 1/h, of the data's size in h."""

KERNEL_DENSITY = {
    "float32": Tolerance(1e-5, "1 - q rounds by eps q, 1/32 from the edge and beyond"),
    "float64": Tolerance(1e-12, "log-sum-exp, and the constant's logarithm"),
}
"""Worst relative error of a density by a kernel beside the Gaussian, in float32 up to 80 bandwidths from the data."""

KERNEL_DENSITY_OF_SIZE = Tolerance(1e-14, "near the edge 1 - q is what cancels, in the oracle too: some eps of 1")
"""The same relative to the mass of the points that count, beside it."""

CROSS_VALIDATION = {
    ("kde", "float32"): Tolerance(3e-5, "what a density is allowed; measured 4e-7 on the CPU"),
    ("laplace", "float32"): Tolerance(3e-5, "the same; measured 8e-7"),
    ("sd", "float32"): Tolerance(3e-4, "what a density of debiased points is allowed; 2e-7, and 1e-4 of the GPU's"),
    ("kde", "float64"): Tolerance(1e-12, "what a density is allowed; measured 4e-14"),
    ("laplace", "float64"): Tolerance(1e-12, "the same; measured 1e-14"),
    ("sd", "float64"): Tolerance(3e-11, "what a density of debiased points is allowed; measured 1e-14"),
}
"""Error of a leave-one-out score: of a mean logarithm absolute, of least squares relative to the mean density."""

TF32_MEDIAN = Tolerance(3e-3, "of 200 queries of 16 dimensions, h half the spread; measured 1.2e-3")

WMMA = {
    "kde": Tolerance(4e-3, "11 bits of z: an exponent is off by r/h sqrt(spread) 2^-12; measured 1.5e-3"),
    "score": Tolerance(
        2e-3, "shares of the data are off by as much, and the mean of those errors counts; measured 5e-4"
    ),
}
"""Worst relative error of the study's density by ``nvcuda::wmma``; of its score in units of 1/h, over the reach."""

_EIGHT_EPS = "8 eps: differences, squares, their sum and the scale each round an exponent"
FAR = {
    "float32": Tolerance(2.0**-20, _EIGHT_EPS),
    "ieee": Tolerance(2.0**-20, _EIGHT_EPS),
    "tf32": Tolerance(2.0**-11, "the last bit that TF32 keeps of z"),
    "float64": Tolerance(2.0**-49, _EIGHT_EPS),
}
"""Error of log p relative to the exponent, where that is beyond NEAR."""


_EIGHT_EPS_OF_TERMS = "8 eps of the sum of absolute terms: partial sums round like a tree's; measured 2 to 4 eps"
CONV1D = {
    "float16": Tolerance(1e-6, "sums are of float32, and the one rounding to float16 is allowed for beside"),
    "float32": Tolerance(1e-6, _EIGHT_EPS_OF_TERMS),
    "float64": Tolerance(2e-15, _EIGHT_EPS_OF_TERMS),
}
"""Error of depthwise convolution and its gradients relative to the sum of absolute terms; by FFT, to the largest."""

_OF_TWO_TERMS = "8 eps of the sizes of the two terms, each of exponentials, a quotient or erfcx: measured 4 eps"
ACTIVATION_GRAD = {
    "float16": Tolerance(2.0**-20, "float32, and the one rounding to float16 is allowed for beside"),
    "float32": Tolerance(2.0**-20, _OF_TWO_TERMS),
    "float64": Tolerance(2.0**-49, _OF_TWO_TERMS),
}
"""Error of a derivative of an activation relative to the sizes of its two terms."""

ACTIVATION = Tolerance(4.0, "in eps of the argument: an exponential, a quotient or polynomial, products; measured 2")
"""Error of an activation on the CPU."""


def log_error(device: str, precision: str, exponent: np.ndarray) -> np.ndarray:
    """Allowed error of log p of each query."""
    base = DENSITY[device, precision].value
    far = FAR["float32" if device == "cpu" and precision == "tf32" else precision].value
    return np.where(exponent < NEAR.value, base, np.maximum(base, far * exponent))


SHARES = Tolerance(128 * 2.0**-52, "a share of an exponent up to 80, by some roundings and those of what it is made of")
"""Error of a debiased leave-one-out log density times its condition: a share near 1 is what is taken away from 1."""


def leave_one_out_error(device: str, dtype: str, sums: LeaveOneOut) -> np.ndarray:
    """Allowed error of a logarithm of sums of squared differences over the other rows."""
    precision = "ieee" if dtype == "float32" else dtype
    return log_error(device, precision, sums.exponent) + SHARES.value * sums.condition


def pair_error(device: str, dtype: str, exponents: np.ndarray) -> np.ndarray:
    """Allowed relative error of what a pair adds to a sum; it is large where the exponent cannot be right."""
    return np.expm1(log_error(device, "ieee" if dtype == "float32" else dtype, exponents))


def sd_log_error(precision: str, near: Nearness, held: float) -> np.ndarray:
    """Allowed error of log p of debiased points.

    Moving the points by some error moves log p by the reach times that; far out the reach grows with the
    root of the exponent. The moved points are held in float64, ``held`` bandwidths from zero.
    """
    moved = SD_DENSITY[precision].value * np.sqrt(np.maximum(1, near.exponent / NEAR.value))
    far = np.where(near.exponent < NEAR.value, 0, FAR[precision].value * near.exponent)
    return far + moved + near.reach * held * np.finfo(np.float64).eps


def check_log(got: np.ndarray, want: np.ndarray, allowed: np.ndarray, what: str = "log density") -> None:
    """Log densities: ``allowed``, and half a unit in the last place of the number itself."""
    assert np.isfinite(got).all(), f"{what} is not finite: {got[~np.isfinite(got)]}"
    rounding = 0.5 * np.finfo(got.dtype).eps * np.abs(want)
    check(np.abs(got - want), allowed + rounding, what)


def check_density(got: np.ndarray, log_want: np.ndarray, allowed: np.ndarray, what: str = "density") -> None:
    """Densities by their relative error; outside the normal range of the dtype, infinity or at most the edge."""
    info = np.finfo(got.dtype)
    high, low = np.log(float(info.max)), np.log(float(info.tiny))
    assert not np.isnan(got).any(), f"{what} holds NaN"
    assert np.isinf(got[log_want > high + allowed]).all(), f"{what} beyond the dtype's range is not inf"
    assert (got[log_want < low - allowed] <= info.tiny).all(), f"{what} below the dtype's range is not tiny"
    assert (got >= 0).all(), f"{what} is negative"
    inside = (log_want < high - allowed) & (log_want > low + allowed)
    error = np.abs(np.log(got[inside].astype(np.float64)) - log_want[inside])
    check(error, allowed[inside] + 0.5 * info.eps, what)


def check_scaled(
    got: np.ndarray,
    log_scale: np.ndarray,
    total: np.ndarray,
    size: np.ndarray,
    allowed: np.ndarray,
    what: str,
) -> None:
    """Signed sums exp(log_scale) total, relative to their absolute terms exp(log_scale) size."""
    info = np.finfo(got.dtype)
    assert not np.isnan(got).any(), f"{what} holds NaN"
    inside = log_scale + np.log(size) < np.log(float(info.max))
    scale = np.exp(log_scale[inside])
    error = np.abs(got[inside].astype(np.float64) - scale * total[inside])
    check(error, scale * size[inside] * (allowed[inside] + 0.5 * info.eps) + info.tiny, what)


def check_score(error: np.ndarray, allowed: np.ndarray, reach: np.ndarray, what: str = "score") -> None:
    """Scores, by the length of their error in units of 1/h: the density's error times r/h."""
    check(error, allowed * reach, what)


def check(error: np.ndarray, allowed: np.ndarray, what: str) -> None:
    """Fail with the worst entry unless every error is allowed; a NaN is never allowed."""
    error, allowed = np.broadcast_arrays(error, allowed)
    if error.size and not (error <= allowed).all():
        worst = np.unravel_index(np.nanargmax(error / allowed), error.shape)
        raise AssertionError(
            f"{what}: error {error[worst]:.3g} where {allowed[worst]:.3g} is allowed (entry {worst}); "
            f"{(~(error <= allowed)).sum()} of {error.size} entries are out"
        )
