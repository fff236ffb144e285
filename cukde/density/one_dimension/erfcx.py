"""Mills' ratio of the normal distribution, as both backends compile it."""

from __future__ import annotations

import math
from typing import Any


def half_erfcx(x: Any) -> Any:
    """exp(x^2) erfc(x) / 2 for x >= 0, to 5 eps: the rational approximations of Cody (1969), *Math. Comp.* 23."""
    if x < 0.46875:
        z = x * x
        top = 1.85777706184603153e-1 * z + 3.16112374387056560
        top = (top * z + 1.13864154151050156e2) * z + 3.77485237685302021e2
        top = top * z + 3.20937758913846947e3
        bottom = (z + 2.36012909523441209e1) * z + 2.44024637934444173e2
        bottom = (bottom * z + 1.28261652607737228e3) * z + 2.84423683343917062e3
        out = math.exp(z) * (1 - x * top / bottom)
    elif x <= 4.0:
        top = 2.15311535474403846e-8 * x + 5.64188496988670089e-1
        top = (top * x + 8.88314979438837594) * x + 6.61191906371416295e1
        top = (top * x + 2.98635138197400131e2) * x + 8.81952221241769090e2
        top = (top * x + 1.71204761263407058e3) * x + 2.05107837782607147e3
        top = top * x + 1.23033935479799725e3
        bottom = x + 1.57449261107098347e1
        bottom = (bottom * x + 1.17693950891312499e2) * x + 5.37181101862009858e2
        bottom = (bottom * x + 1.62138957456669019e3) * x + 3.29079923573345963e3
        bottom = (bottom * x + 4.36261909014324716e3) * x + 3.43936767414372164e3
        bottom = bottom * x + 1.23033935480374942e3
        out = top / bottom
    else:
        z = 1 / x
        z = z * z
        top = 1.63153871373020978e-2 * z + 3.05326634961232344e-1
        top = (top * z + 3.60344899949804439e-1) * z + 1.25781726111229246e-1
        top = (top * z + 1.60837851487422766e-2) * z + 6.58749161529837803e-4
        bottom = z + 2.56852019228982242
        bottom = (bottom * z + 1.87295284992346725) * z + 5.27905102951428412e-1
        bottom = (bottom * z + 6.05183413124413191e-2) * z + 2.33520497626869185e-3
        out = (5.6418958354775628695e-1 - z * top / bottom) / x
    return 0.5 * out
