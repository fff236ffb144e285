"""PyKeOps: LazyTensors of all pairs, summed by kernels that it compiles for them, with its defaults in float32.

Kernel and sums are those by which Flash-SD-KDE's ``benchmark_pykeops_16d.py`` compares, but for ``sqdist``, and for the
scale of the exponent, which is in the points: less work for it.

Some releases crash, and the process with them, when they compile under CUDA 13: the first call is made in a process
of its own, by ``python -m benchmarks.peers.keops DEVICE``.
"""

from __future__ import annotations

import functools
import math
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

_SECONDS_OF_TRIAL = 300


def kde(X: Any, Y: Any, h: float) -> Any:
    """Density."""
    require_working("cuda")
    return _cupy(_kde(*_tensors(X, Y), h))


def sd_kde(X: Any, Y: Any, h: float) -> Any:
    """Density of the debiased data."""
    require_working("cuda")
    x, y = _tensors(X, Y)
    phi = _kernel(x, x, h)
    moved = 0.5 * (x + (phi @ x) / phi.sum(dim=1))
    return _cupy(_kde(moved, y, h))


def log_density(X: Any, Y: Any, h: Any) -> Any:
    """Log density of tensors, with gradients."""
    import torch
    from pykeops.torch import LazyTensor

    scaled = math.sqrt(0.5) / h
    squares = LazyTensor((Y * scaled)[:, None, :]).sqdist(LazyTensor((X * scaled)[None, :, :]))
    constant = -X.shape[1] * (torch.log(h) + 0.5 * math.log(2 * math.pi)) - math.log(len(X))
    return (-squares).logsumexp(dim=1).reshape(-1) + constant


def require_working(device: str) -> None:
    """RuntimeError, which says why, where a first call on a device fails in a process of its own."""
    failure = _failure_of_trial(device)
    if failure is not None:
        raise RuntimeError(f"{_tried()}: {failure}")


def _cupy(tensor: Any) -> Any:
    import cupy

    return cupy.from_dlpack(tensor)


def _tensors(*arrays: Any) -> tuple[Any, ...]:
    import torch

    return tuple(torch.from_dlpack(a) for a in arrays)


def _kernel(x: Any, y: Any, h: float) -> Any:
    from pykeops.torch import LazyTensor

    scale = math.sqrt(0.5) / h
    return (-LazyTensor((y * scale)[:, None, :]).sqdist(LazyTensor((x * scale)[None, :, :]))).exp()


def _kde(x: Any, y: Any, h: float) -> Any:
    n, d = x.shape
    sums = _kernel(x, y, h).sum(dim=1).reshape(-1)
    return sums * (math.exp(-0.5 * d * math.log(2 * math.pi * h * h)) / n)


def _tried() -> str:
    try:
        return f"tried pykeops {metadata.version('pykeops')} with PyTorch {metadata.version('torch')}"
    except metadata.PackageNotFoundError as absent:
        return f"{absent.name} is not installed"


@functools.cache
def _failure_of_trial(device: str) -> str | None:
    """What goes wrong with a first call, or None."""
    command = [sys.executable, "-m", "benchmarks.peers.keops", device]
    root = Path(__file__).parent.parent.parent
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=_SECONDS_OF_TRIAL, check=False)
    except subprocess.TimeoutExpired:
        return f"its first call took more than {_SECONDS_OF_TRIAL} s"
    if done.returncode == 0:
        return None
    if done.returncode < 0:  # what it said until then is no reason
        return f"its first call, which compiles, ended with {signal.Signals(-done.returncode).name}"
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return f"its first call ended with status {done.returncode}{': ' + said[-1] if said else ''}"


def _trial(device: str) -> None:
    import torch

    points = torch.rand(100, 16, device=device, requires_grad=True)
    log_density(points, points, torch.tensor(1.0, device=device)).sum().backward()
    assert torch.isfinite(points.grad).all()
    points = points.detach()
    phi = _kernel(points, points, 1.0)
    assert torch.isfinite((phi @ points) / phi.sum(dim=1)).all()
    assert torch.isfinite(_kde(points, points, 1.0)).all()


if __name__ == "__main__":
    _trial(sys.argv[1])
