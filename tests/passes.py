"""Names of the modules that calls load of the GPU backend: arrays, and what each family launches."""

ON_GPU = (
    "cukde.core.gpu.arrays",
    "cukde.density.pairs.gpu.passes",
    "cukde.density.pairs.gpu.radial",
    "cukde.density.one_dimension.gpu.passes",
    "cukde.density.plane.gpu.passes",
    "cukde.density.domains.gpu.passes",
    "cukde.density.stacks.gpu.passes",
    "cukde.bandwidth.gpu.passes",
    "cukde.kendall.gpu.passes",
    "cukde.piecewise.gpu.passes",
    "cukde.conv1d.gpu.passes",
)
