"""Pictures of docs/plots.md, by cukde.plot on scikit-learn's own data.

python -m benchmarks.figures.plots docs
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import cukde
from cukde import plot


def density() -> Any:
    """Of one column, by two bandwidths."""
    (ax,) = _axes((6.4, 4.2))
    x = _iris()["petal length (cm)"]
    plot.density(x, cukde.bandwidth.isj(x), ax=ax, label="KDE, improved Sheather-Jones")
    h = cukde.bandwidth.cross_validate(x.to_numpy(), "sd").bandwidth
    plot.density(x, h, method="sd", ax=ax, label="SD-KDE, cross-validated", band=None, rug=False)
    return ax.figure


def contours() -> Any:
    """Of two columns, in the bandwidth that leaving each row out finds."""
    (ax,) = _axes((5.6, 4.6))
    X = _iris()[["sepal length (cm)", "petal length (cm)"]]
    plot.contours(X, cukde.bandwidth.cross_validate(X.to_numpy()).bandwidth, ax=ax)
    return ax.figure


def pairs() -> Any:
    """Of four columns."""
    from matplotlib import pyplot

    figure = plot.pairs(_iris())[0, 0].figure
    pyplot.close(figure)
    return figure


def anomalies() -> Any:
    """Of malignant tumours by the density of half of the benign ones."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PowerTransformer

    (ax,) = _axes((6.4, 4.2))
    data = load_breast_cancer()
    benign = np.flatnonzero(data.target == 1)
    train, rest = benign[::2], np.setdiff1d(np.arange(len(data.target)), benign[::2])
    estimator = make_pipeline(PowerTransformer(), PCA(4), cukde.KernelDensity(bandwidth=1.0, kernel="exponential")).fit(
        data.data[train]
    )
    labels = np.where(data.target[rest] == 1, "benign", "malignant")
    plot.anomalies(estimator.score_samples(data.data[rest]), threshold=-11, bins=50, labels=labels, ax=ax)
    return ax.figure


FIGURES: dict[str, Callable[[], Any]] = {
    "plot_density": density,
    "plot_contours": contours,
    "plot_pairs": pairs,
    "plot_anomalies": anomalies,
}


def draw(folder: Path) -> None:
    """Write all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in FIGURES.items():
        figure().savefig(folder / f"{name}.png", dpi=90, pil_kwargs={"optimize": True})


def _iris() -> Any:
    from sklearn.datasets import load_iris

    return load_iris(as_frame=True).data


def _axes(size: tuple[float, float]) -> tuple[Any]:
    from matplotlib.figure import Figure

    return (Figure(figsize=size, layout="constrained").subplots(),)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures.plots", description=__doc__)
    parser.add_argument("to", type=Path, help="the folder")
    draw(parser.parse_args().to)
