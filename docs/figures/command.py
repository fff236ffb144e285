"""What the commands of the figures share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.tools import records


def main(draw: Callable[[dict[str, Any], Path], None], name: str, of: str, description: str | None) -> None:
    """Draw a record of the benchmark ``of`` by the arguments of ``python -m docs.name``."""
    parser = argparse.ArgumentParser(prog=f"python -m docs.{name}", description=description)
    parser.add_argument("run", type=Path, help=f"a record of {of}.py")
    parser.add_argument("to", type=Path, help="the figure, SVG or PNG")
    wanted = parser.parse_args()
    draw(records.read(wanted.run), wanted.to)
