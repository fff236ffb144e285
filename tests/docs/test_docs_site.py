"""What makes pages of docstrings and formulas; it needs the docs extra, which `tox -e docs` and `.ci/run` install."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

for name in ("griffe", "latex2mathml", "mkdocs"):
    pytest.importorskip(name, reason="install the docs extra")

SITE = Path(__file__).parents[2] / "docs" / "site"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_site_{name}", SITE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


docstrings, drawn, formulas, pages = (loaded(name) for name in ("docstrings", "drawn", "formulas", "pages"))
PAGE = SimpleNamespace(file=SimpleNamespace(src_uri="page.md"))


@pytest.mark.parametrize(
    ("role", "path", "link"),
    [
        (":func:`kde`", "cukde.density.api.sd_kde", "[`kde`][cukde.kde]"),
        (":func:`cukde.kde`", "cukde.dask.kde", "[`cukde.kde`][cukde.kde]"),
        (":func:`scott`", "cukde.bandwidth.sd", "[`scott`][cukde.bandwidth.scott]"),
        (":meth:`Times.row`", "cukde.perf._record.write_record", "[`Times.row`][cukde.perf.Times.row]"),
        (":data:`~cukde.perf.Unit`", "cukde.core.cost.peaks.Peaks", "[`Unit`][cukde.perf.Unit]"),
        (":func:`functools.partial`", "cukde.perf._measure.measure", "`functools.partial`"),
        (":func:`cukde._private`", "cukde.kde", "`cukde._private`"),
    ],
)
def test_roles_are_links_to_entries(role: str, path: str, link: str) -> None:
    assert docstrings.markdown(f"See {role}.", path) == f"See {link}."


def test_sections_are_lists() -> None:
    text = """Sum.

Parameters
----------
X : array_like, shape (n,)
    Data, in ``docs/dask.md``.

    More.
weights, log
    As there.

Raises
------
ValueError
    For none.

See Also
--------
kde, score : Others.

References
----------
One, A. (1999). A title
of two lines. *J.* 1.
Two, B. (2000). Another.
"""
    assert docstrings.markdown(text, "cukde.x").split("\n\n") == [
        "Sum.",
        "**Parameters**",
        "- `X` : *array_like, shape (n,)*: Data, in [`docs/dask.md`](../dask.md).",
        "    More.\n- `weights, log`: As there.",
        "**Raises**",
        "- `ValueError`: For none.",
        "**See Also**",
        "- [`kde`][cukde.kde], [`score`][cukde.score]: Others.",
        "**References**",
        "- One, A. (1999). A title of two lines. *J.* 1.\n- Two, B. (2000). Another.",
    ]


def test_formulas_sessions_and_tables() -> None:
    text = """A :math:`x^2`, as here::

    y = x**2

.. math::

    a = b +
        c

    d

After.

===  =====
one  two
===  =====
1    [2, 3]
===  =====

>>> 1 + 1
2
"""
    out = docstrings.markdown(text, "cukde.x")
    assert "A $x^2$, as here:\n\n    y = x**2\n" in out
    assert "\n$$\na = b + c\n$$\n\n$$\nd\n$$\n\n" in out
    assert "| one | two |\n|---|---|\n| 1 | [2, 3] |" in out
    assert out.endswith("```pycon\n>>> 1 + 1\n2\n```")


def test_formulas_are_mathml() -> None:
    html = formulas.on_page_content(
        r'<p><span class="arithmatex">\(a &lt; \Big(\frac{b}{c}\Big)\)</span></p>', page=PAGE
    )
    assert html.startswith("<p><math")
    assert "<mfrac>" in html
    assert "\\" not in html
    assert "arithmatex" not in html


def test_an_unknown_command_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        left = formulas.on_page_content(r'<div class="arithmatex">\[\nosuchthing x\]</div>', page=PAGE)
    assert "nosuchthing" in caplog.text
    assert "page.md" in caplog.text
    assert "arithmatex" in left


@pytest.mark.parametrize("left", [":func:<code>kde</code>", ".. note::", 'x class="arithmatex"', "=====  ===="])
def test_what_is_left_over_is_a_warning(left: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        pages.on_post_page(f"<p>as it should be</p>\n{left}", page=PAGE)
    assert "is not HTML" in caplog.text


def test_pictures_are_drawn_by_the_code_of_their_page() -> None:
    pytest.importorskip("matplotlib")
    page = """```python
from matplotlib.figure import Figure
figure = Figure()
```

```sh
false
```

```python
figure.savefig("one.svg")
```
"""
    before = Path.cwd()
    first, again = (drawn.pictures(page, "page.md") for _ in range(2))
    assert list(first) == ["one.svg"]
    assert "<svg" in first["one.svg"]
    assert first == again
    assert Path.cwd() == before
    assert drawn.pictures(page.replace("savefig", "show"), "page.md") == {}
