"""The functions of :mod:`cukde` for Dask arrays; calls with a Dask collection are passed on to them.

They build graphs and compute nothing, except :func:`modes` and :func:`block_boxes`. Options that they do not name are
those of the functions of :mod:`cukde`, but for ``devices`` and ``nan_policy``. ``docs/dask.md`` is the page
for users.
"""

from cukde.conv1d.dask import depthwise_conv1d
from cukde.core.dask.devices import to_gpu
from cukde.density.compositions.dask import conditional, density_ratio, hdr_threshold, marginal
from cukde.density.compositions.interval_dask import density_interval
from cukde.density.dask.api import debias, density_and_score, kde, kernel_sum, laplace_kde, score, sd_kde
from cukde.density.dask.boxes import block_boxes
from cukde.density.dask.parts import BlockBoxes
from cukde.density.dask.positive import positive_kde, positive_mass, positive_score
from cukde.density.grids.dask import evaluate_grid
from cukde.density.modes.dask import modes
from cukde.kendall.dask import kendall_matrix
from cukde.piecewise.dask import pwpa

__all__ = [
    "BlockBoxes",
    "block_boxes",
    "conditional",
    "debias",
    "density_and_score",
    "density_interval",
    "density_ratio",
    "depthwise_conv1d",
    "evaluate_grid",
    "hdr_threshold",
    "kde",
    "kendall_matrix",
    "kernel_sum",
    "laplace_kde",
    "marginal",
    "modes",
    "positive_kde",
    "positive_mass",
    "positive_score",
    "pwpa",
    "score",
    "sd_kde",
    "to_gpu",
]


def __dir__() -> list[str]:
    return sorted(__all__)
