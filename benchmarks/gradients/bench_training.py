"""Steps of training by a loss over a million points, beside gradients of the formula by PyTorch, torch-kde and PyKeOps.

python -m benchmarks.gradients.bench_training --record benchmarks/results/NAME.json

The loss is the mean log density of queries that are drawn anew for each step. "bandwidth" trains the bandwidth alone,
whose gradient needs sums over pairs once more; "map" a linear map of data and queries too, for which every point has a
gradient. PyTorch takes the queries in chunks, whose exponents it holds in memory, one backward pass each; PyKeOps sums
by a kernel that it compiles. Gradients of a part of the points are first compared with those of the formula in float64.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

import cukde
from benchmarks import record
from benchmarks.peers import keops, reason
from cukde import perf

D = 3
_RATE = 0.05  # of the steps, by Adam
_CHECKED = 20_000, 200
_TOLERANCE = 1e-3  # of gradients in float32, relative to the largest
_PAIRS_OF_CHUNK = {"cpu": 2**24, "cuda": 2**31}  # whose exponents PyTorch holds

LogDensity = Callable[[Any, Any, Any], Any]


class Parameters(NamedTuple):
    """What is trained."""

    log_h: torch.Tensor
    root: torch.Tensor  # (d, d), of the map

    @classmethod
    def start(cls, case: str, like: torch.Tensor) -> Parameters:
        root = torch.eye(D, dtype=like.dtype, device=like.device, requires_grad=case == "map")
        return cls(torch.tensor(0.0, dtype=like.dtype, device=like.device, requires_grad=True), root)

    @property
    def trained(self) -> list[torch.Tensor]:
        return [one for one in self if one.requires_grad]


def by_cukde(X: Any, Y: Any, h: Any) -> Any:
    return cukde.torch.kde(X, Y, h, log=True)


def by_formula(X: Any, Y: Any, h: Any) -> Any:
    """As a user of PyTorch writes it."""
    exponents = -0.5 * (torch.cdist(Y / h, X / h, compute_mode="use_mm_for_euclid_dist") ** 2)
    return torch.logsumexp(exponents, dim=1) + _log_constant(X, h)


def by_torch_kde(X: Any, Y: Any, h: Any) -> Any:
    from torchkde import KernelDensity

    return KernelDensity(bandwidth=h).fit(X).score_samples(Y)


def by_keops(X: Any, Y: Any, h: Any) -> Any:
    keops.require_working(X.device.type)
    return keops.log_density(X, Y, h)


def _log_constant(X: Any, h: Any) -> Any:
    return -X.shape[1] * (torch.log(h) + 0.5 * math.log(2 * math.pi)) - math.log(len(X))


def step(log_density: LogDensity, X: Any, Y: Any, of: Parameters, chunk: int | None = None) -> float:
    """Add the gradients of the loss to the parameters; return the loss."""
    total = 0.0
    for part in Y.split(chunk or len(Y)):
        log_p = log_density(X @ of.root, part @ of.root, of.log_h.exp())
        loss = -(log_p.sum() + len(part) * torch.linalg.slogdet(of.root)[1]) / len(Y)
        loss.backward()
        total += loss.item()
    return total


def points(rows: int, seed: int, device: str) -> torch.Tensor:
    """Three normals of a shape that a number does not fit."""
    rng = np.random.default_rng(seed)
    deviations = np.array([3.0, 1.0, 0.2])
    A = rng.normal(size=(rows, D)) * deviations + 4 * rng.integers(0, 3, (rows, 1)) * np.array([1.0, 1.0, 0.3])
    return torch.from_numpy(A.astype(np.float32)).to(device)


def gradients(log_density: LogDensity, X: Any, Y: Any, case: str) -> list[torch.Tensor]:
    of = Parameters.start(case, X)
    step(log_density, X, Y, of)
    return [one.grad.double() for one in of.trained]


def error(log_density: LogDensity, X: Any, Y: Any, case: str) -> float:
    """The largest error of a gradient, relative to the largest entry of it, beside the formula in float64."""
    x, y = X[: _CHECKED[0]], Y[: _CHECKED[1]]
    exact = gradients(by_formula, x.double(), y.double(), case)
    return max(
        float((a - b).abs().max() / b.abs().max())
        for a, b in zip(gradients(log_density, x, y, case), exact, strict=True)
    )


def timed(log_density: LogDensity, X: Any, case: str, m: int, steps: int, chunk: int | None) -> dict[str, Any]:
    """Times of steps of training, after two that compile, and the loss before and after."""
    of = Parameters.start(case, X)
    optimizer = torch.optim.Adam(of.trained, lr=_RATE)
    times, losses = [], []
    for k in range(steps + 2):
        Y = points(m, 1000 + k, str(X.device))
        optimizer.zero_grad()
        _wait(X)
        begun = time.perf_counter()
        losses.append(step(log_density, X, Y, of, chunk))
        _wait(X)
        times.append(1e3 * (time.perf_counter() - begun))
        optimizer.step()
    return perf.Times.of(times[2:]).row() | {"loss_before": losses[0], "loss_after": losses[-1]}


def _wait(X: torch.Tensor) -> None:
    if X.is_cuda:
        torch.cuda.synchronize()


def rows(device: str, n: int, m: int, steps: int) -> Iterator[dict[str, Any]]:
    X, Y = points(n, 0, device), points(m, 1, device)
    chunk = max(1, _PAIRS_OF_CHUNK[device] // n)
    for case in ("bandwidth", "map"):
        row = {
            "op": f"training: {case}",
            "backend": "gpu" if device == "cuda" else "cpu",
            "shape": {"n": n, "m": m, "d": D},
            "dtype": "float32",
            "precision": "float32",
        }
        ours = row | {"rel_err_max": error(by_cukde, X, Y, case)} | timed(by_cukde, X, case, m, steps, None)
        assert ours["rel_err_max"] < _TOLERANCE
        assert ours["loss_after"] < ours["loss_before"]
        rivals: list[tuple[str, LogDensity, int | None]] = [
            ("PyTorch", by_formula, chunk),
            ("torch-kde", by_torch_kde, chunk),
            ("PyKeOps", by_keops, None),
        ]
        for name, log_density, part in rivals:
            peer: dict[str, Any] = {"name": name}
            try:
                peer["rel_err_max"] = error(log_density, X, Y, case)
                peer |= timed(log_density, X, case, m, min(steps, 3), part)
            except Exception as failed:  # it is not installed, or does not run here
                peer["reason"] = reason(failed)
            yield ours | {"peer": peer}


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    on_gpu = torch.cuda.is_available()
    parser = record.arguments("gradients.bench_training", __doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if on_gpu else "cpu")
    parser.add_argument("--rows", type=int, default=10**6 if on_gpu else 10**5)
    parser.add_argument("--queries", type=int, default=10**4 if on_gpu else 10**3)
    parser.add_argument("--steps", type=int, default=20 if on_gpu else 5)
    given = parser.parse_args(arguments)
    found = rows(given.device, given.rows, given.queries, given.steps)
    return record.kept(found, given.record, record.line)


if __name__ == "__main__":
    main()
