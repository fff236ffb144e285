"""What the host takes where the device waits for it, seconds. Measured beside an H200: other hosts differ."""

COPY = 3e-5
"""A few numbers copied to the host and looked at: a call of ``pwpa``, which copies twice, takes 0.06 ms longer than one
of a ``PiecewisePolynomial`` (benchmarks/results/piecewise_h200.json)."""

NUMBA_LAUNCH = 2.8e-5
"""A launch of a kernel of Numba's with twenty arguments."""

TIES = 3e-4
"""From when the host knows the ties of all columns of a matrix to when the next kernel of Kendall's tau runs: calls
whose device work is next to nothing take 0.47 ms, most of it here (table of cukde/kendall/choice.py)."""

DENSITY = 2.8e-4
"""From the beginning of a call of the density family to its first launch but for those of the survey, where nothing
hides it: what is left of 0.45 ms that a density by the fast Gauss transform takes however few its points are
(cukde/density/one_dimension/gpu/passes.py)."""
