"""Pictures of densities on Matplotlib axes: a curve with its band, regions of highest density, pairs, anomalies.

Arrays of a GPU are computed on there, and only curves, grids and the rows that are marked come to the host. Each
function draws on the axes it is given, or on those of a new figure, and returns them; none shows a figure or changes
Matplotlib's settings. They need Matplotlib: ``pip install "cukde[plot]"``. ``docs/plots.md`` shows what they draw.
"""

from cukde.plot.pictures import anomalies, contours, density, pairs

__all__ = ["anomalies", "contours", "density", "pairs"]
