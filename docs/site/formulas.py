"""Formulas in TeX become MathML when the site is built, so that pages need no script to show them."""

from __future__ import annotations

import html
import logging
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
_SIZE = re.compile(r"\\[bB]igg?[lr]?(?![a-zA-Z])")
_APART = re.compile(r"\\qquad(?![a-zA-Z])")
_BARS = re.compile(r"(?<!left)\\l([vV])ert(.*?)(?<!right)\\r\1ert|(?<!\\)(?<!left)(?<!right)\|([^|]*)\|")
_LONG = 60
_log = logging.getLogger("mkdocs.hooks.formulas")


def mathml(tex: str, *, block: bool) -> str:
    """Return a formula as MathML; a ValueError where a command is not known, which would be shown as it is written."""
    tex = _SIZE.sub("", " ".join(tex.split())).replace(r"\arg\min", r"\argmin")  # MathML stretches brackets by itself
    tex = _BARS.sub(_stretched, tex)
    found = convert(tex, display="block" if block else "inline")
    if "\\" in found:
        raise ValueError(f"formula {tex!r} has a command that latex2mathml does not know: {found}")
    return found


def _stretched(bars: re.Match[str]) -> str:
    """Make both bars of a norm as high as what is between them, which MathML does only within one group."""
    if bars[1]:
        return rf"\left\l{bars[1]}ert{bars[2]}\right\r{bars[1]}ert"
    return rf"\left|{bars[3]}\right|"


def on_page_content(content: str, /, page: Any, **_: Any) -> str:
    """Replace what Arithmatex marked, once a page is HTML."""

    def replaced(match: re.Match[str]) -> str:
        block = match[1] == "div"
        try:
            tex = html.unescape(match[2])
            parts = _APART.split(tex) if block else [tex]  # each on a line of its own where the page is narrow
            found = "".join(mathml(part, block=block) for part in parts if part.strip())
            if block or len(match[2]) > _LONG:  # which scrolls where the page is narrow
                found = f'<{match[1]} class="formula">{found}</{match[1]}>'
            return found
        except Exception as error:  # of any kind: the page is named, and --strict ends the build
            _log.warning("%s: %s", page.file.src_uri, error)
            return match[0]

    return _FORMULA.sub(replaced, content)
