"""Commands that install what an extra of the package brings, from wherever the package itself came."""

from __future__ import annotations

import functools
import importlib
import re
from pathlib import Path
from typing import Any

_PACKAGE = "cukde"


def install(extra: str) -> str:
    """Return the command for an extra. It names the packages, as an index need not have this one."""
    wanted = " ".join(f"'{requirement}'" for requirement in _requirements(extra))
    return f"pip install {wanted}"


@functools.cache
def _requirements(extra: str) -> tuple[str, ...]:
    """Requirements of an extra, from the checkout if the package lies in one, else from the installed package."""
    project = _project()
    if project is not None:
        return tuple(project["optional-dependencies"][extra])
    of_extra = re.compile(rf"""extra *== *["']{extra}["']""")
    every = importlib.import_module("importlib.metadata").requires(_PACKAGE) or ()
    parts = (line.partition(";") for line in every)
    return tuple(requirement.strip() for requirement, _, marker in parts if of_extra.search(marker))


def _project() -> dict[str, Any] | None:
    """Return the checkout's own description, or None where there is none."""
    file = Path(__file__).parents[2] / "pyproject.toml"
    if not file.is_file():
        return None
    project: dict[str, Any] = importlib.import_module("tomllib").loads(file.read_text("utf-8")).get("project", {})
    return project if project.get("name") == _PACKAGE else None
