"""Private modules and names that tests in several files need: each is named here alone, and imported when asked for."""

from __future__ import annotations

import importlib
from typing import Any

_PLACES = {
    "bandwidth_backends": "cukde.bandwidth.backends",
    "bandwidth_cpu": "cukde.bandwidth.cpu.passes",
    "moved_normal": "cukde.bandwidth.moved_normal",
    "deviations": "cukde.bandwidth.moved_normal:deviations",
    "normal_reference": "cukde.bandwidth.normal_reference",
    "cli_density": "cukde.cli.density",
    "cli_info": "cukde.cli.info",
    "cli_output": "cukde.cli.output",
    "open_table": "cukde.cli.tables:open_table",
    "workloads": "cukde.cli.workloads",
    "WORKLOADS": "cukde.cli.workloads:WORKLOADS",
    "conv1d_cpu": "cukde.conv1d.cpu.passes",
    "Geometry": "cukde.conv1d.geometry:Geometry",
    "conv1d_plan": "cukde.conv1d.plan",
    "Load": "cukde.core.cost.peaks:Load",
    "registry": "cukde.core.cost.registry",
    "by_name": "cukde.core.cost.registry:by_name",
    "called": "cukde.core.cost.registry:called",
    "counted": "cukde.core.cost.registry:counted",
    "found": "cukde.core.cost.registry:found",
    "meanwhile": "cukde.core.cpu.meanwhile",
    "threads": "cukde.core.cpu.threads",
    "WorkerPool": "cukde.core.cpu.workers:WorkerPool",
    "dispatch": "cukde.core.dispatch",
    "named": "cukde.core.dispatch:named",
    "gpu_arrays": "cukde.core.gpu.arrays",
    "core_compile": "cukde.core.gpu.compile",
    "gpu_device": "cukde.core.gpu.device",
    "Specialisation": "cukde.core.gpu.launch:Specialisation",
    "merge_sort": "cukde.core.gpu.merge_sort",
    "merge_tiles": "cukde.core.merge_tiles",
    "density_backends": "cukde.density.backends",
    "Options": "cukde.density.options:Options",
    "estimators_file": "cukde.estimators.file",
    "kendall_api": "cukde.kendall.api",
    "PairCounts": "cukde.kendall.counts:PairCounts",
    "Ties": "cukde.kendall.counts:Ties",
    "kendall_cpu": "cukde.kendall.cpu.passes",
    "kendall_dask": "cukde.kendall.dask",
    "kendall_gpu": "cukde.kendall.gpu.passes",
    "kendall_ranks": "cukde.kendall.gpu.ranks",
    "kendall_plan": "cukde.kendall.plan",
    "sign_tiles": "cukde.kendall.sign_tiles",
    "statistics": "cukde.kendall.statistics",
    "Null": "cukde.kendall.statistics:Null",
    "perf_clocks": "cukde.perf._clocks",
    "perf_explain": "cukde.perf._explain",
    "loads_cpu": "cukde.perf._loads_cpu",
    "predicted": "cukde.perf._predict:predicted",
    "wait_gpu": "cukde.perf._wait_gpu",
    "fit_pieces": "cukde.piecewise.fit_pieces",
    "piecewise_gpu": "cukde.piecewise.gpu.passes",
    "piecewise_pieces": "cukde.piecewise.pieces",
    "Pieces": "cukde.piecewise.pieces:Pieces",
    "piecewise_plan": "cukde.piecewise.plan",
    "plot_numbers": "cukde.plot.numbers",
}


def __getattr__(name: str) -> Any:
    """Return a module, or what stands behind the colon in one."""
    if name not in _PLACES:
        raise AttributeError(name)
    module, _, inner = _PLACES[name].partition(":")
    found = importlib.import_module(module)
    return getattr(found, inner) if inner else found
