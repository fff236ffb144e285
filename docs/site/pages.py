"""Pages from the top of the repository come into the site when it is built, and markup left over is a warning."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

_ROOT = Path(__file__).parents[2]
_LEFT = re.compile(
    r":[a-z]+:(?:<code>|`)|\.\. [a-z]+::|^=+ +=+|class=\"arithmatex\"|<blockquote>\s*<blockquote>", re.MULTILINE
)
_NOTHING_SAID = re.compile(r'\s*–\s*<div class="doc-md-description">\s*</div>')
_LONG_NAME = re.compile(r"(?<=<code>)(?:[\w./-]{20,}|[\w./-]+/[\w./-]+|[\w.-]{9,}\.(?:json|py|txt))(?=</code>)")
_LONG_CODE = re.compile(r"<code>(?=[^<]{28,}</code>)")
_PICTURE = re.compile(r'<p>(<img [^>]*src="([^"]+)"[^>]*>)</p>')
_TAG_OR_CODE = re.compile(r"(<pre.*?</pre>|<math.*?</math>|<[^>]*>)", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])\d[\d.]*e-\d+\b")
_FOUND_LAST = re.compile(
    r"(changelog|contributing|held_out|kernels|measured|reference/dask|sources|transforms|\w+_evidence)\.md"
)
_NAME = re.compile(r"(?<!\[)`([\w.]+)(?:\([^`]*\))?`(?=[^\n]*\|$)", re.MULTILINE)  # in a table, and no link yet
_ENTRIES = frozenset(
    name
    for path in (_ROOT / "docs" / "reference").glob("*.md")
    for name in re.findall(r"^::: (\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)
)
_log = logging.getLogger("mkdocs.hooks.pages")
_FILES = {
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "assets/site.css": "docs/site/site.css",  # docs/site/ itself is no part of the site
    "assets/iframe-worker.js": "docs/site/iframe-worker.js",
}


def on_files(files: Any, /, config: Any, **_: Any) -> Any:
    """Add them by the names that the settings have."""
    for page, path in _FILES.items():
        files.append(File.generated(config, page, content=(_ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, /, page: Any, **_: Any) -> str:
    """Give the front page the room of its sidebar, link the index of functions, and rank results of the search."""
    if _FOUND_LAST.fullmatch(page.file.src_uri):  # which repeats names that other pages explain
        page.meta["search"] = {"boost": 0.5}
    if page.file.src_uri == "reference/index.md":
        markdown = _NAME.sub(_linked, markdown)
    if page.file.src_uri == "index.md":  # front matter would be a table on GitHub
        page.meta["hide"] = ["navigation"]
    return markdown


def _linked(found: re.Match[str]) -> str:
    """A name of the index of functions as a link to its entry, if it has one."""
    return f"[{found[0]}][cukde.{found[1]}]" if f"cukde.{found[1]}" in _ENTRIES else found[0]


def on_page_content(content: str, /, page: Any, **_: Any) -> str:
    """Say where lines may break, let pictures be opened, and leave out the dash behind which nothing is said.

    Long names break after a slash or underscore, long code of a table where it has spaces, and no number at its minus.
    Wide pictures scroll on a phone.
    """
    content = _LONG_NAME.sub(lambda name: re.sub(r"([/_])(?=[^/_])", r"\1<wbr>", name[0]), content)
    content = _LONG_CODE.sub('<code class="long">', content)
    content = "".join(
        part if part.startswith("<") else _NUMBER.sub(r'<span class="number">\g<0></span>', part)
        for part in _TAG_OR_CODE.split(content)
    )
    content = _PICTURE.sub(r'<p class="picture"><a href="\2">\1</a></p>', content)
    return _NOTHING_SAID.sub("", content)


def on_post_page(output: str, /, page: Any, **_: Any) -> str:
    """Warn of roles, directives, tables, formulas and sessions that nothing has made HTML of."""
    for left in sorted(set(_LEFT.findall(output))):
        _log.warning("%s: %r is not HTML", page.file.src_uri, left)
    return output
