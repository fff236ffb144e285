"""Pictures that code blocks of a page write, as by ``figure.savefig("name.svg")``, are drawn when the site is built."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

_CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DATE = re.compile(r" *<metadata>.*?</metadata>\n", re.DOTALL)
_WRITTEN = re.compile(r'\.savefig\("[\w-]+\.svg"\)')


def pictures(page: str, name: str) -> dict[str, str]:
    """Run the blocks of Python of a page, as far as pictures need them, and return the SVG files that they write."""
    blocks = _CODE.findall(page)
    drawing = [i for i, code in enumerate(blocks) if _WRITTEN.search(code)]
    if not drawing:
        return {}
    import matplotlib
    from matplotlib import pyplot

    names: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, _within(folder), matplotlib.rc_context({"svg.hashsalt": name}):
        matplotlib.use("Agg")
        with contextlib.redirect_stdout(io.StringIO()):
            for code in blocks[: drawing[-1] + 1]:
                exec(compile(code, name, "exec"), names)
        pyplot.close("all")
        return {path.name: _DATE.sub("", path.read_text(encoding="utf-8")) for path in sorted(Path().glob("*.svg"))}


@contextlib.contextmanager
def _within(folder: str) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def on_files(files: Any, /, config: Any, **_: Any) -> Any:
    """Add the pictures beside the pages."""
    for page in list(files.documentation_pages()):
        for name, picture in pictures(page.content_string, page.src_uri).items():
            files.append(File.generated(config, str(Path(page.src_uri).with_name(name)), content=picture))
    return files
