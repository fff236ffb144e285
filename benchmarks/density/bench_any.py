"""Density calls drawn by fresh seeds, beside the rivals that compute the same.

    python -m benchmarks.density.bench_any --cases 300
    python -m benchmarks.density.bench_any --cases 300 --seconds 500 --record benchmarks/results/any_h200.json

Without ``--seed`` the first seed is the time of day, so that no two runs have the same cases. A row has the time of
calls from Python until the device has nothing to do (the median of up to five, after one), that of the first call,
errors against float64 over what is promised, the rivals' times, and the dense limit: the larger of the time of one
exponential for each pair and that of its products (``DENSE``), pairs of data with themselves taken once, twice that in
float64. The twenty worst are printed last, by the ratio to a rival and by that to the limit.

Rivals on a GPU are PyTorch as a user writes it, and cuVS's kernel for densities in float32. On the CPU they
are NumPy as a user writes it, and scikit-learn and SciPy for densities. Densities of rivals that float32 cannot hold
do not count as errors; SciPy's, with another bandwidth, has none. ``benchmarks/random_calls.py`` is what pages say.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import cukde
from benchmarks import peers, record, rounds
from benchmarks.density import any_case
from benchmarks.density.any_case import Case
from cukde import perf
from cukde.core import dispatch
from cukde.core.cost.registry import call_of, counted
from cukde.perf._explain import from_memory
from cukde.perf._predict import predicted

DENSE = {"exponentials": 4.1e12, "products": 6e14}
"""Exponentials and multiply-adds in float16 of an H100 or an H200 in a second."""

_LAUNCHES_MS = 0.15
_CHECKED = 32
_BLOCK = 2**27  # entries of the matrix that a user has in memory at a time
_WORST = 20


def limit_ms(of: Case) -> float:
    """The dense limit of a call on a GPU."""
    pairs = float(of.n) * of.m * (0.5 if of.m == of.n and of.option == "leave_one_out" else 1.0)
    if of.op == "debias":
        pairs /= 2
    if of.op == "sd_kde":
        pairs += of.n**2 / 2
    seconds = max(pairs / DENSE["exponentials"], 4 * of.d * pairs / DENSE["products"])
    return 1e3 * seconds * (2 if of.dtype == "float64" else 1)


def as_users_write_it(of: Case, xp: Any, X: Any, Y: Any, h: float, weights: Any) -> Any:
    """A call by products, an exponential and sums, in blocks of rows; PyTorch's or NumPy's arrays."""
    n, d = X.shape
    w = xp.ones_like(X[:, 0]) if weights is None else weights
    w = w / w.sum()
    constant = math.exp(max(-700.0, min(700.0, -0.5 * d * math.log(2 * math.pi * h * h))))
    alone = of.option == "leave_one_out"

    def rows(A: Any, B: Any, of_rows: Callable[[Any, Any, Any], Any], *, alone: bool = False) -> Any:
        squares, step, out = (A * A).sum(1), max(1, _BLOCK // n), []
        for start in range(0, len(B), step):
            y = B[start : start + step]
            q = ((y * y).sum(1)[:, None] + squares - 2 * (y @ A.T)) * (0.5 / h**2)
            phi = xp.exp(-q) * w
            if alone:
                here = xp.arange(len(y))
                phi[here, here + start] = 0
            out.append(of_rows(phi, q, y))
        return xp.concatenate(out)

    def density(A: Any) -> Any:
        p = rows(A, Y, lambda phi, q, y: phi.sum(1), alone=alone) * constant
        return p / (1 - w) if alone else p

    def mean(phi: Any) -> Any:
        return phi @ X / phi.sum(1)[:, None]

    moved = functools.partial(rows, X, X, lambda phi, q, y: 0.5 * (y + mean(phi)))
    scores = functools.partial(rows, X, Y, lambda phi, q, y: (mean(phi) - y) / h**2)
    signed = functools.partial(rows, X, Y, lambda phi, q, y: (phi * (1 + d / 2 - q)).sum(1))

    def positive() -> Any:
        p, t = density(X), signed() * constant
        t = t / p - 1
        return p * (t + xp.sqrt(1 + t * t))

    calls: dict[str, Callable[[], Any]] = {
        "kde": lambda: density(X),
        "sd_kde": lambda: density(moved()),
        "debias": moved,
        "score": scores,
        "laplace_kde": lambda: signed() * constant,
        "density_and_score": lambda: (xp.log(density(X)), scores()),
        "positive_kde": positive,
    }
    return calls[of.op]()


def oracle(of: Case, X: Any, Y: Any, h: float, options: dict[str, Any], xp: Any) -> Callable[..., float]:
    """A function of a result: its worst error at some queries over what is promised; signed sums not beside zero.

    Exact sums are by differences in float64. Results of kde and sd_kde are logarithms, or ``plain`` densities, of which
    those count that the dtype can hold.
    """
    places = np.sort(np.random.default_rng(of.seed).choice(of.m, min(of.m, _CHECKED), replace=False))
    places = xp.asarray(places)
    data, y = X.astype(np.float64), Y[places].astype(np.float64)
    if of.op == "sd_kde":
        exact = {name: value for name, value in options.items() if name == "weights"}
        data = cukde.debias(data, h, precision="float64", rtol=0, **exact)
    q = xp.stack([((data - one) ** 2).sum(1) for one in y]) / (2 * h * h)
    w = options.get("weights")
    w = xp.full(of.n, 1 / of.n) if w is None else w.astype(np.float64) / w.astype(np.float64).sum()
    if of.option == "leave_one_out":
        q[xp.arange(len(places)), places] = np.inf
    least = q.min(axis=1)
    phi = xp.exp(least[:, None] - q) * w
    total, d = phi.sum(axis=1), of.d
    eps = float(np.finfo(of.dtype).eps)
    promised = xp.maximum(3e-5 + 1e-5 if of.dtype == "float32" else 1e-12, 8 * eps * least)
    promised = promised * (10 if of.op == "sd_kde" else 1)  # it has the error of the moved points, too
    log_c = -0.5 * d * math.log(2 * math.pi * h * h)
    log_p = xp.log(total) - least + log_c
    if of.option == "leave_one_out":
        log_p -= xp.log1p(-w[places])
    info = np.finfo(of.dtype)
    fits = (log_p > math.log(float(info.tiny)) + 1) & (log_p < math.log(float(info.max)) - 9)

    def worst(off: Any, tolerance: Any) -> float:
        ratio = xp.nan_to_num(off / tolerance, nan=1e300, posinf=1e300)
        return float(ratio.max()) if ratio.size else 0.0

    def of_log(result: Any) -> float:
        return worst(abs(result[places].astype(np.float64) - log_p), 2 * promised + eps * abs(log_p))

    def of_signed(result: Any) -> float:
        g = 1 + d / 2 - xp.where(phi > 0, q, 0)
        ratio, absolute = (phi * g).sum(axis=1) / total, (phi * abs(g)).sum(axis=1) / total
        if of.op == "positive_kde":
            ratio = xp.exp(xp.arcsinh(ratio - 1))
        got = result[places][fits].astype(np.float64) / xp.exp(log_p[fits])
        return worst(abs(got - ratio[fits]), 2 * (promised * xp.maximum(absolute, 1))[fits])

    def of_moments(result: Any) -> float:
        shift = xp.stack([phi[k] @ (data - y[k]) for k in range(len(y))]) / total[:, None]
        reach = xp.sqrt(2 * xp.where(phi > 1e-17 * total[:, None], q, 0).max(axis=1)) + xp.sqrt(2 * least)
        tolerance = promised * xp.maximum(reach, 1) * h * 2
        got = result[places].astype(np.float64)
        if of.op == "debias":
            if xp is not np and of.dtype == "float32" and "weights" not in options:  # coordinates of 11 bits
                tolerance = tolerance + 2**-13 * math.sqrt(float(((data - data.mean(axis=0)) ** 2).sum(axis=1).max()))
            return worst(abs(got - y - shift / 2).max(axis=1), tolerance + eps * abs(y).max(axis=1))
        return worst(abs(got * h * h - shift).max(axis=1), tolerance)

    def error(result: Any, *, plain: bool = False) -> float:
        if of.op in ("kde", "sd_kde") and plain:
            off = abs(xp.log(result[places][fits].astype(np.float64)) - log_p[fits])
            return worst(off, 2 * promised[fits] + eps * abs(log_p[fits]))
        if of.op in ("kde", "sd_kde"):
            return of_log(result)
        if of.op in ("laplace_kde", "positive_kde"):
            return of_signed(result)
        if of.op == "density_and_score":
            return max(of_moments(result[1]), of_log(result[0]))
        return of_moments(result)

    return error


class Runner:
    """Times calls of one backend."""

    def __init__(self, backend: str) -> None:
        self.gpu = backend == "gpu"
        self.backend = dispatch.named(backend)
        self.xp = self.backend.xp
        self.peaks = perf.measure_peaks(backend)

    def timed(self, call: Callable[[], Any], *, compiles: bool = True) -> tuple[float, perf.Times, Any]:
        """Milliseconds of the first call, times of up to five more, and the result.

        A first call of a second or more stands for them where nothing ``compiles``.
        """
        first, result = rounds.once(call, self.backend)
        taken = [rounds.once(call, self.backend)[0] if compiles or first < 1000 else first]
        while len(taken) < 5 and sum(taken) < 300:
            taken.append(rounds.once(call, self.backend)[0])
        return first, perf.Times.of(taken), result

    def row(self, of: Case) -> list[dict[str, Any]]:
        """A row for each rival of a case."""
        X, Y, h, options = any_case.moved(any_case.arrays(of), self.xp.asarray)
        call = any_case.call(of, X, Y, h, options)
        first, times, result = self.timed(call)
        shape = {name: value for name, value in of._asdict().items() if name not in ("op", "dtype")}
        row = {"op": of.op, "backend": "gpu" if self.gpu else "cpu", "shape": shape, "dtype": of.dtype}
        row |= {"precision": of.dtype, "h": h, "first_ms": first} | times.row()
        if of.op in ("kde", "sd_kde"):  # a density may be beyond the dtype
            result = any_case.call(of, X, Y, h, options, log=True)()
        error = oracle(of, X, Y, h, options, self.xp)
        row["error_over_promise"] = error(result)
        row["predicted_ms"] = self._predicted(call)
        if self.gpu:
            row["limit_ms"] = limit_ms(of)
        del result
        rows = [row | {"peer": peer} for peer in self._rivals(of, X, Y, h, options.get("weights"), error)]
        self.backend.release_memory()
        return rows

    def _predicted(self, call: functools.partial[Any]) -> float:
        """Milliseconds by the performance model, for what this call finds out of its data."""
        known = call_of(call, (), {})
        observed = {} if known.operation.observed is None else known.operation.observed(call, gpu=self.gpu)
        cost = counted(known.operation, self.peaks, known.shapes | dict(observed))
        return 1e3 * predicted(cost, self.peaks, cold=from_memory(self.peaks, cold=False)).seconds

    def _rivals(
        self, of: Case, X: Any, Y: Any, h: float, weights: Any, error: Callable[..., float]
    ) -> list[dict[str, Any]]:
        found = []
        for name, call in self._calls(of, X, Y, h, weights).items():
            try:
                with np.errstate(all="ignore"):
                    _, times, result = self.timed(call(), compiles=self.gpu)
                    off = None if (name, of.op) in peers.ANOTHER else error(self._here(result), plain=True)
                found.append({"name": name, "error_over_promise": off} | times.row())
            except Exception as failed:  # the library is measured all the same
                found.append({"name": name, "reason": peers.reason(failed)})
            self.backend.release_memory()
        return found

    def _here(self, result: Any) -> Any:
        """A rival's result as this backend's arrays."""
        return tuple(map(self._here, result)) if isinstance(result, tuple) else self.xp.asarray(result)

    def _calls(self, of: Case, X: Any, Y: Any, h: float, weights: Any) -> dict[str, Callable[[], Callable[[], Any]]]:
        """Rivals of a case, each made where what it needs is loaded."""

        def written(xp: Any, *arrays: Any) -> Callable[[], Any]:
            return lambda: as_users_write_it(of, xp, arrays[0], arrays[1], h, arrays[2])

        def torch() -> Callable[[], Any]:
            import torch

            return written(torch, *(None if a is None else torch.from_dlpack(a) for a in (X, Y, weights)))

        def cuvs() -> Callable[[], Any]:
            from benchmarks.peers import cuvs

            return lambda: cuvs.kde(X, Y, h)

        def scikit_learn() -> Callable[[], Any]:
            from benchmarks.peers import scikit_learn

            return lambda: scikit_learn.kde(X, Y, h, weights)

        def scipy() -> Callable[[], Any]:
            from benchmarks.peers import scipy_stats

            return lambda: scipy_stats.kde(X, Y, h, weights)

        density = of.op == "kde" and of.option != "leave_one_out"
        plain = functools.partial(written, self.xp, X, Y, weights)
        if self.gpu:
            with_cuvs = density and weights is None and of.dtype == "float32"
            return {"PyTorch": torch} | ({"cuVS": cuvs} if with_cuvs else {})
        return {"NumPy": plain} | ({"scikit-learn": scikit_learn, "SciPy": scipy} if density else {})


def line(row: dict[str, Any]) -> str:
    """A case for people."""
    of, peer = row["shape"], row["peer"]
    parts = [
        f"{of['seed']} {row['op']} {row['dtype']} {of['n']:,}/{of['m']:,} d={of['d']} {of['data']} x{of['factor']:.2f} "
        f"{of['option']}: {row['median_ms']:.3f} ms (first {row['first_ms']:.0f})",
        f"error {row['error_over_promise']:.2g} of the promise",
    ]
    if "limit_ms" in row:
        parts.append(f"{_over_limit(row):.1f} times the limit")
    parts.append(
        f"{_ratio(row):.2f} times {peer['name']}" if "median_ms" in peer else f"{peer['name']}: {peer['reason']}"
    )
    return ", ".join(parts)


def _over_limit(row: dict[str, Any]) -> float:
    """Time over that of the dense limit and the launches of a call."""
    return float(row["median_ms"] / (row["limit_ms"] + _LAUNCHES_MS))


def _ratio(row: dict[str, Any]) -> float:
    """How many times as fast as the rival."""
    return float(row["peer"]["median_ms"] / row["median_ms"])


def summary(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What all cases come to, and the worst."""
    beside = [row for row in rows if "median_ms" in row["peer"]]
    lines = []
    for name in dict.fromkeys(row["peer"]["name"] for row in beside):
        ratios = np.array([_ratio(row) for row in beside if row["peer"]["name"] == name])
        lines.append(
            f"{name}: {len(ratios)} cases, median {np.median(ratios):.2f} times its speed, least {ratios.min():.3f}, "
            f"slower in {(ratios < 1).sum()}"
        )
    one_each = [*{row["shape"]["seed"]: row for row in rows}.values()]
    wrong = [row for row in one_each if row["error_over_promise"] > 1]
    lines.append(f"errors beyond the promise: {len(wrong)}")
    lines += [f"  {line(row)}" for row in wrong]
    late = sum(row["first_ms"] > 1000 for row in one_each)
    lines.append(f"first calls of more than a second: {late}")
    if any("limit_ms" in row for row in one_each):
        over = np.array([_over_limit(row) for row in one_each])
        shares = ", ".join(f"{q:g}: {np.quantile(over, q):.2f}" for q in (0.5, 0.9, 1))
        lines.append(f"times over (dense limit + {_LAUNCHES_MS} ms), by quantile: {shares}")
        lines += ["the farthest from the limit:"]
        lines += [f"  {line(one_each[k])}" for k in np.argsort(-over)[:_WORST]]
    lines += ["the slowest beside a rival:"]
    lines += [f"  {line(row)}" for row in sorted(beside, key=_ratio)[:_WORST]]
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = record.arguments("density.bench_any", __doc__)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None, help="of the first case")
    parser.add_argument("--backend", choices=("gpu", "cpu"), default=None)
    parser.add_argument("--pairs", type=float, default=None, help="most pairs of a case")
    parser.add_argument("--largest", type=int, default=1_000_000, help="most points of a case")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no case after so many")
    options = parser.parse_args(arguments)
    backend = options.backend or ("gpu" if dispatch.why_no_gpu() is None else "cpu")
    pairs = options.pairs or (4e10 if backend == "gpu" else 2e7)
    seed = int(time.time()) if options.seed is None else options.seed
    session, runner, begun = record.Session(options.record), Runner(backend), time.monotonic()
    rows: list[dict[str, Any]] = []
    for number in range(seed, seed + options.cases):
        if time.monotonic() - begun > options.seconds:
            print(f"{number - seed} of {options.cases} cases in {options.seconds:g} s")
            break
        rows += (found := runner.row(any_case.case(number, pairs, options.largest)))
        print(*map(line, found), sep="\n", flush=True)
    print(*summary(rows), sep="\n")
    session.write(rows)
    return int(any(row["error_over_promise"] > 1 for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
