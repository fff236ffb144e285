"""Adds the density of each row to a cuDF frame, without leaving the GPU.

python -m examples.rapids_pipeline

In a table of journeys some rows are unlike the others. The density of two columns finds them. The density of the time
given the distance finds them better, because long journeys take long. The functions take the frame as it is: columns
are chosen by name, the data stay on the GPU, and the density becomes a column. It needs cuDF and a GPU.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import cukde

COLUMNS = ["minutes", "kilometres"]


class Found(NamedTuple):
    """The frame with its new columns, and the number of unusual rows."""

    frame: Any  # of cuDF or pandas, like the argument
    unusual: int


def journeys(n: int = 20_000, seed: int = 0) -> dict[str, np.ndarray]:
    """Return a table's columns; one trip in a thousand takes ten times as long as its distance suggests."""
    rng = np.random.default_rng(seed)
    kilometres = rng.gamma(2.0, 3.0, n)
    minutes = kilometres * rng.normal(2.5, 0.3, n) + rng.exponential(3.0, n)
    minutes[::1000] *= 10
    return {"driver": np.arange(n) % 100, "minutes": minutes, "kilometres": kilometres}


def with_densities(frame: Any, unusual: float = 0.002) -> Found:
    """Add the log density of each row, that of its minutes given its kilometres, and whether it is unusual."""
    rows = frame[COLUMNS]
    h = cukde.bandwidth.silverman(rows)
    frame = frame.copy()
    frame["log_density"] = cukde.kde(rows, rows, h, log=True)
    given = {"kilometres": frame["kilometres"]}
    frame["given_distance"] = cukde.conditional(rows, given, frame["minutes"], h, log=True)
    level = cukde.hdr_threshold(rows, h, 1 - unusual, log=True)
    frame["unusual"] = frame["log_density"] < float(level)
    return Found(frame, int(frame["unusual"].sum()))


def main(n: int = 200_000) -> Found:
    import cudf
    import pandas as pd

    found = with_densities(cudf.DataFrame.from_pandas(pd.DataFrame(journeys(n))))
    print(f"{found.unusual} of {n} rows are unusual, the least likely of them:")
    print(found.frame.sort_values("log_density").head(5))
    return found


if __name__ == "__main__":
    main()
