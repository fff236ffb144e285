"""The table of ``docs/densities.md`` that says which function takes which keyword, and which forms do not.

``python -m tests.docs.capabilities`` writes it anew.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import cukde
from cukde.density.keywords import TABLE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "densities.md"
_TABLE = re.compile(r"(?<=<!-- keywords -->\n\n).*?(?=\n\n<!-- end -->)", re.DOTALL)
_FORMS = ("stacks", "Dask arrays")


def table() -> str:
    """A row for each keyword: functions that take it, or those few that do not, and forms without it."""
    functions = {
        name: inspect.signature(getattr(cukde, name)).parameters
        for name in sorted(dir(cukde))
        if inspect.isfunction(getattr(cukde, name))
    }
    family = {name: parameters for name, parameters in functions.items() if "check_finite" in parameters}
    lines = ["| keyword | functions | not of |", "|---|---|---|"]
    for keyword, of in TABLE.items():
        takes = [f"`{name}`" for name, parameters in family.items() if keyword in parameters]
        others = [f"`{name}`" for name, parameters in family.items() if keyword not in parameters]
        if len(takes) <= len(others):
            said = ", ".join(takes) or "rules of `cukde.bandwidth`"
        else:
            said = "all" + (f" but {', '.join(others)}" if others else "")
        forms = ", ".join(form for form in _FORMS if form in of.not_of)
        lines.append(f"| `{keyword}` | {said} | {forms} |")
    return "\n".join(lines)


def page_with(text: str) -> str:
    """The page, with the table in it."""
    return _TABLE.sub(lambda _: table(), text)


if __name__ == "__main__":
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
