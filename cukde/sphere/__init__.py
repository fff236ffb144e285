"""Densities of directions: points on the circle, the globe, and the unit sphere in any dimension.

Points are unit vectors, one a row; :func:`from_degrees` makes them of longitude and latitude. Bandwidths are angles in
radians. The kernel is von Mises-Fisher's: no seam at the date line, no poles that differ, and an integral of exactly 1.
"""

from cukde.sphere.api import hdr_threshold, kde, score
from cukde.sphere.degrees import from_degrees, to_degrees
from cukde.sphere.mean_shift import modes
from cukde.sphere.rules import cross_validate, reference

__all__ = ["cross_validate", "from_degrees", "hdr_threshold", "kde", "modes", "reference", "score", "to_degrees"]


def __dir__() -> list[str]:
    return sorted(__all__)
