"""Where the bytes of a table come from: a file, a compressed file, or standard input."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from cukde.cli.errors import CommandError, file_errors

STDIN = Path("-")

_COMPRESSED = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# First bytes by which the formats of a stream without a name are told.
_BEGINNINGS = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ": ".xz", b"\x93NUMPY": ".npy", b"PAR1": ".parquet"}


class Source:
    """The bytes of a table, which can be read several times, and its format.

    Standard input and pipes are read into memory at once; first bytes tell their format.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path("standard input") if path == STDIN else path
        self._bytes: bytes | None = None
        if path == STDIN or path.is_fifo():
            with file_errors("read", self.path):
                self._bytes = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
            self._compression = self._beginning() if self._beginning() in _COMPRESSED else ""
            self.suffix = self._beginning() or ".txt"
            if self._compression:
                with self.open() as file:
                    self._bytes, self._compression = file.read(), ""
                self.suffix = self._beginning() or ".txt"
        else:
            self._compression = path.suffix.lower() if path.suffix.lower() in _COMPRESSED else ""
            self.suffix = (Path(path.stem) if self._compression else path).suffix.lower()

    @property
    def in_memory(self) -> bool:
        """Whether the bytes are no file that others can read."""
        return self._bytes is not None or bool(self._compression)

    def _beginning(self) -> str:
        assert self._bytes is not None
        return next((suffix for start, suffix in _BEGINNINGS.items() if self._bytes.startswith(start)), "")

    @contextlib.contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the bytes, decompressed; errors become messages."""
        try:
            with file_errors("read", self.path), contextlib.ExitStack() as files:
                file: BinaryIO = io.BytesIO(self._bytes) if self._bytes is not None else self.path.open("rb")
                files.enter_context(file)
                if self._compression:
                    file = files.enter_context(_COMPRESSED[self._compression](file, "rb"))  # type: ignore[operator]
                yield file
        except (EOFError, zlib.error, lzma.LZMAError) as error:
            raise CommandError(f"cannot decompress {self.path}: {error}") from None
