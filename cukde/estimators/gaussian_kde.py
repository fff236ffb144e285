"""The density estimator with SciPy's interface, on the CPU and the GPU."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from cukde.core import check as core_check, dispatch, words
from cukde.core.entry import names as entry_names
from cukde.core.public import public_in
from cukde.core.quiet import quiet_methods
from cukde.density import check as density_check, rules_by_name
from cukde.density.arguments import prepare
from cukde.density.problem import Problem
from cukde.estimators import boxes, gaussian_kde_check as check, quantiles, refits

_KEPT = "_problems_kept"  # what was made of the data and the covariance by the last calls; not pickled


@public_in("cukde")
@quiet_methods
class gaussian_kde:
    """Kernel density estimation with the interface of ``scipy.stats.gaussian_kde``.

    It replaces that class, also as the base of subclasses, with the same arguments, attributes, results and random
    numbers. It adds the distribution function and quantiles in one dimension.

    Parameters
    ----------
    dataset : array_like, shape (d, n) or (n,)
        Data, one point in each *column*; (n,) means d = 1. For points in rows pass ``X.T``. The rows of queries in a
        frame of pandas are matched by their index to those of the data. If it is a GPU array (CuPy,
        or anything with ``__cuda_array_interface__`` or DLPack), all methods compute on the GPU.
    bw_method : {"scott", "silverman"}, float or callable, optional
        The factor by which the standard deviations of the data are multiplied to give those of the kernel: a number,
        the name of a rule, or a function of this object that returns a number. The default is Scott's rule, or the
        ``covariance_factor`` of a subclass. The factor itself is no standard deviation: the corresponding ``h`` of
        :func:`cukde.kde` is the attribute ``covariance``, by name "scott_covariance" or "silverman_covariance".
    weights : array_like, shape (n,), optional
        Non-negative weights; only their ratios matter. Default 1 each.

    Attributes
    ----------
    dataset : array, shape (d, n)
        The data as given. To change them assign another array; do not change entries.
    d, n : int
        Numbers of dimensions and of points.
    neff : float
        Effective number of points, 1 / sum of squared weights.
    weights : array, shape (n,)
        Weights that sum to 1.
    factor : float
        The value that ``covariance_factor`` returned.
    covariance : array, shape (d, d)
        Covariance of the kernel: that of the data times the square of ``factor``.
    inv_cov : array, shape (d, d)
        Its inverse.

    Raises
    ------
    TypeError
        For complex, string or object data, and for arrays on the GPU with data on the CPU.
    ValueError
        For fewer than two numbers, for more dimensions than points, for shapes that do not fit, NaN or infinity,
        negative or all-zero weights, weights that leave a single point, and a ``bw_method`` of another kind or a factor
        that is not positive.
    numpy.linalg.LinAlgError
        For data that lie in a space of fewer dimensions, to rounding, so that their covariance is singular: columns
        that depend on each other linearly or are constant, and no more points of positive weight than dimensions. It is
        a ``ValueError``.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> kde = cukde.gaussian_kde(np.array([1.0, 2.0, 3.0, 5.0]), bw_method="silverman")
    >>> kde([2.5, 4.0]).round(4), kde.logpdf([40.0]).round(4)
    (array([0.1899, 0.1433]), array([-328.5083]))
    >>> kde.quantile([0.025, 0.975]).round(4)
    array([-0.9159,  6.7819])

    Notes
    -----
    Results are float64, like SciPy's, also for float32 data. For data in extended precision they have that dtype, with
    the accuracy of float64. They equal SciPy's to 1e-10 (``tests/estimators/test_gaussian_kde.py``), and SciPy's own
    tests pass on this class (``tests/estimators/test_gaussian_kde_scipy.py``). NumPy in, NumPy out; CuPy in, CuPy out,
    with a single number as an array of shape ().

    A covariance that is not symmetric, a factor of 0 and bounds that are NaN are errors here, unlike in SciPy.
    ``covariance`` alone determines the kernel, also where a subclass sets it.

    *Many calls.* The first call of a method keeps what depends only on the data, with a copy of them, as
    :class:`cukde.KernelDensity` does; later calls reuse it.

    Cost: one covariance of the data. Each method states its own.

    References
    ----------
    - Scott, D. W. (1992). *Multivariate Density Estimation: Theory, Practice, and Visualization*. Wiley.
    - Virtanen, P. et al. (2020). SciPy 1.0. *Nature Methods* 17, for the interface.
    """

    @words.suggested
    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        backend = dispatch.backend(dataset, first="dataset", weights=weights)
        with backend.device_of(dataset):
            self.dataset = check.dataset(dataset, backend)
            self.d, self.n = self.dataset.shape
            self._coordinates = entry_names.of_rows(dataset)
            first = getattr(dataset, "iloc", None)
            of_points = ("dataset", dataset) if self._coordinates is None else ("dataset.iloc[0]", first and first[0])
            entry_names.same_rows("weights", weights, *of_points)
            if weights is not None:
                self._weights = check.weights(weights, self.n, backend)
            self.set_bandwidth(bw_method)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(d={self.d}, n={self.n}, factor={float(self.factor):.4g})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != _KEPT}

    @property
    def weights(self) -> Any:
        """Weights that sum to 1."""
        given = self._given_weights
        if given is not None:
            return given
        if not hasattr(self, "_equal_weights"):
            backend = self._backend()
            with backend.device_of(self.dataset):
                self._equal_weights = backend.xp.ones(self.n) / self.n
        return self._equal_weights

    @property
    def neff(self) -> Any:
        """Effective number of points."""
        if not hasattr(self, "_neff"):
            self._neff = np.float64(1 / float(self.weights @ self.weights))
        return self._neff

    @property
    def inv_cov(self) -> Any:
        """Inverse of the covariance of the kernel."""
        inverse = np.linalg.inv(_doubles(self.covariance))
        backend = self._backend()
        with backend.device_of(self.dataset):
            return backend.xp.asarray(inverse)

    def scotts_factor(self) -> Any:
        """Return Scott's factor, ``neff ** (-1 / (d + 4))``, exactly as SciPy rounds it."""
        return np.power(self.neff, -1.0 / (self.d + 4))

    def silverman_factor(self) -> Any:
        """Return Silverman's factor, ``(neff (d + 2) / 4) ** (-1 / (d + 4))``, exactly as SciPy rounds it."""
        return np.power(self.neff * (self.d + 2.0) / 4.0, -1.0 / (self.d + 4))

    def covariance_factor(self) -> Any:
        """Return the factor of the bandwidth: Scott's, that of ``set_bandwidth``, or that of a subclass."""
        return self.scotts_factor()

    @refits.whole()
    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Choose the factor of the bandwidth for all later calls; the data and their covariance stay.

        Parameters
        ----------
        bw_method : {"scott", "silverman"}, float or callable, optional
            As in the class; None keeps ``covariance_factor`` and calls it again.

        Raises
        ------
        ValueError
            For anything else, and for a factor that is not positive.

        Examples
        --------
        >>> import cukde
        >>> kde = cukde.gaussian_kde([1.0, 2.0, 4.0])
        >>> kde.set_bandwidth(0.5)
        >>> kde.factor
        0.5
        """
        if isinstance(bw_method, str):
            if bw_method not in ("scott", "silverman"):
                raise check.method(bw_method)
            self.covariance_factor = self.scotts_factor if bw_method == "scott" else self.silverman_factor  # type: ignore[method-assign]
        elif callable(bw_method):
            self._bw_method = bw_method
            self.covariance_factor = self._factor_of_function  # type: ignore[method-assign]
        elif bw_method is not None:
            if rules_by_name.is_result(bw_method) or core_check.dimensions("bw_method", dispatch.to_host(bw_method)):
                raise check.method(bw_method)
            self.covariance_factor = partial(_same, check.factor(bw_method))  # type: ignore[method-assign]
        self._compute_covariance()

    def _factor_of_function(self) -> Any:
        return self._bw_method(self)

    @refits.whole()
    def _compute_covariance(self) -> None:
        """Compute the covariance of the kernel by ``covariance_factor``. Subclasses and users call it."""
        self.factor = check.factor(self.covariance_factor())
        backend = self._backend()
        with backend.device_of(self.dataset):
            if not hasattr(self, "_data_cho_cov"):
                self._data_covariance, self._data_cho_cov = self._of_data(backend)
            factor = self.factor if backend.name == "cpu" else float(self.factor)
            with np.errstate(over="ignore", under="ignore"):
                covariance = self._data_covariance * factor**2
            check.kernel_covariance(np.diag(_doubles(covariance)))
            self.covariance = covariance
            self.cho_cov = (self._data_cho_cov * factor).astype(np.float64)
            self.log_det = 2 * np.log(np.diag(dispatch.to_host(self.cho_cov)) * np.sqrt(2 * np.pi)).sum()

    def _of_data(self, backend: ModuleType) -> tuple[Any, Any]:
        """Return the covariance of the data, and its Cholesky factor."""
        xp, w = backend.xp, self.weights
        freedom = check.freedom(1 - float(w @ w))
        with np.errstate(all="ignore"):  # values that are not finite are refused
            # Not xp.cov: CuPy's takes weighted products about the mean without weights. From a point that counts, so
            # that coordinates that are all alike have a variance of 0.
            data = self.dataset
            if data.dtype.kind != "f" or data.dtype.itemsize < 8:
                data = data.astype(np.float64)
            first = 0 if self._given_weights is None else int(w.argmax())
            centred = data - data[:, first, None]
            mean = centred @ w
            centred -= mean[:, None]
            covariance = (centred * w) @ centred.T / freedom
        on_host = dispatch.to_host(covariance)
        if not np.isfinite(on_host).all():
            raise check.covariance(bool(xp.isfinite(self.dataset).all()))
        check.independent(on_host, dispatch.to_host(data[:, first] + mean), self.dataset.dtype)
        return covariance, xp.asarray(np.linalg.cholesky(on_host.astype(np.float64)))

    def evaluate(self, points: Any) -> Any:
        """Return the density at points. A call of the object itself, and ``pdf``, do the same.

        Parameters
        ----------
        points : array_like, shape (d, m), (m,) for d = 1, or (d,)
            Queries, one in each column; (d,) is a single query.

        Returns
        -------
        array, shape (m,)
            In units of 1/volume; 0 below the range of float64.

        Raises
        ------
        TypeError
            For data of the wrong kind, and for points on the GPU with a dataset on the CPU.
        ValueError
            For another number of dimensions, NaN and infinity.

        Examples
        --------
        >>> import numpy as np, cukde
        >>> cukde.gaussian_kde(np.array([[0.0, 1.0, 2.0], [0.0, 2.0, 1.0]])).evaluate([1, 1]).round(4)
        array([0.1013])

        Notes
        -----
        Accuracy (1e-12, relative) and cost are those of :func:`cukde.kde` in float64.
        """
        return self._density(points, log=False)

    __call__ = evaluate

    def pdf(self, x: Any) -> Any:
        """Return the density at points ``x``: another name of :meth:`evaluate`, exactly as accurate."""
        return self.evaluate(x)

    def logpdf(self, x: Any) -> Any:
        """Return the logarithm of the density at points ``x``, finite at any distance.

        Parameters, exceptions and cost are those of :meth:`evaluate`. The error is absolute: 1e-12, and rounding.

        Examples
        --------
        >>> import cukde
        >>> cukde.gaussian_kde([0.0, 1.0]).logpdf([0.5, 9.0]).round(4)
        array([ -0.7636, -85.5754])
        """
        return self._density(x, log=True)

    def integrate_gaussian(self, mean: Any, cov: Any) -> Any:
        """Return the integral of the product of the density and a normal density.

        Parameters
        ----------
        mean : array_like, shape (d,)
            Mean of the normal distribution; a number for d = 1.
        cov : array_like, shape (d, d)
            Its covariance; a number for d = 1.

        Returns
        -------
        float, or a CuPy array of shape ()

        Raises
        ------
        TypeError
            For anything but arrays of real numbers.
        ValueError
            For other shapes, NaN and infinity, and a matrix that is not symmetric.
        numpy.linalg.LinAlgError
            If ``covariance + cov`` is not positive definite.

        Examples
        --------
        >>> import cukde
        >>> round(float(cukde.gaussian_kde([0.0, 1.0, 3.0]).integrate_gaussian(1.0, 4.0)), 4)
        0.1479

        Notes
        -----
        Computed as :func:`cukde.kde` at one query, with that sum as the bandwidth. Accurate to 1e-12, relative.
        """
        mean, cov = self._in_order("mean", mean), self._in_order("cov", cov)
        mean, cov = check.vector("mean", mean, self.d), check.matrix("cov", cov, self.d)
        core_check.finite({"mean": bool(np.isfinite(mean).all())})
        total = _doubles(self.covariance) + cov
        np.linalg.cholesky(total)  # raises as SciPy does
        backend = self._backend()
        with backend.device_of(self.dataset):
            X, at = self._problem("density").X, backend.xp.asarray(mean[None])
            problem, _ = prepare(X, at, _bandwidth(total), self._given_weights)
            with problem.device:
                return problem.density(log=False)[0]

    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """Return the mass between two bounds, for d = 1.

        Parameters
        ----------
        low, high : float
            Bounds, infinite or not. With ``low`` above ``high`` the result is negative, as of an integral.

        Returns
        -------
        float, or a CuPy array of shape ()

        Raises
        ------
        TypeError
            For a bound that is no real number.
        ValueError
            For data of several dimensions, NaN, and several bounds.

        Examples
        --------
        >>> import numpy as np, cukde
        >>> round(float(cukde.gaussian_kde([0.0, 1.0, 3.0]).integrate_box_1d(1.0, np.inf)), 4)
        0.552

        Notes
        -----
        Accurate to 1e-14, and to a relative 1e-12 if the interval lies beyond all data. Cost: two normal distribution
        functions a point. For many intervals take differences of :meth:`cdf`.
        """
        check.one_dimension("integrate_box_1d", self.d)
        return self._mass(check.bound("low", low), check.bound("high", high))

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: int | None = None, *, rng: Any = None) -> Any:
        """Return the mass in a box.

        Parameters
        ----------
        low_bounds, high_bounds : array_like, shape (d,)
            Bounds, finite or infinite; a number applies to all dimensions. Bounds of a dimension in reverse order
            change the sign, as in an integral.
        maxpts : int, optional
            Largest number of points at which the integral of the kernel of one data point is sampled. Default 1,000,000
            times d.
        rng : numpy.random.Generator or seed, optional
            For sampling; an integer gives the same result on every call.

        Returns
        -------
        float, or a CuPy array of shape ()

        Raises
        ------
        TypeError, ValueError
            For anything but arrays of real numbers, other shapes, NaN, and an invalid ``maxpts`` or ``rng``.

        Warns
        -----
        ConvergenceWarning
            If ``maxpts`` points do not suffice; the message says how large the error is.

        Examples
        --------
        >>> import numpy as np, cukde
        >>> kde = cukde.gaussian_kde(np.array([[0.0, 1.0, 2.0], [0.0, 2.0, 1.0]]))
        >>> round(float(kde.integrate_box([0, 0], [1, np.inf])), 4)
        0.2308

        Notes
        -----
        Accurate to 1e-13 if at most two dimensions are bounded (by Owen's function), or if ``covariance`` is diagonal
        (by products). With more bounded dimensions the integral is sampled on randomised lattices until three standard
        errors of the sum are at most 1e-5, the error that SciPy asks for. Data points that have at most two dimensions
        with bounds within 6 standard deviations are summed without sampling
        (``tests/estimators/test_gaussian_kde_boxes.py``).

        Cost: O(n) normal distribution functions; 160 exponentials a data point with two bounded dimensions. Sampling
        takes 2 d normal distribution functions at each of 128 points for each data point, or at more if the error asks
        for it. Many data points need fewer, as their errors cancel.
        """
        sides = self._in_order("low_bounds", low_bounds), self._in_order("high_bounds", high_bounds)
        low, high = check.bounds(*sides, self.d)
        most = 1_000_000 * self.d if maxpts is None else core_check.count("maxpts", maxpts)
        return self._mass(low, high, most, np.random.default_rng(rng))

    def integrate_kde(self, other: Any) -> Any:
        """Return the integral of the product of this density and another.

        Parameters
        ----------
        other : gaussian_kde
            An object of this class or of SciPy's, with the same number of dimensions.

        Returns
        -------
        float, or a CuPy array of shape ()

        Raises
        ------
        TypeError
            For another object, and for one on the GPU with one on the CPU.
        ValueError
            For another number of dimensions.

        Examples
        --------
        >>> import cukde
        >>> other = cukde.gaussian_kde([1.0, 2.0])
        >>> round(float(cukde.gaussian_kde([0.0, 1.0, 3.0]).integrate_kde(other)), 4)
        0.1934

        Notes
        -----
        Computed as :func:`cukde.kde` of one dataset at the other, with the sum of both covariances as the bandwidth.
        Accurate to 1e-12, relative. Cost: at most n times ``other.n`` pairs.
        """
        check.other(other, self.d)
        check.same_coordinates(self._names, vars(other).get("_coordinates"))
        large, small = _by_size(self, other)
        backend = dispatch.backend(self.dataset, first="dataset", other=other.dataset)
        total = _doubles(self.covariance) + _doubles(other.covariance)
        with backend.device_of(self.dataset):
            X, w = _rows(large.dataset, backend), getattr(large, "_weights", None)
            Y = X if small is large else _rows(small.dataset, backend)
            problem, _ = prepare(X, Y, _bandwidth(total), None if w is None else backend.asarray(w))
            with problem.device:
                return backend.asarray(small.weights) @ problem.density(log=False)

    def resample(self, size: int | None = None, seed: Any = None, *, random_state: Any = None) -> Any:
        """Draw a sample from the density: points of the data, chosen by their weights and moved by the kernel.

        Parameters
        ----------
        size : int, optional
            At least 0. Default ``neff``, rounded down.
        seed : int, numpy.random.RandomState, numpy.random.Generator or None
            An integer gives the same sample on every call; None draws from NumPy's global state, as SciPy does.
        random_state
            Another name of ``seed``.

        Returns
        -------
        array, shape (d, size)

        Raises
        ------
        TypeError, ValueError
            For an invalid size or seed, and for two seeds.

        Examples
        --------
        >>> import cukde
        >>> cukde.gaussian_kde([0.0, 1.0, 3.0]).resample(2, seed=0).round(4)
        array([[3.1631, 1.4907]])

        Notes
        -----
        The random numbers are SciPy's, drawn on the host for either backend. So the sample equals SciPy's, up to
        rounding errors of the covariance. Cost: O(n + size).
        """
        count = int(self.neff) if size is None else core_check.count("size", size, 0, core_check.MOST)
        source = check.random_state(seed, random_state)
        steps = source.multivariate_normal(np.zeros(self.d), _doubles(self.covariance), size=count).T
        chosen = source.choice(self.n, size=count, p=dispatch.to_host(self.weights))
        backend = self._backend()
        with backend.device_of(self.dataset):
            return self.dataset[:, backend.xp.asarray(chosen)] + backend.xp.asarray(steps)

    def marginal(self, dimensions: Any) -> gaussian_kde:
        """Return the density of some of the dimensions; the others are integrated out.

        Parameters
        ----------
        dimensions : int or array_like of int
            Indices of the dimensions to keep; negative ones count from the end.

        Returns
        -------
        gaussian_kde
            The estimate for those rows of the dataset, with the same factor and weights.

        Raises
        ------
        ValueError
            For indices that are no integers, not unique, or out of range.

        Examples
        --------
        >>> import cukde
        >>> cukde.gaussian_kde([[0.0, 1.0, 2.0], [0.0, 2.0, 1.0]]).marginal(1)
        gaussian_kde(d=1, n=3, factor=0.8327)

        Notes
        -----
        Exact: a marginal of a normal distribution is the normal distribution with that block of the covariance.
        """
        chosen = check.dimensions(dimensions, self.d)
        backend = self._backend()
        with backend.device_of(self.dataset):
            rows = self.dataset[backend.xp.asarray(chosen)]
            out = gaussian_kde(rows, bw_method=self.covariance_factor(), weights=self._given_weights)
        out._coordinates = (names := self._names) and tuple(names[k] for k in chosen)
        return out

    def cdf(self, x: Any) -> Any:
        """Return the distribution function, for d = 1: the mass below each number of ``x``.

        Parameters
        ----------
        x : array_like
            Queries, of any shape, finite or infinite.

        Returns
        -------
        array of the shape of ``x``
            From 0 to 1, float64; a number for a number.

        Raises
        ------
        TypeError
            For anything but arrays of real numbers.
        ValueError
            For data of several dimensions, and NaN.

        Examples
        --------
        >>> import numpy as np, cukde
        >>> cukde.gaussian_kde([0.0, 1.0, 3.0]).cdf([-np.inf, 1.0, 9.0]).round(4)
        array([0.   , 0.448, 1.   ])

        Notes
        -----
        Accuracy (1e-12, relative, also in the left tail) and cost are those of :func:`cukde.cdf`.
        """
        check.one_dimension("cdf", self.d)
        backend = self._backend(x=x)
        with backend.device_of(self.dataset):
            at = check.places(x, backend)
            return self._below(at.reshape(-1)).reshape(at.shape)[()]

    def quantile(self, q: Any) -> Any:
        """Return quantiles, for d = 1: where the mass below is ``q``, the inverse of :meth:`cdf`.

        Parameters
        ----------
        q : array_like
            Levels from 0 to 1, of any shape; 0 gives -inf, 1 gives inf.

        Returns
        -------
        array of the shape of ``q``
            In units of the data, float64; a number for a number.

        Raises
        ------
        TypeError
            For anything but arrays of real numbers.
        ValueError
            For data of several dimensions, and levels that are NaN, below 0 or above 1.

        Warns
        -----
        ConvergenceWarning
            For levels at which 250 steps do not suffice; no such level is known.

        Examples
        --------
        >>> import cukde
        >>> cukde.gaussian_kde([0.0, 1.0, 3.0]).quantile([0.025, 0.5, 0.975]).round(4)
        array([-1.8562,  1.2444,  4.7747])

        Notes
        -----
        The distribution function at the result equals ``q`` to 1e-11, relative to the smaller of q and 1 - q, or the
        level lies between two neighbouring numbers of float64 (``tests/estimators/test_gaussian_kde.py``).

        Cost: about ten steps, each with a distribution function and a density at the levels that are not yet found.
        """
        check.one_dimension("quantile", self.d)
        backend = self._backend(q=q)
        xp = backend.xp
        with backend.device_of(self.dataset):
            levels = check.levels(q, backend)
            flat = levels.reshape(-1)
            out = xp.where(flat > 0.5, xp.inf, -xp.inf)
            deviation = float(np.sqrt(_doubles(self.covariance)[0, 0]))
            for sign, left in ((1, flat), (-1, 1 - flat)):  # 1 - q is exact from one half on
                rows = xp.flatnonzero((left > 0) & (left <= 0.5) & ((sign == 1) | (left < 0.5)))
                if len(rows):
                    function, slope = ("below", "density") if sign == 1 else ("above", "mirrored")
                    problems = self._problem(function), self._problem(slope)
                    out[rows] = sign * quantiles.lower(problems, deviation, left[rows], self.weights)
            return out.reshape(levels.shape)[()]

    @property
    def _names(self) -> entry_names.Labels:
        """Names of the coordinates: the index of a frame of pandas."""
        names: entry_names.Labels = vars(self).get("_coordinates")
        return names if names is None or len(names) == self.d else None

    def _in_order(self, name: str, a: Any) -> Any:
        """Return numbers or a covariance that were given by names in the order of the coordinates."""
        return entry_names.bandwidth(name, a, self._names, self.d, "dataset.T")

    @property
    def _given_weights(self) -> Any | None:
        return vars(self).get("_weights")

    def _backend(self, **others: Any) -> ModuleType:
        return dispatch.backend(self.dataset, first="dataset", **others)

    def _density(self, points: Any, *, log: bool) -> Any:
        backend = self._backend(points=points)
        with backend.device_of(self.dataset):
            at = check.points(points, self.d, backend)
            labels = entry_names.of_rows(points, series=self.d > 1)
            along = entry_names.order("points.T", labels, self._names, "dataset.T")
            at = at if along is None else at[along]
            extended = check.extended(at.dtype) or check.extended(self.covariance.dtype)
            Y = backend.xp.ascontiguousarray(at.T, dtype=np.float64)
            problem = self._problem("density").at(Y, "points")
            with problem.device:
                out = problem.density(log=log)
            return out.astype(np.longdouble) if extended else out

    def _mass(self, low: Any, high: Any, most: int = 1, source: Any = None) -> Any:
        """Return the mass of a box."""
        backend = self._backend()
        with backend.device_of(self.dataset):
            X, covariance = self._problem("density").X, _doubles(self.covariance)
            sides = np.atleast_1d(low), np.atleast_1d(high)
            mass = boxes.mass(X, self.weights, covariance, *sides, backend, most=most, rng=source)
            return backend.xp.asarray(mass) if backend.name == "gpu" else np.float64(mass)

    def _below(self, x: Any) -> Any:
        """Return the distribution function at a vector, infinities among it."""
        problem = self._problem("below")
        xp = problem.xp
        finite = xp.isfinite(x)
        at = problem.at(xp.where(finite, x, 0.0)[:, None], "x", gaussian=False)
        with problem.device:
            return xp.where(finite, at.distribution(log=False), xp.where(x > 0, 1.0, 0.0))

    def _problem(self, kind: str) -> Problem:
        """Return a sum over the data to be asked for at queries, kept for the same data, weights and covariance.

        A "density", the distribution function "below"; and for the data reflected in zero "above" and "mirrored".
        """
        dataset, weights, covariance = self.dataset, self._given_weights, self.covariance
        last = vars(self).get(_KEPT)
        if last is None or last[0] is not dataset or last[1] is not weights or last[2] is not covariance:
            last = dataset, weights, covariance, {}
            setattr(self, _KEPT, last)
        problems: dict[str, Problem] = last[3]
        if kind not in problems:
            problems[kind] = self._new_problem(kind)
        return problems[kind]

    def _new_problem(self, kind: str) -> Problem:
        # The distribution function has a store of its own: a density would put other sums in the place of its.
        if kind in ("below", "above"):
            return self._problem("density" if kind == "below" else "mirrored").kept()
        backend = self._backend()
        X = _rows(self.dataset, backend) if kind == "density" else -self._problem("density").X
        none, covariance = backend.xp.empty((0, self.d)), _doubles(self.covariance)
        density_check.cholesky(covariance, "covariance")
        problem, _ = prepare(X, none, _bandwidth(covariance), self._given_weights)
        return problem.kept()


def _same(value: Any) -> Any:
    return value


def _rows(dataset: Any, backend: ModuleType) -> Any:
    """Return a copy of data, a row a point, float64."""
    xp = backend.xp
    return xp.array(backend.asarray(dataset).T, dtype=np.float64, order="C")


def _doubles(covariance: Any) -> np.ndarray:
    """Return a covariance on the host, float64."""
    return np.ascontiguousarray(dispatch.to_host(covariance), dtype=np.float64)


def _bandwidth(covariance: np.ndarray) -> Any:
    """Return a covariance as a bandwidth: deviations where it is diagonal, a number in one dimension."""
    if len(covariance) == 1:
        return float(np.sqrt(covariance[0, 0]))
    deviations = np.sqrt(np.diag(covariance))
    return deviations if np.count_nonzero(covariance) == len(covariance) else covariance


def _by_size(one: Any, other: Any) -> tuple[Any, Any]:
    """Return two estimates, the one of more points first."""
    return (one, other) if other.n <= one.n else (other, one)
