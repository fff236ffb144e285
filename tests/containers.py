"""Every container that people keep data in, for every public function: what a call of it gives.

A call of a container gives the numbers of the plain call, or an error that the list of containers names; nothing else.

    python -m tests.containers          # the matrix, with the messages
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa

from tests.array_api import Tensor
from tests.public_calls import CALLS, Call, Draw, sandbox

_NAMES = ("b", "größe", "a", "c d", "e", "f", "g", "h")


class Container(NamedTuple):
    """How arrays become one, and what calls of it are.

    ``make`` takes an array of one or two dimensions and the names of its columns; ``needs`` is the library that it
    takes. ``labels`` are names of columns, where there are some. Errors match the expression ``refused``. ``holds``
    gives the array whose numbers it stands for, if they are others than those that ``make`` takes.
    """

    make: Callable[[np.ndarray, list[Any]], Any]
    needs: str | None = None
    labels: tuple[Any, ...] = ()
    refused: str | None = None
    holds: Callable[[np.ndarray], np.ndarray] | None = None


def _pandas(a: np.ndarray, names: list[Any]) -> Any:
    return pd.DataFrame(a, columns=pd.Index(names)) if a.ndim == 2 else pd.Series(a)


def _as(kind: str) -> Callable[[np.ndarray, list[Any]], Any]:
    return lambda a, names: _pandas(a, names).astype(kind)


def _arrow(a: np.ndarray, names: list[Any]) -> Any:
    return (
        pa.table([pa.array(column) for column in a.T], names=names) if a.ndim == 2 else pa.chunked_array([pa.array(a)])
    )


def _polars(a: np.ndarray, names: list[Any]) -> Any:
    import polars as pl

    return pl.DataFrame({name: a[:, k] for k, name in enumerate(names)}) if a.ndim == 2 else pl.Series(a)


def _masked(a: np.ndarray, names: list[Any]) -> Any:
    mask = np.zeros(a.shape, bool)
    mask.flat[a.size // 2] = True
    return np.ma.masked_array(a, mask)


def _labelled_rows(a: np.ndarray, names: list[Any]) -> Any:
    return _pandas(a, names).set_axis([f"row {k}" for k in range(len(a))])


def _lazy(a: np.ndarray, names: list[Any]) -> Any:
    return _polars(a.reshape(len(a), -1), names or ["t"]).lazy()


def _dask_frame(a: np.ndarray, names: list[Any]) -> Any:
    return dd.from_pandas(_pandas(a, names), npartitions=2, sort=False)


def _sparse(a: np.ndarray, names: list[Any]) -> Any:
    from scipy import sparse

    return sparse.csr_array(a)


def _torch(a: np.ndarray, names: list[Any]) -> Any:
    import torch

    return torch.from_numpy(a.copy())


def _jax(a: np.ndarray, names: list[Any]) -> Any:
    import jax

    jax.config.update("jax_enable_x64", True)
    return jax.numpy.asarray(a)


def _dask_array(a: np.ndarray, names: list[Any]) -> Any:
    return da.from_array(a, chunks=(max(1, len(a) // 2), *a.shape[1:]))


_IN_MEMORY = "Dask|known sizes"
"""Some functions take arrays in memory alone, and convolution sizes that are known."""

_LABELS_OF_ROWS = "must have the (index|columns) of dataset"
"""``gaussian_kde`` has points in columns, so that rows of a frame are its dimensions, as in SciPy."""

CONTAINERS: dict[str, Container] = {
    "lists": Container(lambda a, names: a.tolist()),
    "NumPy, Fortran order": Container(lambda a, names: np.asfortranarray(a)),
    "NumPy, other byte order": Container(lambda a, names: a.astype(a.dtype.newbyteorder())),
    "NumPy, objects": Container(lambda a, names: a.astype(object), refused="object"),
    "masked, nothing missing": Container(lambda a, names: np.ma.masked_array(a)),
    "masked": Container(_masked, refused="mask", holds=lambda a: _masked(a, []).filled(np.nan)),
    "pandas": Container(_pandas, labels=_NAMES),
    "pandas, integer labels": Container(_pandas, labels=(3, 0, 5, 1, 4, 2, 7, 6)),
    "pandas, MultiIndex": Container(_pandas, labels=tuple(("ab"[k % 2], name) for k, name in enumerate(_NAMES))),
    "pandas, labelled rows": Container(_labelled_rows, labels=_NAMES, refused=_LABELS_OF_ROWS),
    "pandas, nullable": Container(_as("Float64"), labels=_NAMES),
    "pandas, Arrow": Container(_as("double[pyarrow]"), labels=_NAMES),
    "pandas, sparse": Container(_as("Sparse[float64]"), labels=_NAMES),
    "pandas, objects": Container(_as("object"), labels=_NAMES),
    "polars": Container(_polars, "polars", _NAMES),
    "polars, lazy": Container(_lazy, "polars", _NAMES, r"collect\(\)"),
    "Arrow": Container(_arrow, labels=_NAMES),
    "sparse": Container(_sparse, refused=r"toarray\(\)"),
    "array API": Container(lambda a, names: Tensor(a)),
    "PyTorch": Container(_torch, "torch"),
    "JAX": Container(_jax, "jax"),
    "Dask array": Container(_dask_array, refused=_IN_MEMORY),
    "Dask frame": Container(_dask_frame, labels=_NAMES, refused=f"{_IN_MEMORY}|{_LABELS_OF_ROWS}"),
}

Choose = Callable[[Sequence[Any]], Any]


def here() -> list[str]:
    """Names of the containers whose library is installed."""
    return [name for name, one in CONTAINERS.items() if one.needs is None or importlib.util.find_spec(one.needs)]


_NOT_DATA = frozenset(
    (
        "h",
        "score_bandwidth",
        "denominator_bandwidth",
        "bandwidths",
        "axes",
        "mass",
        "out",
        "hue",
        "bounds",
        "periods",
        "ax",
    )
)
"""Arrays of few numbers, which are no data, and pictures."""

_RANDOM = {"gaussian_kde.integrate_box", "perf.measure", "positive_mass"}
"""Functions whose results are times, or differ with the draws of a random generator in blocks."""

SEEDS = (0, 1)
"""Of the calls of each cell."""

FUNCTIONS = [name for name in CALLS if not name.startswith(("dask.", "torch.")) and name not in _RANDOM]
"""Those of Dask arrays by name are the same functions, and so are those with gradients for plain arrays."""


def called(name: str, container: Container, seed: int, others: Choose | None = None) -> tuple[Call, Call | None]:
    """A call of arrays, and the same of a container; None if the call has no arrays that it holds.

    With ``others``, which chooses, arguments but the first are of other containers, or stay arrays.
    """
    plain, other = _call(name, seed), _call(name, seed)
    parameters = [name for name in inspect.signature(other.function).parameters if name not in ("args", "kwargs")]
    parameters += [f"argument {k}" for k in range(len(parameters), len(other.args))]
    given = dict(zip(parameters, other.args, strict=False)) | other.kwargs
    data = next((a for a in given.values() if isinstance(a, np.ndarray) and a.ndim == 2), np.empty((0, 0)))
    labels = [*container.labels[: data.shape[1]]]
    held: dict[str, Any] = {}
    numbers: dict[str, Any] = dict(zip(parameters, plain.args, strict=False)) | plain.kwargs
    for key, a in given.items():
        one = container if others is None or not held else others([*map(CONTAINERS.__getitem__, here()), None])
        held[key] = a if one is None else _held(key, a, given, one, labels and [*one.labels[: len(labels)]])
        if held[key] is not a and one is not None and one.holds is not None and isinstance(a, np.ndarray):
            numbers[key] = one.holds(a)
            numbers |= {"nan_policy": "omit"} if name == "kendalltau" else {}  # as SciPy does with masked arrays
    if all(held[key] is given[key] for key in given):
        return plain, None
    for key in ("columns", "columns_a", "columns_b", "given"):
        if labels and isinstance(given.get(key), list):
            held[key] = [labels[k] for k in given[key]]
    made = (_with(call, parameters, values) for call, values in ((plain, numbers), (other, held)))
    return next(made), next(made)


def _with(call: Call, parameters: list[str], values: Mapping[str, Any]) -> Call:
    args = tuple(values[key] for key in parameters[: len(call.args)])
    return replace(call, args=args, kwargs={key: values[key] for key in call.kwargs})


def _call(name: str, seed: int) -> Call:
    draw = Draw(seed)
    draw.dtype, draw.n, draw.m = "float64", draw.n + 3, draw.m + 2
    return CALLS[name](draw)


def _held(key: str, a: Any, given: Mapping[str, Any], container: Container, labels: list[Any]) -> Any:
    """An argument in the container, if it is one of data."""
    if key == "given" and isinstance(a, dict):
        to = labels or range(9)
        return {to[k]: _held("", each, given, container, labels) for k, each in a.items()}
    if not isinstance(a, np.ndarray) or a.ndim not in (1, 2) or key in _NOT_DATA or not a.size:
        return a
    return container.make(a, _names(key, a, given, labels))


def _names(key: str, a: np.ndarray, given: Mapping[str, Any], labels: list[Any]) -> list[Any]:
    if a.ndim == 1:
        return []
    if labels and key == "Y" and given.get("columns") is not None:
        return [labels[k] for k in given["columns"]]
    if labels and key == "Y" and "given" in given:
        return [label for k, label in enumerate(labels) if k not in given["given"]]
    if len(labels) == a.shape[1] and key not in ("B", "V"):
        return labels
    return [f"{key}{k}" for k in range(a.shape[1])]


def numbers(result: Any) -> list[np.ndarray]:
    """The numbers of a result, one array after another, in memory."""
    (result,) = dask.compute(result, scheduler="synchronous")
    if isinstance(result, list | tuple):
        return [each for part in result for each in numbers(part)]
    if isinstance(result, dict):
        return numbers(list(result.values()))
    if result is None or isinstance(result, str):
        return []
    if isinstance(result, pa.Table):
        return [np.stack([column.to_numpy() for column in result.columns], axis=1)]
    if isinstance(result, np.ndarray | np.generic | float | int) or hasattr(result, "__array__"):
        array = np.asarray(result)
        return [array.astype(float)] if array.dtype.kind in "fiub" else []  # else names
    if isinstance(result, Tensor):
        return [result.kept]
    return numbers([each for name, each in vars(result).items() if not name.startswith("_") and not callable(each)])


def outcome(name: str, container: Container, seed: int, others: Choose | None = None) -> str | None:
    """What the container gives: "equal", or the message of the error; None of a call that has nothing to hold.

    AssertionError if the numbers are others than those of arrays.
    """
    plain, other = called(name, container, seed, others)
    if other is None:
        return None
    try:
        got = numbers(other())
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    want = numbers(plain())
    assert len(got) == len(want)
    for one, right in zip(got, want, strict=True):
        np.testing.assert_allclose(one, right, rtol=1e-11, atol=1e-12)
    return "equal"


def wrong(name: str, container: str, seed: int) -> str | None:
    """What is wrong with a cell of the matrix; None if it is as the list of containers says."""
    one = CONTAINERS[container]
    try:
        found = outcome(name, one, seed)
    except AssertionError as error:
        return f"{name} of {container}, seed {seed}: {error}"
    if found in (None, "equal") or (one.refused is not None and re.search(one.refused, found or "")):
        return None
    return f"{name} of {container}, seed {seed}: {found}"


def main() -> int:
    """Print the matrix: = equal, - refused, . a call that has no array which the container holds."""
    said: dict[str, str] = {}
    faults = []
    names = here()
    print(*(f"{k:>2} {name}" for k, name in enumerate(names)), sep="\n")
    with sandbox(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for function in FUNCTIONS:
            cells = []
            for name in names:
                found = [outcome(function, CONTAINERS[name], seed) for seed in SEEDS]
                faults += [each for seed in SEEDS if (each := wrong(function, name, seed))]
                refusals = [each for each in found if each not in (None, "equal")]
                if refusals:
                    said[name] = str(refusals[0])
                cells.append("-" if refusals else "=" if "equal" in found else ".")
            print(f"{function:<34}", *cells, flush=True)
    print("One of the messages for each container that is refused somewhere:")
    print(*(f"{name}: {' '.join(text.split())}" for name, text in said.items()), sep="\n")
    print(
        f"{len(FUNCTIONS)} functions, {len(names)} containers, {len(SEEDS)} calls of each: {len(faults)} wrong", *faults
    )
    return int(bool(faults))


if __name__ == "__main__":
    raise SystemExit(main())
