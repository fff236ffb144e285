"""The documentation holds together: pages, links, records, an entry for every public name, and examples that run."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
import yaml

import cukde
import cukde.dask
import cukde.jax
import cukde.torch
from benchmarks.perf import kernel_budget
from tests import public_calls
from tests.docs import capabilities
from tests.private import registry

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if not path.is_relative_to(DOCS / "site"))
FROM_THE_TOP = {"contributing.md", "changelog.md"}  # which docs/site/pages.py adds
ENTRIES = {name for path in PAGES for name in re.findall(r"^::: (\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)}
MODULES = (
    cukde,
    cukde.bandwidth,
    cukde.functions,
    cukde.perf,
    cukde.plot,
    cukde.sphere,
    cukde.dask,
    cukde.torch,
    cukde.jax,
)
PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in MODULES
    for name in module.__all__
    if not name.startswith("_") and not isinstance(getattr(module, name), ModuleType)
}
OBJECTS = {name: found for name, found in PUBLIC.items() if found is not cukde.perf.Unit}  # a type, without a docstring

TEXTS = [*PAGES, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
FOLDERS = "benchmarks|cukde|docs|examples|kernels_cu|tests"
PATH = re.compile(rf"(?<![\w/.~-])(?:(?:{FOLDERS})/[\w./-]*[\w/]|[\w/-]+\.(?:py|cuh?))(?![\w*])")
MODULE = re.compile(rf"python3? -m ((?:{FOLDERS})(?:\.\w+)*)")
ELSEWHERE = {"cukde/peaks.json"}  # in the user's cache folder

WORDS = 120  # of a paragraph, at most
LINES = 85  # of a docstring, at most
EXAMPLE_WITHIN = 60  # lines, on the first screens
PARAGRAPHS_END = re.compile(r"\n[ ]*\n|\n(?=[ ]*(?:[-*]|\d+\.) |[#|]|\S[^\n]*\n {4}\S)|\n-{3,}\n")
SAYS_HOW_GOOD = re.compile(r"\b(accura\w+|errors?|right to|exact\w*|digits|rounded|costs?)\b", re.IGNORECASE)


def visible(text: str) -> str:
    """Markdown without code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def anchors(path: Path) -> set[str]:
    """What GitHub and Python-Markdown make of a page's headings."""
    found = re.findall(r"^#+ (.*)$", visible(path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in found}


DRAWN = {
    path.with_name(name) for path in PAGES for name in re.findall(r'\.savefig\("(.+\.svg)"\)', path.read_text("utf-8"))
}
"""Pictures that the code of their page draws when the site is built."""


def without_errors_raised(docstring: str) -> str:
    """A docstring without its example, its list of exceptions, and without what another's list is said to be."""
    section = r"^(?:Examples|Raises)\n-+\n.*?(?=^\S[^\n]*\n-+\n|\Z)"
    without = re.sub(section, "", docstring, flags=re.MULTILINE | re.DOTALL)
    return without.replace("Parameters, result and errors are those", "")


def long_paragraphs(text: str) -> list[str]:
    """How paragraphs and items of lists with too many words begin, in Markdown or numpydoc; a formula is one word."""
    text = re.sub(r"^(```|\$\$).*?^\1|^ *(?:>>>|\.\. math)[^\n]*", "", text, flags=re.MULTILINE | re.DOTALL)
    parts = PARAGRAPHS_END.split(re.sub(r"\$[^$]+\$|:math:`[^`]+`", "formula", text))
    return [f"{part.strip()[:60]}..." for part in parts if len(part.split()) > WORDS and part[0] != "|"]


def documented() -> Iterator[tuple[str, Any]]:
    """Public functions, classes and what is public in these."""
    for name, found in OBJECTS.items():
        yield name, found
        if inspect.isclass(found):
            yield from ((f"{name}.{own}", getattr(found, own)) for own in vars(found) if not own.startswith("_"))


def leaves(nav: Any) -> Iterator[str]:
    for item in nav:
        for value in item.values() if isinstance(item, dict) else [item]:
            yield from [value] if isinstance(value, str) else leaves(value)


def test_navigation_has_every_page_once() -> None:
    nav = yaml.safe_load((DOCS / "site" / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert sorted(leaves(nav)) == sorted({path.relative_to(DOCS).as_posix() for path in PAGES} | FROM_THE_TOP)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_page(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.match(r"# \S|::: cukde", text), "a page begins with its title"
    for target in re.findall(r"\]\(([^)\s]+)\)", visible(text)):
        assert not target.startswith("/"), f"{target}: links are relative, for GitHub and the site alike"
        if not re.match(r"[a-z]+:", target):
            file, _, anchor = target.partition("#")
            to = (path.parent / file).resolve() if file else path
            assert to.is_file() or to in DRAWN, target
            assert to.is_relative_to(DOCS), f"{target} would not be in the site"
            assert not anchor or anchor in anchors(to), target


def test_records_that_pages_name_are_there() -> None:
    named = {name for path in PAGES for name in re.findall(r"\b[\w-]+\.json\b", path.read_text(encoding="utf-8"))}
    not_records = {"old.json", "new.json", "peaks.json"}
    kept = {path.name for path in (ROOT / "benchmarks" / "results").rglob("*.json")}
    assert named - not_records
    assert sorted(named - not_records - kept) == []


def missing(text: str) -> list[str]:
    """Paths and modules that a text names and that are not in the tree; NAME and FAMILY stand for any name."""
    paths = {path for path in PATH.findall(text) if not re.search("NAME|FAMILY", path)} - ELSEWHERE
    gone = [path for path in paths if not (ROOT / path).exists()]
    for module in set(MODULE.findall(text)):
        path = ROOT / module.replace(".", "/")
        if not (path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()):
            gone.append(module)
    return sorted(gone)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_paths_that_a_text_names_are_there(path: Path) -> None:
    assert missing(path.read_text(encoding="utf-8")) == []


def test_paths_that_kernels_name_are_there() -> None:
    """A comment names a neighbour by its file's name, another source from kernels_cu/, and others from the top."""
    gone = []
    for path in sorted((ROOT / "kernels_cu").rglob("*.cu*")):
        comments = " ".join(re.findall(r"//(.*)", path.read_text(encoding="utf-8")))
        for name in re.findall(r"[\w/]+\.(?:cuh?|py)\b", comments):
            if not any((folder / name).is_file() for folder in (path.parent, ROOT / "kernels_cu", ROOT)):
                gone.append(f"{path.relative_to(ROOT)}: {name}")
    assert gone == []


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_paragraph_is_long(path: Path) -> None:
    assert long_paragraphs(path.read_text(encoding="utf-8")) == []


def test_no_paragraph_of_a_docstring_is_long() -> None:
    assert {name: long for name, one in documented() if (long := long_paragraphs(inspect.getdoc(one) or ""))} == {}


def test_references_are_lists() -> None:
    """An item begins with a dash; griffe and Markdown would run lines together otherwise."""
    texts = {name: inspect.getdoc(one) or "" for name, one in documented()}
    sections = {name: re.search(r"^References\n-+\n((?:.+\n?)+)", text, re.MULTILINE) for name, text in texts.items()}
    lists = {name: found[1].splitlines() for name, found in sections.items() if found}
    assert len(lists) > 20
    assert [name for name, lines in lists.items() if any(not line.startswith(("- ", "  ")) for line in lines)] == []


def test_every_public_name_has_an_entry() -> None:
    modules = {module.__name__ for module in MODULES}
    assert sorted(set(PUBLIC) - ENTRIES) == []
    assert sorted(ENTRIES - set(PUBLIC) - modules) == [], "entries of what is not public"


def test_the_index_has_every_public_name() -> None:
    words = set(re.findall(r"\w+", (DOCS / "reference" / "index.md").read_text(encoding="utf-8")))
    assert sorted(name for name in PUBLIC if name.rpartition(".")[2] not in words) == []


def test_no_public_name_is_that_of_a_module() -> None:
    """Its entry would be the module's."""
    paths = {name: ROOT / name.replace(".", "/") for name in OBJECTS}
    assert [name for name, path in paths.items() if path.is_dir() or path.with_suffix(".py").is_file()] == []


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Where examples write; the peaks of the processor are made up, as it takes seconds to measure them."""
    with public_calls.sandbox() as folder:
        yield folder


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", OBJECTS)
def test_docstring(name: str) -> None:
    docstring = inspect.getdoc(OBJECTS[name]) or ""
    if "import torch" in docstring:
        pytest.importorskip("torch", reason="PyTorch is not installed, of whose tensors the example is")
    assert re.search(r"^Examples\n-+\n", docstring, re.MULTILINE), "no example"
    said = {word.lower() for word in SAYS_HOW_GOOD.findall(without_errors_raised(docstring))}
    if name.startswith("cukde.perf"):  # which is about costs
        said -= {"cost", "costs"}
    assert said, "says neither how exact it is nor what it costs"
    test = doctest.DocTestParser().get_doctest(docstring, {}, name, None, 0)
    assert test.examples
    report: list[str] = []
    with mock.patch.dict(registry._BY_NAME), mock.patch.dict(registry._BY_TARGET):  # an example declares a cost
        doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not report, "".join(report)


def parameters_of(docstring: str, section: str = "Parameters") -> set[str] | None:
    """Names of a section of parameters; None where there is none."""
    found = re.search(rf"^{section}\n-+\n(.*?)(?=^\S[^\n]*\n-{{3,}}\n|\Z)", docstring, re.MULTILINE | re.DOTALL)
    if found is None:
        return None
    lines = (line.split(" : ")[0] for line in found[1].splitlines() if re.match(r"\S", line))
    return {name.strip(" *") for line in lines for name in line.split(",")}


def misses(docstring: str, signature: set[str], most: int) -> list[str]:
    """What a docstring of at most so many lines lacks or has too much of; it may name parameters in its sentences."""
    lines = docstring.splitlines()
    written = parameters_of(docstring)
    named = (written or set()) | (parameters_of(docstring, "Attributes") or set())
    if written is None:
        named |= set(re.findall(r"``(\w+)``", docstring))
    found = [f"{name} is not named" for name in sorted(signature - named)]
    found += [f"{name} is no parameter" for name in sorted((written or set()) - signature)]
    if len(lines) > most:
        found.append(f"{len(lines)} lines")
    if "Examples" in lines[EXAMPLE_WITHIN:]:
        found.append(f"the example begins after line {EXAMPLE_WITHIN}")
    return found


@pytest.mark.parametrize(("name", "found"), [pytest.param(*each, id=each[0]) for each in documented()])
def test_a_docstring_is_short_and_names_every_parameter(name: str, found: Any) -> None:
    plain = not callable(found) or (inspect.isclass(found) and issubclass(found, Warning))
    signature = set() if plain else {each for each in inspect.signature(found).parameters if each != "self"}
    assert misses(inspect.getdoc(found) or "", signature, 70 if name == "cukde.kde" else LINES) == []


def test_the_budget_of_a_pair_is_the_models() -> None:
    text = kernel_budget.PAGE.read_text(encoding="utf-8")
    assert text == kernel_budget.page_with(text, kernel_budget.table()), "run python -m benchmarks.perf.kernel_budget"


def test_the_table_of_keywords_is_that_of_the_signatures() -> None:
    text = capabilities.PAGE.read_text(encoding="utf-8")
    assert text == capabilities.page_with(text), "run python -m tests.docs.capabilities"
