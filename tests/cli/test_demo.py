"""``cukde demo``: what it measures, what it says of it, and how it ends where something is missing."""

from __future__ import annotations

import os
import sys
import warnings

import numpy as np
import pytest

import cukde
from cukde.cli import demo_map, demo_methods, demo_report, device, output
from cukde.cli.main import main

RNG = np.random.default_rng(7)


def run(capsys, *arguments) -> tuple[int, str, str]:
    code = main(["demo", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def small(monkeypatch):
    """A demo of one comparison, and of a map of few points."""
    monkeypatch.setattr(demo_map, "SIDE", 15)
    monkeypatch.setattr(demo_methods, "GRID", np.array([0.5, 2.2]))
    monkeypatch.setattr(demo_methods, "DIMENSIONS", (2,))


# --- the map ---------------------------------------------------------------------------------------------


def timed(name: str, seconds: list[float], log_density: list[float]) -> demo_map.Timed:
    return demo_map.Timed(name, seconds, np.array(log_density))


def test_map_has_the_log_density_of_both_libraries(small):
    images = RNG.normal(size=(60, 64))
    stages: list[str] = []
    measured = demo_map.measure(images, np.asarray, stages.append)
    exact = demo_map.plain_log_density(measured.X, measured.Y, measured.h)
    assert [each.name.partition(",")[0] for each in (measured.peer, *measured.ours)] == [
        "scikit-learn",
        "cukde",
        "cukde",
    ]
    for each in (measured.peer, *measured.ours):
        np.testing.assert_allclose(each.log_density, exact, atol=1e-6)
        assert len(each.seconds) == demo_map.CALLS
    assert len(measured.Y) == 15**2
    np.testing.assert_allclose(measured.Y[[0, -1]], [measured.X.min(axis=0), measured.X.max(axis=0)])
    assert "compiling" in stages


def test_plain_log_density_is_that_of_kde():
    X, Y = RNG.normal(size=(40, 3)), RNG.normal(size=(9, 3))
    np.testing.assert_allclose(demo_map.plain_log_density(X, Y, 0.7), cukde.kde(X, Y, 0.7, log=True), rtol=1e-12)


def test_calls_are_timed_in_turns():
    order: list[str] = []
    peer, (ours,) = demo_map.in_turn({name: lambda n=name: order.append(n) or n for name in "ab"}, lambda text: None)
    assert order == ["a", "b"] * demo_map.CALLS
    assert (peer.name, peer.log_density, ours.name, ours.log_density) == ("a", "a", "b", "b")
    assert min(peer.seconds + ours.seconds) >= 0


@pytest.fixture
def apart() -> demo_map.Map:
    """Two points at which both agree to 2e-9, and an empty one at which scikit-learn is wrong by 1e-3."""
    X, Y, h = np.zeros((5, 2)), np.array([[0.0, 0.0], [1.0, 0.0], [8.0, 0.0]]), 1.0
    exact = demo_map.plain_log_density(X, Y, h)
    peer = timed("scikit-learn", [3.0, 1.0, 2.0], [*(exact[:2] + 2e-9), exact[2] + 1e-3])
    return demo_map.Map(np.ones((5, 64)), X, h, Y, peer, [timed("cukde", [0.1, 0.5, 0.2], list(exact))])


def test_equality_names_both_differences_and_who_is_right(apart):
    text = demo_report.equality(apart)
    assert "(67% of the points), the log densities differ by at most 2e-09, so 8 digits" in text
    assert "differ by up to 1e-03. A plain float64 sum at the 3 points with the largest differences" in text
    assert "up to 1e-03 for scikit-learn and 0e+00 for cukde" in text


def test_speed_is_the_ratio_of_medians(apart):
    assert demo_report.speed(apart, apart.ours[0]) == 10
    assert demo_report.speed(apart, apart.peer) == 1


# --- the methods -----------------------------------------------------------------------------------------


def test_nothing_fitted_sees_the_held_out_rows(monkeypatch):
    seen = []
    monkeypatch.setattr(demo_methods, "METHODS", ("kde",))
    monkeypatch.setattr(
        demo_methods, "search", lambda method, X: seen.append(X) or cukde.KernelDensity(bandwidth=1.0).fit(X)
    )
    images, labels = RNG.normal(size=(300, 64)) * np.linspace(3, 1, 64), np.repeat(np.arange(10), 30)
    first = demo_methods.compare(images, labels, 3, 0, lambda text: None)
    _, held_out = demo_methods.train_test_split(np.arange(300), test_size=1 / 3, random_state=0, stratify=labels)
    images[held_out] += 50
    moved = demo_methods.compare(images, labels, 3, 0, lambda text: None)
    np.testing.assert_array_equal(*seen)
    assert seen[0].shape == (200, 3)
    assert len(first.log_density["kde"]) == 100
    assert (first.log_density["kde"] > moved.log_density["kde"]).all()


def test_split_follows_the_seed(monkeypatch):
    monkeypatch.setattr(demo_methods, "METHODS", ("kde",))
    images, labels = RNG.normal(size=(60, 64)), np.repeat([0, 1], 30)
    one, again, other = (
        demo_methods.compare(images, labels, 2, seed, lambda text: None).log_density["kde"] for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_search_takes_no_bandwidth_at_which_laplace_is_negative():
    X = np.random.default_rng(0).uniform(size=(200, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = demo_methods.search("laplace", X)
    scores = found.cv_results_["mean_test_score"]
    assert np.isneginf(scores[0])
    assert np.isfinite(found.best_score_)


def test_verdicts_name_who_is_ahead_level_and_behind():
    kde, noise = RNG.normal(size=400), RNG.normal(size=400)
    noise -= noise.mean()
    negative = np.r_[np.nan, kde[1:]]
    found = demo_methods.Comparison(
        2, {"kde": kde, "sd": kde + 1 + noise, "positive": kde + noise, "laplace": negative}
    )
    assert [found.verdict(method) for method in demo_methods.METHODS[1:]] == ["ahead", "level", "behind"]
    assert demo_report.cells(found, "laplace") == ("none", "negative at 1")
    lead, error = found.lead("sd")
    assert lead == pytest.approx(1)
    assert error == pytest.approx(noise.std(ddof=1) / 20)
    sentence, *_ = demo_report.verdicts([found])
    assert sentence == "On 2 axes, compared with kde: sd is ahead; positive is level; laplace is behind."


# --- the command -----------------------------------------------------------------------------------------


def test_end_to_end(capsys, tmp_path, monkeypatch, small):
    from matplotlib.image import imread

    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys)
    assert code == 0
    lines = out.splitlines()
    assert "1,797 handwritten digits" in lines[0]
    assert "KernelDensity(bandwidth=" in lines[1]
    places = [next(i for i, line in enumerate(lines) if line.startswith(word)) for word in (
        "scikit-learn,", "cukde,", "Same answer:", "kde ", "sd ", "positive ", "laplace ", "On 2 axes", "Picture:"
    )]  # fmt: skip
    assert places == sorted(places)
    image = imread(tmp_path / "cukde-demo.png")
    assert image.shape[0] > 800
    assert image.shape[1] > 1000
    assert image[..., :3].std() > 0.05  # something is drawn
    assert os.listdir(tmp_path) == ["cukde-demo.png"]


def test_gpu_is_one_more_row_of_the_table(capsys, tmp_path, monkeypatch, small):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(device, "asarray", lambda gpu: np.asarray)
    code, out, err = run(capsys, "--gpu", "--out", tmp_path)
    assert code == 0
    assert "cukde, GPU with copies " in out
    assert err.startswith("cukde: note: no picture without Matplotlib: pip install 'matplotlib>=3.8'")
    assert os.listdir(tmp_path) == []


def test_gpu_that_does_not_work_is_named_before_the_work(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("cukde.cli.info.gpu", lambda: (False, "no GPU today"))
    assert run(capsys, "--gpu", "--out", tmp_path)[::2] == (
        2,
        "cukde: error: --gpu needs a working GPU: no GPU today\n",
    )


def test_missing_digits(capsys, tmp_path, monkeypatch):
    def missing(**options):
        raise FileNotFoundError(2, "No such file or directory", "digits.csv.gz")

    monkeypatch.setattr("sklearn.datasets.load_digits", missing)
    code, out, err = run(capsys, "--out", tmp_path)
    assert (code, out) == (2, "")
    assert (
        "cannot read the digits that scikit-learn brings: [Errno 2] No such file or directory: 'digits.csv.gz'" in err
    )


@pytest.mark.parametrize(
    ("out", "expected"),
    [("", "cukde-demo.png"), ("new/folder", "new/folder/cukde-demo.png"), ("a.png", "a.png")],
)
def test_picture_path(tmp_path, out, expected):
    assert output.picture_path(tmp_path / out, "cukde-demo.png") == tmp_path / expected
    assert (tmp_path / expected).parent.is_dir()


def test_another_format_is_refused(capsys, tmp_path):
    code, _, err = run(capsys, "--out", tmp_path / "a.pdf")
    assert code == 2
    assert "must be a folder or a .png file" in err
