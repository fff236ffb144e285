"""A neural network with piecewise activations: trained with gelu as it is, run with polynomials in its place.

python -m benchmarks.piecewise.network [--gpu] [--record benchmarks/results/NAME.json]

A perceptron of 64, 64, 32 and 10 units learns scikit-learn's digits in float32, by Adam on minibatches, in a few
seconds. Then each activation labels the digits held back: the table has its largest error, how many labels are right,
how many differ from those of the exact activation, and times of a forward pass over many digits.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import cukde
from benchmarks import record
from cukde import perf

UNITS = (64, 64, 32, 10)
PIECES = (8, 16, 32, 64)
DEGREE = 3
_EPOCHS, _BATCH, _RATE = 40, 64, 2e-3
_DECAYS, _EPSILON = (0.9, 0.999), 1e-8  # Adam's
_TIMED_DIGITS = {"cpu": 50_000, "gpu": 2_000_000}

Activation = Callable[[Any], Any]
Layers = list[tuple[Any, Any]]  # weights (inputs, outputs) and biases (outputs,), float32


class Digits(NamedTuple):
    """Images (n, 64) between 0 and 1, float32, and their labels (n,)."""

    images: Any
    labels: Any


def gelu(x: Any) -> Any:
    """x Phi(x), Phi the normal distribution function."""
    return x * _normal_cdf(x)


def _gelu_slope(x: np.ndarray) -> np.ndarray:
    return _normal_cdf(x) + x * np.exp(-0.5 * x * x) * np.float32(1 / math.sqrt(2 * math.pi))


def _normal_cdf(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        from scipy.special import ndtr
    else:
        from cupyx.scipy.special import ndtr
    return ndtr(x)


def digits() -> tuple[Digits, Digits]:
    """To learn from, and a quarter held back."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = (images[order] / 16).astype(np.float32), labels[order]
    held_back = len(labels) // 4
    return Digits(images[held_back:], labels[held_back:]), Digits(images[:held_back], labels[:held_back])


def train(data: Digits, epochs: int = _EPOCHS) -> Layers:
    """Minimise the cross entropy by Adam (Kingma and Ba, 2015)."""
    rng = np.random.default_rng(1)
    layers: Layers = []
    for inputs, outputs in itertools.pairwise(UNITS):
        weights = rng.standard_normal((inputs, outputs)) * math.sqrt(2 / inputs)
        layers.append((weights.astype(np.float32), np.zeros(outputs, np.float32)))
    parameters = [array for layer in layers for array in layer]
    means, squares = ([np.zeros_like(p) for p in parameters] for _ in range(2))
    step = 0
    for _ in range(epochs):
        for batch in np.array_split(rng.permutation(len(data.labels)), len(data.labels) // _BATCH):
            step += 1
            unbiased = _RATE * math.sqrt(1 - _DECAYS[1] ** step) / (1 - _DECAYS[0] ** step)
            for p, g, mean, square in zip(
                parameters, _gradients(layers, data.images[batch], data.labels[batch]), means, squares, strict=True
            ):
                mean += (1 - _DECAYS[0]) * (g - mean)
                square += (1 - _DECAYS[1]) * (g * g - square)
                p -= unbiased * mean / (np.sqrt(square) + _EPSILON)
    return layers


def _gradients(layers: Layers, images: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    """Of the mean cross entropy, in the order of the parameters."""
    entered, before = [images], []
    for weights, biases in layers[:-1]:
        before.append(entered[-1] @ weights + biases)
        entered.append(gelu(before[-1]))
    logits = entered[-1] @ layers[-1][0] + layers[-1][1]
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    back = odds / odds.sum(axis=1, keepdims=True)
    back[np.arange(len(labels)), labels] -= 1
    back /= len(labels)
    gradients: list[np.ndarray] = []
    for i in range(len(layers) - 1, -1, -1):
        gradients = [entered[i].T @ back, back.sum(axis=0), *gradients]
        if i:
            back = (back @ layers[i][0].T) * _gelu_slope(before[i - 1])
    return gradients


def forward(layers: Layers, images: Any, activation: Activation) -> Any:
    """Logits (n, 10)."""
    for weights, biases in layers[:-1]:
        images = activation(images @ weights + biases)
    return images @ layers[-1][0] + layers[-1][1]


def reach(layers: Layers, images: np.ndarray) -> float:
    """How far from 0 an activation's argument comes, and a quarter more."""
    farthest = 0.0

    def looking(x: np.ndarray) -> np.ndarray:
        nonlocal farthest
        farthest = max(farthest, float(np.abs(x).max()))
        return gelu(x)

    forward(layers, images, looking)
    return 1.25 * farthest


def activations(farthest: float, pieces: Sequence[int] = PIECES) -> dict[str, tuple[Activation, int | None]]:
    """The exact one, then what stands for it, and the pieces of those that are fitted here on [-farthest, farthest].

    Beyond that the outer pieces go on.
    """
    found: dict[str, tuple[Activation, int | None]] = {
        "exact": (gelu, None),
        "cukde.functions.gelu": (cukde.functions.gelu, None),
    }
    for m in pieces:
        fitted = cukde.fit_piecewise(gelu, (-farthest, farthest), m, DEGREE)
        found[f"{m} pieces"] = (_beyond(fitted), m)
    return found


def _beyond(fitted: Any) -> Activation:
    return lambda x: fitted(x, extrapolate=True)


def largest_error(activation: Activation, farthest: float) -> float:
    """Absolute, on a grid, float32."""
    x = np.linspace(-farthest, farthest, 200_001, dtype=np.float32)
    return float(np.abs(activation(x) - gelu(x.astype(np.float64))).max())


def study(xp: Any, layers: Layers, learned: Digits, held_back: Digits) -> list[dict[str, Any]]:
    """A row for each activation, on NumPy or CuPy arrays."""
    backend = "cpu" if xp is np else "gpu"
    farthest = reach(layers, learned.images)
    on_device = [(xp.asarray(weights), xp.asarray(biases)) for weights, biases in layers]
    images = xp.asarray(held_back.images)
    many = xp.tile(images, (-(-_TIMED_DIGITS[backend] // len(images)), 1))
    hidden = many @ on_device[0][0] + on_device[0][1]
    rows, exact_labels = [], None
    for name, (activation, pieces) in activations(farthest).items():
        labels = _to_host(forward(on_device, images, activation).argmax(axis=1))
        exact_labels = labels if exact_labels is None else exact_labels
        alone = perf.measure(activation, hidden, seconds=0.5)
        shape = {"n": len(many)} | ({"P": pieces, "D": DEGREE} if pieces else {})
        rows.append(
            {
                "op": "network",
                "activation": name,
                "backend": backend,
                "shape": shape,
                "dtype": "float32",
                "precision": "float32",
                "rel_err_max": largest_error(activation, farthest),
                "accuracy": float((labels == held_back.labels).mean()),
                "labels_that_differ": int((labels != exact_labels).sum()),
                "activation_ms": alone.median_ms,
            }
            | perf.measure(forward, on_device, many, activation, seconds=0.5, most=20).row()
        )
    return rows


def _to_host(a: Any) -> np.ndarray:
    return a if isinstance(a, np.ndarray) else a.get()


def table(rows: list[dict[str, Any]], held_back: int) -> str:
    """For people."""
    lines = [
        f"{'activation':<22}{'error':>9}{'accuracy':>10}{'differ of ' + str(held_back):>15}"
        f"{'network, ms':>13}{'activation, ms':>16}"
    ]
    for row in rows:
        lines.append(
            f"{row['activation']:<22}{row['rel_err_max']:>9.1e}{row['accuracy']:>10.4f}{row['labels_that_differ']:>15}"
            f"{row['median_ms']:>13.2f}{row['activation_ms']:>16.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.piecewise.network", description=__doc__)
    parser.add_argument("--gpu", action="store_true", help="run it on CuPy arrays too")
    parser.add_argument("--record", type=record.target, help="write the rows to this JSON file")
    wanted = parser.parse_args()
    session = record.Session(wanted.record)
    learned, held_back = digits()
    layers = train(learned)
    modules: list[Any] = [np]
    if wanted.gpu:
        import cupy

        modules.append(cupy)
    rows = []
    for xp in modules:
        of_module = study(xp, layers, learned, held_back)
        print(f"{xp.__name__}, forward passes over {of_module[0]['shape']['n']:,} digits")
        print(table(of_module, len(held_back.labels)))
        rows += of_module
    session.write(rows)


if __name__ == "__main__":
    main()
