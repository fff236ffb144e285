"""Hash what every public function returns for a fixed list of calls: a change that must not change results shows none.

Each call has a name, made of the function and its arguments (an array by its dtype, its shape and a checksum), and the
SHA-256 of what it returned: dtypes, shapes and bytes. Two versions of the library agree to the last bit where the files
that they write are the same:

    python -m benchmarks.stress.result_hashes --backend cpu --out before.json
    python -m benchmarks.stress.result_hashes --backend cpu --out after.json
    python -m benchmarks.stress.result_hashes --compare before.json after.json

Only public names of the library are used, beside ``tests.host_emulation`` and two constants by their names alone
(``as_if_many``), so that the same file serves versions whose modules lie elsewhere: in the root of one that does not
have it, ``PYTHONPATH=. python PATH/result_hashes.py``.

``--backend emulated`` runs the launchers and the CUDA sources of the GPU backend on the host, as tests do, with fewer
calls and smaller arrays, but of every family of kernels. ``--backend gpu`` gives the calls of ``cpu`` CuPy arrays, and
has some larger ones besides.

Results have the same bits where machine, packages and numbers of threads are the same. The program begins itself anew
with two threads for the library and one for BLAS and OpenMP, since some sums depend on how they are cut; where there is
but one core, some results are others. On the CPU it makes all calls in two processes, and hashes those of the second:
some float32 results of the process that compiles differ in their last bits from those of all later ones, which load
what it compiled. Calls ask for ``deterministic=True`` where they can. On a GPU some passes add up in no fixed order:
there results of functions that may take these are rounded to six digits before they are hashed (``ROUNDED_ON_GPU``).
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

THREADS = {"NUMBA_NUM_THREADS": "2", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
SIMULATOR = {"NUMBA_ENABLE_CUDASIM": "1"}  # of Numba's CUDA kernels, for the emulation

ROUNDED_ON_GPU = ("bandwidth.cross_validate", "bandwidth.isj", "KernelDensity", "plot")
DIGITS = 6
STAGE = "CUKDE_HASHES"  # variable of the environment: whether this process compiles what the next one takes, or hashes
KEPT_ON_HOST = ("bandwidth",)  # arguments of estimators, which are no data

DIMENSIONS = (1, 2, 3, 5, 16, 17, 64, 100)
DTYPES = ("float32", "float64")
FLOATS = ("float16", *DTYPES)
PRECISIONS = (None, "float32", "tf32", "ieee", "float64")
Geometry = tuple[tuple[int, int, int, int], dict[str, Any]]  # batch, channels, length and taps, and options
KERNELS = ("gaussian", "tophat", "epanechnikov", "exponential", "linear", "cosine")


# ----------------------------------------------------------------------------------------------- calls and hashes


class Calls:
    """Calls of the library by names that say what they are."""

    def __init__(self) -> None:
        self.of: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {}

    def add(self, function: str, *args: Any, **options: Any) -> None:
        """Add a call of a public function, or of a function of ``STEPS``; arrays are those of NumPy."""
        told = [_told(a) for a in args] + [f"{name}={_told(a)}" for name, a in options.items()]
        name = f"{function}({', '.join(told)})"
        if name in self.of:
            raise ValueError(f"there are two calls {name}")
        self.of[name] = function, args, options

    def run(self, asarray: Callable[[np.ndarray], Any], *, rounded: Sequence[str] = ()) -> Iterator[tuple[str, Any]]:
        """Make all calls; of each its name and the hash of its result, or the exception that it ended with.

        Results of functions whose names begin as one of ``rounded`` does are rounded first.
        """
        for name, (function, args, options) in self.of.items():
            hashed = Hash(DIGITS if function.startswith(tuple(rounded)) else None)
            try:
                moved: dict[int, Any] = {}  # an argument given twice is to be one array there, too
                positional = [_moved(a, asarray, moved) for a in args]
                named = {o: a if o in KEPT_ON_HOST else _moved(a, asarray, moved) for o, a in options.items()}
                hashed.add(_called(function)(*positional, **named))
            except Exception as error:
                yield name, error
            else:
                yield name, hashed.digest()


class Hash:
    """SHA-256 of results: of arrays on either device, numbers, words, and tuples, mappings and records of them."""

    def __init__(self, digits: int | None = None) -> None:
        self._sha = hashlib.sha256()
        self._digits = digits

    def digest(self) -> str:
        return self._sha.hexdigest()

    def add(self, value: Any) -> None:
        if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__cuda_array_interface__"):
            self._array(on_host(value))
        elif value is None or isinstance(value, bool | int | str):
            self._text(f"{type(value).__name__} {value!r}")
        elif isinstance(value, float):
            self._text(f"float {value.hex() if self._digits is None else f'{value:.{self._digits}g}'}")
        elif isinstance(value, dict):
            self._several("mapping", itertools.chain.from_iterable(value.items()))
        elif isinstance(value, tuple | list):
            self._several("sequence", value)
        elif dataclasses.is_dataclass(value):
            # Sources of figures are named by files, which may be called otherwise.
            fields = (field.name for field in dataclasses.fields(value) if field.name != "source")
            self._several("record", [part for name in fields for part in (name, getattr(value, name))])
        elif {"c", "x", "extrapolate"} <= set(dir(value)):  # a piecewise polynomial
            self._several("polynomial", [value.c, value.x, value.extrapolate, getattr(value, "max_error", None)])
        else:
            raise TypeError(f"no hash of {type(value)}")

    def _several(self, kind: str, values: Any) -> None:
        values = list(values)
        self._text(f"{kind} {len(values)}")
        for value in values:
            self.add(value)

    def _array(self, array: np.ndarray) -> None:
        self._text(f"array {array.dtype.str} {array.shape}")
        if self._digits is not None and array.dtype.kind == "f":
            self._text(" ".join(f"{x:.{self._digits}g}" for x in array.ravel().tolist()))
        else:
            self._sha.update(array.tobytes())

    def _text(self, text: str) -> None:
        self._sha.update(f"{text}\n".encode())


def on_host(array: Any) -> np.ndarray:
    """An array as one of NumPy."""
    return array.get() if hasattr(array, "__cuda_array_interface__") else np.asarray(array)


def _told(argument: Any) -> str:
    if isinstance(argument, np.ndarray):
        content = zlib.crc32(argument.tobytes())
        return f"{argument.dtype} {'x'.join(map(str, argument.shape))} #{content:08x}"
    if isinstance(argument, dict):
        return "{" + ", ".join(f"{key}: {_told(value)}" for key, value in argument.items()) + "}"
    if isinstance(argument, list | tuple):
        return "[" + ", ".join(map(_told, argument)) + "]"
    return getattr(argument, "__name__", None) or repr(argument)


def _moved(argument: Any, asarray: Callable[[np.ndarray], Any], moved: dict[int, Any]) -> Any:
    """An argument with its arrays brought to a device; those of a list stay on the host."""
    if isinstance(argument, dict):
        return {key: _moved(value, asarray, moved) for key, value in argument.items()}
    if not isinstance(argument, np.ndarray):
        return argument
    if id(argument) not in moved:
        moved[id(argument)] = asarray(argument)
    return moved[id(argument)]


def _called(function: str) -> Callable[..., Any]:
    import cukde
    import cukde.dask

    found: Callable[..., Any] = STEPS.get(function) or attrgetter(function)(cukde)
    return found


# ------------------------------------------------------------------------------------ calls that take several steps


def lazily(function: str, arrays: int, *args: Any, **options: Any) -> Any:
    """A function of the library of Dask arrays: the first ``arrays`` arguments, in blocks of half their sizes."""
    import dask

    blocks = {id(a): _in_blocks(a) for a in args[:arrays]}
    out = _called(function)(*(blocks.get(id(a), a) for a in args), **options)
    with dask.config.set(scheduler="synchronous"):
        return dask.compute(*out) if isinstance(out, tuple) else out.compute()


def _in_blocks(a: Any) -> Any:
    import dask.array as da

    return da.from_array(a, chunks=tuple(max(1, size // 2) for size in a.shape)) if getattr(a, "ndim", 0) else a


def fitted(X: Any, weights: Any = None, **options: Any) -> Any:
    """An estimator."""
    import cukde

    return cukde.KernelDensity(**options).fit(X, sample_weight=weights)


def estimate(method: str, X: Any, Y: Any, weights: Any = None, /, **options: Any) -> Any:
    """What a method of a fitted estimator gives at queries."""
    return getattr(fitted(X, weights, **options), method)(Y)


def drawn(X: Any, count: int, weights: Any = None, **options: Any) -> Any:
    """A sample of a fitted estimator."""
    return fitted(X, weights, **options).sample(count, random_state=7)


def attributes(X: Any, weights: Any = None, **options: Any) -> Any:
    """What an estimator keeps of its data."""
    found = fitted(X, weights, **options)
    return found.points_, found.bandwidth_, found.sample_weight_, found.n_features_in_


def saved(X: Any, Y: Any, weights: Any = None, **options: Any) -> Any:
    """Log densities of an estimator that was saved and loaded."""
    import cukde

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "estimator.npz"
        fitted(X, weights, **options).save(path)
        return cukde.KernelDensity.load(path).score_samples(Y)


def lazy_estimate(X: Any, Y: Any, **options: Any) -> Any:
    """Log densities of an estimator that was fitted to Dask arrays."""
    import dask

    with dask.config.set(scheduler="synchronous"):
        return fitted(_in_blocks(X), **options).score_samples(_in_blocks(Y)).compute()


def polynomial(c: Any, x: Any, method: str, *args: Any, extrapolate: Any = True, **options: Any) -> Any:
    """What a method of a piecewise polynomial returns."""
    import cukde

    return getattr(cukde.PiecewisePolynomial(c, x, extrapolate=extrapolate), method)(*args, **options)


def polynomial_of_scipy(c: Any, x: Any, extrapolate: Any) -> Any:
    """A piecewise polynomial as SciPy's, and that as one of ours again."""
    import cukde

    theirs = cukde.PiecewisePolynomial(c, x, extrapolate=extrapolate).to_scipy()
    return theirs.c, theirs.x, cukde.PiecewisePolynomial.from_scipy(theirs)


def polynomial_of_spline(x: Any, y: Any, k: int) -> Any:
    """The spline through some points as a piecewise polynomial."""
    from scipy.interpolate import make_interp_spline

    import cukde

    return cukde.PiecewisePolynomial.from_spline(make_interp_spline(on_host(x), on_host(y), k=k))


def fit(function: Callable[[Any], Any], domain: tuple[float, float], points: Any, **options: Any) -> Any:
    """A fitted polynomial, its errors, and its values."""
    import cukde

    found = cukde.fit_piecewise(function, domain, **options)
    return found, found.max_errors, found(points, extrapolate=False)


def written(x: Any, c: Any, knots: Any, **options: Any) -> Any:
    """What :func:`cukde.pwpa` writes to an array that it is given."""
    import cukde

    out = x.copy()
    cukde.pwpa(x, c, knots, out=out, **options)
    return out


def picture(function: str, *args: Any, panels: int | None = None, **options: Any) -> Any:
    """Numbers of all curves and regions of a picture."""
    from matplotlib.figure import Figure

    axes = Figure().subplots(panels or 1, panels or 1)
    _called(function)(*args, ax=axes, **options)
    lines, paths = [], []
    for ax in np.ravel(axes):
        lines += [np.asarray(line.get_xydata()) for line in ax.lines]
        paths += [np.asarray(path.vertices) for collection in ax.collections for path in collection.get_paths()]
    return lines, paths


def as_if_many(function: str, *args: Any, **options: Any) -> Any:
    """A call that takes the ways of many pairs and points, few as there are: their numbers are constants of modules."""
    constants = (
        "_FEW_PAIRS",
        "_FEWEST_POINTS",
        "_PAIRS_OF_OWN",
        "LINE_PAIRS",
        *(*("_FEW_SKIPPING_PAIRS", "_FEW_RADIAL_PAIRS", "_FEW_PLANE_PAIRS"),),
    )
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("cukde.")]
    places = [(module, name) for module in modules for name in constants if hasattr(module, name)]
    if not set(constants[:2]) <= {name for _, name in places}:  # earlier versions lack the others
        raise RuntimeError(f"no module of the library has {' or '.join(constants[:2])}")
    with contextlib.ExitStack() as stack:
        for module, name in places:
            stack.enter_context(mock.patch.object(module, name, 0))
        return _called(function)(*args, **options)


STEPS: dict[str, Callable[..., Any]] = {
    "as if many": as_if_many,
    "lazily": lazily,
    "KernelDensity": estimate,
    "KernelDensity.fit": attributes,
    "KernelDensity.sample": drawn,
    "KernelDensity.save": saved,
    "KernelDensity of Dask arrays": lazy_estimate,
    "PiecewisePolynomial": polynomial,
    "PiecewisePolynomial.to_scipy": polynomial_of_scipy,
    "PiecewisePolynomial.from_spline": polynomial_of_spline,
    "fit_piecewise": fit,
    "pwpa with out": written,
    "plot": picture,
}


# --------------------------------------------------------------------------------------------------- arguments


def normal(*shape: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    """Normal numbers; the same seed begins all shapes with the same ones."""
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def positive(*shape: int, dtype: str = "float64", seed: int = 1) -> np.ndarray:
    """Numbers from 0.3 to 2."""
    return np.random.default_rng(seed).uniform(0.3, 2, shape).astype(dtype)


def covariance(d: int) -> np.ndarray:
    """A covariance that links all columns."""
    root = normal(d, d, seed=2)
    return root @ root.T / d + np.eye(d)


def width(d: int) -> float:
    """A bandwidth within which normal data have some neighbours."""
    return round(0.4 + 0.3 * math.sqrt(d), 2)


def forms_of_bandwidth(d: int) -> tuple[Any, ...]:
    """A number, deviations, a covariance."""
    return width(d), positive(d, seed=3) * width(d), covariance(d) * width(d) ** 2


def clusters(n: int, d: int, dtype: str = "float64") -> np.ndarray:
    """Normal data about three centres."""
    return (normal(n, d, seed=4) * 0.4 + 2 * (np.arange(n) % 3)[:, None]).astype(dtype)


def tied(n: int, p: int, dtype: str, seed: int = 5) -> np.ndarray:
    """Columns of few values each."""
    return np.random.default_rng(seed).integers(0, 9, (n, p)).astype(dtype)


def with_gaps(a: np.ndarray) -> np.ndarray:
    """The same with NaN in some rows of every other column."""
    out = a.copy()
    out[::7, ::2] = np.nan
    return out


# ------------------------------------------------------------------------------------------------- lists of calls


def add_densities(calls: Calls, n: int, m: int, dimensions: Sequence[int]) -> None:
    """The density family in all dimensions, dtypes and precisions."""
    same: dict[str, Any] = {"deterministic": True}
    for d, dtype, precision in itertools.product(dimensions, DTYPES, PRECISIONS):
        X, Y, h = normal(n, d, dtype=dtype), normal(m, d, dtype=dtype, seed=6), width(d)
        options = same | {"precision": precision}
        for log in (False, True):
            calls.add("kde", X, Y, h, log=log, **options)
            calls.add("sd_kde", X, Y, h, log=log, **options)
            calls.add("laplace_kde", X, Y, h, log=log, **options)
        for function in ("score", "density_and_score"):
            calls.add(function, X, Y, h, **options)
        calls.add("score", X, X, h, **options)
        calls.add("kde", X, X, h, log=True, **options)
        calls.add("debias", X, h, **options)
        for values in (normal(n, dtype=dtype, seed=7), normal(n, 3, dtype=dtype, seed=8)):
            calls.add("kernel_sum", X, values, Y, h, **options)
        calls.add("kernel_sum", X, normal(n, 3, dtype=dtype, seed=8), X, h, **options)


def add_forms(calls: Calls, n: int, m: int, dimensions: Sequence[int]) -> None:
    """The density family with bandwidths, weights, data and options of every form."""
    same: dict[str, Any] = {"deterministic": True}
    for d, dtype in itertools.product(dimensions, DTYPES):
        X, Y, w = normal(n, d, dtype=dtype), normal(m, d, dtype=dtype, seed=6), positive(n, dtype=dtype)
        gaps = np.where(np.arange(n) % 3 > 0, positive(n), 0)
        for h, weights in itertools.product(forms_of_bandwidth(d), (None, w, gaps)):
            calls.add("kde", X, Y, h, weights=weights, log=True, **same)
            calls.add("density_and_score", X, Y, h, weights=weights, **same)
            calls.add("sd_kde", X, Y, h, weights=weights, log=True, **same)
            calls.add("laplace_kde", X, Y, h, weights=weights, negative="clip", **same)
            calls.add("debias", X, h, weights=weights, score_bandwidth=1.3 * width(d), **same)
        h = width(d)
        for label, far in {"narrow": 0.02, "wide": 50.0}.items():
            calls.add("kde", X, Y, far, log=True, check_finite=label == "wide", **same)
            calls.add("score", X, Y, far, check_finite=label == "wide", **same)
        calls.add("kde", X + np.array(1e4, dtype), Y + np.array(1e4, dtype), 2 * h, log=True, **same)
        calls.add("sd_kde", X, Y, h, score_bandwidth=1.7 * h, **same)
        calls.add("laplace_kde", X, 4 * Y, 0.5 * h, log=True, weights=w, **same)
        calls.add("kernel_sum", X, normal(n, 40, dtype=dtype, seed=8), Y, h, **same)
        calls.add("kernel_sum", X, normal(n, 2, dtype=dtype, seed=8), Y, covariance(d) * h**2, **same)
        for factors_with in ({}, {"weights": w}, {"precision": "float64"}):
            factors = positive(n, seed=9)
            calls.add("kde", X, Y, h, local_factors=factors, log=True, **factors_with, **same)
    for other in ("float16", "int32", "uint8", "bool"):
        X, Y = (3 * normal(n, 3)).astype(other), (3 * normal(m, 3, seed=6)).astype(other)
        calls.add("kde", X, Y, 1.5, **same)
        calls.add("score", X, Y, 1.5, **same)
    calls.add("kde", normal(n), normal(m, seed=6), 0.5, **same)
    calls.add("score", normal(n), normal(m, seed=6), 0.5, **same)
    calls.add("kde", normal(n, 3, dtype="float32"), normal(m, 3, seed=6), 0.5, **same)
    calls.add("kde", normal(n, 3), normal(0, 3), 0.5, **same)
    calls.add("kde", np.asfortranarray(normal(n, 4)), normal(m, 8, seed=6)[:, ::2], 0.5, **same)


def add_own_points(calls: Calls, n: int, dimensions: Sequence[int]) -> None:
    """Data at their own points, in the order that is fastest: not for a GPU, whose sums then differ from run to run."""
    for d, dtype, precision in itertools.product(dimensions, DTYPES, (None, "tf32", "float32")):
        X, h = normal(n, d, dtype=dtype), width(d)
        for check_finite in (True, False):
            options = {"precision": precision, "check_finite": check_finite}
            calls.add("score", X, X, h, **options)
            calls.add("density_and_score", X, X, h, **options)
            calls.add("sd_kde", X, normal(9, d, dtype=dtype, seed=6), h, **options)
            calls.add("kernel_sum", X, normal(n, 3, dtype=dtype, seed=8), X, h, **options)
        calls.add("debias", X, h, precision=precision)


def add_line(calls: Calls, n: int, m: int) -> None:
    """One column where few pairs already take the way of many; the same of two and three, and of tables of float16."""
    for dtype, precision in itertools.product(DTYPES, (None, "float64")):
        X, Y = normal(n, dtype=dtype), np.linspace(-3, 3, m, dtype=dtype)
        options = {"precision": precision, "deterministic": True}
        for function in ("kde", "score", "laplace_kde", "sd_kde"):
            calls.add(function, X, Y, 0.4, **options)
            calls.add("as if many", function, X, Y, 0.4, **options)
        calls.add("as if many", "kernel_sum", X, normal(n, 2, dtype=dtype, seed=8), Y, 0.4, **options)
        calls.add("as if many", "cdf", X, Y, 0.4, **options)
        for d, log, weights in itertools.product((2, 3), (False, True), (None, positive(n))):
            few = normal(n, d, dtype=dtype), 1.5 * normal(m, d, dtype=dtype, seed=6)
            calls.add("as if many", "kde", *few, 0.4, rtol=1e-4, log=log, weights=weights, **options)
    for function in ("gelu", "exp"):
        calls.add("as if many", f"functions.{function}", 3 * normal(200, dtype="float16"))


def add_domains(calls: Calls, n: int, m: int) -> None:
    """Bounds and periods: few images, and so many that a product over the columns takes their place."""
    for dtype, weights in itertools.product(DTYPES, (None, positive(n))):
        X, Y = (np.abs(normal(rows, 3, dtype=dtype, seed=rows)).clip(0, 3.5) for rows in (n, m))
        for h in (0.3, positive(3, seed=3), 2.5):
            for bounds, periods in (
                ([(0.0, None), None, (0.0, 4.0)], None),
                (None, [3.0, None, 2.0]),
                ([(0.0, None), (None, 4.0), None], [None, None, 3.0]),
            ):
                options = {"weights": weights, "bounds": bounds, "periods": periods, "deterministic": True}
                calls.add("kde", X, Y, h, log=True, **options)
                calls.add("score", X, Y, h, **options)
                calls.add("sd_kde", X, Y, h, **options)
                calls.add("laplace_kde", X, Y, h, **options)
                calls.add("debias", X, h, **options)
        options = {"weights": weights, "bounds": [(0.0, 4.0)], "deterministic": True}
        calls.add("kde", X[:, :1].copy(), Y[:, :1].copy(), 0.3, **options)
        calls.add("density_and_score", X[:, :1].copy(), Y[:, :1].copy(), 0.3, **options)


def add_stacks(calls: Calls, n: int, m: int, dimensions: Sequence[int]) -> None:
    """Several densities at once."""
    b = 4
    for d, dtype in itertools.product(dimensions, DTYPES):
        X, Y = normal(b, n, d, dtype=dtype), normal(b, m, d, dtype=dtype, seed=6)
        widths = (
            0.7,
            positive(b, seed=3),
            positive(b, d, seed=3),
            np.stack([covariance(d) * (1 + i) for i in range(b)]),
        )
        for h, precision in itertools.product(widths, (None, "float64")):
            for weights in (None, positive(n), positive(b, n)):
                options = {"weights": weights, "precision": precision, "deterministic": True}
                calls.add("kde", X, Y, h, log=True, **options)
            options = {"precision": precision, "deterministic": True}
            calls.add("score", X, Y[0].copy(), h, **options)
            calls.add("density_and_score", X, Y, h, **options)
            calls.add("sd_kde", X, Y, h, **options)
            calls.add("laplace_kde", X, Y, h, **options)
            calls.add("debias", X, h, **options)


def add_compositions(calls: Calls, n: int, m: int) -> None:
    """What is made of densities: of some columns, given others, quotients, levels, grids, distributions."""
    for dtype, weights in itertools.product(DTYPES, (None, positive(n))):
        same: dict[str, Any] = {"weights": weights, "deterministic": True}
        X, Y = normal(n, 4, dtype=dtype), normal(m, 4, dtype=dtype, seed=6)
        for h, log in itertools.product(forms_of_bandwidth(4), (False, True)):
            calls.add("marginal", X, [2, 0], Y[:, :2].copy(), h, log=log, **same)
            calls.add("conditional", X, {1: 0.5}, Y[:, :3].copy(), h, log=log, **same)
            calls.add("conditional", X, {1: Y[:, 3].copy(), 3: 0.1}, Y[:, :2].copy(), h, log=log, **same)
            calls.add("hdr_threshold", X, h, 0.9, log=log, **same)
            Z = normal(n // 2, 4, dtype=dtype, seed=10)
            calls.add("density_interval", X, Y, h, **same)
            calls.add("density_ratio", X, Z, Y, h, log=log, denominator_bandwidth=1.4, **same)
        calls.add("hdr_threshold", X, 1.0, np.array([0.5, 0.75, 0.95]), method="sd", **same)
        for d in (1, 2, 3):
            x, axes = X[:, :d].copy(), [np.linspace(-3, 3, 17 - 3 * k) for k in range(d)]
            for h, algorithm in itertools.product(forms_of_bandwidth(d), ("auto", "exact", "fft")):
                calls.add("evaluate_grid", x, axes, h, algorithm=algorithm, **same)
            calls.add("evaluate_grid", x, axes, 0.4, log=True, **same)
        for h, precision in itertools.product((0.4, np.array([[0.2]])), (None, "ieee", "float64")):
            for function in ("cdf", "log_cdf"):
                calls.add(function, X[:, 0].copy(), 4 * Y[:, 0], h, precision=precision, **same)
    for dtype in DTYPES:
        many, axes = normal(20 * n, 2, dtype=dtype), [np.linspace(-4, 4, 64), np.linspace(-4, 4, 65)]
        calls.add("evaluate_grid", many, axes, 0.3, deterministic=True)


def add_many_pairs(calls: Calls, n: int) -> None:
    """Enough pairs for transforms and trees, that are fast in one, two and three dimensions; ``n`` data and queries."""
    same: dict[str, Any] = {"deterministic": True}
    for dtype, weights in itertools.product(DTYPES, (None, positive(n))):
        options = same | {"weights": weights}
        for data in (normal(n, dtype=dtype), np.random.default_rng(11).standard_cauchy(n).astype(dtype)):
            Y = np.linspace(-6, 6, n, dtype=dtype) + data[0]
            for precision in (None, "ieee", "float64"):
                calls.add("kde", data, Y, 0.05, precision=precision, **options)
            calls.add("score", data, Y, 0.05, **options)
            calls.add("sd_kde", data, Y, 0.05, log=True, **options)
            calls.add("laplace_kde", data, Y, 0.05, **options)
            calls.add("debias", data, 0.05, **options)
            calls.add("cdf", data, Y, 0.05, **options)
            calls.add("log_cdf", data, Y, 0.05, **options)
        if weights is None:
            calls.add("kernel_sum", normal(n, dtype=dtype), normal(n, 2, seed=8), normal(n, seed=6), 0.1, **same)
        for d in (3, 16):
            X = normal(n, d, dtype=dtype)
            calls.add("debias", X, width(d), **options)
            calls.add("sd_kde", X, normal(n // 8, d, dtype=dtype, seed=6), width(d), log=True, **options)
        for d, rtol, h in itertools.product((2, 3), (1e-2, 1e-6), (0.05, 0.3)):
            X, Y = normal(n, d, dtype=dtype), 1.5 * normal(n, d, dtype=dtype, seed=6)
            calls.add("kde", X, Y, h, rtol=rtol, log=d == 2, **options)


def add_modes(calls: Calls, n: int) -> None:
    """Mean shift."""
    for d, dtype in itertools.product((1, 2, 3), DTYPES):
        X = clusters(n, d, dtype)
        for h in (0.5, positive(d, seed=3) * 0.5, covariance(d) * 0.2):
            calls.add("modes", X, h, deterministic=True)
        calls.add("modes", X, 0.4, weights=positive(n), deterministic=True)
        calls.add("modes", X, 0.4, seeds=clusters(20, d, dtype) + np.array(0.3, dtype), deterministic=True)
        calls.add("modes", X, 0.4, precision="float64", tolerance=1e-3, merge_distance=0.5, deterministic=True)


def add_kendall(calls: Calls, n: int) -> None:
    """Kendall's tau by every variant, of values with and without ties and NaN."""
    x, y = normal(n), normal(n, seed=6) + normal(n)
    for variant, alternative in itertools.product("abc", ("two-sided", "less", "greater")):
        calls.add("kendalltau", x, y, variant=variant, alternative=alternative)
        calls.add("kendalltau", tied(n, 1, "int64")[:, 0], y, variant=variant, alternative=alternative)
    calls.add("kendalltau", x[:30], y[:30], distribution="exact")
    calls.add("kendalltau", x, y, distribution="asymptotic")
    for nan_policy in ("propagate", "omit"):
        gaps = np.where(np.arange(n) % 9 == 4, np.nan, x)
        calls.add("kendalltau", gaps, y, nan_policy=nan_policy)
    calls.add("kendalltau", normal(40, 6), normal(40, 6, seed=6), axis=0, keepdims=True)
    for dtype in ("float16", "float32", "float64", "int8", "int64", "uint16", "bool"):
        A, B = tied(n, 6, dtype), tied(n, 4, dtype, seed=12)
        for variant in "abc":
            calls.add("kendall_matrix", A, variant=variant, pvalue=True)
        calls.add("kendall_matrix", A, B)
        calls.add("concordance", A)
        calls.add("concordance", A, B)
    for dtype in FLOATS:
        A, B = normal(n, 7, dtype=dtype), normal(n, 40, dtype=dtype, seed=6)
        calls.add("kendall_matrix", A, pvalue=True)
        calls.add("kendall_matrix", B)
        calls.add("kendall_matrix", B, A, variant="a")
        calls.add("concordance", B)
        for nan_policy in ("propagate", "omit"):
            calls.add("kendall_matrix", with_gaps(A), pvalue=True, nan_policy=nan_policy)
            calls.add("kendall_matrix", with_gaps(A), B, nan_policy=nan_policy)


def add_piecewise(calls: Calls, points: int) -> None:
    """Piecewise polynomials, and functions that are made of them."""
    uniform, uneven = np.linspace(-2, 2, 33), np.cumsum(positive(33, seed=13)) - 18
    crowded = np.sort(np.concatenate([np.linspace(-3, 3, 20), np.linspace(0, 1e-3, 60)[1:]]))
    beyond = (True, False, "periodic", "clamp")
    for dtype in ("float16", "float32", "float64", "int64"):
        x = 3 * normal(points, seed=14)
        x = x.astype(dtype) if dtype == "int64" else np.concatenate([x, [np.nan, np.inf, -np.inf]]).astype(dtype)
        for knots, k in itertools.product((uniform, uneven, crowded), (1, 2, 4, 6)):
            c = normal(k, len(knots) - 1, seed=k)
            for extrapolate in beyond if k == 4 else (True,):
                calls.add("PiecewisePolynomial", c, knots, "__call__", x, extrapolate=extrapolate)
            calls.add("pwpa", x, c.T.copy(), knots)
            calls.add("pwpa", x, c, knots, layout="soa", origin="local", extrapolate=False)
        calls.add("PiecewisePolynomial", normal(4, 32, 3), uniform, "__call__", x)
        calls.add("PiecewisePolynomial", normal(4, 32), uniform[::-1].copy(), "__call__", x, 1)
        if dtype != "int64":
            calls.add("pwpa with out", x, normal(32, 4), uniform, extrapolate="periodic")
        for function in ("erf", "exp", "gelu", "log", "sigmoid", "silu", "softplus", "tanh"):
            calls.add(f"functions.{function}", 5 * x)
    for extrapolate, dtype in itertools.product(beyond, DTYPES):
        c, x = normal(4, 32, dtype=dtype), uniform.astype(dtype)
        for method in ("derivative", "antiderivative"):
            for order in (1, 2, -1):
                calls.add("PiecewisePolynomial", c, x, method, order, extrapolate=extrapolate)
        calls.add("PiecewisePolynomial", c, x, "integrate", -1.5, 3.25, extrapolate=extrapolate)
        calls.add("PiecewisePolynomial.to_scipy", c, x, extrapolate)
    for k in (1, 3):
        calls.add("PiecewisePolynomial.from_spline", np.arange(12.0), normal(12), k)
    for function in ("erf", "exp", "gelu", "log", "sigmoid", "silu", "softplus", "tanh"):
        calls.add("functions.polynomial", function)
    calls.add("aos_to_soa", normal(40, 5, dtype="float32"))
    calls.add("soa_to_aos", normal(5, 40, dtype="float16"))
    x = np.linspace(-2, 2, 501)
    for approximation, knots in itertools.product(
        ("minimax", "chebyshev", "interpolate", "least_squares"), ("uniform", "adaptive")
    ):
        for dtype, continuous in itertools.product(FLOATS, (False, True)):
            options = {"approximation": approximation, "knots": knots, "dtype": dtype, "continuous": continuous}
            calls.add("fit_piecewise", np.tanh, (-2.0, 2.0), x.astype(dtype), pieces=6, degree=3, **options)
    calls.add("fit_piecewise", np.exp, (-1.0, 1.0), x, tol=1e-5, degree=2)


def add_convolutions(calls: Calls, geometries: Sequence[Geometry], dtypes: Sequence[str] = FLOATS) -> None:
    """Depthwise convolutions and their gradients."""
    for (batch, channels, length, taps), options in geometries:
        for dtype in dtypes:
            outputs = _outputs(length, taps, **options)
            last = options.get("layout", "BCL") == "BLC"
            x, dy = (
                normal(*((batch, of, channels) if last else (batch, channels, of)), dtype=dtype, seed=of)
                for of in (length, outputs)
            )
            w, bias = normal(channels, taps, dtype=dtype, seed=15), normal(channels, dtype=dtype, seed=16)
            calls.add("depthwise_conv1d", x, w, **options)
            for activation in ("silu", "gelu"):
                calls.add("depthwise_conv1d", x, w, bias=bias, activation=activation, **options)
            calls.add("depthwise_conv1d_input_grad", dy, w, input_length=length, **options)
            calls.add("depthwise_conv1d_weight_grad", x, dy, taps, bias=True, **options)


def _outputs(length: int, taps: int, *, padding: Any = "causal", stride: int = 1, dilation: int = 1, **_: Any) -> int:
    """Positions of the result of a convolution."""
    reach = (taps - 1) * dilation
    padded = {"causal": reach, "same": reach, "valid": 0}.get(padding, 2 * padding if isinstance(padding, int) else 0)
    return (length + padded - reach - 1) // stride + 1


def add_states(calls: Calls, length: int) -> None:
    """Convolutions of sequences in chunks, and slopes of activations."""
    for dtype, dilation in itertools.product(FLOATS, (1, 3)):
        x, w = normal(2, 3, length, dtype=dtype), normal(3, 4, dtype=dtype, seed=15)
        state = normal(2, 3, 3 * dilation, dtype=dtype, seed=17)
        for options in ({}, {"bias": normal(3, dtype=dtype, seed=16), "activation": "silu"}, {"flip": True}):
            calls.add("depthwise_conv1d", x, w, state=state, return_state=True, dilation=dilation, **options)
        calls.add("depthwise_conv1d", x, w, return_state=True, dilation=dilation)
        last = normal(2, length, 3, dtype=dtype), w
        state = normal(2, 3 * dilation, 3, dtype=dtype, seed=17)
        calls.add("depthwise_conv1d", *last, state=state, return_state=True, dilation=dilation, layout="BLC")
    for name, dtype in itertools.product(("silu", "gelu", None), ("float16", "float32", "float64", "int64")):
        calls.add("activation_grad", name, (6 * normal(length, seed=18)).astype(dtype))


def add_bandwidths(calls: Calls, n: int) -> None:
    """Rules for the bandwidth, and local factors."""
    for d, dtype, weights in itertools.product((1, 2, 5), (*DTYPES, "int64"), (None, positive(n))):
        X = (5 * normal(n, d)).astype(dtype)
        for rule in ("scott", "silverman", "sd", "laplace", "positive"):
            calls.add(f"bandwidth.{rule}", X, weights=weights)
        calls.add("bandwidth.abramson", X, 2.0, alpha=0.4, weights=weights)
    for dtype, weights in itertools.product(DTYPES, (None, positive(5 * n))):
        calls.add("bandwidth.isj", clusters(5 * n, 1, dtype)[:, 0], weights=weights)


def add_cross_validation(calls: Calls, n: int, *, dimensions: Sequence[int], grid: bool) -> None:
    """Bandwidths by leave-one-out scores; of the default ``grid`` too."""
    objectives = (("kde", "likelihood"), ("kde", "least_squares"), ("sd", "likelihood"), ("sd", "least_squares"))
    for (method, objective), d in itertools.product((*objectives, ("laplace", "least_squares")), dimensions):
        for dtype, weights in itertools.product(DTYPES, (None, positive(n))):
            X = clusters(n, d, dtype)
            options = {"objective": objective, "weights": weights}
            calls.add("bandwidth.cross_validate", X, method, np.geomspace(0.2, 2, 5), **options)
            calls.add("bandwidth.cross_validate", X, method, positive(3, d, seed=3), **options)
            if method != "sd" or dtype == "float64":
                tried = np.geomspace(0.3, 1, 3)
                calls.add("bandwidth.cross_validate", X, method, tried, per_dimension=True, **options)
            if grid:
                calls.add("bandwidth.cross_validate", X, method, **options)
    calls.add("bandwidth.cross_validate", clusters(n, 2, "float32"), bandwidths=[0.3, 0.5], precision="float64")


def add_estimators(calls: Calls, n: int, m: int, *, metrics: bool) -> None:
    """The estimator: kernels, methods, metrics, samples and files."""
    for d, dtype, kernel in itertools.product((1, 2, 3, 8), DTYPES, KERNELS):
        X, Y = normal(n, d, dtype=dtype), normal(m, d, dtype=dtype, seed=6)
        for bandwidth, weights in itertools.product((1.1, "scott"), (None, positive(n))):
            calls.add("KernelDensity", "score_samples", X, Y, weights, kernel=kernel, bandwidth=bandwidth)
        wide = {"kernel": kernel, "bandwidth": 9.0}
        calls.add("KernelDensity", "score", X, Y, **wide)
        calls.add("KernelDensity", "score_samples", X, Y, kernel=kernel, bandwidth=covariance(d))
        calls.add("KernelDensity.save", X, Y, positive(n), **wide)
        if kernel in ("gaussian", "tophat"):
            for width_of_sample in (0.3, positive(d, seed=3), covariance(d)):
                calls.add("KernelDensity.sample", X, 20, positive(n), kernel=kernel, bandwidth=width_of_sample)
    for d, dtype, method in itertools.product((1, 3, 16), DTYPES, ("kde", "sd", "laplace")):
        X, Y = normal(n, d, dtype=dtype), normal(m, d, dtype=dtype, seed=6)
        for precision in (None, "float64"):
            options = {"method": method, "bandwidth": width(d), "precision": precision}
            calls.add("KernelDensity", "score_samples", X, Y, positive(n), **options)
            if method != "laplace":
                calls.add("KernelDensity", "grad_log_density", X, Y, **options)
        calls.add("KernelDensity.fit", X, positive(n), method=method, bandwidth="silverman")
    if metrics:
        for metric, kernel in itertools.product(("manhattan", "chebyshev", "minkowski"), KERNELS):
            options = {"metric": metric, "kernel": kernel, "bandwidth": 2.0}
            options |= {"metric_params": {"p": 3}} if metric == "minkowski" else {}
            calls.add("KernelDensity", "score_samples", normal(n, 3), normal(m, 3, seed=6), positive(n), **options)


def add_dask(calls: Calls, n: int, m: int) -> None:
    """Functions of arrays in blocks."""
    for d, dtype in itertools.product((1, 3), DTYPES):
        X, Y, h = normal(n, d, dtype=dtype), normal(m, d, dtype=dtype, seed=6), width(d)
        for weights in (None, positive(n)):
            options: dict[str, Any] = {"weights": weights, "deterministic": True}
            for place in ("", "dask."):
                calls.add("lazily", f"{place}kde", 2, X, Y, h, log=True, **options)
                calls.add("lazily", f"{place}sd_kde", 2, X, Y, h, **options)
            for function in ("score", "density_and_score", "laplace_kde"):
                calls.add("lazily", f"dask.{function}", 2, X, Y, h, **options)
            calls.add("lazily", "dask.debias", 1, X, h, **options)
            calls.add("lazily", "dask.density_interval", 2, X, Y, h, **options)
            calls.add("lazily", "dask.density_ratio", 3, X, normal(n, d, dtype=dtype, seed=10), Y, h, **options)
            if d > 1:
                calls.add("lazily", "dask.marginal", 1, X, [2, 0], Y[:, :2].copy(), h, **options)
                calls.add("lazily", "dask.conditional", 1, X, {1: 0.5}, Y[:, :2].copy(), h, **options)
        calls.add("lazily", "dask.kernel_sum", 3, X, normal(n, 2, dtype=dtype, seed=8), Y, h, deterministic=True)
        calls.add("lazily", "dask.kde", 2, X, Y, h, local_factors=positive(n, seed=9), deterministic=True)
        calls.add("KernelDensity of Dask arrays", X, Y, bandwidth=h, kernel="epanechnikov")
        calls.add("KernelDensity of Dask arrays", X, Y, bandwidth=h)
    for pvalue in (False, True):
        calls.add("lazily", "dask.kendall_matrix", 1, tied(n, 6, "float32"), pvalue=pvalue)
    calls.add("lazily", "kendall_matrix", 2, normal(n, 6), tied(n, 4, "float64"))
    for dtype in FLOATS:
        x, w = normal(4, 6, 50, dtype=dtype), normal(6, 4, dtype=dtype, seed=15)
        calls.add("lazily", "dask.depthwise_conv1d", 2, x, w, activation="silu")
        calls.add("lazily", "depthwise_conv1d", 1, x, w, dilation=2, return_state=True)
        calls.add("lazily", "dask.pwpa", 1, 3 * normal(m, dtype=dtype), normal(8, 4), np.linspace(-2, 2, 9))
        calls.add("lazily", "pwpa", 1, 3 * normal(m, dtype=dtype), normal(4, 8), np.linspace(-2, 2, 9), layout="soa")


def add_model(calls: Calls) -> None:
    """The performance model, of processors whose figures were published."""
    sizes: dict[str, dict[str, Any]] = {
        **{op: {"n": 4096, "m": 512, "d": 16} for op in ("kde", "score", "sd_kde", "laplace_kde")},
        "kernel_sum": {"n": 4096, "m": 512, "d": 3, "k": 4},
        "debias": {"n": 4096, "d": 70},
        "cdf": {"n": 10**6, "m": 1000, "d": 1},
        "density_interval": {"n": 4096, "m": 512, "d": 5},
        "density_ratio": {"n": 4096, "k": 2048, "m": 512, "d": 5},
        "hdr_threshold": {"n": 4096, "d": 3},
        "bandwidth.cross_validate": {"n": 1000, "d": 4},
        "bandwidth.isj": {"n": 10**5, "d": 1},
        "kendall_matrix": {"n": 1000, "p": 64},
        "kendalltau": {"n": 10**6},
        "PiecewisePolynomial": {"n": 10**6, "pieces": 32, "degree": 3},
        "functions.gelu": {"n": 10**6},
        "depthwise_conv1d": {"batch": 4, "channels": 64, "length": 1024, "taps": 31},
        "depthwise_conv1d_weight_grad": {"batch": 4, "channels": 64, "length": 1024, "taps": 31},
    }
    for (op, of), gpu in itertools.product(sizes.items(), ("A100", "H100", "H200")):
        calls.add("perf.cost", op, gpu, **of)
        calls.add("perf.predict", op, gpu, **of)
        calls.add("perf.sensitivity", op, gpu, **of)
    for function in ("flash_bytes", "flash_flops", "flash_intensity"):
        calls.add(f"perf.{function}", 4096.0, 512.0, 16)
    calls.add("perf.flash_tile_bytes", 16, 64, 1024, moments=True)


def add_pictures(calls: Calls, n: int) -> None:
    """Curves and regions of pictures."""
    for method in ("kde", "sd", "laplace"):
        for weights in (None, positive(n)):
            calls.add("plot", "plot.density", normal(n), method=method, resamples=5, points=40, weights=weights)
            calls.add("plot", "plot.contours", clusters(n, 2), method=method, points=20, weights=weights)
    calls.add("plot", "plot.pairs", clusters(n, 3), panels=3, points=12)
    calls.add("plot", "plot.anomalies", normal(n) - 3, quantile=0.1)


GEOMETRIES: list[Geometry] = [
    ((2, 3, 97, 1), {}),
    ((2, 3, 97, 4), {}),
    ((5, 8, 256, 4), {}),
    ((2, 8, 1024, 3), {"padding": "same"}),
    ((2, 3, 97, 7), {"padding": "valid", "flip": True}),
    ((40, 2, 64, 9), {"padding": 3}),
    ((2, 3, 97, 31), {"padding": "same", "dilation": 2}),
    ((2, 3, 640, 31), {}),
    ((2, 3, 120, 5), {"stride": 2}),
    ((2, 3, 120, 6), {"stride": 3, "dilation": 2, "padding": 4, "flip": True}),
    ((2, 8, 97, 4), {"layout": "BLC"}),
    ((2, 5, 97, 31), {"layout": "BLC", "padding": "same", "dilation": 2}),
    ((2, 5, 120, 6), {"layout": "BLC", "stride": 2}),
    ((2, 3, 700, 130), {}),
    ((2, 3, 2048, 512), {}),
    ((2, 3, 2048, 512), {"layout": "BLC", "padding": "same", "flip": True}),
]


GEOMETRIES_OF_EMULATION = [*GEOMETRIES[:-3], ((2, 3, 300, 130), {})]


def calls_of_cpu() -> Calls:
    """Small calls of all that computes something, and larger ones where only those take another way."""
    calls = Calls()
    add_densities(calls, 300, 40, DIMENSIONS)
    add_forms(calls, 300, 40, (1, 2, 3, 5, 17, 100))
    add_domains(calls, 200, 30)
    add_stacks(calls, 60, 20, (1, 3, 16))
    add_compositions(calls, 300, 40)
    add_many_pairs(calls, 2500)
    add_modes(calls, 150)
    add_kendall(calls, 500)
    add_piecewise(calls, 3000)
    add_convolutions(calls, GEOMETRIES)
    add_states(calls, 200)
    add_bandwidths(calls, 300)
    add_cross_validation(calls, 90, dimensions=(1, 3), grid=True)
    calls.add("bandwidth.cross_validate", clusters(5000, 1), bandwidths=[0.1, 0.2, 0.4])
    calls.add("bandwidth.cross_validate", clusters(5000, 1), "kde", [0.1, 0.2, 0.4], objective="least_squares")
    add_estimators(calls, 200, 40, metrics=True)
    add_dask(calls, 300, 40)
    add_model(calls)
    add_pictures(calls, 200)
    return calls


def calls_of_gpu() -> Calls:
    """The same but for what a GPU does not have, and larger calls that take other ways there."""
    calls = calls_of_cpu()
    for name in [name for name in calls.of if "metric=" in name or name.startswith(("perf.", "fit_piecewise"))]:
        del calls.of[name]
    same: dict[str, Any] = {"deterministic": True}
    for dtype in DTYPES:
        x, y = normal(30_000, dtype=dtype), np.linspace(-6, 6, 30_000, dtype=dtype)
        for function in ("kde", "score", "laplace_kde", "sd_kde"):
            calls.add(function, x, y, 0.05, **same)
        X, Y = normal(70_000, 2, dtype=dtype), 1.5 * normal(70_000, 2, dtype=dtype, seed=6)
        calls.add("kde", X, Y, 0.1, rtol=1e-5, **same)
        for d in (2, 16, 64, 100):
            X, Y = normal(20_000, d, dtype=dtype), normal(3000, d, dtype=dtype, seed=6)
            for function in ("kde", "score", "laplace_kde", "sd_kde"):
                calls.add(function, X, Y, width(d), **same)
        calls.add("kendall_matrix", normal(2000, 300, dtype=dtype))
        calls.add("kendall_matrix", tied(2000, 300, dtype))
        calls.add("kendalltau", normal(10**5, dtype=dtype), normal(10**5, dtype=dtype, seed=6))
    calls.add("functions.gelu", normal(2**22, dtype="float16"))
    add_convolutions(calls, [((64, 64, 1024, 31), {}), ((64, 64, 1024, 2000), {"padding": "same"})])
    return calls


def calls_of_emulation() -> Calls:
    """Calls of each family of kernels, as small as their ways through the launchers allow."""
    calls = Calls()
    add_densities(calls, 90, 12, (2, 3, 20, 40, 70))
    add_own_points(calls, 150, (2, 5, 20, 40, 70))
    add_forms(calls, 90, 12, (2, 17, 70))
    add_line(calls, 60, 9)
    add_domains(calls, 30, 8)
    add_stacks(calls, 40, 9, (1, 3))
    add_compositions(calls, 60, 9)
    add_modes(calls, 40)
    add_kendall(calls, 60)
    calls.add("kendall_matrix", normal(500, 40, dtype="float32"))
    calls.add("kendall_matrix", tied(500, 40, "float32"))
    add_piecewise(calls, 300)
    add_convolutions(calls, GEOMETRIES_OF_EMULATION)
    add_convolutions(calls, [((1, 8, 200_000, 4096), {"padding": "same"})], ["float64"])  # by Fourier transforms
    add_states(calls, 60)
    add_bandwidths(calls, 40)
    add_cross_validation(calls, 30, dimensions=(3,), grid=False)
    add_estimators(calls, 40, 9, metrics=False)
    add_dask(calls, 40, 9)
    return calls


LISTS: dict[str, Callable[[], Calls]] = {"cpu": calls_of_cpu, "gpu": calls_of_gpu, "emulated": calls_of_emulation}


# ------------------------------------------------------------------------------------------------------ the program


@contextlib.contextmanager
def emulation() -> Iterator[None]:
    """The GPU backend on NumPy arrays, with its kernels on the host."""
    import pytest

    from tests import host_emulation

    works, reason = host_emulation.available()
    if not works:
        raise SystemExit(f"the emulation does not work here: {reason}")
    with pytest.MonkeyPatch.context() as patch:
        host_emulation.use(patch)
        yield


def hashes(backend: str, slowest: int = 0) -> tuple[dict[str, str], int]:
    """Hashes of all calls by their names, and the number of those that raised an error."""
    calls, rounded, asarray = LISTS[backend](), (), np.asarray
    if backend == "gpu":
        import cupy

        asarray, rounded = cupy.asarray, ROUNDED_ON_GPU
    found, seconds, failures = {}, {}, 0
    with warnings.catch_warnings(), emulation() if backend == "emulated" else contextlib.nullcontext():
        warnings.simplefilter("ignore")
        before = time.perf_counter()
        for name, result in calls.run(asarray, rounded=rounded):
            if isinstance(result, Exception):
                failures += 1
                result = f"{type(result).__name__}: {result}"
                print(f"{name}: {result}", file=sys.stderr)
            found[name] = result
            now = time.perf_counter()
            seconds[name], before = now - before, now
    for name in sorted(seconds, key=seconds.__getitem__, reverse=True)[:slowest]:
        print(f"{seconds[name]:8.3f} s  {name}", file=sys.stderr)
    print(f"{len(found)} calls, {failures} errors, {sum(seconds.values()):.1f} s", file=sys.stderr)
    return found, failures


def compare(old: Path, new: Path) -> int:
    """Print in what two files of hashes differ; 1 where they do."""
    before, after = (json.loads(path.read_text()) for path in (old, new))
    lines = [f"only in {old}: {name}" for name in before if name not in after]
    lines += [f"only in {new}: {name}" for name in after if name not in before]
    lines += [f"differs: {name}" for name in before if name in after and before[name] != after[name]]
    print("\n".join([*lines, f"{len(lines)} differences among {len(before.keys() | after.keys())} calls"]))
    return int(bool(lines))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=LISTS, help="where to compute")
    parser.add_argument("--out", type=Path, help="file that hashes are written to")
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="name the N calls that took longest")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"), help="two files of hashes")
    options = parser.parse_args(arguments)
    if options.compare:
        return compare(*options.compare)
    if not options.backend or not options.out:
        parser.error("--backend and --out are needed, or --compare")
    settings = THREADS | (SIMULATOR if options.backend == "emulated" else {})
    if STAGE not in os.environ:  # libraries read settings when they are imported
        if options.backend == "cpu":
            subprocess.run(_itself(), env=os.environ | settings | {STAGE: "compile"}, check=False)
        os.execve(sys.executable, _itself(), os.environ | settings | {STAGE: "hash"})
    found, failures = hashes(options.backend, options.slowest)
    if os.environ[STAGE] == "hash":
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    return int(failures > 0)


def _itself() -> list[str]:
    """The command that this process is."""
    return [sys.executable, *sys.orig_argv[1:]]


if __name__ == "__main__":
    sys.exit(main())
