"""The ``cukde`` command: its parser, messages and exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import cukde
from cukde.cli import completion, demo, density, info, kendall, roofline
from cukde.cli.errors import CommandError

_DESCRIPTION = """\
Estimate densities and rank correlations of files, and show how fast this machine computes them.

exit codes: 0 done, 1 an unexpected failure, 2 wrong arguments or data, 130 interrupted, 141 the reader of the output
has ended."""


class _Parser(argparse.ArgumentParser):
    """Shows descriptions as they are, and reports the errors of all subcommands as ``cukde: error: ...``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)
        self._intermixed = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Let options of a command stand between its files, too."""
        # argparse does it by calling this method again, and forgets what comes after "--".
        if self._subparsers is not None or self._intermixed or "--" in (args or ()):
            return super().parse_known_args(args, namespace)
        self._intermixed = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._intermixed = False

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"cukde: error: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="cukde", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"cukde {cukde.__version__}")
    parser.add_argument("--traceback", action="store_true", help="show where an unexpected failure came from")
    parser.add_argument(
        "--print-completion",
        action=completion.PrintCompletion,
        choices=completion.SHELLS,
        help="print a script that completes this command in a shell",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in (demo, density, kendall, info, roofline):
        command.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; ``argv`` defaults to the process's arguments."""
    try:
        args = _parser().parse_args(argv)
    except SystemExit as exit_request:  # --help, --version and wrong arguments have been answered
        return int(exit_request.code or 0)
    try:
        code: int | None = args.run(args)
        sys.stdout.flush()
    except CommandError as error:
        print(f"cukde: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("cukde: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Python flushes stdout once more at exit: give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if args.traceback:
            raise
        print(
            f"cukde: error: unexpected {type(error).__name__}: {error} "
            "(write cukde --traceback COMMAND ... to see where)",
            file=sys.stderr,
        )
        return 1
    return code or 0
