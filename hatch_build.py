"""The README as PyPI shows it: links and pictures of the repository are addresses of the version's tag."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = r"(?![a-z]+:|#)"
_PICTURE = re.compile(rf'(!\[[^\]]*\]\(|\bsrc(?:set)?="){_RELATIVE}')
_LINK = re.compile(rf'(\]\(|\bhref="){_RELATIVE}')


class ReadmeHook(MetadataHookInterface):
    """Gives the project its readme."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``readme``, which pyproject.toml names as dynamic."""
        source, version = metadata["urls"]["Source"], metadata["version"]
        text = (Path(self.root) / "README.md").read_text("utf-8")
        text = _PICTURE.sub(rf"\g<1>{source}/raw/v{version}/", text)
        text = _LINK.sub(rf"\g<1>{source}/blob/v{version}/", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
