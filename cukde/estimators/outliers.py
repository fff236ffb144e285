"""Outlier detection by the density, with scikit-learn's interface."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from sklearn.base import OutlierMixin

from cukde.core import dispatch, words
from cukde.core.keywords import as_in
from cukde.core.over_dask import is_dask, meta
from cukde.core.public import public_in
from cukde.core.quiet import quiet_methods
from cukde.core.row_keys import Rows
from cukde.core.types import Array, ArrayLike
from cukde.density import check as density_check
from cukde.density.compositions.regions import levels
from cukde.estimators import check, refits
from cukde.estimators.kernel_density import _KEPT, _ROWS_KEPT, KernelDensity

_AUTO = 0.05  # the share of the default level of cukde.hdr_threshold


@public_in("cukde")
@quiet_methods
@as_in(
    "cukde.KernelDensity",
    *("algorithm", "kernel", "metric", "atol", "rtol", "breadth_first", "leaf_size", "metric_params", "precision"),
    *("backend", "bounds", "periods", "kinds", "steps", "own_point"),
)
class OutlierDetector(OutlierMixin, KernelDensity):
    """Outlier detection by the density: rows where the others are rare, with scikit-learn's interface.

    The score of a row is the log density of the other rows there: a row never vouches for itself. Outliers are rows
    whose score is below ``offset_``, the level that the share ``contamination`` of the training rows is below. A new
    row is compared with the same level, which is that of :func:`cukde.hdr_threshold`.

    Parameters
    ----------
    contamination : "auto" or float
        The share of the training rows, by weight, that are called outliers, more than 0 and at most 0.5; of new rows
        like them the share is about the same. "auto" is 0.05, and assumes nothing about how many there are.
    bandwidth : float, array_like, mapping, str or callable
        As in :class:`cukde.KernelDensity`. The default follows the spread of the columns; "cross_validate" finds
        narrow groups, too, and takes longer.
    method : {"kde", "sd", "positive"}
        The estimate, as in :class:`cukde.KernelDensity`.

    Attributes
    ----------
    offset_ : float
        The level: ``decision_function`` is ``score_samples - offset_``.
    training_scores_ : array, shape (n,)
        Scores of the training rows: log densities of the other rows.
    n_features_in_, feature_names_in_, bandwidth_, points_, sample_weight_, local_factors_, mass_, mass_error_
        As in :class:`cukde.KernelDensity`.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = np.append(np.random.default_rng(0).normal(size=99), 9.0)[:, None]
    >>> detector = cukde.OutlierDetector(contamination=0.01).fit(X)
    >>> detector.predict([[9.0], [0.0], [-7.0]])  # a training row, and two new rows
    array([-1,  1, -1])
    >>> detector.fit_predict(X)[-3:]
    array([ 1,  1, -1])

    Notes
    -----
    A query that equals a training row, value for value, counts as that row, and so is judged by the others. So
    ``fit_predict(X)`` is ``fit(X).predict(X)``, and the answer for a row does not depend on the other queries. All
    other queries are new. Copies of a row are others, and all have the score of the heaviest: drop duplicates first
    where they are errors.

    :meth:`score` is the log-likelihood of :class:`cukde.KernelDensity`, in which all queries are new, so that a search
    for the bandwidth without labels works; with labels, 1 for inliers, give ``scoring="roc_auc"``.

    Data are in memory, not Dask collections. Cost: that of :class:`cukde.KernelDensity`, and in :meth:`fit` one
    density of the data at the data, n^2 exponentials. Training rows among queries are looked up, without a pass.

    References
    ----------
    - Hyndman, R. J. (1996), as in :func:`cukde.hdr_threshold`, for the level.
    """

    _more_arrays = ("training_scores_", "_rows_of_fit")
    _more_fitted = ("offset_", *_more_arrays)

    @words.suggested
    def __init__(
        self,
        *,
        contamination: str | float = "auto",
        bandwidth: Any = "silverman_deviations",
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
        kinds: Any = None,
        steps: int = 1,
        own_point: bool = True,
    ) -> None:
        of_density = {name: value for name, value in locals().items() if name not in ("self", "contamination")}
        of_density.pop("__class__")
        super().__init__(**of_density)
        self.contamination = contamination

    @words.suggested
    @refits.whole(_KEPT, _ROWS_KEPT)
    def fit(self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> OutlierDetector:
        """Fit the density to the data, score each row by the others, and find the level.

        Parameters
        ----------
        X : array_like or dataframe, shape (n, d)
            Training rows, at least two, in memory: as in :meth:`cukde.KernelDensity.fit`.
        y : None
            Ignored.
        sample_weight : array_like, shape (n,), optional
            Non-negative weights, of the density and of the share of outliers; only their ratios matter. A row leaves
            itself out with all of its weight: a weight of 2 is not two rows.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError, RuntimeError
            As :meth:`cukde.KernelDensity.fit`; for an invalid ``contamination``, method "laplace", whose density may
            be negative, a single row with a weight, Dask collections, and kernels that leave more rows than
            ``contamination`` out of reach of all others.
        """
        share = check.contamination(self.contamination, _AUTO)
        check.method_of_level(self.method)
        check.rows_in_memory(lazy=is_dask(X) or is_dask(sample_weight))
        super().fit(X, y, sample_weight)
        backend, weights = self._fitted(None), self.sample_weight_
        with backend.device_of(self.points_):
            density_check.rows_to_leave_out(len(self.points_) if weights is None else int((weights > 0).sum()))
            rows = self._array(X, backend, reset=False)
            scores = self._log_density(rows, backend, leave_one_out=True, checked=True)
            # Debiased points are no rows of the data.
            self._rows_of_fit = backend.xp.array(rows, self._dtype) if self._estimate.moves else None
            which = self._find(rows, backend)
            scores = self.training_scores_ = backend.xp.where(which < 0, scores, scores[which])  # one of all copies
            self.offset_ = check.level(float(levels(scores, np.array(1 - share), weights, backend)), share)
        return self

    def fit_predict(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> np.ndarray:
        """Fit the detector, and return -1 for the outliers among the training rows and 1 for the others.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`, whose errors are raised.

        Returns
        -------
        ndarray of int, shape (n,)
            On the host.
        """
        return self.fit(X, y, sample_weight).predict(X)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return -1 for outliers and 1 for the other rows: where :meth:`decision_function` is negative or not.

        Parameters
        ----------
        X : array_like or dataframe, shape (m, d)
            Queries, as in :meth:`score_samples`, whose errors are raised.

        Returns
        -------
        ndarray of int, shape (m,)
            On the host.
        """
        return np.where(dispatch.to_host(self.decision_function(X)) >= 0, 1, -1)

    def decision_function(self, X: ArrayLike) -> Array:
        """Return ``score_samples(X) - offset_``: negative for outliers.

        Parameters
        ----------
        X : array_like or dataframe, shape (m, d)
            Queries, as in :meth:`score_samples`, whose errors are raised.

        Returns
        -------
        array, shape (m,)
            In units of the logarithm of the density.
        """
        return self.score_samples(X) - self.offset_

    def score_samples(self, X: ArrayLike, *, leave_one_out: bool = False) -> Array:
        """Return the log density at the rows of ``X``; at a training row that of the other rows.

        Parameters
        ----------
        X : array_like or dataframe, shape (m, d)
            Queries, in memory.
        leave_one_out : bool
            As in :class:`cukde.KernelDensity`. Training rows leave themselves out in any case.

        Returns
        -------
        array, shape (m,)
            Log density, in units of log(1/volume): higher is more normal.

        Raises
        ------
        TypeError, ValueError, sklearn.exceptions.NotFittedError
            As :meth:`cukde.KernelDensity.score_samples`, and for Dask collections.
        """
        if leave_one_out:
            return super().score_samples(X, leave_one_out=True)
        backend = self._fitted(X)
        check.rows_in_memory(lazy=is_dask(X))
        with backend.device_of(meta(self.points_)):
            queries = self._array(X, backend, reset=False)
            which = self._find(queries, backend)
            out = self.training_scores_[which].astype(self._result_dtype(queries), copy=False)
            new = backend.xp.flatnonzero(which < 0)
            if len(new):
                of_new = queries if len(new) == len(out) else queries[new]
                out[new] = self._log_density(of_new, backend, checked=True)
            return self._returned(out, X, backend)

    def _array(self, X: Any, backend: ModuleType, *, reset: bool) -> Any:
        out = super()._array(X, backend, reset=reset)
        if reset:
            check.others(len(out))
        return out

    def _find(self, queries: Any, backend: ModuleType) -> Any:
        """Which training row each query is, or -1."""
        rows: Any = vars(self).get(_ROWS_KEPT)
        if rows is None:
            points = self.points_ if self._rows_of_fit is None else self._rows_of_fit
            rows = Rows(points, backend.xp, self.sample_weight_)
            setattr(self, _ROWS_KEPT, rows)
        return rows.find(queries)

    def _check_more(self, fitted: dict[str, Any]) -> None:
        check.contamination(self.contamination, _AUTO)
        check.method_of_level(self.method)
        scores = fitted["training_scores_"]
        if scores.shape != (len(fitted["points_"]),) or scores.dtype.kind != "f":
            raise ValueError(f"scores of shape {scores.shape} do not fit points of shape {fitted['points_'].shape}")
        rows = fitted["_rows_of_fit"]
        if rows is not None and rows.shape != fitted["points_"].shape:
            raise ValueError(f"rows of shape {rows.shape} do not fit points of shape {fitted['points_'].shape}")
        fitted["offset_"] = float(fitted["offset_"])
