"""Operations as functions of JAX, with their gradients, by callbacks to the host.

A callback may be traced: by ``jax.jit``, by ``jax.vmap``, which calls it for one member after the other, and as part of
a larger gradient. JAX hands it arrays on the host, and copies what it returns. Where JAX computes on a GPU, so does the
callback, if CuPy works: by copies there and back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from cukde.core import dispatch
from cukde.gradients.operation import Operation, Struct, refuse


def call(operation: type[Operation], operands: Mapping[str, Any], options: Mapping[str, Any]) -> jax.Array:
    """Compute an operation of arrays and what else is given; operands may be None."""
    arrays = {name: _array(name, a) for name, a in operands.items() if a is not None}
    held = {name: _constant(name, value) for name, value in options.items()}
    struct = operation.struct({name: _sample(name, a) for name, a in arrays.items()}, held)
    struct = struct._replace(dtype=jax.dtypes.canonicalize_dtype(struct.dtype))  # axes are float64, which JAX may lack
    of: Any = operation
    out: jax.Array = _function(of, tuple(arrays), tuple(held.items()), struct)(*arrays.values())
    return out


@functools.lru_cache(maxsize=512)
def _function(
    operation: Any, names: tuple[str, ...], options: tuple[tuple[str, Any], ...], struct: Struct
) -> Callable[..., Any]:
    """Make the function of the operands of these names, kept so that JAX compiles it once."""

    def of_arrays(arrays: tuple[Any, ...]) -> Operation:
        backend = dispatch.named("gpu") if _on_gpu() else dispatch.named("cpu")
        placed = (backend.asarray(np.asarray(a)) for a in arrays)
        made: Operation = operation(dict(zip(names, placed, strict=True)), dict(options))
        return made

    def compute(*arrays: Any) -> np.ndarray:
        return np.asarray(dispatch.to_host(of_arrays(arrays).result()), struct.dtype)

    @jax.custom_vjp
    def function(*arrays: Any) -> Any:
        shape = jax.ShapeDtypeStruct(*struct)
        return jax.pure_callback(compute, shape, *arrays, vmap_method="sequential")

    def forward(*primals: Any) -> tuple[Any, Any]:
        arrays = tuple(each.value for each in primals)
        # Which gradients are wanted is part of the structure of what is kept, and so is known while it is traced.
        return function(*arrays), (arrays, tuple(() if each.perturbed else None for each in primals))

    def backward(kept: Any, g: Any) -> tuple[Any, ...]:
        arrays, perturbed = kept
        wanted = [name for name, each in zip(names, perturbed, strict=True) if each is not None]
        if isinstance(g, SymbolicZero) or not wanted:
            return tuple(None for _ in names)

        def gradients(g: Any, *arrays: Any) -> list[np.ndarray]:
            call = of_arrays(arrays)
            found = call.gradients(call.backend.asarray(np.asarray(g)), wanted)
            return [np.asarray(dispatch.to_host(found[name]), shapes[name].dtype) for name in wanted]

        shapes = {name: jax.ShapeDtypeStruct(a.shape, a.dtype) for name, a in zip(names, arrays, strict=True)}
        of_wanted = [shapes[name] for name in wanted]
        found = jax.pure_callback(gradients, of_wanted, g, *arrays, vmap_method="sequential")
        by_name = dict(zip(wanted, found, strict=True))
        return tuple(by_name.get(name) for name in names)

    function.defvjp(forward, backward, symbolic_zeros=True)
    return function


@functools.cache
def _on_gpu() -> bool:
    return jax.default_backend() == "gpu" and dispatch.why_no_gpu() is None


def _array(name: str, value: Any) -> jax.Array:
    """An array of floating-point numbers; JAX has no gradients of others."""
    refuse(name, value, "an array")
    array = jnp.asarray(value)
    return array.astype(float) if array.dtype.kind in "biu" else array


def _sample(name: str, a: jax.Array) -> np.ndarray:
    """An array of the same shape and dtype, for checks that do not look at values."""
    if name == "h" and a.ndim == 2 and a.shape[0] == a.shape[1]:
        return np.eye(len(a), dtype=a.dtype)
    return np.broadcast_to(np.ones((), a.dtype), a.shape)


def _constant(name: str, value: Any) -> Any:
    """What has no gradient, as numbers that JAX can keep beside a function."""
    if isinstance(value, jax.core.Tracer):
        raise TypeError(f"{name} must not be traced by JAX: its gradient is not computed; take it from outside")
    if isinstance(value, list | tuple) or np.ndim(value):
        return tuple(_constant(name, each) for each in value)
    return value.item() if hasattr(value, "item") else value
