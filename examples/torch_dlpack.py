"""Moves PyTorch tensors to the modes of a density, without a copy, on the CPU or on a GPU.

python -m examples.torch_dlpack

The functions of cukde take tensors and return tensors on the same device, by DLPack. They do the same with JAX arrays
and with arrays of any library that follows the array API standard. PyTorch records no gradient through such a call.
None is needed here: the score is the gradient of the log density, and points that follow it move uphill.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import cukde

BANDWIDTH = 0.5
STEPS = 60


class Found(NamedTuple):
    """Where points went, as arrays or tensors of the library of the points."""

    begun: Any  # (m, d)
    ended: Any  # (m, d)
    log_density: Any  # (m,), where they ended


def clusters(n: int = 2000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return data (n, 2) of two clusters about (-2, 0) and (2, 0), and 16 points among them; float32."""
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((n, 2)) * 0.6
    data[:, 0] += np.where(np.arange(n) % 2, 2.0, -2.0)
    return data.astype(np.float32), rng.uniform(-3, 3, (16, 2)).astype(np.float32)


def climb(data: Any, points: Any) -> Found:
    """Move points uphill by the score, in steps of the squared bandwidth: mean shift."""
    begun = points
    for _ in range(STEPS):
        points = points + BANDWIDTH**2 * cukde.score(data, points, BANDWIDTH)
    return Found(begun, points, cukde.kde(data, points, BANDWIDTH, log=True))


def main() -> Found:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    data, points = (torch.from_numpy(a).to(device) for a in clusters())
    found = climb(data, points)
    print(f"{len(points)} points on {found.ended.device}, of {found.ended.dtype}, from a mean log density of ", end="")
    before = cukde.kde(data, points, BANDWIDTH, log=True)
    print(f"{before.mean():.3f} to {found.log_density.mean():.3f}")
    for place in torch.unique(found.ended.round(decimals=1) + 0.0, dim=0):  # no -0.0
        print(f"at ({place[0]:.1f}, {place[1]:.1f})")
    return found


if __name__ == "__main__":
    main()
