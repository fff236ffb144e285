"""Measure the tiles of the kernels on the GPU at hand and write its architecture's table, ``cukde/gpu/tiles/``.

python -m benchmarks.density.tune
"""
