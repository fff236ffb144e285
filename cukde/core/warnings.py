"""Warnings with categories by which callers can filter them."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from cukde.core.public import public_in


@public_in("cukde")
class NegativeDensityWarning(UserWarning):
    """Warns that a Laplace-corrected density was negative somewhere: it was clipped to zero, or has no log-likelihood.

    Clipped values are exactly 0, so the result no longer integrates to 1; the message gives their share.
    ``KernelDensity.score`` returns -inf in this case.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, cukde
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     p = cukde.laplace_kde(np.array([0.0]), np.array([0.0, 3.0]), 1.0, negative="clip")
    >>> p.round(4), caught[0].category.__name__
    (array([0.5984, 0.    ]), 'NegativeDensityWarning')
    """


@public_in("cukde")
class MemoryWarning(UserWarning):
    """Warns that memory ran out at a block of a Dask array, which was then computed in smaller parts.

    The result is the same, and as accurate. It costs the time of the block and of the failed attempt.

    Examples
    --------
    >>> import warnings
    >>> import cukde
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", cukde.MemoryWarning)  # rather fail than take longer
    """


@public_in("cukde")
class DeviceWarning(RuntimeWarning):
    """Warns that a GPU failed in a call on several, and that the others computed its share.

    The result is the same, and as accurate. It costs the time of the failed attempt and of the share. After an error
    that ends all work of a process on its GPUs, such as an illegal address, the call raises instead.

    Examples
    --------
    >>> import warnings
    >>> import cukde
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", cukde.DeviceWarning)  # rather fail than go on with fewer GPUs
    """


@public_in("cukde")
class BandwidthRangeWarning(UserWarning):
    """Warns that the best bandwidth by cross-validation is the smallest or the largest that was tried.

    The scores are accurate all the same; a better bandwidth may lie beyond the range.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, cukde
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     found = cukde.bandwidth.cross_validate(np.arange(9.0), "kde", [5.0, 6.0])
    >>> caught[0].category.__name__
    'BandwidthRangeWarning'
    """


@public_in("cukde")
class ConvergenceWarning(RuntimeWarning):
    """Warns that a result is less accurate than others: the message says how many points or numbers, and by how much.

    An iteration ended before all of its points had converged, a grid was too coarse, or a bias was large.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, cukde
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     found = cukde.modes(np.array([0.0, 1.0, 9.0]), 1.0, max_iterations=1)
    >>> caught[0].category.__name__
    'ConvergenceWarning'
    """


_TOLD: set[tuple[str, type[Warning], str, int]] = set()
"""Warnings that the callers' lines have had."""

_BETWEEN = ("cukde", "sklearn", "joblib")  # packages between a user's line and what it warns of


def once(message: str, category: type[Warning]) -> None:
    """Warn the user's line, which a search of scikit-learn may lie below; once, unless filters ask for more.

    The registries of :mod:`warnings` are cleared wherever filters change, as they do in every task of a search.
    """
    (file, line, module), _ = _line_of_user()
    key = message, category, file, line
    if _action(message, category, module, line) in ("default", "module", "once"):
        if key in _TOLD:
            return
        _TOLD.add(key)
    warnings.warn_explicit(message, category, file, line, module)


def of_user(message: str, category: type[Warning]) -> None:
    """Warn the user's line, however many functions of this package and of scikit-learn lie between."""
    place, registry = _line_of_user()
    warnings.warn_explicit(message, category, *place, registry)


def _line_of_user() -> tuple[tuple[str, int, str], dict[Any, Any]]:
    """The file, the line and the module of the user, and what the module remembers of warnings."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN:
        frame = frame.f_back
    place = frame.f_code.co_filename, frame.f_lineno, str(frame.f_globals.get("__name__"))
    return place, frame.f_globals.setdefault("__warningregistry__", {})


def _action(message: str, category: type[Warning], module: str, line: int) -> str:
    """What the filters say of a warning, by the first that it matches."""
    for action, text, kind, of_module, of_line in warnings.filters:
        if (
            (text is None or text.match(message))
            and issubclass(category, kind)
            and (of_module is None or of_module.match(module))
            and of_line in (0, line)
        ):
            return action
    return "default"


def from_task(message: str, category: type[Warning]) -> None:
    """Warn in a Dask task; on a cluster the warning also reaches the caller's process."""
    distributed = sys.modules.get("distributed")
    (warnings if distributed is None else distributed).warn(message, category)


_TOO_SMALL = {
    (True, False): "One or more sample arguments is too small; all returned values will be NaN.",
    (True, True): "After omitting NaNs, one or more sample arguments is too small; all returned values will be NaN.",
    (False, False): (
        "All axis-slices of one or more sample arguments are too small; all elements of returned arrays will be NaN."
    ),
    (False, True): (
        "After omitting NaNs, one or more axis-slices of one or more sample arguments is too small; corresponding "
        "elements of returned arrays will be NaN."
    ),
}
"""SciPy's messages, by whether there is one result, and whether NaN was left out."""


def small_samples(samples: Any, nan: np.ndarray | None, n: int, shape: tuple[int, ...], nan_policy: str) -> None:
    """Warn the user of the function that calls, in SciPy's words, of results from fewer than two samples.

    A single result always warns; an array of ``shape`` warns if there are no samples at all or NaN was left out.
    ``samples`` is the number of samples left of ``n`` for each result. ``nan`` tells which results had NaN; None means
    those with fewer than n samples. Arrays on a GPU are not read.
    """
    on_host = isinstance(samples, np.ndarray)
    has_nan = on_host and bool((samples < n if nan is None else nan).any())
    if has_nan and nan_policy != "omit":
        return
    few = bool((samples < 2).any()) if on_host else n < 2
    if few and (shape == () or has_nan or n == 0):
        text = _TOO_SMALL[shape == (), has_nan] + " See documentation for sample size requirements."
        of_user(text, _small_sample_category())


def _small_sample_category() -> type[Warning]:
    """Return SciPy's SmallSampleWarning, or its base where SciPy is older."""
    try:
        from scipy.stats._axis_nan_policy import SmallSampleWarning
    except ImportError:
        return RuntimeWarning
    category: type[Warning] = SmallSampleWarning
    return category
