"""Which passes would take a call, in which order, and why: what the cost formula of the operation goes by."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from cukde.core import dispatch
from cukde.core.cost.peaks import Peaks
from cukde.core.cost.registry import call_of, counted, told
from cukde.core.plan import Plan, collected
from cukde.core.public import public_in
from cukde.perf import _text
from cukde.perf._explain import held_by, in_memory
from cukde.perf._lookup import peaks


@public_in("cukde.perf")
class CallPlan(NamedTuple):
    """The passes that would take a call: see :func:`plan`. Its string lists them.

    Attributes
    ----------
    op : str
        Name of the operation.
    sizes : str
        Sizes of the call.
    on : str
        Name of the processor.
    plans : tuple of Plan
        For each pass over the data its ``subject`` and its ``candidates``, in the order in which they are asked.
        ``names`` are those of the candidates that serve, and ``sure`` is the first that takes any data. A candidate has
        a ``name``, milliseconds ``ms`` where a table of rates compares it, the ``condition`` on the data under which it
        serves, and why it is ``refused``.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> from cukde import perf
    >>> perf.plan(cukde.kendall_matrix, np.zeros((1000, 500)), gpu="H200").plans[0].names[0]
    'products'

    Notes
    -----
    Nothing is computed. The candidates are exactly those that the passes ask; their milliseconds are as accurate as the
    table of rates that compares them.
    """

    op: str
    sizes: str
    on: str
    plans: tuple[Plan, ...]

    def __str__(self) -> str:
        first = f"{self.op} {self.sizes} on {self.on}"
        if not self.plans:
            return f"{first}: its cost formula goes by no plan"
        return "\n".join([first, *map(str, self.plans)])

    def __repr__(self) -> str:
        """The list, as it is printed."""
        return str(self)


def plan(fn: Callable[..., Any], *args: Any, gpu: str | Peaks | None = None, **kwargs: Any) -> CallPlan:
    """Say which passes would take a call, in which order, and why others would not.

    Parameters
    ----------
    fn : callable
        An operation whose cost is known (:func:`cukde.perf.operations`), an object whose call is one, or a
        ``functools.partial`` of one. It is not called.
    *args, **kwargs
        Its arguments. Put an argument that has the name of a parameter of this function into a ``functools.partial``.
    gpu : str or Peaks, optional
        The processor, as for :func:`cukde.perf.peaks`; the arrays may be elsewhere, and no GPU is needed. Default: the
        device that holds the arrays.

    Returns
    -------
    CallPlan
        Its string is the list of passes.

    Raises
    ------
    TypeError
        For a call with Dask collections, whose blocks take a pass each.
    ValueError
        For a call whose cost is not known, and for a processor that is not known: the message says which are. For
        arguments without sizes.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> from cukde import perf
    >>> perf.plan(cukde.kendall_matrix, np.zeros((8000, 32)), gpu="H200")
    kendall_matrix n=8,000 p=32 float64 on H200
    Tau of all pairs of 32 columns, 8,000 samples
       -  comparisons         not asked: so many comparisons take longer than the launches of other ways
       1. products            about 0.256 ms; no column has ties
       2. sorting             about 0.284 ms
       3. products with ties  about 0.424 ms
    >>> perf.plan(cukde.depthwise_conv1d, np.zeros((4, 8, 500)), np.zeros((8, 9)), gpu="H200").plans[0].sure
    'rows'

    See Also
    --------
    explain : Run the call, and say what limits it.

    Notes
    -----
    The passes run by the same plans, and the cost formulas count by them. Sizes, dtypes and options alone decide; where
    only the data can tell, a candidate has a condition, and the next one takes data that do not meet it. Milliseconds
    are as accurate as the table of rates that compares candidates; :func:`predict` says how long the call takes.

    If the work depends on options that no cost formula has, such as ``distribution="exact"`` of
    :func:`cukde.kendalltau`, the plan is that of the default. The first plan for a processor whose peaks are not kept
    measures them (:func:`cukde.perf.peaks`).
    """
    known = call_of(fn, args, kwargs)
    held = list(held_by(functools.partial(fn, *args, **kwargs)))
    in_memory(held, "plan", "name a call with one block")
    on = peaks(gpu if gpu is not None or any(map(dispatch.is_gpu_array, held)) else "cpu")
    try:
        shapes = known.shapes
    except (AttributeError, IndexError, KeyError) as error:
        raise ValueError(
            f"the arguments of {known.operation.name} must be such as it takes, to have sizes: call it to see its own "
            f"error; got {type(error).__name__}: {error}"
        ) from error
    with collected() as plans:
        counted(known.operation, on, shapes)
    sizes = _text.sizes(told(known.operation.name, shapes))
    return CallPlan(known.operation.name, sizes, on.name, tuple(dict.fromkeys(plans)))
