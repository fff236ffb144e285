"""The effective number of rows of Markov chains."""

from __future__ import annotations

from cukde.bandwidth import chains as of_chains, check
from cukde.bandwidth.cost import effective_size as cost
from cukde.core import check as core_check, dispatch
from cukde.core.cost.registry import declare
from cukde.core.entry.public_call import public_call
from cukde.core.types import Array, ArrayLike
from cukde.density import check as density_check
from cukde.density.cost.calls import of_bandwidth


@declare(cost, of_bandwidth, name="bandwidth.effective_size")
@public_call()
def effective_size(X: ArrayLike, *, chains: int = 1) -> Array:
    r"""Effective number of rows of Markov chains: that of independent rows whose mean varies as much.

    .. math:: n_\mathrm{eff} = n \Big/ \Big(1 + 2 \sum_{k \ge 1} r_k\Big)

    The autocorrelations :math:`r_k` come from Fourier transforms. Their sum ends by Geyer's initial positive sequence
    and his initial monotone sequence.

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Rows in the order in which they were drawn; (n,) means d = 1. A GPU array computes on the GPU.
    chains : int
        Number of chains of the same length, at least 8 rows each, which follow one another in ``X``. Differences
        between their means count as correlation. Stan and ArviZ split each chain into two first: write twice as many.

    Returns
    -------
    array, shape (d,)
        A number for each column, at most n, float64, where the data are. NumPy in, NumPy out; CuPy in, CuPy out.

    Raises
    ------
    TypeError, ValueError
        For data that are not real numbers, NaN and infinity, constant columns, and ``chains`` that do not divide n.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = np.random.default_rng(0).normal(size=10_000)
    >>> walk = np.convolve(X, np.ones(10))  # neighbours share nine of ten terms
    >>> cukde.bandwidth.effective_size(X).round(), cukde.bandwidth.effective_size(walk).round()
    (array([9609.]), array([847.]))

    Notes
    -----
    Rules with ``n_eff="autocorrelation"`` find a larger number, that of a density: kernels tell apart rows that the
    mean does not. With ``n_eff=cukde.bandwidth.effective_size(X).min()`` they take this one, which is cautious, as if
    only so many rows were known. ``docs/bandwidths.md`` compares the two.

    Cost: a Fourier transform of 2 n to 4 n numbers for each column.

    References
    ----------
    - Geyer, C. J. (1992). Practical Markov chain Monte Carlo. *Statistical Science* 7, 473-483.
    - Vehtari, A., Gelman, A., Simpson, D., Carpenter, B. and Buerkner, P.-C. (2021). Rank-normalization, folding, and
      localization: an improved R-hat. *Bayesian Analysis* 16, 667-718, section 3.2.
    """
    backend = dispatch.backend(X)
    with backend.device_of(X):
        x, _ = density_check.data(X, backend)
        n, d = x.shape
        count = check.chains(chains, n)
        core_check.finite({"X": bool(backend.xp.isfinite(x).all())})
        found = [of_chains.of_column(x[:, k], count, backend) for k in range(d)]
        check.constant([k for k in range(d) if not len(found[k])])
        return backend.asarray([of_chains.effective(n, of_chains.monotone(each)) for each in found])
