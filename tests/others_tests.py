"""Another library's own tests, run with what cukde has in the place of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run(folder: Path, plugin: str, modules: list[str], *options: str) -> tuple[str, str]:
    """Run installed modules of tests under a pytest plugin, named as a module of this folder; all must pass.

    Returns what the plugin wrote to the file that ``CUKDE_REPORT`` names, and what pytest printed.
    """
    report, configuration = folder / "report", folder / "pytest.ini"
    configuration.write_text("[pytest]\n")  # their tests, not under this project's options
    given = ["-q", "-c", str(configuration), "-p", f"tests.{plugin}", "-p", "no:cacheprovider", *options]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *given, "--pyargs", *modules],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "CUKDE_REPORT": str(report)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return report.read_text(), done.stdout
