"""``cukde --print-completion SHELL``: shell completion, which shtab generates from the parser."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cukde.core import extras

SHELLS = ("bash", "zsh", "tcsh")


class PrintCompletion(argparse.Action):
    """Prints a script to be sourced by a shell, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None) -> None:
        """Print the completion of the whole parser."""
        if importlib.util.find_spec("shtab") is None:
            parser.error(f"--print-completion needs shtab: {extras.install('completion')}")
        import shtab

        for action in _actions(parser):
            if action.type is Path:
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # where shtab looks
        print(shtab.complete(parser, values))
        parser.exit()


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of its subcommands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
