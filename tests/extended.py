"""NumPy's long double: on Windows, and on ARM under macOS, it is a double, and nothing can tell the two apart."""

from __future__ import annotations

import numpy as np
import pytest

IS_DOUBLE = np.dtype(np.longdouble).itemsize == 8

needed = pytest.mark.skipif(IS_DOUBLE, reason="long double is double here")
"""For tests whose reference has more digits than float64, or of what is said of such numbers."""
