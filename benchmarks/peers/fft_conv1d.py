"""Causal depthwise convolution by a Fourier transform of CuPy (or NumPy) or PyTorch.

The length is the next that SciPy calls fast, which ``scipy.signal.fftconvolve`` takes, too.
"""

from __future__ import annotations

from typing import Any

from scipy.fft import next_fast_len


def forward(fft: Any, x: Any, reversed_w: Any, *, power_of_two: bool = False) -> Any:
    """y (B, C, L) by the module ``fft``; of float16, PyTorch transforms powers of two alone."""
    L = x.shape[2]
    least = L + reversed_w.shape[1] - 1
    n = 1 << (least - 1).bit_length() if power_of_two else next_fast_len(least, real=True)
    return fft.irfft(fft.rfft(x, n) * fft.rfft(reversed_w, n), n)[..., :L]
