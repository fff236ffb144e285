"""What makes pages of docstrings and formulas; it needs the docs extra, which `tox -e docs` and `.ci/run` install."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

for name in ("latex2mathml", "mkdocs"):
    pytest.importorskip(name, reason="install the docs extra")
griffe = pytest.importorskip("griffe", reason="install the docs extra")

SITE = Path(__file__).parents[2] / "docs" / "site"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_site_{name}", SITE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


docstrings, drawn, formulas, links, pages = map(loaded, ("docstrings", "drawn", "formulas", "links", "pages"))
PAGE = SimpleNamespace(file=SimpleNamespace(src_uri="page.md"))


@pytest.mark.parametrize(
    ("role", "path", "link"),
    [
        (":func:`kde`", "cukde.density.api.sd_kde", "[`kde`][cukde.kde]"),
        (":func:`cukde.kde`", "cukde.dask.kde", "[`cukde.kde`][cukde.kde]"),
        (":func:`scott`", "cukde.bandwidth.sd", "[`scott`][cukde.bandwidth.scott]"),
        (":meth:`Times.row`", "cukde.perf._measure.measure", "[`Times.row`][cukde.perf.Times.row]"),
        (":data:`~cukde.perf.Unit`", "cukde.core.cost.peaks.Peaks", "[`Unit`][cukde.perf.Unit]"),
        (":func:`functools.partial`", "cukde.perf._measure.measure", "`functools.partial`"),
        (":func:`cukde._private`", "cukde.kde", "`cukde._private`"),
    ],
)
def test_roles_are_links_to_entries(role: str, path: str, link: str) -> None:
    assert docstrings.markdown(f"See {role}.", path) == f"See {link}."


def test_griffe_finds_sections_with_types_as_written() -> None:
    text = """Sum.

Parameters
----------
X : array_like, shape (n,)
    Data, in ``docs/dask.md``.

    More.
mode : {"one", "two"}, optional
    Which :math:`x`.
weights, log
    As there.

Returns
-------
array or series, shape (n,)
    Sums.

Raises
------
TypeError, ValueError
    For none.

See Also
--------
kde, score : Others.

References
----------
- One, A. (1999). A title
  of two lines. *J.* 1.
- Two, B. (2000). Another.
"""
    code = f'def x(X, mode="one", weights=None, log=False):\n    r"""{text}"""'
    with griffe.temporary_visited_module(code, module_name="cukde") as module:
        docstring = module["x"].docstring
        docstring.value = docstrings.markdown(docstring.value, "cukde.x")
        found = docstring.parse("numpy", warn_missing_types=False)
    said, parameters, returns, raises, also, references = found
    assert said.value == "Sum."
    assert [
        (one.name, str(one.annotation).strip("\u2060"), one.default, one.description) for one in parameters.value
    ] == [
        ("X", "array_like, shape (n,)", None, "Data, in [`docs/dask.md`](../dask.md).\n\nMore."),
        ("mode", '{"one", "two"}', "'one'", "Which $x$."),
        ("weights", "None", "None", "As there."),
        ("log", "None", "False", "As there."),
    ]
    assert [str(one.annotation).strip("\u2060") for one in returns.value] == ["array or series, shape (n,)"]
    assert [str(one.annotation).strip("\u2060") for one in raises.value] == ["TypeError, ValueError"]
    assert also.value.contents == "- [`kde`][cukde.kde], [`score`][cukde.score]: Others."
    assert references.value.contents.count("\n- ") == 1


def test_formulas_and_tables() -> None:
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
"""
    out = docstrings.markdown(text, "cukde.x")
    assert "A $x^2$, as here:\n\n    y = x**2\n" in out
    assert "\n$$\na = b + c\n$$\n\n$$\nd\n$$\n\n" in out
    assert "| one | two |\n|---|---|\n| 1 | [2, 3] |" in out


def test_an_unknown_command_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        left = formulas.on_page_content(r'<div class="arithmatex">\[\nosuchthing x\]</div>', page=PAGE)
    assert "nosuchthing" in caplog.text
    assert "page.md" in caplog.text
    assert "arithmatex" in left


@pytest.mark.parametrize(
    "left", [":func:<code>kde</code>", ".. note::", 'x class="arithmatex"', "=====  ====", "<blockquote>\n<blockquote>"]
)
def test_what_is_left_over_is_a_warning(left: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        pages.on_post_page(f"<p>as it should be</p>\n{left}", page=PAGE)
    assert "is not HTML" in caplog.text


def test_names_of_the_index_are_links() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="reference/index.md"), meta={})
    found = pages.on_page_markdown("`kde`\n\n| `kde(X, Y, h)` † | `no_name`, [`kde`](x.md) |", page=page)
    assert found == "`kde`\n\n| [`kde(X, Y, h)`][cukde.kde] † | `no_name`, [`kde`](x.md) |"


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


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "index.html").write_text('<h1 id="a b"></h1><a href="../one.html#top"></a>')
    (tmp_path / "one.html").write_text(
        '<a name="top" href="#top"></a><a href="in/#a%20b"></a><a href="//x.org/#y"></a><img src="in/index.html?1">'
        '<a href="#down"></a><a href="in/#b"></a><a href="two.html"></a><script src="two.js"></script>'
    )
    assert links.broken(tmp_path) == [f"one.html: {link}" for link in ("#down", "in/#b", "two.html", "two.js")]
