"""Trains a sequence classifier in the style of S4: depthwise convolutions in time, pointwise layers across channels.

python -m examples.s4_like_classifier [--gpu]

scikit-learn's digits are read as sequences of 64 pixels, row after row, and the model predicts the digit. There is no
automatic differentiation: the gradients of all layers are written out. Arrays are NumPy or CuPy arrays.

    h_0 = E u + e                                pointwise: one channel becomes C
    z   = conv(h, w) + D h + b                   one long causal filter for each channel, and S4's direct path
    h'  = h + W silu(z) + a                      pointwise, and the residual path; z and h' twice
    p   = softmax(R mean_t(h) + r)               probabilities of the labels

The filters start as those of a diagonal state space model: damped oscillations of many rates and frequencies (Gu,
Goel, Gupta, Re, "On the parameterization and initialization of diagonal state space models", 2022). Training is by Adam
(Kingma and Ba, 2015) on the cross entropy.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import cukde

STEPS, LABELS = 64, 10  # of a digit, pixels
CHANNELS, TAPS, BLOCKS = 32, 64, 2
EPOCHS, BATCH, RATE = 20, 64, 8e-3
_DECAYS, _EPSILON = (0.9, 0.999), 1e-8  # Adam's


class Convolution(NamedTuple):
    """Causal depthwise convolution of sequences (B, C, L) by filters (C, K), and its gradients."""

    forward: Callable[[Any, Any], Any]  # of x, w: y (B, C, L)
    input_grad: Callable[[Any, Any], Any]  # of dy, w: dx (B, C, L)
    weight_grad: Callable[[Any, Any, int], Any]  # of x, dy, K: dw (C, K)


def library() -> Convolution:
    """Return the convolution of cukde and its gradients."""
    return Convolution(cukde.depthwise_conv1d, cukde.depthwise_conv1d_input_grad, cukde.depthwise_conv1d_weight_grad)


Parameters = dict[str, Any]


def parameters(
    channels: int = CHANNELS, taps: int = TAPS, blocks: int = BLOCKS, dtype: Any = np.float32, seed: int = 0
) -> Parameters:
    """Parameters at the start of training, as NumPy arrays."""
    rng = np.random.default_rng(seed)
    found = {"E": rng.standard_normal((channels, 1)), "e": 0.1 * rng.standard_normal((channels, 1))}
    for block in range(blocks):
        found |= {
            f"w{block}": _damped_oscillations(channels, taps, rng),
            f"D{block}": rng.standard_normal((channels, 1)),
            f"b{block}": np.zeros((channels, 1)),
            f"W{block}": rng.standard_normal((channels, channels)) / math.sqrt(channels),
            f"a{block}": np.zeros((channels, 1)),
        }
    found |= {"R": rng.standard_normal((LABELS, channels)) / math.sqrt(channels), "r": np.zeros(LABELS)}
    return {name: p.astype(dtype) for name, p in found.items()}


def _damped_oscillations(channels: int, taps: int, rng: np.random.Generator) -> np.ndarray:
    """Return filters (channels, taps) of unit norm; the last tap is that of the present."""
    ago = np.arange(taps)[::-1]
    memory = np.geomspace(2, taps, channels)[:, None]  # steps until a filter has decayed by e
    turns = rng.uniform(0, 0.25, (channels, 1))  # of an oscillation in a step
    w = np.exp(-ago / memory) * np.cos(2 * np.pi * (turns * ago + rng.random((channels, 1))))
    return w / np.linalg.norm(w, axis=1, keepdims=True)


# ---------------------------------------------------------------------------------------------------- the model


def logits(p: Parameters, sequences: Any, convolution: Convolution) -> Any:
    """Return logits (B, 10) of sequences (B, L)."""
    return _forward(p, sequences, convolution)[0]


def _forward(p: Parameters, sequences: Any, convolution: Convolution) -> tuple[Any, list[tuple[Any, Any]]]:
    """Return the logits and the activations: the input of each block and of its silu, and the last block's output."""
    xp = _module_of(sequences)
    h = p["E"] * sequences[:, None, :] + p["e"]
    kept = []
    for block in range(_blocks(p)):
        z = convolution.forward(h, p[f"w{block}"]) + p[f"D{block}"] * h + p[f"b{block}"]
        kept.append((h, z))
        h = h + xp.matmul(p[f"W{block}"], z * _sigmoid(z)) + p[f"a{block}"]
    kept.append((h, None))
    return h.mean(axis=2) @ p["R"].T + p["r"], kept


def loss_and_gradients(
    p: Parameters, sequences: Any, labels: Any, convolution: Convolution
) -> tuple[Any, dict[str, Any]]:
    """Return the mean cross entropy of labels (B,), and its gradient with respect to each parameter."""
    xp = _module_of(sequences)
    found, kept = _forward(p, sequences, convolution)
    shifted = found - found.max(axis=1, keepdims=True)
    log_odds = shifted - xp.log(xp.exp(shifted).sum(axis=1, keepdims=True))
    every = xp.arange(len(labels))
    loss = -log_odds[every, labels].mean()

    back = xp.exp(log_odds)
    back[every, labels] -= 1
    back /= len(labels)
    h = kept[-1][0]
    gradients = {"R": back.T @ h.mean(axis=2), "r": back.sum(axis=0)}
    dh = xp.broadcast_to((back @ p["R"])[:, :, None] / h.shape[2], h.shape)
    for block in range(_blocks(p) - 1, -1, -1):
        h, z = kept[block]
        odds = _sigmoid(z)
        gradients[f"a{block}"] = _over_steps(dh)
        gradients[f"W{block}"] = xp.tensordot(dh, z * odds, axes=((0, 2), (0, 2)))
        dz = xp.matmul(p[f"W{block}"].T, dh) * (odds * (1 + z * (1 - odds)))  # silu' = s (1 + z (1 - s))
        gradients[f"b{block}"] = _over_steps(dz)
        gradients[f"D{block}"] = _over_steps(dz * h)
        gradients[f"w{block}"] = convolution.weight_grad(h, dz, p[f"w{block}"].shape[1])
        dh = dh + p[f"D{block}"] * dz + convolution.input_grad(dz, p[f"w{block}"])
    gradients["E"] = _over_steps(dh * sequences[:, None, :])
    gradients["e"] = _over_steps(dh)
    return loss, gradients


def _over_steps(a: Any) -> Any:
    """Sum (B, C, L) over B and L, to (C, 1)."""
    return a.sum(axis=(0, 2))[:, None]


def _sigmoid(z: Any) -> Any:
    """Return the logistic function of z, by tanh, which does not overflow for any z."""
    return 0.5 * (1 + _module_of(z).tanh(0.5 * z))


def _blocks(p: Parameters) -> int:
    return sum(name.startswith("w") for name in p)


def _module_of(a: Any) -> Any:
    if isinstance(a, np.ndarray):
        return np
    import cupy

    return cupy


# ---------------------------------------------------------------------------------------------------- training


class Adam:
    """The optimiser; it changes parameters in place."""

    def __init__(self, p: Parameters) -> None:
        self._p, self._step = p, 0
        self._means, self._squares = ({name: 0 * of for name, of in p.items()} for _ in range(2))

    def step(self, gradients: dict[str, Any], rate: float) -> None:
        """Take one step of descent."""
        self._step += 1
        unbiased = rate * math.sqrt(1 - _DECAYS[1] ** self._step) / (1 - _DECAYS[0] ** self._step)
        for name, p in self._p.items():
            g, mean, square = gradients[name], self._means[name], self._squares[name]
            mean += (1 - _DECAYS[0]) * (g - mean)
            square += (1 - _DECAYS[1]) * (g * g - square)
            p -= unbiased * mean / (_module_of(p).sqrt(square) + _EPSILON)


def train(
    p: Parameters, sequences: Any, labels: Any, convolution: Convolution, epochs: int = EPOCHS
) -> Iterator[float]:
    """Change the parameters in place; yield the mean loss of each epoch. The rate falls to zero along a cosine."""
    xp, rng, adam = _module_of(sequences), np.random.default_rng(1), Adam(p)
    batches = max(1, len(labels) // BATCH)
    for epoch in range(epochs):
        total = 0.0
        for i, batch in enumerate(np.array_split(rng.permutation(len(labels)), batches)):
            batch = xp.asarray(batch)
            loss, gradients = loss_and_gradients(p, sequences[batch], labels[batch], convolution)
            adam.step(gradients, RATE * 0.5 * (1 + math.cos(math.pi * (epoch + i / batches) / epochs)))
            total += loss
        yield float(total) / batches


def accuracy(p: Parameters, sequences: Any, labels: Any, convolution: Convolution) -> float:
    """Return the share of the labels that are predicted correctly."""
    return float((logits(p, sequences, convolution).argmax(axis=1) == labels).mean())


def digits() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return standardised sequences (n, 64) and labels (n,) for training, and the same for a held-out quarter."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    sequences, labels = ((images[order] - images.mean()) / images.std()).astype(np.float32), labels[order]
    held_back = len(labels) // 4
    return (sequences[held_back:], labels[held_back:]), (sequences[:held_back], labels[:held_back])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.s4_like_classifier", description=__doc__)
    parser.add_argument("--gpu", action="store_true", help="on CuPy arrays")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    wanted = parser.parse_args()
    xp: Any = np
    if wanted.gpu:
        import cupy

        xp = cupy
    learned, held_back = ((xp.asarray(sequences), xp.asarray(labels)) for sequences, labels in digits())
    p = {name: xp.asarray(of) for name, of in parameters().items()}
    begun = time.perf_counter()
    for epoch, loss in enumerate(train(p, *learned, library(), wanted.epochs), 1):
        right = accuracy(p, *held_back, library())
        print(f"epoch {epoch:>2}  loss {loss:.4f}  accuracy {right:.4f}  {time.perf_counter() - begun:.1f} s")


if __name__ == "__main__":
    main()
