"""Pictures of densities on Matplotlib axes: a curve with its band, regions of highest density, pairs, anomalies.

Each function draws on the given axes, or on those of a new figure, and returns them. None shows a figure or changes
Matplotlib's settings. GPU arrays are computed on the GPU, and only curves, grids and marked rows are copied to the
host. The extra ``plot`` installs Matplotlib. ``docs/plots.md`` has examples.
"""

from cukde.plot.pictures import anomalies, contours, density, pairs

__all__ = ["anomalies", "contours", "density", "pairs"]


def __dir__() -> list[str]:
    return sorted(__all__)
