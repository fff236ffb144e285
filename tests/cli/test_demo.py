"""``cukde demo``: what it measures, what it says of it, and how it ends where something is missing."""

from __future__ import annotations

import os
import re
import sys

import numpy as np
import pytest

import cukde
from cukde.cli import demo, device
from cukde.cli.main import main
from tests.private import cli_output as output


def run(capsys, *arguments) -> tuple[int, str, str]:
    code = main(["demo", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A map of few points."""
    monkeypatch.setattr(demo, "SIDE", 15)


def test_equality_names_both_differences():
    peer, exact = np.array([0.0, -1.0, -32.0]), np.array([2e-9, -1.0, -32.001])
    text = demo.equality(peer, exact, peer)
    assert re.sub(r"\s+", " ", text) == (
        "Where the density is above 1e-06 of its peak (67% of the points), the log densities differ by at most 2e-09; "
        "at the other points by up to 1e-03."
    )


def test_end_to_end(capsys, tmp_path, monkeypatch):
    from matplotlib.image import imread

    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("A map of 1,797 handwritten digits, the log density at 225 points")
    assert "KernelDensity(bandwidth=" in lines[1]
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.startswith(("scikit-learn ", "cukde "))}
    assert rows["scikit-learn"][1:] == ["1", "1"]
    assert rows["cukde"][2:] == ["median", "of", "3"]
    assert [len(line.split()) for line in lines if line.startswith(("digit ", "row "))] == [11, 11]
    differences = [float(number) for number in re.findall(r"(?:at most|up to) ([\d.e-]+\d)", out)]
    assert len(differences) == 2
    assert differences[0] < 1e-6
    assert any(line.startswith("Picture: ") for line in lines)
    assert lines[-1].startswith("Guide: ")
    image = imread(tmp_path / "cukde-demo.png")
    assert min(image.shape[:2]) > 800
    assert image[..., :3].std() > 0.05  # something is drawn
    assert os.listdir(tmp_path) == ["cukde-demo.png"]


def test_unusual_images_are_those_of_the_lowest_density_at_the_others():
    scores = np.random.default_rng(0).normal(size=(60, 2))
    digits = np.arange(60) % 2
    scores[7], scores[8] = 20, -30
    zero, one = demo.unusual(scores, digits)
    assert (zero.digit, zero.unusual[0], one.digit, one.unusual[0]) == (0, 8, 1, 7)
    for each in (zero, one):
        rows = np.flatnonzero(digits == each.digit)
        h = cukde.bandwidth.silverman(scores[rows])
        p = cukde.kde(scores[rows], scores[rows], h, leave_one_out=True)
        assert each.typical == rows[np.argmax(p)]
        assert list(each.unusual) == list(rows[np.argsort(p)[: demo.UNUSUAL]])


def test_gpu_is_one_more_row_of_the_table(capsys, tmp_path, monkeypatch):
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
