"""The command line: what it computes, what it writes, and how it refuses."""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import cukde
from cukde import perf
from cukde.cli import columns, roofline
from cukde.cli.main import main
from tests.perf import toys as perf_toys
from tests.private import cli_info as info, cli_output as output, open_table, workloads

RNG = np.random.default_rng(7)
TRAIN = RNG.normal(size=(60, 3))
QUERY = RNG.normal(size=(25, 3))
ROOT = Path(__file__).resolve().parents[2]


def write_csv(path: Path, array: np.ndarray, header: str | None = None, delimiter: str = ",") -> Path:
    lines = [delimiter.join(map(repr, row)) for row in array.tolist()]
    path.write_text("\n".join([header, *lines] if header else lines) + "\n")
    return path


def run(capsys, *arguments) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def printed(capsys, *arguments) -> np.ndarray:
    code, out, err = run(capsys, "density", *arguments)
    assert (code, err) == (0, "")
    return np.array([float(line) for line in out.splitlines()])


def refusal(capsys, *arguments) -> str:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    *_, last = err.splitlines()
    assert last.startswith("cukde: error: ")
    assert "Traceback" not in err
    return last


@pytest.fixture
def train(tmp_path) -> Path:
    return write_csv(tmp_path / "train.csv", TRAIN, header="a,b,c")


@pytest.fixture
def query(tmp_path) -> Path:
    return write_csv(tmp_path / "query.csv", QUERY, header="a,b,c")


# --- density: values -------------------------------------------------------------------------------------


METHODS = {"kde": cukde.kde, "sd": cukde.sd_kde, "laplace": cukde.laplace_kde}
RULES = {"kde": cukde.bandwidth.silverman, "sd": cukde.bandwidth.sd, "laplace": cukde.bandwidth.laplace}
OBJECTIVES = {"kde": "likelihood", "sd": "likelihood", "laplace": "least_squares"}

# Options, what they compute, and how far results may be apart: the data are centred anew after the move of SD-KDE.
COMPUTED: list[tuple[str, Callable[[], np.ndarray], float]] = [
    *(
        (f"--method {name}", lambda name=name: METHODS[name](TRAIN, QUERY, RULES[name](TRAIN)), 1e-11)
        for name in METHODS
    ),
    *(
        (
            f"--method {name} --bandwidth cross_validate",
            lambda name=name: METHODS[name](
                TRAIN, QUERY, cukde.bandwidth.cross_validate(TRAIN, name, objective=OBJECTIVES[name]).bandwidth
            ),
            1e-10,
        )
        for name in METHODS
    ),
    *(
        (f"--bandwidth {rule}", lambda rule=rule: cukde.kde(TRAIN, QUERY, getattr(cukde.bandwidth, rule)(TRAIN)), 0)
        for rule in ("scott", "silverman", "sd", "laplace", "positive")
    ),
    (
        "--bandwidth silverman_covariance",
        lambda: cukde.kde(TRAIN, QUERY, cukde.bandwidth.silverman(TRAIN, covariance=True)),
        0,
    ),
    ("--bandwidth 0.5,1,2e0", lambda: cukde.kde(TRAIN, QUERY, [0.5, 1.0, 2.0]), 0),
    ("--bandwidth 0.5 --precision ieee", lambda: cukde.kde(TRAIN, QUERY, 0.5, precision="ieee"), 0),
    ("--bandwidth 0.3,2 --columns c,a", lambda: cukde.kde(TRAIN[:, [2, 0]], QUERY[:, [2, 0]], [0.3, 2.0]), 0),
]


@pytest.mark.parametrize(
    ("flags", "function", "rtol"), COMPUTED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_density(capsys, train, query, flags, function, rtol):
    np.testing.assert_allclose(printed(capsys, train, query, *flags.split()), function(), rtol=rtol)


def test_options_stand_anywhere_among_the_files(capsys, train, query):
    want = cukde.kde(TRAIN, QUERY, 0.5, log=True)
    for arguments in (
        (train, "--log", query, "--bandwidth", 0.5),
        ("--log", train, "--bandwidth", 0.5, query),
        ("--log", "--bandwidth", 0.5, "--", train, query),
    ):
        np.testing.assert_array_equal(printed(capsys, *arguments), want)
    assert "unrecognized arguments: --logs" in refusal(capsys, "density", train, "--logs", query)


@pytest.mark.parametrize("method", METHODS)
def test_density_of_the_training_rows(capsys, train, query, method):
    for flags in ((), ("--leave-one-out",)):
        got = printed(capsys, train, "--bandwidth", 0.5, "--method", method, *flags)
        want = METHODS[method](TRAIN, TRAIN, 0.5, leave_one_out=bool(flags))
        np.testing.assert_allclose(got, want, rtol=0 if flags or method == "kde" else 1e-11)
    assert "leave out QUERY" in refusal(capsys, "density", train, query, "--leave-one-out")


def test_density_bandwidth_by_selection_has_its_local_factors(capsys, tmp_path):
    X = np.random.default_rng(1).standard_t(1.5, size=(80, 2))
    rows = write_csv(tmp_path / "rows.csv", X)
    found = cukde.bandwidth.select(X, ["kde", "abramson"])
    assert found.method == "abramson"
    np.testing.assert_allclose(printed(capsys, rows, rows, "--bandwidth", "select"), cukde.kde(X, X, found), rtol=1e-10)


def test_no_end_to_cross_validation_is_noted(capsys, tmp_path):
    doubles = write_csv(tmp_path / "doubles.csv", np.repeat(TRAIN, 2, axis=0))
    code, out, err = run(capsys, "density", doubles, "--bandwidth", "cross_validate")
    assert code == 0
    assert err.startswith("cukde: note: the best bandwidth is the smallest of the grid")
    assert len(out.splitlines()) == 2 * len(TRAIN)


def test_density_log_far_away_is_finite(capsys, train, tmp_path):
    far = write_csv(tmp_path / "far.csv", QUERY + 1e4)
    got = printed(capsys, train, far, "--bandwidth", 0.5, "--log")
    np.testing.assert_array_equal(got, cukde.kde(TRAIN, QUERY + 1e4, 0.5, log=True))
    assert np.isfinite(got).all()


def test_density_weights_column_is_not_a_dimension(capsys, query, tmp_path):
    w = RNG.uniform(0.1, 2, size=(len(TRAIN), 1))
    weighted = write_csv(tmp_path / "weighted.csv", np.hstack([TRAIN, w]), header="a,b,c,w")
    got = printed(capsys, weighted, query, "--weights", "w")
    h = cukde.bandwidth.silverman(TRAIN, weights=w[:, 0])
    np.testing.assert_array_equal(got, cukde.kde(TRAIN, QUERY, h, weights=w[:, 0]))


def test_density_query_columns_are_found_by_name(capsys, train, tmp_path):
    shuffled = tmp_path / "shuffled.csv"
    write_csv(shuffled, QUERY[:, [2, 0, 1]], header="c,a,b")
    np.testing.assert_array_equal(printed(capsys, train, shuffled, "--bandwidth", 0.5), cukde.kde(TRAIN, QUERY, 0.5))


def test_density_columns_by_index_without_header(capsys, tmp_path):
    train = write_csv(tmp_path / "train.csv", TRAIN)
    got = printed(capsys, train, "--columns", "0,2", "--bandwidth", 0.5)
    np.testing.assert_array_equal(got, cukde.kde(TRAIN[:, [0, 2]], TRAIN[:, [0, 2]], 0.5))


def test_density_query_may_hold_the_chosen_columns_alone(capsys, train, tmp_path):
    np.save(tmp_path / "query.npy", QUERY[:, :2])
    got = printed(capsys, train, tmp_path / "query.npy", "--columns", "b,c", "--bandwidth", 0.5)
    np.testing.assert_array_equal(got, cukde.kde(TRAIN[:, 1:], QUERY[:, :2], 0.5))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_density_reads_each_delimiter(capsys, tmp_path, delimiter):
    path = write_csv(tmp_path / "train.csv", TRAIN, header=delimiter.join("abc"), delimiter=delimiter)
    np.testing.assert_array_equal(printed(capsys, path, "--bandwidth", 0.5), cukde.kde(TRAIN, TRAIN, 0.5))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", ">f8"])
def test_density_of_npy_keeps_the_dtype_of_the_function(capsys, tmp_path, dtype):
    X = (4 * TRAIN).astype(dtype)
    np.save(tmp_path / "train.npy", X)
    code, _, err = run(capsys, "density", tmp_path / "train.npy", "--bandwidth", 1.5, "--out", tmp_path / "p.npy")
    assert (code, err) == (0, "")
    got, expected = np.load(tmp_path / "p.npy"), cukde.kde(X, X, 1.5)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


def test_density_of_one_dimensional_npy(capsys, tmp_path):
    np.save(tmp_path / "x.npy", TRAIN[:, 0])
    got = printed(capsys, tmp_path / "x.npy", "--bandwidth", 0.5)
    np.testing.assert_allclose(got, cukde.kde(TRAIN[:, 0], TRAIN[:, 0], 0.5), rtol=1e-12)


@pytest.mark.parametrize("method", ["kde", "sd", "laplace", "positive"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_density_is_one_call_far_from_the_origin(tmp_path, capsys, method, dtype):
    X, Y = TRAIN.astype(dtype) + 100, QUERY.astype(dtype) + 100
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    functions = {"kde": cukde.kde, "sd": cukde.sd_kde, "laplace": cukde.laplace_kde, "positive": cukde.positive_kde}
    got = tmp_path / "p.npy"
    command = ("density", tmp_path / "x.npy", tmp_path / "y.npy", "--method", method, "--bandwidth", 0.7, "--out", got)
    assert run(capsys, *command) == (0, "", "")
    want = functions[method](X, Y, 0.7)
    assert np.load(got).dtype == want.dtype
    np.testing.assert_array_equal(np.load(got), want)


def test_density_of_no_queries(capsys, train, tmp_path):
    (tmp_path / "none.csv").write_text("a,b,c\n")
    assert printed(capsys, train, tmp_path / "none.csv", "--bandwidth", 0.5).shape == (0,)


def test_density_log_of_negative_laplace_is_nan_and_noted(capsys, train, tmp_path):
    far = write_csv(tmp_path / "far.csv", QUERY[:2] + 20)
    code, out, err = run(capsys, "density", train, far, "--method", "laplace", "--bandwidth", 1, "--log")
    assert (code, out) == (0, "nan\nnan\n")
    assert err == ("cukde: note: 2 of 2 Laplace-corrected densities are negative; their logarithm is nan\n")


# --- density: output -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flags", "name"), [((), "density"), (("--log",), "log_density")])
def test_density_csv_keeps_the_query_rows_as_they_stand(capsys, tmp_path, train, flags, name):
    query, out = tmp_path / "query.csv", tmp_path / "out.csv"
    query.write_text('id;a;b;c\n"x, y";1.50;0;-1e0\nz;.1;0.2;+0.3\n')
    code, _, err = run(capsys, "density", train, query, "--bandwidth", 0.5, "--out", out, *flags)
    assert (code, err) == (0, "")
    header, *rows = csv.reader(out.open(newline=""))
    assert header == ["id", "a", "b", "c", name]
    assert [row[:4] for row in rows] == [["x, y", "1.50", "0", "-1e0"], ["z", ".1", "0.2", "+0.3"]]
    expected = cukde.kde(TRAIN, [[1.5, 0, -1], [0.1, 0.2, 0.3]], 0.5, log=bool(flags))
    assert [float(row[4]) for row in rows] == expected.tolist()


def test_density_csv_of_an_array_gets_names_and_reads_back(capsys, tmp_path):
    np.save(tmp_path / "x.npy", TRAIN)
    out = tmp_path / "out.tsv"
    assert run(capsys, "density", tmp_path / "x.npy", "--bandwidth", 0.5, "--out", out)[0] == 0
    table = open_table(out)
    assert table.names == ["x0", "x1", "x2", "density"]
    np.testing.assert_array_equal(table.read(range(4)), np.column_stack([TRAIN, cukde.kde(TRAIN, TRAIN, 0.5)]))


def test_density_txt_is_numbers(capsys, tmp_path, train):
    out = tmp_path / "out.txt"
    assert run(capsys, "density", train, "--bandwidth", 0.5, "--out", out)[0] == 0
    np.testing.assert_array_equal(np.loadtxt(out), cukde.kde(TRAIN, TRAIN, 0.5))


def test_output_appears_only_when_complete(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")

    def interrupted() -> None:
        with output.replacing(path) as part:
            part.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    with output.replacing(path) as part:
        part.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["out.txt"]


# --- density: refusals -----------------------------------------------------------------------------------


def test_missing_file(capsys, tmp_path):
    message = refusal(capsys, "density", tmp_path / "none.csv")
    assert "cannot read" in message
    assert "none.csv: No such file" in message


CSV = "a,b,c\n" + "\n".join(",".join(map(repr, row)) for row in TRAIN.tolist())

# A file's name and text, options, and parts of what is said.
REFUSED = [
    ("data.xlsx", "", "", "must end in .npy, .parquet or .csv, .tsv, .txt"),
    *(
        ("bad.csv", f"a,b\n1,2\n\n3,{cell}\n5,6\n", "", f"bad.csv, line 4, column 'b': {complaint}")
        for cell, complaint in (
            ("abc", "expected a number such as -1.5e3; got 'abc'"),
            ("1_000", "expected a number such as -1.5e3; got '1_000'"),
            ("", "expected a number; the cell is empty"),
            ("nan", "expected a finite number; got 'nan'"),
            ("-inf", "expected a finite number; got '-inf'"),
        )
    ),
    ("bad.csv", "1,2\n3,x\n", "", "bad.csv, line 2, column 1: "),
    ("bad.csv", "a,b\n1,2\n3\n", "", "line 3: expected 2 cells as in the first row; got 1"),
    ("empty.csv", "", "", "is empty"),
    ("header.csv", "a,b\n", "", "holds no rows"),
    ("empty.npy", "", "", "not a NumPy file"),
    ("latin.csv", "größe,b\n1,2\n", "", "is not text in UTF-8"),
    ("named.csv", CSV, "--columns a,z", "no column 'z'; its columns are a, b, c"),
    ("named.csv", CSV, "--columns a,a", "names a column twice"),
    ("named.csv", CSV, "--columns=", "no columns to compute on"),
    ("plain.csv", CSV.partition("\n")[2], "--columns a", "no header and columns 0 to 2; choose by index; got 'a'"),
    ("twice.csv", CSV.replace("b", "a", 1), "--columns a", "several columns 'a'"),
    *(
        ("named.csv", CSV, f"--bandwidth={text}", f"must be positive and finite; got {text}")
        for text in ("0", "-1", "nan", "inf")
    ),
    ("named.csv", CSV, "--bandwidth wide", "or one of scott, silverman, scott_deviations, silverman_deviations, sd, "),
    ("named.csv", CSV, "--bandwidth 1,2", "must be one number or 3, one a column; got 1,2"),
    ("constant.csv", "1,1\n" * 5, "--method kde", "X must vary"),  # the library's own, in one line
    ("named.csv", CSV, "--weights c --bandwidth 1", "weights"),
    *(("named.csv", CSV, f"--out {name}", "--out must") for name in ("out.xlsx", "nowhere/out.csv", ".")),
    ("density.csv", CSV.replace("c", "density", 1), "--columns a,b --out out.csv", "has a column 'density' already"),
]


@pytest.mark.parametrize(("name", "text", "flags", "complaint"), REFUSED)
def test_refusals(capsys, tmp_path, monkeypatch, name, text, flags, complaint):
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(text.encode("latin-1"))
    assert complaint in refusal(capsys, "density", name, *flags.split())


def test_npz_in_disguise(capsys, tmp_path):
    np.savez(tmp_path / "many.npz", a=TRAIN)
    (tmp_path / "many.npz").rename(tmp_path / "many.npy")
    assert "archive of arrays" in refusal(capsys, "density", tmp_path / "many.npy")


def test_text_column_asks_for_columns(capsys, tmp_path):
    path = tmp_path / "iris.csv"
    path.write_text("length,species\n1.5,setosa\n1.25,setosa\n1,virginica\n")
    message = refusal(capsys, "density", path)
    assert "column 'species' holds no numbers ('setosa' on line 2)" in message
    assert "--columns" in message
    np.testing.assert_array_equal(
        printed(capsys, path, "--columns", "length", "--bandwidth", 1),
        cukde.kde([1.5, 1.25, 1.0], [1.5, 1.25, 1.0], 1.0),
    )


def test_text_column_without_header_does_not_swallow_the_first_row(capsys, tmp_path):
    path = tmp_path / "iris.csv"
    path.write_text("1.5,setosa\n1.25,setosa\n1,virginica\n")
    assert "column 1 holds no numbers ('setosa' on line 1)" in refusal(capsys, "density", path)
    assert len(printed(capsys, path, "--columns", "0", "--bandwidth", 1)) == 3


def test_query_with_other_columns(capsys, train, tmp_path):
    by_name = write_csv(tmp_path / "named.csv", QUERY[:, :2], header="a,b")
    assert "no column 'c'" in refusal(capsys, "density", train, by_name)
    by_position = write_csv(tmp_path / "plain.csv", QUERY[:, :2])
    assert "must have 3 columns" in refusal(capsys, "density", train, by_position)


@pytest.mark.parametrize(
    ("array", "complaint"),
    [
        (np.ones((2, 2), complex), "must hold real numbers; got dtype complex128"),
        (np.array(["a", "b"]), "must hold real numbers; got dtype <U1"),
        (np.ones((2, 2, 2)), "must have shape (rows, columns) or (rows,); got (2, 2, 2)"),
        (np.ones((2, 0)), "must have shape (rows, columns) or (rows,); got (2, 0)"),
        (
            np.array([[1.0, 2.0], [3.0, np.nan]]),
            "row 1 (from 0), column 1: expected a finite number; got nan",
        ),
        (np.array([object()]), "not a NumPy file of plain numbers"),
    ],
    ids=["complex", "text", "3-d", "no-columns", "nan", "objects"],
)
def test_bad_npy(capsys, tmp_path, array, complaint):
    np.save(tmp_path / "bad.npy", array, allow_pickle=True)
    assert complaint in refusal(capsys, "density", tmp_path / "bad.npy")


def test_byte_order_mark_is_no_part_of_a_name(tmp_path):
    (tmp_path / "excel.csv").write_bytes("\ufeffa;b\r\n1;2\r\n".encode())
    assert open_table(tmp_path / "excel.csv").names == ["a", "b"]


def test_output_is_never_an_input(capsys, train, query, tmp_path):
    before = train.read_bytes()
    assert "must not be an input file" in refusal(capsys, "density", train, query, "--out", train)
    link = tmp_path / "link.csv"
    link.hardlink_to(train)
    assert "must not be an input file" in refusal(capsys, "density", query, train, "--out", link)
    assert train.read_bytes() == before


@pytest.mark.parametrize("command", [("density", "train.csv", "--out", "out.npy"), ("demo",)])
def test_output_that_cannot_be_written_is_refused_before_the_work(capsys, train, monkeypatch, command):
    monkeypatch.chdir(train.parent)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "folder that you may write to" in refusal(capsys, *command)


@pytest.mark.parametrize(
    "arguments",
    [(), ("nothing",), ("density",), ("density", "x.csv", "--method", "best"), ("demo", "--seed", "1")],
)
def test_wrong_arguments(capsys, arguments):
    refusal(capsys, *arguments)


# --- exit codes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("density", "--help")])
def test_help_and_version(capsys, arguments):
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    assert "cukde" in out


def test_unexpected_failure_is_1_and_traceback_on_request(capsys, monkeypatch):
    def fail(args: argparse.Namespace) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(info, "run", fail)
    code, out, err = run(capsys, "info")
    assert (code, out) == (1, "")
    assert err.startswith("cukde: error: unexpected RuntimeError: out of luck")
    with pytest.raises(RuntimeError, match="out of luck"):
        main(["--traceback", "info"])


def test_interrupt_is_130(capsys, monkeypatch):
    def interrupt(args: argparse.Namespace) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(info, "run", interrupt)
    assert run(capsys, "info") == (130, "", "cukde: interrupted\n")


def module(*arguments: str | Path, **options) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", "cukde", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options,
    )  # fmt: skip


def test_python_m_cukde():
    process = module("--version")
    assert process.communicate() == (f"cukde {cukde.__version__}\n", "")
    assert process.returncode == 0


@pytest.mark.skipif(os.name == "nt", reason="pipes break otherwise on Windows")
def test_broken_pipe_is_silent(tmp_path):
    np.save(tmp_path / "x.npy", np.linspace(0, 1, 6_000))  # more output than a pipe holds
    process = module("density", tmp_path / "x.npy")
    assert process.stdout is not None
    assert process.stderr is not None
    assert float(process.stdout.readline()) > 0
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 141


def test_help_loads_no_numba_and_no_scikit_learn():
    loaded = "import sys, cukde.cli.main; cukde.cli.main.main(['--help']); print([m for m in sys.modules if m in "
    loaded += "('numba', 'sklearn', 'scipy', 'matplotlib', 'cupy')])"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# --- info ------------------------------------------------------------------------------------------------


def test_info(capsys):
    code, out, err = run(capsys, "info")
    assert (code, err) == (0, "")
    for name, version in (("cukde", cukde.__version__), ("numpy", np.__version__)):
        assert any(line.split() == [name, version] for line in out.splitlines())
    for name in ("Python", "scipy", "numba", "scikit-learn", "CuPy", "numba-cuda", "NVRTC", "NVIDIA driver"):
        assert f"  {name}" in out
    assert "  CPU                  available: " in out
    assert "  GPU                  " in out
    assert f"files in {ROOT / 'kernels_cu'}" in out


def test_info_without_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    works, state = info.gpu()
    assert not works
    assert "pip install 'cupy-cuda13x" in state


def fake_cupy(monkeypatch, count) -> None:
    runtime = SimpleNamespace(
        getDeviceCount=count,
        getDeviceProperties=lambda index: {
            "name": b"NVIDIA Test", "major": 9, "minor": 0, "totalGlobalMem": 80 * 2**30
        },
    )  # fmt: skip
    cupy = SimpleNamespace(
        __spec__=object(), cuda=SimpleNamespace(runtime=runtime), zeros=np.zeros, asarray=np.asarray,
        asnumpy=np.asarray,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "cupy", cupy)


def test_info_without_driver(monkeypatch):
    fake_cupy(monkeypatch, lambda: 1)
    monkeypatch.setattr(info, "driver_version", lambda: None)
    works, state = info.gpu()
    assert not works
    assert "no NVIDIA driver" in state


def test_info_with_driver_but_no_device(monkeypatch):
    def no_device() -> int:
        raise RuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")

    fake_cupy(monkeypatch, no_device)
    monkeypatch.setattr(info, "driver_version", lambda: "CUDA 13.0")
    works, state = info.gpu()
    assert not works
    assert "cudaErrorNoDevice" in state
    assert "nvidia-smi" in state


def test_info_names_the_devices(monkeypatch):
    fake_cupy(monkeypatch, lambda: 2)
    monkeypatch.setattr(info, "driver_version", lambda: "CUDA 13.0")
    works, state = info.gpu()
    assert works
    assert state == "available: " + "; ".join(["NVIDIA Test (compute capability 9.0, 80 GiB)"] * 2)


def test_info_names_a_device_that_cannot_compute(monkeypatch):
    def no_compiler(*shape):
        raise RuntimeError("NVRTC not found")

    fake_cupy(monkeypatch, lambda: 1)
    monkeypatch.setattr(sys.modules["cupy"], "zeros", no_compiler)
    monkeypatch.setattr(info, "driver_version", lambda: "CUDA 13.0")
    assert info.gpu() == (
        False,
        "there is a device, but a density on it fails: RuntimeError: NVRTC not found",
    )


@pytest.mark.parametrize(
    ("numba", "numpy", "bad"),
    [
        ("0.68.0", "2.5.0", True),
        ("0.68.0", "2.5.0rc1", True),
        ("0.68.0", "2.4.6", False),
        ("0.68.1", "2.5.0", False),
    ],
)
def test_info_names_the_pair_that_does_not_work(monkeypatch, numba, numpy, bad):
    monkeypatch.setattr(info, "version", {"numba": numba, "numpy": numpy}.get)
    faults = list(info.known_faults())
    assert bool(faults) == bad
    if bad:
        assert faults[0][0] == f"Numba 0.68.0 with NumPy {numpy}"
        assert "pip install" in faults[0][1]


def test_info_names_two_cupys(monkeypatch):
    monkeypatch.setattr(info, "version", {"cupy-cuda12x": "14", "cupy-cuda13x": "14"}.get)
    ((names, advice),) = info.known_faults()
    assert names == "cupy-cuda13x and cupy-cuda12x"
    assert "uninstall" in advice


# --- roofline --------------------------------------------------------------------------------------------


@pytest.fixture
def toys(monkeypatch):
    """Two toy operations on a toy processor, which take 4 ms."""
    perf_toys.declare_all(monkeypatch)
    perf_toys.time_by(monkeypatch, lambda call: 4.0)
    monkeypatch.setattr(perf, "peaks", {"cpu": perf_toys.CPU, None: perf_toys.GPU}.__getitem__)
    monkeypatch.setattr(info, "gpu", lambda: (False, "no GPU today"))
    works = {
        function.__name__: workloads.Workload(function, lambda a, s: (np.zeros(s.n),), {"n": 1000}, {})
        for function in (perf_toys.half, perf_toys.whole)
    }
    monkeypatch.setattr(workloads, "WORKLOADS", works)


def test_roofline_shows_a_table_a_picture_and_numbers(capsys, tmp_path, toys):
    code, out, _ = run(capsys, "roofline", "--out", tmp_path / "new", "--json", tmp_path / "run.json")
    assert code == 0
    head, _, first, second, picture, numbers = out.splitlines()
    assert "Toy CPU" in head
    assert first.split()[:4] == ["1", "half", "n=1,000", "4.00"]
    assert second.split()[:4] == ["2", "whole", "f64", "n=1,000"]
    assert picture == f"Picture: {tmp_path / 'new' / 'cukde-roofline.png'}"
    assert (tmp_path / "new" / "cukde-roofline.png").read_bytes().startswith(b"\x89PNG")
    assert numbers == f"Numbers: {tmp_path / 'run.json'}"
    rows = json.loads((tmp_path / "run.json").read_text())
    assert [(row["op"], row["median_ms"], row["roofline"]["binds"]) for row in rows] == [
        ("half", 4.0, "exponential"),
        ("whole", 4.0, "memory"),
    ]


def test_roofline_of_some_operations_explained(capsys, tmp_path, toys):
    code, out, _ = run(capsys, "roofline", "--only", "whole", "whole", "--explain", "--no-plot", "--backend", "cpu")
    assert (code, "Picture" in out) == (0, False)
    assert "sensitivity of the predicted" in out
    assert out.splitlines()[-1].split()[:2] == ["1", "whole"]


def test_roofline_without_matplotlib_has_a_table(capsys, toys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = run(capsys, "roofline", "--only", "half")
    assert code == 0
    assert err.startswith("cukde: note: no picture without Matplotlib: pip install 'matplotlib>=3.8'")
    assert out.splitlines()[-1].split()[:2] == ["1", "half"]


def test_roofline_of_the_gpu_where_one_works(capsys, toys, monkeypatch):
    seen = []

    def explain_all(*arguments):
        seen.append(arguments)
        return {"half": perf.explain(perf_toys.half, perf_toys.X, on=perf_toys.CPU)}

    monkeypatch.setattr(info, "gpu", lambda: (True, "available: one"))
    monkeypatch.setattr(roofline, "explain_all", explain_all)
    assert run(capsys, "roofline", "--no-plot", "--only", "half")[0] == 0
    assert run(capsys, "roofline", "--no-plot", "--backend", "cpu", "--seconds", "2")[0] == 0
    assert seen == [(["half"], "gpu", 0.3), (["half", "whole"], "cpu", 2.0)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--only", "third"), "--only knows no third; the operations are half, whole"),
        (("--backend", "gpu"), "--backend gpu needs a working GPU: no GPU today"),
        (("--out", "a.pdf"), "--out must be a folder or a .png file; got a.pdf"),
        (("--json", "nowhere/a.json"), "--json must be a file in an existing folder; got nowhere/a.json"),
        (("--seconds", "none"), "expected a positive number of seconds; got 'none'"),
        (("--seconds", "0"), "expected a positive number of seconds; got '0'"),
    ],
)
def test_roofline_refusals(capsys, tmp_path, toys, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    assert says in refusal(capsys, "roofline", *arguments)
    assert list(tmp_path.iterdir()) == []


def test_matching_by_position_where_the_layout_is_the_same(tmp_path):
    train = open_table(write_csv(tmp_path / "train.csv", TRAIN, header="a,b,c"))
    query = open_table(write_csv(tmp_path / "query.csv", QUERY))
    assert columns.matching(query, train, [2, 0]) == [2, 0]


# --- what is written where -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "writes"),
    [
        (("--help",), set()),
        (("density", "x.npy", "--bandwidth", "0.5"), set()),
        (("density", "x.npy", "x.npy", "--method", "sd", "--out", "told/p.csv"), {"told/p.csv"}),
        (("density", "x.npy", "--out", "missing/p.csv"), set()),
        (("density", "x.npy", "--bandwidth", "0.5", "--plot", "told/p.png"), {"told/p.png"}),
        (("kendall", "x.npy", "--out", "told/tau.csv"), {"told/tau.csv"}),
        (("info",), set()),
        (("roofline", "--no-plot"), set()),
        (("roofline",), {"cukde-roofline.png"}),
        (("roofline", "--out", "told/line.png", "--json", "run.json"), {"told/line.png", "run.json"}),
    ],
    ids=lambda names: " ".join(names if isinstance(names, tuple) else sorted(names)),
)
def test_commands_write_only_where_they_are_told(capsys, tmp_path, monkeypatch, toys, arguments, writes):
    (tmp_path / "work" / "told").mkdir(parents=True)
    np.save(tmp_path / "work" / "x.npy", TRAIN)
    monkeypatch.chdir(tmp_path / "work")
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
        (tmp_path / name.lower()).mkdir()

    def contents() -> dict[str, bytes]:
        files = [path for path in tmp_path.rglob("*") if path.is_file() and "matplotlib" not in path.parts]  # its fonts
        return {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in files}

    before = contents()
    main([str(argument) for argument in arguments])
    capsys.readouterr()
    after = contents()
    assert after.keys() - before.keys() == {f"work/{path}" for path in writes}
    assert {path: after[path] for path in before} == before
