"""Code blocks of a page in Markdown, and how they are run: in order, in one namespace and one folder.

A block runs unless the line before it is ``<!-- not run: REASON -->``, or ``<!-- runs where NAME is installed -->`` and
that package is not. Blocks of Python are statements, or a session with ``>>>`` whose results are compared; CuPy is
NumPy where no GPU works. Those of the shell are commands of ``cukde``. A block of text directly below one of Python is
what it prints; "..." in it stands for anything.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import itertools
import re
import shlex
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import dask
import pytest

from cukde import perf
from cukde.cli import main
from cukde.perf import _lookup
from tests import host_emulation
from tests.conftest import why_no_gpu
from tests.perf import toys
from tests.private import perf_explain as _explain

PYTHON = ("python", "pycon")
SHELL = ("sh", "bash", "shell")
PROSE = ("text", "")  # output, formulas, references

_FENCE = re.compile(r"( *)(`{3,}|~{3,}) *([\w+-]*)(.*)")
_NOT_RUN = re.compile(r" *<!-- not run: (.+) -->")
_WHERE = re.compile(r" *<!-- runs where (\w+) is installed -->")
_CI_RUNS = re.compile(r" *<!-- (test|demo) command -->")  # the test command is .ci/run's; both install the package


class Block(NamedTuple):
    """A fenced block of a page."""

    line: int  # of its fence, the first is 1
    language: str
    code: str
    reason: str | None  # why it is not run
    prints: str | None = None

    @property
    def runs(self) -> bool:
        """Whether it is code, and no reason is said."""
        return self.reason is None and self.language not in PROSE


def blocks(page: str) -> Iterator[Block]:
    """All fenced blocks, in order."""
    lines = page.splitlines()
    found = list(_fenced(lines))
    for block, after in itertools.zip_longest(found, found[1:]):
        between = lines[block.line + block.code.count("\n") + 1 : after.line - 1] if after else []
        is_output = after and block.language == "python" and after.language == "text" and not any(between)
        yield block._replace(prints=after.code) if after and is_output else block


def _fenced(lines: list[str]) -> Iterator[Block]:
    numbers = iter(range(len(lines)))
    for i in numbers:
        if not (opened := _FENCE.fullmatch(lines[i])):
            continue
        _, fence, language, rest = opened.groups()
        for last in numbers:
            if re.fullmatch(rf" *{fence[0]}{{{len(fence)},}} *", lines[last]):
                break
        else:
            raise ValueError(f"line {i + 1}: the block has no end")
        if rest.strip() and not rest.strip().startswith(("{", "title=", "hl_lines=", "linenums=")):
            raise ValueError(f"line {i + 1}: {rest!r} behind the language")
        code = textwrap.dedent("\n".join(lines[i + 1 : last])) + "\n"
        yield Block(i + 1, language.lower(), code, _reason(lines[i - 1] if i else ""))


def _reason(before: str) -> str | None:
    if said := _NOT_RUN.fullmatch(before):
        return said[1]
    if (needed := _WHERE.fullmatch(before)) and importlib.util.find_spec(needed[1]) is None:
        return f"{needed[1]} is not installed here"
    return "it installs the package" if _CI_RUNS.fullmatch(before) else None


def prepare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give blocks one thread of Dask, little time to measure and, without a GPU, a processor whose rates are known."""
    if why_no_gpu():
        monkeypatch.setattr(_lookup, "_of_cpu", lambda: toys.CPU)  # to measure the processor takes two seconds
    for module, name in ((_explain, "measure"), (perf, "measure")):
        monkeypatch.setattr(module, name, _briefly(getattr(module, name)))
    monkeypatch.setitem(dask.config.config, "scheduler", "synchronous")


def _briefly(measure: Any) -> Any:
    def brief(*args: Any, **options: Any) -> Any:
        return measure(*args, **options | {"seconds": 0.01})

    return brief


def run(block: Block, page: Path, names: dict[str, Any]) -> None:
    """Run a block with what blocks before it have defined."""
    if block.language in SHELL:
        for command in shell_commands(block.code):
            assert command[0] == "cukde", (
                f"line {block.line} of {page.name}: {command[0]} is not run: say why, or drop it"
            )
            assert main.main(command[1:]) == 0, f"line {block.line} of {page.name}: {shlex.join(command)}"
    elif block.code.startswith(">>>"):
        session = doctest.DocTestParser().get_doctest(block.code, names, page.name, str(page), block.line)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        assert runner.run(session, clear_globs=False).failed == 0
        names.update(session.globs)
    else:
        printed = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
            if "import cupy" in block.code and why_no_gpu():
                patch.setitem(sys.modules, "cupy", host_emulation.NumpyAsCupy(None))
            exec(compile("\n" * block.line + block.code, str(page), "exec"), names)
        if block.prints is not None:
            got, options = printed.getvalue(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            same = doctest.OutputChecker().check_output(block.prints, got, options)
            assert same, f"line {block.line} of {page.name} prints\n{got}"


def shell_commands(code: str) -> list[list[str]]:
    """Words of each command: a line, with those that a backslash joins to it, without comments."""
    lines = code.replace("\\\n", " ").splitlines()
    commands = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines]
    return [command for command in commands if command]
