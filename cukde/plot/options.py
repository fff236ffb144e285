"""Options as users of seaborn and Matplotlib write them: columns by name are taken, others are answered by advice."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from cukde.core.frames import unread
from cukde.core.frames.columns import labels_of

_Picture = TypeVar("_Picture", bound=Callable[..., Any])

_AXES = {"density": ("x",), "contours": ("x", "y"), "pairs": (), "anomalies": ("x",)}
"""Names by which seaborn's functions take the columns that a picture shows."""

_OWN = (
    ("h", "bandwidth bw bw_method", "a bandwidth or the name of its rule"),
    ("color", "c colour colors facecolor edgecolor", "as color='C1'"),
    ("color", "palette", "as color=['C0', 'C1'] or {label: 'C0'} for the groups"),
    ("color", "cmap", "as color='C1', of which regions are shades"),
    ("points", "gridsize n num", "the number of points of the curve, or of a side of the grid"),
    ("limits", "cut clip", "the ends of the curve, as limits=(0, 1)"),
    ("mass", "levels thresh n_levels bins", "the shares of the rows that regions hold, as mass=(0.5, 0.95)"),
    ("hue", "by group groups", "the name or position of the column of groups"),
    ("columns", "vars x_vars y_vars", "a list of names or positions"),
    ("log_scale", "log logx log_x xscale", "log_scale=True"),
    ("log_counts", "log log_scale logy", "log_counts=True"),
    ("resamples", "n_boot", "the number of bootstrap samples"),
    ("band", "ci errorbar", "as band=0.95"),
    ("threshold", "cutoff level", "a log density; or quantile, a share of the rows"),
    ("ax", "axes axs", "Matplotlib's Axes"),
    ("ax", "figure fig figsize", "as ax=matplotlib.pyplot.subplots(figsize=(8, 4))[1]"),
)
_ARTISTS = {
    "density": "ax.lines",
    "contours": "ax.collections",
    "pairs": "ax[0, 0].lines",
    "anomalies": "ax.patches",
}
_LOOKS = "alpha linewidth linewidths lw linestyle linestyles ls zorder"
_LABELS = "title xlabel ylabel xlim ylim xticks yticks"


def first_tries(function: _Picture) -> _Picture:
    """Take ``data=``, ``x=`` and ``y=``, and say of other options that a picture does not have what does it."""
    own = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def picture(*args: Any, **options: Any) -> Any:
        if not args or not options.keys() <= set(own) or isinstance(options.get("weights"), str):
            args, options = _translated(function.__name__, own, args, options)
        with np.errstate(under="ignore"):  # far from the data densities are 0
            return function(*args, **options)

    return picture  # type: ignore[return-value]


def _translated(
    name: str, own: list[str], args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a picture in its own form."""
    for option in options:
        if option not in (*own, "data", "x", "y"):
            raise TypeError(f"cukde.plot.{name} has no option {option}: {_advice(name, option, own)}")
    options = dict(options)
    data, columns = options.pop("data", None), [options.pop(each, None) for each in ("x", "y")]
    if data is None and args:
        data, *rest = args
    elif data is None:
        data, rest = options.pop(own[0], None), []
    else:
        rest = list(args)
        if args or own[0] in options:
            raise TypeError(f"{own[0]} and data must not both be given to cukde.plot.{name}: they are one")
    wanted = _AXES[name]
    if extra := [each for each, column in zip("xy", columns, strict=True) if column is not None and each not in wanted]:
        instead = "columns=[...]" if name == "pairs" else "cukde.plot.contours for two columns"
        raise TypeError(f"cukde.plot.{name} has no option {extra[0]}: write {instead}")
    columns = [column for column in columns if column is not None]
    if data is None:
        if len(columns) != 1 or len(wanted) != 1 or isinstance(columns[0], str):
            raise TypeError(f"cukde.plot.{name} needs {own[0]}: {_form(name)}")
        return (columns[0], *rest), options
    if columns:
        if len(columns) != len(wanted):
            raise TypeError(f"cukde.plot.{name} needs {' and '.join(wanted)} beside data: {_form(name)}")
        data, options = _by_name(name, data, columns, options)
    if isinstance(options.get("weights"), str):
        raise TypeError("weights must be numbers, one for each row, or the name of a column beside data and x")
    return (data, *rest), options


def _by_name(name: str, data: Any, columns: list[Any], options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the named columns of a frame, with that of ``hue``; ``weights`` are a column, too."""
    names = labels_of(data)
    if names is None:
        read = "write pandas.DataFrame(data)" if isinstance(data, Mapping) else unread.call(data, "data")
        raise TypeError(
            f"data must be a data frame where x or y is the name of a column; got {type(data).__name__}"
            + (f": {read}" if read else "")
        )
    hue = options.get("hue")
    if isinstance(hue, str | int) and hue not in columns and name != "anomalies":
        columns = [*columns, hue]
    elif isinstance(hue, str | int):
        options["hue"] = _column(data, hue, names)
    if isinstance(options.get("weights"), str):
        options["weights"] = _column(data, options["weights"], names)
    for column in columns:
        _column(data, column, names)
    taken = data.select(columns) if not hasattr(data, "iloc") and hasattr(data, "select") else data[columns]
    return (_column(data, columns[0], names) if name == "anomalies" else taken), options


def _column(data: Any, column: Any, names: tuple[Any, ...]) -> Any:
    try:
        count = names.count(column)
    except (TypeError, ValueError):  # an array
        count = 0
    if count != 1 or not isinstance(column, str | int | tuple):
        raise ValueError(f"x, y, hue and weights must each name one column of data, of {list(names)}; got {column!r}")
    return data[column]


def _form(name: str) -> str:
    """Return how to give the data of a picture."""
    if name == "contours":
        return (
            "write cukde.plot.contours(data=frame, x='height', y='weight'), or for two arrays "
            "cukde.plot.contours(numpy.column_stack([x, y])), for two series of pandas pandas.concat([x, y], axis=1)"
        )
    return f"write cukde.plot.{name}(frame)" if name == "pairs" else f"write cukde.plot.{name}(data=frame, x='height')"


def _advice(picture: str, option: str, own: list[str]) -> str:
    """Return what does what an option of another library would do."""
    for name, words, form in _OWN:
        if option in words.split() and name in own:
            return f"write {name}, {form}"
    panel = "ax[0, 0]" if picture == "pairs" else "ax"
    if option in ("fill", "shade") and picture == "density":
        return "write ax.fill_between(*ax.lines[0].get_data(), alpha=0.3) for the axes that it returns"
    if option in ("fill", "shade") and picture == "contours":
        lines_alone = "[each.remove() for each in list(ax.collections) if getattr(each, 'filled', False)]"
        return f"regions are filled; for lines alone write {lines_alone} for the axes that it returns"
    if option == "cumulative":
        return "the distribution function is cukde.cdf"
    if option == "legend":
        legend = "ax[0, 0].figure.legends[0]" if picture == "pairs" else "ax.get_legend()"
        return f"write {legend}.remove() for the axes that it returns"
    if option in _LOOKS.split():
        return f"write matplotlib.pyplot.setp({_ARTISTS[picture]}, {option}=...) for the axes that it returns"
    if option in _LABELS.split():
        return f"write {panel}.set({option}=...) for the axes that it returns"
    close = difflib.get_close_matches(option, own, 1)
    return f"did you mean {close[0]}?" if close else f"its options are {', '.join(own)}"
