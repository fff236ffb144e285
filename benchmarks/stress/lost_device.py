"""A GPU that is lost in the middle of calls on all GPUs: the others do its share, or the call raises; nothing hangs.

    python -m benchmarks.stress.lost_device --times 8

Each time a process of its own calls ``kde`` and ``sd_kde`` again and again with ``devices="all"``, and after a random
while a kernel on the last device writes where no memory is, which ends that device for the process. Afterwards data on
the host must be as before, calls on the CPU right, and calls of this process, on the same GPUs, too. It is printed
whether the first device still works. The exit status is 1 otherwise.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import cukde
from benchmarks import record
from benchmarks.stress.soak import places

_LIMIT_S, _CALLS_S = 120.0, 20.0
_FAULT = 'extern "C" __global__ void fault(int* at) { *at = 1; }'


def _data() -> tuple[np.ndarray, np.ndarray, float]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((400_000, 16), np.float32), rng.standard_normal((100_000, 16), np.float32), 0.5


def lost(after: float) -> dict[str, Any]:
    """What happens to calls of this process when a device is lost after so many seconds of calls."""
    import cupy as cp

    X, Y, h = _data()
    x, y = cp.asarray(X), cp.asarray(Y)
    want = [cp.asnumpy(f(x, y, h, log=True)) for f in (cukde.kde, cukde.sd_kde)]

    def end_device() -> None:
        time.sleep(after)
        try:
            with cp.cuda.Device(cp.cuda.runtime.getDeviceCount() - 1):
                cp.RawKernel(_FAULT, "fault")((1,), (1,), (np.uint64(16),))
                cp.cuda.get_current_stream().synchronize()
        except RuntimeError:
            pass  # as is meant

    threading.Thread(target=end_device, daemon=True).start()
    found: dict[str, Any] = {"after_s": after, "calls": 0, "came": "nothing", "wrong": 0}
    begun = time.monotonic()
    while found["came"] == "nothing" and time.monotonic() - begun < _CALLS_S:
        function = (cukde.kde, cukde.sd_kde)[found["calls"] % 2]
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                result = cp.asnumpy(function(x, y, h, log=True, devices="all"))
            found["wrong"] += not np.allclose(result, want[found["calls"] % 2], rtol=1e-4, atol=1e-4)
            if said:
                found["came"] = f"{said[0].category.__name__}: {said[0].message}"
        except RuntimeError as error:
            found["came"] = f"{type(error).__name__}: {error}"
        found["calls"] += 1
    try:
        found["first_device_works"] = bool(np.allclose(cp.asnumpy(cukde.kde(x, y, h, log=True)), want[0], atol=1e-4))
    except RuntimeError as error:
        found["first_device_works"] = str(error)
    found["host_is_as_before"] = np.array_equal(X, _data()[0]) and np.array_equal(Y, _data()[1])
    few = cukde.kde(X[:5000], Y[:50], h, log=True)
    found["cpu_is_right"] = bool(np.allclose(few, cukde.kde(X[:5000].astype(float), Y[:50], h, log=True), atol=1e-3))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = record.arguments("stress.lost_device", __doc__)
    parser.add_argument("--times", type=int, default=8)
    parser.add_argument(
        "--after", type=float, default=None, help="only lose a device of this process, and say how it was"
    )
    options = parser.parse_args(arguments)
    if options.after is not None:
        print(json.dumps(lost(options.after)), flush=True)
        return 0
    if "all" not in places():
        print("there are no two GPUs")
        return 0
    import cupy as cp

    X, Y, h = _data()
    x, y = cp.asarray(X), cp.asarray(Y)
    want, rng = cukde.kde(x, y, h, log=True, devices="all"), np.random.default_rng()
    rows: list[dict[str, Any]] = []
    for _ in range(options.times):
        command = [sys.executable, "-m", "benchmarks.stress.lost_device", "--after", f"{rng.uniform(0, 1):.4f}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
            lines = done.stdout.splitlines()
            row = json.loads(lines[-1]) if lines else {"came": f"ended by {done.returncode}: {done.stderr[-500:]}"}
        except subprocess.TimeoutExpired:
            row = {"came": f"nothing within {_LIMIT_S:g} s"}
        got = cukde.kde(x, y, h, log=True, devices="all")
        row["others_are_right"] = bool(cp.allclose(got, want, atol=1e-4))
        right = all(row.get(name) for name in ("others_are_right", "host_is_as_before", "cpu_is_right"))
        row["ok"] = right and row["wrong"] == 0 and row["came"] != "nothing"
        rows.append(row)
        print(row, flush=True)
    made: dict[str, Any] = {"op": "lost device", "backend": "gpu", "dtype": "float32", "precision": "float32"}
    made |= {"shape": {"devices": cp.cuda.runtime.getDeviceCount(), "times": len(rows)}, "rows": rows}
    print(f"{sum(row['ok'] for row in rows)} of {len(rows)} as they must be")
    record.kept([made], options.record, lambda row: "")
    return int(not all(row["ok"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
