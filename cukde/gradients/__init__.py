"""Gradients of the library's functions by its own passes, for :mod:`cukde.torch` and :mod:`cukde.jax`.

Each operation is a class over NumPy or CuPy arrays: ``result`` computes, and ``gradients`` takes the gradient of a loss
with respect to the result back to the operands. Nothing here imports PyTorch or JAX.
"""
