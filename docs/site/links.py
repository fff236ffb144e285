"""Links of built pages, those of docstrings and of the theme among them, lead to files and anchors that are there."""

from __future__ import annotations

import logging
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_log = logging.getLogger("mkdocs.hooks.links")


class _Page(HTMLParser):
    """What a page refers to, and what may be referred to in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one element."""
        for name, value in attrs:
            if name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value or "")
            elif name in ("href", "src") and value:
                self.links.add(value)


def broken(site: Path) -> list[str]:
    """Return links of the pages in a folder that lead nowhere, each with its page; none of another address is tried."""
    pages = {path: _Page(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}  # of a server
    found = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            to = to / "index.html" if to.is_dir() else to
            anchor = unquote(parts.fragment)
            if not to.is_file() or (anchor and to in pages and anchor not in pages[to].anchors):
                found.append(f"{path.relative_to(site)}: {link}")
    return found


def on_post_build(config: Any, **_: Any) -> None:
    """Warn of broken links."""
    for link in broken(Path(config.site_dir).resolve()):
        _log.warning("broken link in %s", link)
