"""Every kernel of the CUDA sources that the library launches, in every specialisation."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import Specialisation

_ROOT = Path(__file__).parent


def kernels() -> Iterator[tuple[str, str, core_compile.Defines]]:
    """Stem, name and macros of every kernel, once."""
    return iter(dict.fromkeys(one[:3] for one in specialisations()))


def specialisations() -> Iterator[Specialisation]:
    """What the modules for the GPU list; their names have the part "gpu"."""
    for path in sorted(_ROOT.rglob("*.py")):
        name = ".".join((_ROOT.name, *path.relative_to(_ROOT).with_suffix("").parts))
        if "gpu" in re.split(r"[._]", name):
            importlib.import_module(name.removesuffix(".__init__"))
    return core_compile.all_listed()
