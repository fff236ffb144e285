"""A fitted estimator as an NPZ file of arrays and text that describes them. Nothing in it is ever executed."""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np

from cukde.core import dispatch
from cukde.core.entry.names import Labelled, named
from cukde.core.frames.libraries import library_of

FORMAT = "cukde.KernelDensity 1"
_ABOUT = "about"
_KINDS = "fiubU"  # of dtypes
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_PLAIN = (bool, int, float, str, type(None))


def write(path: str | PathLike[str], values: dict[str, Any]) -> None:
    """Write numbers, text, arrays, and dictionaries of them."""
    arrays: dict[str, np.ndarray] = {}
    about = json.dumps({"format": FORMAT, "values": _encoded(values, "value", arrays)})
    with open(path, "wb") as file:
        np.savez(file, **{_ABOUT: np.array(about)}, **arrays)  # type: ignore[arg-type]


def read(path: str | PathLike[str]) -> dict[str, Any]:
    """Read a file of :func:`write`; raise ValueError for any other file.

    The contents take no more memory than the file is long: arrays are not compressed, are read once, and are as long as
    their members.
    """
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                _check_sizes(members, file.seek(0, os.SEEK_END))
                arrays = {member.filename.removesuffix(".npy"): member for member in members}
                about = json.loads(str(_array(archive, arrays.pop(_ABOUT))))
                if about["format"] != FORMAT:
                    raise ValueError(f"its format is {about['format']!r}, not {FORMAT!r}")
                # Popped, so that text that names an array several times does not multiply it.
                values: dict[str, Any] = _decoded(about["values"], lambda name: _array(archive, arrays.pop(name)))
                return values
        except Exception as error:  # of damaged files the readers of NumPy, ZIP and JSON raise anything
            raise unreadable(path, error) from None


def _check_sizes(members: list[zipfile.ZipInfo], length: int) -> None:
    """Refuse compressed or overlapping members, whose contents could be longer than the file."""
    if any(
        member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size for member in members
    ):
        raise ValueError("its arrays are compressed, which save does not do")
    if sum(member.file_size for member in members) > length:
        raise ValueError("its arrays are longer than it is")


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """Read an array if its header agrees with its length; nothing is unpickled."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in _HEADERS:
            raise ValueError(f"{member.filename} is of version {version} of the NPY format, which save does not write")
        shape, _, dtype = _HEADERS[version](stream)
        if dtype.kind not in _KINDS:
            raise ValueError(f"{member.filename} holds {dtype}: neither numbers nor words")
        if math.prod(shape) * dtype.itemsize != member.file_size - stream.tell():
            raise ValueError(f"{member.filename} is not as long as its shape {shape} of {dtype} says")
        stream.seek(0)
        array: np.ndarray = np.lib.format.read_array(stream, allow_pickle=False)
        return array


def unreadable(path: Any, error: Exception) -> ValueError:
    """Return the error for a file that holds no estimator."""
    return ValueError(
        f"{path} must be an undamaged file written by KernelDensity.save of this version; "
        f"{type(error).__name__}: {error}"
    )


def _encoded(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Labelled):  # the result of a search, as the bandwidth that a fit takes of it
        found: Any = value
        h = dispatch.to_host(found.bandwidth)
        value = dict(zip(found.columns, h.tolist(), strict=True)) if named(found.columns) else h
    if library_of(value) is not None or (isinstance(value, dict) and not all(isinstance(key, str) for key in value)):
        raise TypeError(
            f"save takes numbers, words and arrays of them, and mappings from words; {name} is {value!r}, whose labels "
            "would be lost: give an array in the order of the columns, or pickle the estimator"
        )
    if isinstance(value, dict):
        return {"dictionary": {key: _encoded(item, f"{name}.{key}", arrays) for key, item in value.items()}}
    if isinstance(value, list | tuple) and any(item is None or isinstance(item, list | tuple) for item in value):
        return {"list": [_encoded(item, f"{name}.{i}", arrays) for i, item in enumerate(value)]}
    array = np.asarray(dispatch.to_host(value))
    if array.dtype.kind not in _KINDS:
        raise TypeError(f"save takes numbers, words and arrays of them; {name} is {value!r}: pickle the estimator")
    arrays[name] = array
    return {"array": name}


def _decoded(value: Any, array: Callable[[str], np.ndarray]) -> Any:
    if isinstance(value, _PLAIN):
        return value
    if "dictionary" in value:
        return {key: _decoded(item, array) for key, item in value["dictionary"].items()}
    if "list" in value:
        return [_decoded(item, array) for item in value["list"]]
    return array(value["array"])
