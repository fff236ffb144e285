"""A performance model without hardware counters: the cost of an operation, its predicted time, and what limits it.

The unit that limits the time of an operation, such as memory or exponentials, is said to bind. Operations declare their
costs when the library is imported; everything else is loaded when it is needed.
"""

import importlib
from typing import TYPE_CHECKING, Any

from cukde.core.cost.cost import Cost, Counted, Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.core.cost.registry import declare, operations

if TYPE_CHECKING:
    from cukde.density.cost.flash import flash_bytes, flash_flops, flash_intensity, flash_tile_bytes, flash_utilisation
    from cukde.perf._explain import Explanation, explain
    from cukde.perf._lookup import peaks
    from cukde.perf._measure import Times, measure
    from cukde.perf._measure_peaks import measure_peaks
    from cukde.perf._plan import CallPlan, plan
    from cukde.perf._predict import Prediction, cost, predict
    from cukde.perf._roofline import Roofline, roofline
    from cukde.perf._roofline_points import RooflinePoint
    from cukde.perf._sensitivity import Sensitivity, sensitivity

__all__ = [
    "CallPlan",
    "Cost",
    "Counted",
    "Explanation",
    "Part",
    "Peaks",
    "Prediction",
    "Roofline",
    "RooflinePoint",
    "Sensitivity",
    "Times",
    "Unit",
    "cost",
    "declare",
    "explain",
    "flash_bytes",
    "flash_flops",
    "flash_intensity",
    "flash_tile_bytes",
    "flash_utilisation",
    "measure",
    "measure_peaks",
    "operations",
    "peaks",
    "plan",
    "predict",
    "roofline",
    "sensitivity",
]

# Modules of names that are loaded when they are asked for; others are in the module of their own name.
_MODULES = {
    "cukde.core.plan": "Candidate Plan",
    "cukde.density.cost.flash": "flash_bytes flash_flops flash_intensity flash_tile_bytes flash_utilisation",
    "cukde.perf._explain": "Explanation Stage UnitRate",
    "cukde.perf._lookup": "peaks",
    "cukde.perf._measure": "Times",
    "cukde.perf._plan": "CallPlan",
    "cukde.perf._predict": "PartTime Prediction cost",
    "cukde.perf._roofline": "Roofline",
    "cukde.perf._roofline_points": "RooflinePoint",
    "cukde.perf._sensitivity": "Perturbed Sensitivity",
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load a name: together they would take as long as the rest of the library but NumPy."""
    if name not in __all__ and name not in _PLACES:  # parts of results are there for pickles
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module(_PLACES.get(name, f"{__name__}._{name}")), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
