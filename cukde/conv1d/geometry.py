"""The sizes of a depthwise convolution, as public functions pass them to a backend."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Geometry(NamedTuple):
    """Sizes of a convolution: tap k of output i multiplies input i * stride + k * dilation - before.

    Inputs before the first and after the last are zero.
    """

    batch: int
    channels: int
    length: int  # of the input
    taps: int
    stride: int
    dilation: int
    before: int  # zeros before the input
    after: int  # zeros after it
    channels_last: bool  # arrays are (batch, length, channels), else (batch, channels, length)
    flip: bool  # tap k has the weight taps - 1 - k

    @property
    def reach(self) -> int:
        """Distance from the first tap to the last."""
        return (self.taps - 1) * self.dilation

    @property
    def outputs(self) -> int:
        """Length of the output."""
        return (self.length + self.before + self.after - self.reach - 1) // self.stride + 1

    def shape(self, length: int) -> tuple[int, int, int]:
        """Shape of an array of ``length`` positions."""
        return (self.batch, length, self.channels) if self.channels_last else (self.batch, self.channels, length)


Padding = Literal["causal", "same", "valid"] | int
Layout = Literal["BCL", "BLC"]
