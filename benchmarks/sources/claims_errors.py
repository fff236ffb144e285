"""What Flash-SD-KDE and SD-KDE say of errors of the estimates themselves, beside the records."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.sources.claim import Claim, digits, finding, ms, of_sizes, percent, power, record, rows, span, there
from docs.figures import choosing

STUDY, LONG, HELD_OUT, ABLATION = "sources_h200/section-4", "oracle_study", "held_out", "ablation_h200"
KNOWN, ORDERS = "rule_of_thumb_cpu", "bias_order_h100"
GIVEN, LINE, OWN = "given_score_cpu", "density_1d_h200", "flash_errors_h200"
FLASH_LINE, IEEE, TF32 = "Flash-SD-KDE, float32", "Flash-SD-KDE, fp32_ieee", "Flash-SD-KDE, TF32"
OPS = ("kde", "sd_kde", "laplace_kde")
LAPLACE_TWICE = "Laplace, two passes"
LEAST, MANY = 3000, 1000000

_NAME_OF = {"kde": "KDE", "sd_kde": "SD-KDE", "laplace_kde": "Laplace, fused"}
_COLUMNS = {
    "mise": "MISE",
    "miae": "MIAE",
    "mise_by_oracle": "MISE by points of p",
    "miae_by_oracle": "MIAE by points of p",
}

_RULE, _BEST = "by_rule", "minimising"
_D = 16


def _by_size(op: str, bandwidth: str, key: str) -> dict[int, float]:
    """Of the study in 16 dimensions."""
    return {row["shape"]["n"]: float(row[bandwidth][key]) for row in rows(STUDY, op, d=_D) if bandwidth in row}


def _ratios(op: str, bandwidth: str, key: str) -> list[float]:
    """Errors over those of KDE, size by size."""
    of, kde = _by_size(op, bandwidth, key), _by_size("kde", bandwidth, key)
    return [of[n] / kde[n] for n in sorted(of)]


def _winners(bandwidth: str, key: str) -> dict[int, str]:
    """Estimate of least error at each size."""
    of = {op: _by_size(op, bandwidth, key) for op in OPS}
    return {n: min(OPS, key=lambda op: of[op][n]) for n in sorted(of["kde"])}


def _won(op: str, bandwidth: str, key: str) -> str:
    winners = _winners(bandwidth, key)
    return f"at {sum(winner == op for winner in winners.values())} of {len(winners)} sizes"


def _both(said: Callable[[str], str]) -> str:
    return f"{said(_RULE)} by the rules, {said(_BEST)} at the best bandwidths"


def _negative(bandwidth: str) -> list[float]:
    return list(_by_size("laplace_kde", bandwidth, "negative_mass").values())


def _falls(bandwidth: str, key: str) -> bool:
    """Whether an error of every estimate falls at every step."""
    return all(
        after < before for op in OPS for before, after in itertools.pairwise(_by_size(op, bandwidth, key).values())
    )


def _shared(op: str, key: str, d: int) -> dict[int, float]:
    """Errors by size, at the bandwidth that all estimates share."""
    (table,) = (of for of in record(STUDY)["tables"] if of["title"] == "Errors at one bandwidth for all")
    column = table["columns"].index(_COLUMNS[key])
    return {row[1]: float(row[column]) for row in table["rows"] if (row[0], row[2]) == (d, _NAME_OF[op])}


def _shared_least(key: str, d: int = _D) -> str:
    """The estimate of least error at every size."""
    of = {op: _shared(op, key, d) for op in OPS}
    (least,) = {min(OPS, key=lambda op: of[op][n]) for n in of["kde"]}
    return least


def _shared_ratios(op: str, key: str, d: int = _D) -> str:
    """Errors over those of KDE."""
    of, kde = _shared(op, key, d), _shared("kde", key, d)
    return span([of[n] / kde[n] for n in of])


def _sixteen() -> list[Claim]:
    sd = {bandwidth: _ratios("sd_kde", bandwidth, "mise") for bandwidth in (_RULE, _BEST)}
    kinks = list(_by_size("laplace_kde", _BEST, "miae").values())
    line = max(
        row[bandwidth]["negative_mass"] for row in rows(STUDY, "laplace_kde", d=1) for bandwidth in (_RULE, _BEST)
    )
    return [
        Claim(
            "SD-KDE has substantially less MISE than KDE, 3,000 to 1,000,000 points",
            finding("refuted: less, not substantially", if_=min(map(min, sd.values())) > 0.8),
            f"over KDE's MISE: {_both(lambda bandwidth: span(sd[bandwidth]))}",
            (STUDY,),
        ),
        Claim(
            "the Laplace correction has the least MISE at every size",
            finding(
                "confirmed at the best bandwidths; refuted by the rules",
                if_=set(_winners(_BEST, "mise").values()) == {"laplace_kde"}
                and "laplace_kde" not in _winners(_RULE, "mise").values(),
            ),
            f"the least {_both(lambda bandwidth: _won('laplace_kde', bandwidth, 'mise'))}",
            (STUDY,),
        ),
        Claim(
            "SD-KDE has the least MIAE",
            finding(
                "confirmed from 100,000 points",
                if_=all(
                    (of == "sd_kde") is (n >= 100_000) or (bandwidth, n) == (_BEST, 10_000)
                    for bandwidth in (_RULE, _BEST)
                    for n, of in _winners(bandwidth, "miae").items()
                ),
            ),
            f"the least {_both(lambda bandwidth: _won('sd_kde', bandwidth, 'miae'))}",
            (STUDY,),
        ),
        Claim(
            "both errors fall with n, but for a kink in Laplace's MIAE",
            finding(
                "confirmed, without the kink",
                if_=all(_falls(bandwidth, key) for bandwidth in (_RULE, _BEST) for key in ("mise", "miae")),
            ),
            f"all fall at every step; Laplace's MIAE {', '.join(digits(value) for value in kinks)}",
            (STUDY,),
        ),
        Claim(
            "Laplace's negative values are small (in its logs)",
            finding(
                "refuted in 16 dimensions; confirmed in one",
                if_=min(_negative(_RULE) + _negative(_BEST)) > 0.3 and line < 0.01,
            ),
            f"their integral is {_both(lambda bandwidth: span(_negative(bandwidth)))}; in one dimension at most "
            f"{digits(line)}",
            (STUDY,),
        ),
        Claim(
            "at one bandwidth for all, as in its code, Laplace has the least MISE and SD-KDE the least MIAE",
            finding(
                "confirmed",
                if_=_shared_least("mise") == _shared_least("mise_by_oracle") == "laplace_kde"
                and _shared_least("miae") == _shared_least("miae_by_oracle") == "sd_kde",
            ),
            f"the least at every size; SD-KDE has {_shared_ratios('sd_kde', 'mise')}× KDE's MISE and "
            f"{_shared_ratios('sd_kde', 'miae')}× its MIAE",
            (STUDY,),
        ),
        _by_its_own_program(),
        Claim(
            "the same in one dimension: three normals, 128 to 4,096 points",
            finding(
                "confirmed for MISE; refuted for MIAE: Laplace has the least of both",
                if_=_shared_least("mise", 1) == _shared_least("miae", 1) == "laplace_kde",
            ),
            f"SD-KDE has {_shared_ratios('sd_kde', 'mise', 1)}× KDE's MISE, Laplace "
            f"{_shared_ratios('laplace_kde', 'mise', 1)}×",
            (STUDY,),
        ),
    ]


def _by_its_own_program() -> Claim:
    """The order of the estimates by Flash-SD-KDE's own densities, and how far ours are from them."""
    said = "the same by its own program, in `fp32_ieee`, with estimates cut off at 1e-30"
    if not there(OWN):
        return Claim(said, "open: [a run on an H200](#what-is-open)", "")

    def of(program: str, key: str) -> dict[tuple[str, int], float]:
        return {(row["op"], row["shape"]["n"]): row[key] for row in record(OWN)["rows"] if row["program"] == program}

    def least(op: str, key: str) -> list[bool]:
        values = of(IEEE, key)
        return [values[op, n] == min(values[each, n] for each in OPS) for n in dict.fromkeys(n for _, n in values)]

    apart = [
        max(of(program, "apart")[key] / value for key, value in of("cukde", "miae").items()) for program in (IEEE, TF32)
    ]
    mise, miae = of_sizes(least("laplace_kde", "mise")), of_sizes(least("sd_kde", "miae"))
    return Claim(
        said,
        mise if mise == miae else f"{mise} for MISE; {miae} for MIAE",
        f"its densities differ from cukde's by at most {percent(apart[0])} of an estimate's MIAE, in TF32 by "
        f"{percent(apart[1])}",
        (OWN,),
    )


def _apart() -> float:
    """MISE of the fused correction against that of two passes, at most."""
    of: dict[str, list[float]] = {"Laplace, fused": [], LAPLACE_TWICE: []}
    for _, estimator, _, _, mise, *_ in record(STUDY)["tables"][0]["rows"]:
        if estimator in of:
            of[estimator].append(mise)
    return max(abs(a / b - 1) for a, b in zip(*of.values(), strict=True))


def _fusion() -> list[Claim]:
    many = {"n": MANY, "d": _D}
    times = ms(STUDY, "laplace_kde", LAPLACE_TWICE, **many) / ms(STUDY, "laplace_kde", **many)
    small = {"n": 65536, "d": _D}
    passes = ms(ABLATION, "laplace_kde", "two passes", precision="float32", **small)
    fused = ms(ABLATION, "laplace_kde", precision="float32", **small)
    line = {row["shape"]["n"]: row["median_ms"] for row in rows(LINE, "laplace_kde", precision="ieee", d=1, m=10_000)}
    over = [ms(LINE, "laplace_kde", "kernel sums", precision="ieee", n=n, m=10_000) / line[n] for n in sorted(line)]
    return [
        Claim(
            "the fused and the unfused Laplace correction have the same errors",
            finding("confirmed", if_=_apart() < 1e-4),
            f"their MISE differs by at most {power(_apart())} of itself",
            (STUDY,),
        ),
        Claim(
            "the fused Laplace kernel is faster than two passes at every size, one dimension",
            finding("confirmed", if_=min(over) > 1 and times > 1 and passes > fused),
            f"two passes take {_from_to(over)}× the time of `laplace_kde` with {min(line):,} to "
            f"{max(line):,} points; in 16 dimensions {digits(passes / fused)}× with 65,536",
            (LINE, STUDY, ABLATION),
        ),
    ]


def _from_to(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def sixteen_dimensions() -> list[Claim]:
    """The oracle study of the second version, and fusion."""
    return [*_sixteen(), *_fusion()]


def _slope(op: str, bandwidth: str) -> dict[str, Any]:
    (row,) = (
        row for row in record(LONG)["rows"] if row["op"] == op and row["bandwidth"] == bandwidth and "slope_mise" in row
    )
    return dict(row)


def _mise(op: str, bandwidth: str, n: int = MANY) -> float:
    (row,) = (row for row in rows(LONG, op, n=n) if row["bandwidth"] == bandwidth)
    return float(row["mise"])


def _slopes(bandwidth: str) -> str:
    kde, sd = (_slope(op, bandwidth) for op in ("kde", "sd_kde"))
    return (
        f"{sd['slope_mise']:.3f} ± {sd['slope_mise_error']:.3f} (KDE {kde['slope_mise']:.3f} ± "
        f"{kde['slope_mise_error']:.3f})"
    )


def _known(d: int, arm: tuple[str, str]) -> str:
    """On how many known densities an arm has less squared error than KDE by Silverman's rule."""
    less = _lower(d, arm)
    return f"{sum(less)} of {len(less)}"


def _lower(d: int, arm: tuple[str, str]) -> list[bool]:
    cases = [case for case in choosing.cases([record(KNOWN)]) if not case.is_real and case.d == d]
    return [case.value("ise", arm) < case.value("ise", ("kde", "reference")) for case in cases]


def _given_ratios(estimate: str) -> list[float]:
    """MISE over KDE's, of the study with given scores."""
    of = {(row["estimate"], row["shape"]["d"], row["shape"]["n"]): row["mise"] for row in record(GIVEN)["rows"]}
    return [of[key] / of["kde", *key[1:]] for key in of if key[0] == estimate]


def _given(estimate: str) -> str:
    return span(_given_ratios(estimate))


def _orders(method: str) -> list[Any]:
    """Powers of the bandwidth that the bias goes with, of the limit of many rows."""
    return [
        row
        for row in record(ORDERS)["rows"]
        if row["op"] == "bias_order" and row["arm"] == "infinite sample" and row["method"] == method
    ]


def _powers(method: str) -> str:
    slopes = [row["slope"] for row in _orders(method)]
    return f"{min(slopes):.2f} to {max(slopes):.2f}"


def sd_kde() -> list[Claim]:
    """The paper of SD-KDE itself."""
    best, rule = (_mise("sd_kde", b) / _mise("kde", b) for b in (_BEST, "rule"))
    won = [row["gain"] > 0 for row in rows(HELD_OUT, "held_out")]
    own, squares = ("sd", "reference"), ("sd", "least_squares")
    return [
        Claim(
            "with the exact score the bias is of order h^4, that of KDE of order h^2",
            finding(
                "confirmed, with the score of the data too",
                if_=all(abs(row["slope"] - row["theory"]) < 0.1 for row in _orders("sd") + _orders("kde")),
            ),
            f"powers in 1, 2 and 4 dimensions: {_powers('sd')} for SD-KDE, {_powers('kde')} for KDE",
            (ORDERS,),
        ),
        Claim(
            "with the exact score MISE falls as n^(-8/(d+8)), that of KDE as n^(-4/(d+4)): n^-0.89 and n^-0.80 in one "
            "dimension",
            finding(
                "confirmed at the best bandwidths; refuted by the rules",
                if_=_slope("sd_kde", _BEST)["slope_mise"] < _slope("kde", _BEST)["slope_mise"] - 0.05
                and _slope("sd_kde", "rule")["slope_mise"] > _slope("kde", "rule")["slope_mise"],
            ),
            f"powers of n with the score of the data: {_slopes(_BEST)}; by the rules {_slopes('rule')}",
            (LONG,),
        ),
        Claim(
            "significantly less MISE than KDE by Silverman's rule, one dimension",
            finding(
                "confirmed with a bandwidth chosen by the data; refuted by the rules",
                if_=best < 1 < rule and all(_lower(1, squares)) is False,
            ),
            f"less error on {_known(1, squares)} known densities by least squares, on {_known(1, own)} by `sd`; "
            f"1,000,000 points of two normals: {digits(best)}× at the best bandwidths, {digits(rule)}× by the rules",
            (LONG, KNOWN),
        ),
        Claim(
            "the same in two dimensions",
            finding(
                "confirmed with a bandwidth chosen by the data; refuted by the rules",
                if_=statistics.mean(_lower(2, own)) < 0.5 < statistics.mean(_lower(2, squares)),
            ),
            f"less error on {_known(2, squares)} known densities by least squares, on {_known(2, own)} by `sd`",
            (KNOWN,),
        ),
        Claim(
            "it helps on data that are not synthetic (digits of MNIST, with the score of a trained network)",
            finding(
                "confirmed with the score of the data; open with a network's: not at hand",
                if_=len(won) / 2 < sum(won) < len(won),
            ),
            f"held-out rows are more likely than by KDE on {sum(won)} of {len(won)} sets; gains are small",
            (HELD_OUT,),
        ),
        Claim(
            "it helps with a noisy score, too",
            finding("confirmed", if_=max(_given_ratios("noise of 1")) < 0.5),
            f"over KDE's MISE: exact score {_given('exact score')}; with noise as large as the score "
            f"{_given('noise of 1')}; score of the data {_given('score of the data')}",
            (GIVEN,),
        ),
    ]
