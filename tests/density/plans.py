"""Shapes whose plans stand in ``plans.txt``: drawn ones, and those that the documentation measures.

A change of a plan shows as a change of that file: ``python -m tests.density.plans`` writes it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from cukde.density.plan import cpu, gpu
from cukde.density.plan.shape import Device, Shape
from cukde.density.sums import Output

FILE = Path(__file__).with_name("plans.txt")

_DRAWN = 328
_OUTPUTS: tuple[Output, ...] = ("sum", "sum", "moments", "moments", "laplace", "values", "laplace_moments")
_PRECISIONS = "float32", "float32", "float64", "tf32", "ieee"
_CAPABILITIES = (9, 0), (9, 0), (9, 0), (8, 0), (8, 6), (10, 0), (12, 0), (7, 5)
_KERNELS = ("gaussian",) * 8 + ("tophat", "exponential")
_H200 = Device.of((9, 0))

# Data, queries (None: the data themselves) and columns of the tables in the documentation.
_DOCUMENTED = (
    *((16_384, 2_048, 16), (32_768, 4_096, 16), (131_072, 16_384, 16), (262_144, 32_768, 16), (1_048_576, 131_072, 16)),
    *((50_000, 5_000, d) for d in (96, 192, 384, 768)),
    *((200_000, 20_000, d) for d in (2, 6, 24, 64, 128)),
    *((10_000_000, 1_000_000, 3), (4_194_304, 4_194_304, 1), (1_000, 100, 2), (100, 10, 16)),
)


def shapes() -> Iterator[Shape]:
    """Every shape, in the order of the file."""
    rng = random.Random(20_261_128)
    for _ in range(_DRAWN):
        yield _drawn(rng)
    for n, m, d in _DOCUMENTED:
        for device in (_H200, None):
            yield Shape("sum", n, m, d, device=device)
            yield Shape("moments", n, n, d, itself=True, ratio=True, device=device)


def _drawn(rng: random.Random) -> Shape:
    output, kernel = rng.choice(_OUTPUTS), rng.choice(_KERNELS)
    n = int(10 ** rng.uniform(0.5, 7))
    itself = rng.random() < 0.3 and output != "values"
    precision = rng.choice(_PRECISIONS)
    return Shape(
        "sum" if kernel != "gaussian" else output,
        n,
        n if itself else int(10 ** rng.uniform(0, 6)),
        round(2 ** rng.uniform(0, 9)),
        precision if kernel == "gaussian" else rng.choice(("float32", "float64")),
        rng.choice((1, 3, 16, 40)) if output == "values" and kernel == "gaussian" else 0,
        kernel=kernel,
        itself=itself,
        weighted=rng.random() < 0.25,
        local=rng.random() < 0.06 and output != "values" and kernel == "gaussian",
        own_out=itself and rng.random() < 0.2,
        deterministic=rng.random() < 0.1,
        ratio=output == "moments" and kernel == "gaussian" and rng.random() < 0.5,
        rtol=rng.choice((None, None, None, 0.0, 1e-3)),
        captured=rng.random() < 0.06,
        device=None if rng.random() < 0.4 else Device.of(rng.choice(_CAPABILITIES)),
    )


def lines() -> list[str]:
    """The file's lines: a shape, and the candidates that its plan asks, in order."""
    return [f"{shape}: {', '.join((cpu if shape.device is None else gpu).plan(shape).names)}" for shape in shapes()]


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
