"""Measure the tiles of the kernels on the GPU at hand and write its architecture's table.

Tables are in ``cukde/density/pairs/gpu/tables/``.

python -m benchmarks.density.tune
"""
