"""The density estimator with scikit-learn's interface, on the CPU and the GPU."""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Callable
from os import PathLike
from types import ModuleType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from cukde.core import check as core_check, dispatch, warnings as core_warnings, words
from cukde.core.entry import names, points as entry_points
from cukde.core.frames.categories import Kinds
from cukde.core.frames.columns import labels_of
from cukde.core.frames.libraries import library_of
from cukde.core.keywords import as_in
from cukde.core.over_dask import is_dask, meta
from cukde.core.public import public_in
from cukde.core.quiet import quiet_methods
from cukde.core.random_state import RandomState
from cukde.core.types import Array, ArrayLike
from cukde.core.warnings import NegativeDensityWarning
from cukde.density import check as density_check
from cukde.density.api import kde
from cukde.density.arguments import prepare
from cukde.density.domains.domain import Domain, arguments_of, domain_of
from cukde.density.estimates import ESTIMATES, Estimate
from cukde.density.kernel_density import kernel_density
from cukde.density.metric_density import log_sums
from cukde.density.positive import api as density_positive
from cukde.density.positive.api import positive_kde
from cukde.density.problem import Problem, least_factor, score_problem
from cukde.estimators import bandwidths, check, file, mixed, refits, rejection, sampling

_DTYPES = [np.float64, np.float32, np.float16]  # others are converted to the first
_ARRAYS = ("points_", "sample_weight_", "local_factors_")
_FLAGS = ("_on_gpu", "_from_gpu")  # where the fitted arrays are, and where the user's were and results go
_KEPT, _ROWS_KEPT = "_problem_kept", "_rows_kept"  # what was made of the fit by calls; neither pickled nor saved
_NEGATIVE = (
    "a Laplace-corrected density is negative at some rows, so that the score is -inf: enlarge bandwidth, leave those "
    'rows out by score_samples, or take method="kde" or "sd"'
)
_MASS = ("mass_", "mass_error_")
_OF_CENTRES = ("method", "steps", "own_point")  # parameters that the centres of the fit depend on
_FITTED = (
    *(*_ARRAYS, *_FLAGS, *_MASS, "bandwidth_", "n_features_in_", "feature_names_in_", "_columns", "_dtype", "_ends"),
    "_of_centres",
)


@public_in("cukde")
@quiet_methods
@as_in("cukde.debias", "steps", "own_point")
@as_in("cukde.kde", "precision", "bounds", "periods", "kinds")
class KernelDensity(BaseEstimator):
    """Kernel density estimation with the interface of ``sklearn.neighbors.KernelDensity``.

    It replaces that class in pipelines and searches, and gives the same numbers where that class is accurate. It adds
    the bias-reduced methods of this library, GPUs and Dask.

    Parameters
    ----------
    bandwidth : float, array_like, mapping, str or callable
        Standard deviation of the Gaussian kernel, or radius or scale of the others, in units of the data, in the forms
        of ``h`` of :func:`cukde.kde`. "scott" and "silverman" are scikit-learn's factors, which ignore the spread of
        the data; the rules of :mod:`cukde.bandwidth` are "scott_deviations", "silverman_deviations",
        "scott_covariance", "silverman_covariance", "sd", "laplace", "positive", "isj", "cross_validate" and "select"
        (for ``method``). A callable takes X as :meth:`fit` was given it, and ``weights=`` beside ``sample_weight``.
    algorithm : {"auto", "kd_tree", "ball_tree"}
        Determines which metrics are accepted, as in scikit-learn. No tree is built.
    kernel : {"gaussian", "tophat", "epanechnikov", "exponential", "linear", "cosine"}
        The kernel. Its normalising constant is exact in every dimension. ``precision``, ``bounds`` and ``periods`` are
        of the Gaussian alone.
    metric : str
        A distance of scikit-learn's KDTree or BallTree. Only "euclidean" ("l2", "minkowski" with p = 2) runs on the
        GPU. Others have its normalising constant, so the result is at best proportional to a density; for "haversine"
        see :mod:`cukde.sphere`.
    rtol, atol : float, optional
        Tolerances of :meth:`score_samples`: beside rounding the error of a density, in units of 1/volume, is at most
        ``atol + rtol * density``. As in :func:`cukde.kde` an ``rtol`` of 0 sums all pairs, and None, the default, is
        about rounding; more than 0.1 counts as 0.1.
    breadth_first, leaf_size : bool, int
        Checked as in scikit-learn, without effect: no tree is built.
    metric_params : dict, optional
        Further arguments of the metric.
    method : {"kde", "sd", "laplace", "positive"}
        The estimate: that of :func:`cukde.kde`, :func:`cukde.sd_kde`, :func:`cukde.laplace_kde` or
        :func:`cukde.positive_kde`. All but the first require the Gaussian kernel and the euclidean metric;
        ``steps`` and ``own_point`` are of "sd".
    backend : {"auto", "cpu", "gpu"}
        Where to compute: "auto" is where the data given to :meth:`fit` are. "gpu" copies results for NumPy data back;
        "cpu" returns NumPy arrays.

    Attributes
    ----------
    n_features_in_, feature_names_in_ : int, ndarray of shape (d,)
        Number of columns of ``X``, and their names if all of them are text.
    bandwidth_, local_factors_ : float or ndarray, array of shape (n,) or None
        The bandwidth, and each row's factor of it where a selection of "abramson" brings them.
    points_, sample_weight_ : array of shape (n, d), array of shape (n,) or None
        Centres of the kernels, a copy of the data or for method "sd" the debiased data in float64, and their weights.
    mass_, mass_error_ : float
        For method "positive" the result of :func:`cukde.positive_mass`, which normalises the density.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = np.array([[-1.0], [1.0]])
    >>> cukde.KernelDensity(bandwidth=1.0).fit(X).score_samples([[0.0]]).round(4)
    array([-1.4189])
    >>> cukde.KernelDensity(bandwidth=1.0, method="sd").fit(X).score_samples([[0.0]]).round(4)
    array([-1.3068])

    Notes
    -----
    Results have the dtype ``result_type`` of data and queries, with the accuracy of :func:`cukde.kde`. Where a
    tolerance is not used, they are more accurate than asked. Beyond bounds log densities are -inf and gradients NaN,
    and samples lie within. Densities and gradients at Dask queries are Dask arrays.

    Cost: that of the functions of ``method``. :meth:`fit` copies the data; for method "sd" it debiases them once, with
    n^2 exponentials, and for "positive" it finds the mass. A metric other than the euclidean takes n m distances by
    scikit-learn in one thread. The first call with queries keeps what depends only on the data, in up to about five
    times their memory. ``docs/estimator.md`` has tolerances, precision and the life of what is kept.

    References
    ----------
    - Pedregosa, F. et al. (2011). Scikit-learn: Machine learning in Python. *JMLR* 12, for the interface.
    """

    _kinds: Kinds | None = None  # levels of the columns of the fit; None where all are numbers
    _library: str | None = None  # of the frame of the fit

    @words.suggested
    def __init__(
        self,
        *,
        bandwidth: Any = 1.0,
        algorithm: str = "auto",
        kernel: str = "gaussian",
        metric: str = "euclidean",
        atol: float = 0,
        rtol: float | None = None,
        breadth_first: bool = True,
        leaf_size: int = 40,
        metric_params: dict[str, Any] | None = None,
        method: str = "kde",
        precision: str | None = None,
        backend: str = "auto",
        bounds: Any = None,
        periods: Any = None,
        steps: int = 1,
        own_point: bool = True,
        kinds: Any = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.algorithm = algorithm
        self.kernel = kernel
        self.metric = metric
        self.atol = atol
        self.rtol = rtol
        self.breadth_first = breadth_first
        self.leaf_size = leaf_size
        self.metric_params = metric_params
        self.method = method
        self.precision = precision
        self.backend = backend
        self.bounds = bounds
        self.periods = periods
        self.steps = steps
        self.own_point = own_point
        self.kinds = kinds

    @words.suggested
    @refits.whole(_KEPT, _ROWS_KEPT)
    def fit(self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> KernelDensity:
        """Fit the estimator to the data: copy them, debias them for method "sd", and find the mass for "positive".

        Parameters
        ----------
        X : array_like or dataframe, shape (n, d)
            Data: NumPy, pandas, polars, a GPU array (CuPy, cuDF, ``__cuda_array_interface__``, DLPack), or a Dask array
            or data frame.
        y : None
            Ignored.
        sample_weight : array_like, shape (n,), optional
            Non-negative weights; only their ratios matter.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            For data that are not real numbers, for weights on the GPU with data on the CPU, and for a bandwidth that
            is a Dask collection.
        ValueError
            For an unknown kernel, metric, method, backend, precision or rule; a kernel or metric that the method does
            not support, ``steps`` or ``own_point`` beside a method that moves no points, or a metric other than the
            euclidean on the GPU; bounds and periods that do not fit; data that are not two-dimensional, empty, not
            finite or outside their bounds; weights that are negative, not finite, all zero or of another length; a
            bandwidth that is not positive (definite); and a single row with method "sd" or a rule.
        RuntimeError
            For ``backend="gpu"`` if no GPU works.

        Warns
        -----
        BandwidthRangeWarning
            If "scott" or "silverman" is far from what the spread of the data says, 8 times or more, or such that next
            to all of the density at the rows is their own kernels'. It names the rule that follows the data. For metric
            "haversine" if densities integrate to less than 0.99 over the globe.
        """
        metric = check.parameters(self.get_params(deep=False))
        backend = self._backend_of_fit(meta(X), meta(sample_weight))
        check.metric_device(metric, self.metric, backend)
        names.same_rows("sample_weight", sample_weight, "X", X)
        weights = entry_points.taken("sample_weight", sample_weight, rounded=True)
        if is_dask(X) or is_dask(weights):
            mixed.refuse_lazy(self.kinds)
            self._kinds = None
            fitted = _lazily().taken(self, self._array(X, backend, reset=True), weights, metric, backend, X)
        else:
            fitted = self._taken(X, weights, metric, backend, sample_weight)
        self.points_, self.bandwidth_, self.sample_weight_, self.local_factors_, dtype, domain = fitted
        self._ends = None if domain is None else np.stack(domain)
        check.warn_of_globe(self.metric, self.kernel, self.bandwidth_)
        self._dtype = dtype.name
        self._of_centres = {name: getattr(self, name) for name in _OF_CENTRES}
        for name in _MASS:
            self.__dict__.pop(name, None)
        self._on_gpu = backend.name == "gpu"
        self._from_gpu = self.backend != "cpu" and dispatch.is_gpu_array(meta(X))
        if self._estimate.mass is not None:
            self.mass_, self.mass_error_ = self._mass(backend)
        return self

    def score_samples(self, X: ArrayLike, *, leave_one_out: bool = False) -> Array:
        """Return the log density at the rows of ``X``.

        Parameters
        ----------
        X : array_like or dataframe, shape (m, d)
            Queries.
        leave_one_out : bool
            Leave the row's own kernel out of the density at each row of the data, as in :func:`cukde.kde`. Levels of
            such densities hold for new points. ``X`` must then be the data of :meth:`fit`, in the same order.

        Returns
        -------
        array, shape (m,)
            Log density, in units of log(1/volume). With the Gaussian and the exponential kernel it is finite at any
            distance, whatever ``atol`` is; with other kernels it is -inf beyond the reach of all points. Method
            "laplace" gives NaN where the density is negative. A Dask array for Dask queries.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before :meth:`fit`.
        TypeError
            For queries on the GPU if the estimator is on the CPU.
        ValueError
            For another number of columns than in :meth:`fit`, other names of columns, NaN and infinity; with
            ``leave_one_out`` for queries that are not the data, a single row, and Dask arrays.

        Notes
        -----
        Cost and accuracy are those of :func:`cukde.kde` with ``log=True``, within the tolerances of the class. With
        ``leave_one_out``, method "sd" debiases the data once more, to compare them with those of the fit, and kernels
        other than the Gaussian take 2 n passes.
        """
        leave_one_out = core_check.flag("leave_one_out", leave_one_out)
        backend = self._fitted(X)
        with backend.device_of(meta(self.points_)):
            if leave_one_out:
                check.data_in_memory(lazy=self._is_lazy(X))
                self._check_data(self._array(X, backend, reset=False), backend)
            return self._returned(self._log_density(X, backend, leave_one_out=leave_one_out), X, backend)

    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Return the log-likelihood of the rows of ``X``: the sum of :meth:`score_samples`, in float64.

        Parameters and errors are those of :meth:`score_samples`; ``y`` is ignored. The sum is -inf if a density is 0
        or, with method "laplace", negative, so that a search ranks such a bandwidth last. It is computed at once, also
        for Dask queries.

        Warns
        -----
        NegativeDensityWarning
            For method "laplace" if a density is negative; once in each process during a search of scikit-learn's.

        Examples
        --------
        >>> import cukde
        >>> round(cukde.KernelDensity().fit([[-1.0], [1.0]]).score([[0.0], [0.0]]), 4)
        -2.8379
        """
        backend = self._fitted(X)
        with backend.device_of(meta(self.points_)):
            log_p = self._log_density(X, backend)
            total = float(log_p.sum(dtype=np.float64))  # of Dask arrays it is computed now
        if self._estimate.negative and math.isnan(total):
            core_warnings.once(_NEGATIVE, NegativeDensityWarning)
            return -math.inf
        return total

    def grad_log_density(self, X: ArrayLike) -> Array:
        """Return the gradient of the log density at the rows of ``X``, as :func:`cukde.score` does.

        Parameters
        ----------
        X : array_like or dataframe, shape (m, d)
            Queries.

        Returns
        -------
        array, shape (m, d)
            In units of 1/length.

        Raises
        ------
        NotImplementedError
            For method "laplace", for "positive" with bounds or periods, and for a kernel or a metric other than the
            Gaussian and the euclidean.
        TypeError, ValueError, sklearn.exceptions.NotFittedError
            As :meth:`score_samples`.

        Examples
        --------
        >>> import cukde
        >>> cukde.KernelDensity(bandwidth=2.0).fit([[0.0]]).grad_log_density([[2.0]])
        array([[-0.5]])

        Notes
        -----
        Cost and accuracy are those of :func:`cukde.score`, for method "positive" of :func:`cukde.positive_score`.
        """
        backend = self._fitted(X)
        metric = check.parameters(self.get_params(deep=False))
        check.gradient(self.kernel, metric, self.metric, self.method, in_domain=self._ends is not None)
        check.numbers_alone(mixed=self._kinds is not None)
        of: Any = self._estimate.of_centres
        with backend.device_of(meta(self.points_)):
            if not self._is_lazy(X):
                problem, dtype = self._problem(X, backend, tolerance=None, unchecked=of.mass is None)
                with problem.device:
                    out = of.score_of_problem(problem)
            else:
                Y = self._array(X, backend, reset=False)
                dtype = self._result_dtype(Y)
                options = {"weights": self.sample_weight_, "precision": self._precision(dtype)}
                options |= {} if self.local_factors_ is None else {"local_factors": self.local_factors_}
                out = of.score(self.points_, Y, self.bandwidth_, **options, **self._domain_arguments)
            return self._returned(_rounded(out, dtype), X, backend)

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> Array:
        """Draw a sample from the density: rows of the data, chosen by their weights and moved by the kernel.

        Parameters
        ----------
        n_samples : int
            At least 1.
        random_state : int, numpy.random.RandomState, numpy.random.Generator or None
            An integer gives the same sample on every call and every device. The random numbers are scikit-learn's,
            drawn on the host: with a scalar bandwidth the sample is the same as scikit-learn's, which draws from
            "gaussian" and "tophat".

        Returns
        -------
        array, shape (n_samples, d)
            Of the dtype of the data, on the GPU if the data were, within the bounds and periods; a frame like the data
            if columns have categories, which are drawn by their kernels. Method "sd" draws from the debiased data.
            Method "positive" draws from the kernel estimate and rejects points by its factor: it evaluates
            :func:`cukde.positive_kde` at 2.4 points for each sample in 2 dimensions, and at about 7 in 16. With any
            metric the kernel is that of the euclidean distance, as in scikit-learn.

        Raises
        ------
        NotImplementedError
            For method "laplace".
        ValueError, TypeError
            For an invalid ``n_samples`` or ``random_state``.
        sklearn.exceptions.NotFittedError
            Before :meth:`fit`.

        Examples
        --------
        >>> import cukde
        >>> cukde.KernelDensity(bandwidth=0.1).fit([[5.0, 7.0]]).sample(2, random_state=0).round(2)
        array([[5.1 , 7.22],
               [5.19, 6.9 ]])
        """
        backend = self._fitted(None)
        check.sampled(self.kernel, self.method)
        count = core_check.count("n_samples", n_samples, most=core_check.MOST)
        with backend.device_of(meta(self.points_)):
            rng = sampling.source(random_state)
            if self._kinds is not None:
                return mixed.sampled(self, count, rng, backend)
            if self._estimate.mass is not None:
                acceptance = float(self.mass_) / rejection.largest(self.points_)
                out = rejection.draw(self._proposed(backend, rng), self._log_factor(backend), count, acceptance, rng)
            else:
                out = self._proposed(backend, rng)(count)
            return self._returned(out.astype(self._dtype), None, backend)

    def _proposed(self, backend: ModuleType, rng: Any) -> Callable[[int], Any]:
        """Draws so many points of the kernel estimate, float64."""
        points, weights = self.points_, self.sample_weight_
        take = _lazily().drawn if is_dask(points) or is_dask(weights) else sampling.taken

        def drawn(count: int) -> Any:
            of_kernel = self.bandwidth_, self.kernel
            out = sampling.draw(points, weights, *of_kernel, count, rng, backend, take, self.local_factors_)
            return out if self._domain is None else self._domain.brought_in(out, backend.xp)

        return drawn

    def _log_factor(self, backend: ModuleType) -> Callable[[Any], Any]:
        """Returns logarithms of the factors of method "positive" at points."""

        def log_factor(points: Any) -> Any:
            if not self._is_lazy(points):
                problem = self._problem_of_data(points.dtype, backend, None)[0].at(points, gaussian=False)
                with problem.device:
                    return density_positive.log_factor(problem)
            of_density = self.points_, points, self.bandwidth_
            options = {"weights": self.sample_weight_, "log": True} | self._domain_arguments
            return (positive_kde(*of_density, mass=1, **options) - kde(*of_density, **options)).compute()

        return log_factor

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator to an NPZ file at ``path``, as numbers, text and arrays, without pickles.

        Raises
        ------
        TypeError
            For ``metric_params`` with anything else, such as a function, for anything but a path, for columns of
            categories, and for a fit on Dask collections, whose ``points_`` and ``sample_weight_`` must be computed
            first.
        OSError
            For a file that cannot be written.
        sklearn.exceptions.NotFittedError
            Before :meth:`fit`.
        """
        path = core_check.path("path", path)
        check_is_fitted(self, "points_")
        check.in_memory(is_dask(self.points_) or is_dask(self.sample_weight_))
        check.without_categories(mixed=self._kinds is not None)
        fitted = {name: getattr(self, name) for name in (*_FITTED, *self._more_fitted) if hasattr(self, name)}
        if "feature_names_in_" in fitted:
            fitted["feature_names_in_"] = fitted["feature_names_in_"].astype(str)
        file.write(path, {"parameters": self.get_params(deep=False), "fitted": fitted})

    @classmethod
    def load(cls, path: str | PathLike[str]) -> KernelDensity:
        """Read an estimator from the file ``path`` that :meth:`save` wrote; without a GPU it computes on the CPU.

        Raises
        ------
        TypeError
            For anything but a path.
        ValueError
            For any other file, and for a damaged one.
        OSError
            For a file that cannot be read.
        """
        path = core_check.path("path", path)
        values = file.read(path)
        try:
            estimator = cls(**values["parameters"])
            fitted = values["fitted"]
            _check_loaded(estimator, fitted)
            estimator._check_more(fitted)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise file.unreadable(path, error) from None
        if "feature_names_in_" in fitted:
            fitted["feature_names_in_"] = fitted["feature_names_in_"].astype(object)
        estimator.__setstate__(vars(estimator) | fitted)
        return estimator

    def __getstate__(self) -> dict[str, Any]:
        moved, kept = {"bandwidth", *_ARRAYS, *self._more_arrays}, (_KEPT, _ROWS_KEPT)
        state = super().__getstate__().items()
        return {name: dispatch.to_host(value) if name in moved else value for name, value in state if name not in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state.get("_on_gpu") and not is_dask(state["points_"]):
            if dispatch.why_no_gpu() is None:
                gpu = dispatch.named("gpu")
                moved = (*_ARRAYS, *self._more_arrays)
                state |= {name: gpu.asarray(state[name]) for name in moved if state[name] is not None}
            else:
                state |= dict.fromkeys(_FLAGS, False)
        super().__setstate__(state)

    # What classes that build on this one learn beside it: names of attributes, and of those that are arrays of rows.
    _more_fitted: tuple[str, ...] = ()
    _more_arrays: tuple[str, ...] = ()

    def _check_more(self, fitted: dict[str, Any]) -> None:
        """Raise unless these attributes, read from a file, fit the others."""

    def _taken(
        self, X: Any, sample_weight: Any, metric: Any | None, backend: ModuleType, weights_given: Any
    ) -> tuple[Any, Any, Any, Any | None, np.dtype, Domain | None]:
        """Return centres, bandwidth, weights and local factors of a fit, the dtype of the data and their domain.

        ``weights_given`` is what ``sample_weight`` was, which a function takes beside a frame.
        """
        with backend.device_of(X):
            a = self._array(X, backend, reset=True)
            weights = None if sample_weight is None else check.weights(self._moved(sample_weight), len(a), backend)
            to_function = (a, weights) if library_of(X) is None else (X, weights_given)
            if self._kinds is not None:
                return mixed.taken(self, a, weights, backend, to_function)
            given = self._by_column(a.shape[1])
            domain = domain_of(given["bounds"], given["periods"], a.shape[1])
            ends = arguments_of(domain)
            if domain is not None:
                domain.hold(a, backend)
            gaussian = self.kernel == "gaussian" and metric is None
            of_rule = given["bandwidth"], a, weights, self.method, self.steps
            width, factors = bandwidths.of_data(*of_rule, to_function=to_function, gaussian=gaussian, **ends)
            width = names.bandwidth("bandwidth", width, self._labels, a.shape[1])  # a function may return names
            h = check.fit(given | {"bandwidth": width}, metric, a[:1], len(a))
            check.beside_domain(h, domain)
            if factors is not None:
                least_factor(factors)
            if isinstance(width, str) and metric is None:
                bandwidths.warn_of_units(width, h, a, weights, gaussian=self.kernel == "gaussian", **ends)
            dtype = density_check.result_dtype(a)
            points = backend.xp.array(a, dtype=dtype, order="C")  # a copy: X may change afterwards
            if self._estimate.moves:
                points = self._debiased(points, h, weights, domain)
            return points, h, weights, factors, dtype, domain

    def _backend_of_fit(self, X: Any, sample_weight: Any) -> ModuleType:
        if self.backend == "auto":
            return dispatch.backend(X, sample_weight=sample_weight)
        return dispatch.named(self.backend)

    def _moved(self, a: Any) -> Any:
        """Copy a GPU array to the host if ``backend`` is "cpu"."""
        return dispatch.to_host(a) if self.backend == "cpu" else a

    def _array(self, X: Any, backend: ModuleType, *, reset: bool) -> Any:
        """Check points and the names of their columns; return them as an array of the backend."""
        if is_dask(X):
            return _lazily().points(self, X, backend, reset=reset)
        if not reset and self._kinds is not None and labels_of(X) is not None:  # labels become codes by their columns
            validate_data(self, X, reset=False, skip_check_array=True)
            self._keep_or_check_names(X, reset=False)
        given, X = X, mixed.coded(self, X, reset=reset)
        if backend.name == "gpu":
            out = check.points(X, backend)
            # scikit-learn checks the names of a frame, and the number of columns.
            validate_data(self, given if hasattr(given, "shape") else out, reset=reset, skip_check_array=True)
        else:
            X = self._moved(X)
            if hasattr(X, "__dlpack__") and not hasattr(X, "__array__"):
                X = backend.asarray(X)
            with np.errstate(invalid="ignore"):  # it sums all entries to find NaN and infinities
                if X is given:
                    out = validate_data(self, X, reset=reset, order="C", dtype=_DTYPES)
                else:
                    out = check_array(X, order="C", dtype=_DTYPES, input_name="X", estimator=self)
                    validate_data(self, given, reset=reset, skip_check_array=True)
        self._keep_or_check_names(given, reset=reset)
        return mixed.of_numbers(self, out, given, backend, reset=reset)

    def _keep_or_check_names(self, X: Any, *, reset: bool) -> None:
        """Keep names of columns that scikit-learn does not, such as integers, or check them."""
        labels = labels_of(X)
        if reset:
            self._columns = None if hasattr(self, "feature_names_in_") else labels
        elif names.order("X", labels, self._labels, "the X of fit") is not None:
            raise check.order_of_columns(labels, self._labels)

    def _by_column(self, d: int) -> dict[str, Any]:
        """Return the parameters; those that have something for each column in the order of the columns."""
        parameters: dict[str, Any] = self.get_params(deep=False)
        return parameters | names.by_column(parameters, self._labels, d)

    @property
    def _labels(self) -> names.Labels:
        """Names of the columns of the data."""
        return tuple(self.feature_names_in_) if hasattr(self, "feature_names_in_") else self._columns

    def _fitted(self, X: Any) -> ModuleType:
        """Return the backend of the fitted arrays; check that the queries can be moved there."""
        if not hasattr(self, "points_"):
            check_is_fitted(self, "points_")
        check.same_centres(self._of_centres, self)
        if self.local_factors_ is not None:
            check.kernel_of_factors(self.kernel, self.metric)
        if self._on_gpu:
            return dispatch.backend(meta(self.points_))
        if self.backend != "cpu":
            check.fitted_side(meta(X))
        return dispatch.named("cpu")

    def _returned(self, out: Any, X: Any, backend: ModuleType) -> Any:
        """Return a result, copied to the host if all arguments are there, and lazy if the queries are."""
        stays = self._from_gpu or dispatch.is_gpu_array(meta(X))
        if is_dask(out):
            if is_dask(X):
                return out if stays else _lazily().on_host(out)
            out = out.compute()
        return out if stays else backend.asnumpy(out)

    def _debiased(self, points: Any, h: Any, weights: Any | None, domain: Domain | None) -> Any:
        """Return the data debiased as in :func:`cukde.sd_kde`, in float64, so that an offset costs no accuracy."""
        problem, _ = prepare(points, None, h, weights=weights, precision=self.precision, **arguments_of(domain))
        estimate = score_problem(problem, None, own_point=self.own_point)
        with problem.device:
            moved = problem.moved(estimate, self.steps)
            return moved if domain is None else domain.restored(moved, problem.xp)

    def _mass(self, backend: ModuleType) -> tuple[Any, Any]:
        """The mass of the fit and its error; lazy of Dask collections."""
        points, weights, h = self.points_, self.sample_weight_, self.bandwidth_
        options = {"weights": weights, "precision": self.precision} | self._domain_arguments
        if is_dask(points) or is_dask(weights):
            mass: Any = self._estimate.mass
            lazy: tuple[Any, Any] = mass(points, h, **options)
            return lazy
        with backend.device_of(points):
            problem, _ = prepare(points, None, h, **options)
            with problem.device:
                return density_positive.default_mass(problem)

    @property
    def _estimate(self) -> Estimate:
        """What belongs to the method."""
        return ESTIMATES[self.method]

    @property
    def _domain(self) -> Domain | None:
        """What the bounds and periods of the fit say."""
        return None if self._ends is None else Domain(*self._ends)

    @property
    def _domain_arguments(self) -> dict[str, Any]:
        """The same as arguments of functions; none where there is no domain."""
        return arguments_of(self._domain)

    def _result_dtype(self, Y: Any) -> np.dtype:
        return density_check.result_dtype(np.empty(0, self._dtype), Y)

    @property
    def _tolerance(self) -> float | None:
        """Of :func:`cukde.kde`, which takes no larger ones."""
        return None if self.rtol is None else min(float(self.rtol), density_check.MOST_RTOL)

    def _precision(self, dtype: np.dtype) -> str | None:
        # Debiased data are always float64, so their dtype does not determine it.
        return dtype.name if self.precision is None and self._estimate.moves else self.precision

    def _check_data(self, X: Any, backend: ModuleType) -> None:
        """Check that rows are the data of the fit, and that something is left without one of them."""
        weights, points = self.sample_weight_, self.points_
        density_check.rows_to_leave_out(len(points) if weights is None else int((weights > 0).sum()))
        same = X.shape == points.shape
        if same and self._estimate.moves:  # may round differently, by far less than a hundredth of the step
            moved, X = self._debiased(X, self.bandwidth_, weights, self._domain), X.astype(np.float64)
            step = 0.01 * abs(moved - X).max()
            same = bool((abs(moved - points) <= step).all())
        elif same:
            same = bool((X.astype(points.dtype, copy=False) == points).all())
        check.are_data(same=same)

    def _log_density(
        self, queries: Any, backend: ModuleType, *, leave_one_out: bool = False, checked: bool = False
    ) -> Any:
        """Log densities; ``checked`` queries are what :meth:`_array` has returned."""
        metric = None
        if self._kinds is not None:
            Y = queries if checked else self._array(queries, backend, reset=False)
            return _rounded(mixed.log_density(self, Y, backend, leave_one_out=leave_one_out), self._result_dtype(Y))
        core_check.option("kernel", self.kernel, check.KERNELS)
        if self.metric != "euclidean":
            metric = check.parameters(self.get_params(deep=False))
            check.metric_device(metric, self.metric, backend)
        kernel: Any = None if self.kernel == "gaussian" else self.kernel
        of = self._estimate.of_centres
        masses = () if of.mass is None else (self.mass_,)
        if metric is None and not self._is_lazy(queries):
            of_pass = {"unchecked": not leave_one_out, "checked": checked}
            problem, dtype = self._problem(queries, backend, self._tolerance, **of_pass)
            if leave_one_out:
                problem = problem._replace(leave_one_out=True)
            if self.atol > 0 and problem.domain is None:  # or each of several passes would leave out as much
                problem = problem.within(float(self.atol), kernel)
            with problem.device:
                if kernel is not None:
                    out = problem.kernel_density(kernel, log=True)
                else:
                    out = of.of_problem(problem, *masses, log=True)
            return _rounded(out, dtype)
        Y = queries if checked else self._array(queries, backend, reset=False)
        X, h, dtype = self.points_, self.bandwidth_, self._result_dtype(Y)
        options = {"weights": self.sample_weight_, "rtol": self._tolerance}
        if metric is not None and self._is_lazy(Y):
            metric_density = importlib.import_module("cukde.density.dask.api").metric_density
            out = metric_density(X, Y, h, distance=metric, kernel=self.kernel, weights=self.sample_weight_)
        elif metric is not None:
            # The density of a single point at that point is the kernel's normalising constant.
            origin = np.zeros((1, X.shape[1]))
            constant = (
                kde(origin, origin, h, log=True)
                if kernel is None
                else kernel_density(origin, origin, h, kernel=kernel, log=True)
            )
            options = {"leave_one_out": leave_one_out}
            out = log_sums(metric, X, Y, h, self.kernel, self.sample_weight_, **options) + constant[0]
        elif kernel is not None:
            out = kernel_density(X, Y, h, kernel=kernel, log=True, **options)
        else:
            options |= self._domain_arguments | {"local_factors": self.local_factors_}
            if masses:
                options["mass"] = self.mass_
            out = of.density(X, Y, h, log=True, precision=self._precision(dtype), **options)
        return _rounded(out, dtype)

    def _is_lazy(self, queries: Any) -> bool:
        return is_dask(queries) or is_dask(self.points_) or is_dask(self.sample_weight_)

    def _problem(
        self,
        queries: Any,
        backend: ModuleType,
        tolerance: float | None,
        *,
        unchecked: bool = True,
        checked: bool = False,
    ) -> tuple[Problem, np.dtype]:
        """Return the sum of Gaussians at the queries as a problem, and the dtype of its result.

        With ``unchecked`` values of the queries may be left for the pass to look at.
        """
        Y = queries if checked or self._in_order(queries, backend) else self._array(queries, backend, reset=False)
        problem, dtype = self._problem_of_data(Y.dtype, backend, tolerance)
        try:
            return problem.at(Y, "X", gaussian=unchecked and self.kernel == "gaussian"), dtype
        except ValueError:
            self._array(queries, backend, reset=False)  # whose errors come first
            raise

    def _problem_of_data(
        self, of_queries: np.dtype, backend: ModuleType, tolerance: float | None
    ) -> tuple[Problem, np.dtype]:
        """Return the problem without queries, kept from the last call for the same fit and options."""
        points, weights, h, factors = self.points_, self.sample_weight_, self.bandwidth_, self.local_factors_
        if type(h) is not float:  # arrays may have changed since
            h = np.asarray(dispatch.to_host(h))
            h = h.shape, h.tobytes()
        of_kernel = self.precision if self.kernel == "gaussian" else None
        options = of_queries, tolerance, of_kernel, h
        last = vars(self).get(_KEPT)
        of_rows = points, weights, factors
        if last is None or any(map(operator.is_not, last[0], of_rows)) or last[1] != options:
            none = backend.xp.empty((0, points.shape[1]), of_queries)
            dtype = self._result_dtype(none)
            precision = self._precision(dtype) if self.kernel == "gaussian" else None
            more = self._domain_arguments | {"local_factors": factors, "rtol": tolerance}
            problem, _ = prepare(points, none, self.bandwidth_, weights, precision, **more)
            last = of_rows, options, (problem.kept(), dtype)
            setattr(self, _KEPT, last)
        kept: tuple[Problem, np.dtype] = last[2]
        return kept

    def _in_order(self, X: Any, backend: ModuleType) -> bool:
        """Whether queries need none of scikit-learn's checks but that they are finite."""
        return (
            type(X) is backend.xp.ndarray
            and X.ndim == 2
            and X.shape[0] > 0
            and X.shape[1] == self.n_features_in_
            and X.dtype.char in "fd"
            and X.dtype.isnative
            and not hasattr(self, "feature_names_in_")
        )


def _lazily() -> Any:
    """Return the module for Dask collections."""
    return importlib.import_module("cukde.estimators.dask")


def _rounded(out: Any, dtype: np.dtype) -> Any:
    """Round to the result's dtype; overflow gives infinity."""
    if out.dtype == dtype:
        return out
    with np.errstate(over="ignore"):
        return out.astype(dtype, copy=False)


def _check_loaded(estimator: KernelDensity, fitted: dict[str, Any]) -> None:
    """Raise unless a file's contents are a fitted estimator."""
    metric = check.parameters(estimator.get_params(deep=False))
    unknown = fitted.keys() - {*_FITTED, *estimator._more_fitted}
    if unknown:
        raise ValueError(f"unknown contents {sorted(unknown)}")
    points, weights = fitted["points_"], fitted["sample_weight_"]
    cpu = dispatch.named("cpu")
    check.points(points, cpu)
    n, d = points.shape
    if weights is not None:
        check.weights(weights, n, cpu)
    factors = fitted["local_factors_"]
    if factors is not None:
        density_check.weights(factors, n, cpu, "local_factors")
        core_check.finite({"local_factors": bool(np.isfinite(factors).all())})
        least_factor(factors)
    names = fitted.get("feature_names_in_")
    if fitted["n_features_in_"] != d or (names is not None and names.shape != (d,)):
        raise ValueError(f"features do not fit points of shape {points.shape}")
    if isinstance(fitted["bandwidth_"], str):
        raise ValueError("bandwidth_ is no number")
    check.bandwidth(fitted["bandwidth_"], n, d, metric)
    fitted["_of_centres"] = {name: fitted["_of_centres"][name] for name in _OF_CENTRES}
    check.same_centres(fitted["_of_centres"], estimator)
    if fitted["_columns"] is not None:
        columns = np.asarray(fitted["_columns"], dtype=object)
        if len(columns) != d:
            raise ValueError(f"names of columns do not fit points of shape {points.shape}")
        fitted["_columns"] = tuple(tuple(each) if isinstance(each, list) else each for each in columns.tolist())
    ends = fitted["_ends"]
    if ends is not None:
        check.ends(ends, fitted["bandwidth_"], d)
    if estimator._estimate.mass is not None:
        fitted["mass_"], fitted["mass_error_"] = check.mass(fitted["mass_"]), float(fitted["mass_error_"])
    if fitted["_dtype"] not in ("float32", "float64") or not all(isinstance(fitted[flag], bool) for flag in _FLAGS):
        raise ValueError("the dtype or the device of the data is missing")
