"""The peaks of a processor by its name, or of the processor at hand."""

from __future__ import annotations

import importlib

from cukde.core import dispatch
from cukde.core.cost.peaks import Peaks
from cukde.perf import _kept, _measure_peaks, _published


def peaks(gpu: str | Peaks | None = None) -> Peaks:
    """Return the highest rates of a processor.

    Parameters
    ----------
    gpu : str or Peaks, optional
        The name of a GPU in the published table, or the full name of a measured device. Case, spaces, hyphens,
        "NVIDIA", brands and the size of the memory do not count: "NVIDIA H100 80GB HBM3" is "H100", but "H100 PCIe" is
        another GPU. "cpu" is this machine's processor. Peaks are returned unchanged. Default: the current GPU, as
        measured or else as published; if no GPU works, the processor.

    Returns
    -------
    Peaks

    Raises
    ------
    ValueError
        For a GPU that is not known; the message says which are, and how to measure one.

    Examples
    --------
    >>> from cukde import perf
    >>> perf.peaks("NVIDIA TITAN V").rate("memory")
    652800000000.0

    Notes
    -----
    Published rates are exact as published, but a device may not reach them: measured rates of an H200 are 65 to 100% of
    the published ones (``docs/performance.md``). The first call for the peaks of the processor measures them, which
    takes about two seconds, and keeps them as :func:`measure_peaks` does.
    """
    if isinstance(gpu, Peaks):
        return gpu
    if isinstance(gpu, str) and gpu.strip().lower() == "cpu":
        return _of_cpu()
    if gpu is None:
        return _at_hand()
    known = None
    if isinstance(gpu, str):
        known = _published.find(gpu) or _kept.load().get(gpu)
    if known is None:
        raise ValueError(
            f'gpu must be one of {", ".join(_published.TABLE)}, "cpu", or peaks of your own; got {gpu!r}: '
            "cukde.perf.measure_peaks() or `cukde info --peaks`, run on that device, keeps its peaks under its name"
        )
    return known


def _at_hand() -> Peaks:
    """Peaks of the current GPU, or of the processor where there is none."""
    if dispatch.why_no_gpu() is not None:
        return _of_cpu()
    name = importlib.import_module("cukde.core.gpu.device").name()
    known = _kept.load().get(name) or _published.find(name)
    if known is None:
        raise ValueError(
            f"the peaks of this GPU, {name}, are not known: measure them by cukde.perf.measure_peaks() or "
            f"`cukde info --peaks`, or name one of {', '.join(_published.TABLE)}"
        )
    return known


def _of_cpu() -> Peaks:
    name = importlib.import_module("cukde.perf._loads_cpu").name()
    return _kept.load().get(name) or _measure_peaks.measure_peaks("cpu")
