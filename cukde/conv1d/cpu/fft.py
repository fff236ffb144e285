"""Depthwise convolution of rows by FFT in float64: cyclic convolutions of chunks, without their wrapped outputs."""

from __future__ import annotations

import numpy as np

__all__ = ["correlate", "spectra", "tap_products"]


def spectra(taps: np.ndarray, dilation: int, length: int) -> np.ndarray:
    """Return the conjugate transforms (C, length // 2 + 1) of taps (C, K)."""
    from scipy import fft

    spaced = np.zeros((len(taps), (taps.shape[1] - 1) * dilation + 1))
    spaced[:, ::dilation] = taps
    out: np.ndarray = fft.rfft(spaced, length).conj()
    return out


def correlate(x: np.ndarray, spectra: np.ndarray, bias: np.ndarray, before: int, y: np.ndarray) -> bool:
    """Write the convolution of stride 1 of each row, like ``rows.correlate``, and return whether it succeeded.

    x (R, n), spectra (C, length // 2 + 1), bias (C,), y (R, m) with R a multiple of C and m + reach <= length. It fails
    on numbers that are not finite and on overflow, which would spoil a whole row.
    """
    from scipy import fft

    length = 2 * (spectra.shape[1] - 1)
    with np.errstate(over="ignore", invalid="ignore"):
        transforms = _transforms(x, before, length).reshape(-1, *spectra.shape)
        transforms *= spectra
        sums = fft.irfft(transforms, length, overwrite_x=True)[:, :, : y.shape[1]]
        if not np.isfinite(sums).all():
            return False
        sums += bias[:, None]
        y[...] = sums.reshape(y.shape)
    return True


def tap_products(
    x: np.ndarray, dy: np.ndarray, channels: int, before: int, dilation: int, length: int, dw: np.ndarray
) -> bool:
    """Add to dw (channels, K), like ``rows.tap_products``, and return whether it succeeded.

    x (R, n), dy (R, m) with m + reach <= length.
    """
    from scipy import fft

    with np.errstate(over="ignore", invalid="ignore"):
        transforms = _transforms(dy, 0, length)
        np.conjugate(transforms, out=transforms)
        transforms *= _transforms(x, before, length)
        # The rows of a channel are summed first, so that only the sum is transformed back.
        total = transforms.reshape(-1, channels, transforms.shape[1]).sum(axis=0)
        lags = fft.irfft(total, length)[:, : dw.shape[1] * dilation : dilation]
        if not np.isfinite(lags).all():
            return False
        dw += lags
    return True


def _transforms(rows: np.ndarray, before: int, length: int) -> np.ndarray:
    """Return the transforms of rows padded with zeros."""
    from scipy import fft

    padded = np.zeros((len(rows), length))
    padded[:, before : before + rows.shape[1]] = rows
    out: np.ndarray = fft.rfft(padded, overwrite_x=True)
    return out
