"""Pages that are kept at the top of the repository come into the site when it is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

_ROOT = Path(__file__).parents[2]
_PAGES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


def on_files(files: Any, /, config: Any, **_: Any) -> Any:
    """Add them by the names that the navigation has."""
    for page, path in _PAGES.items():
        files.append(File.generated(config, page, content=(_ROOT / path).read_text(encoding="utf-8")))
    return files
