"""Operations as functions of PyTorch's automatic differentiation.

Tensors on the host are NumPy arrays over the same memory, and tensors on a GPU CuPy arrays by DLPack, on the stream
that is PyTorch's current one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from cukde.core.entry import namespaces
from cukde.gradients.operation import Operation, refuse


def call(operation: type[Operation], operands: Mapping[str, Any], options: Mapping[str, Any]) -> torch.Tensor:
    """Compute an operation of tensors and what else is given; operands may be None."""
    tensors = [_tensor(name, a) for name, a in operands.items()]
    constants = {name: _constant(name, value) for name, value in options.items()}
    out: torch.Tensor = _Function.apply(operation, constants, *tensors)
    return out


class _Function(torch.autograd.Function):
    """An operation; its backward pass computes what the forward pass has left."""

    @staticmethod
    def forward(ctx: Any, operation: type[Operation], options: dict[str, Any], *tensors: Any) -> Any:
        with _current_stream(tensors):
            arrays = {
                name: None if tensor is None else namespaces.taken(name, tensor)
                for name, tensor in zip(operation.operands, tensors, strict=True)
            }
            ctx.call = operation(arrays, options)
            out = namespaces.like(ctx.call.result(_wanted(ctx, operation)), tensors[0])
        ctx.save_for_backward(*tensors)  # by which PyTorch tells whether they have been changed in place
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: torch.Tensor) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        names = type(ctx.call).operands
        with _current_stream(tensors):
            wanted = _wanted(ctx, ctx.call)
            found = ctx.call.gradients(namespaces.taken("the gradient", g), wanted)
            out = [
                namespaces.like(found[name], g).to(tensor.device, tensor.dtype) if name in wanted else None
                for name, tensor in zip(names, tensors, strict=True)
            ]
        return None, None, *out


def _wanted(ctx: Any, operation: Any) -> set[str]:
    """Operands whose gradients are wanted."""
    return {name for name, needed in zip(operation.operands, ctx.needs_input_grad[2:], strict=True) if needed}


def _tensor(name: str, value: Any) -> torch.Tensor | None:
    if value is None or isinstance(value, torch.Tensor):
        return value
    refuse(name, value, "a tensor or an array")
    return torch.as_tensor(value if hasattr(value, "__cuda_array_interface__") else np.asarray(value))


def _constant(name: str, value: Any) -> Any:
    """What has no gradient, on the host."""
    if isinstance(value, torch.Tensor):
        if value.requires_grad:
            raise TypeError(f"{name} must not require a gradient, which is not computed: write {name}.detach()")
        return value.cpu().numpy()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_constant(name, each) for each in value]
    return value


@contextlib.contextmanager
def _current_stream(tensors: Sequence[Any]) -> Iterator[None]:
    """CuPy works on the stream that is PyTorch's current one on the device of the first tensor."""
    if not tensors[0].is_cuda:
        yield
        return
    import cupy

    device = tensors[0].device
    stream = torch.cuda.current_stream(device).cuda_stream
    with cupy.cuda.Device(device.index), cupy.cuda.ExternalStream(stream):
        yield
