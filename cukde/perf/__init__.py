"""A performance model without hardware counters: what an operation costs, how long it should take, what binds."""

from cukde.perf._compare import Change, Comparison, compare
from cukde.perf._cost import Cost, Counted, Part, Unit
from cukde.perf._explain import Explanation, explain
from cukde.perf._flash import flash_bytes, flash_flops, flash_intensity, flash_tile_bytes, flash_utilisation
from cukde.perf._lookup import peaks
from cukde.perf._measure import Times, measure
from cukde.perf._measure_peaks import measure_peaks
from cukde.perf._peaks import Peaks
from cukde.perf._predict import Prediction, predict
from cukde.perf._record import read_record, write_record
from cukde.perf._registry import cost, declare, operations
from cukde.perf._roofline import Roofline, RooflinePoint, roofline
from cukde.perf._sensitivity import Sensitivity, sensitivity

__all__ = [
    "Change",
    "Comparison",
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
    "compare",
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
    "predict",
    "read_record",
    "roofline",
    "sensitivity",
    "write_record",
]
