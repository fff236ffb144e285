"""Work of the centred pass in float32, of data so near their mean that products serve all pairs.

Sources: ``kernels_cu/density/centred_sums.cu`` and ``cukde/density/pairs/gpu/centred.py``. Each query without its own
row is summed by it. Of a sum no pair is left out here: that is for data whose blocks lie far apart.
"""

from __future__ import annotations

from cukde.core.cost.cost import Part
from cukde.core.cost.peaks import Peaks
from cukde.density.pairs.cost.engines import Pass
from cukde.density.plan import gpu as plan_gpu

_BLOCK_ROWS, _TILE_ROWS, _WARPS = 128, 32, 4  # of data, of a warp's queries, of a thread block

# Instructions of a lane: for each of the four queries and rows of 16 dimensions that it writes anew about the centre of
# a block; for what decides about a block, and adds it to the sums; for the copy of 16 bytes; and of a chunk for its
# largest terms, the vote on them and the loop.
_WRITE, _DECIDE, _COPY, _CHUNK = 30, 150, 6, 15

# A warp takes a chunk's products, votes on the terms, and then takes its powers, so that no step overlaps the next, and
# there are 16 warps on a multiprocessor at most. Measured on an H200: sums of 131,072 points in 16 dimensions, each
# without its own term, take 14.1 ms.
_EFFICIENCY = 0.48


def passed(task: Pass, on: Peaks) -> list[Part]:
    """Parts of a pass for sums, or for sums with Laplace's factors."""
    steps, laplace = -(-task.d // 16), task.output == "laplace"
    octets = 4 if steps == 1 and not laplace else 2  # of data rows in a chunk
    pairs_of_chunk = 8 * octets
    # Norm, base, power and sum of each pair, and what a step's large product is added by.
    of_pair = 4 + steps + 2 * laplace
    chunk = octets * (steps + 1) + 6 * octets * steps + pairs_of_chunk * of_pair + _CHUNK
    block_bytes = 8192 * steps + 8 * _BLOCK_ROWS + 64 * steps + 16
    block = 4 * steps * _WRITE + 12 * steps + _DECIDE + block_bytes / (16 * 32 * _WARPS) * _COPY
    instructions = chunk / pairs_of_chunk + block / _BLOCK_ROWS
    data = 8.0 * task.d * task.n + -(-task.n // _BLOCK_ROWS) * float(block_bytes)
    asked = -(-task.m // (_TILE_ROWS * _WARPS)) * -(-task.n // _BLOCK_ROWS) * float(block_bytes)
    return [
        Part("order", task.point_bytes + data, cycles=1e-3 * plan_gpu.centred_ms() * on.clock),
        Part(
            "pass",
            data + task.result_bytes,
            {
                "exponential": task.pairs,
                "tensor_f16": 2.0 * 3 * 16 * steps * task.pairs,
                "instruction": instructions * task.pairs,
            },
            data + task.result_bytes + asked,
            resident=4 if steps == 1 else 3,
            reduction=(1 + laplace) * task.pairs,
            efficiency=_EFFICIENCY,
        ),
    ]
