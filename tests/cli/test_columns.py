"""The command line on columns: Parquet, pictures, the GPU, Kendall's tau, and the completion of a shell."""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import sys
import threading
import time
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import cukde
from cukde.cli import main, parquet, progress
from tests.cli.test_cli import QUERY, TRAIN, printed, query, refusal, run, train, write_csv  # noqa: F401  # two fixtures
from tests.private import (
    cli_density as density,
    cli_info as info,
    cli_output as output,
    open_table,
    threads as core_threads,
)

pyarrow = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write_parquet(path: Path, **columns) -> Path:
    pq.write_table(pyarrow.table(columns), path)
    return path


@pytest.fixture
def table(tmp_path) -> Path:
    """The training rows beside a column of words."""
    a, b, c = TRAIN.T
    return write_parquet(tmp_path / "train.parquet", a=a, kind=["x"] * len(a), b=b, c=c)


# --- Parquet ---------------------------------------------------------------------------------------------


def test_density_of_parquet_by_name(capsys, table, query):  # noqa: F811
    got = printed(capsys, table, query, "--columns", "c,a", "--bandwidth", 0.5)
    np.testing.assert_array_equal(got, cukde.kde(TRAIN[:, [2, 0]], QUERY[:, [2, 0]], 0.5))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parquet_keeps_the_rows_and_their_types(capsys, tmp_path, dtype):
    columns = {"a": TRAIN[:, 0].astype(dtype), "kind": ["x", None] * 30, "n": np.arange(60)}
    source, out = write_parquet(tmp_path / "in.parquet", **columns), tmp_path / "out.parquet"
    assert run(capsys, "density", source, "--columns", "a", "--bandwidth", 0.5, "--out", out) == (0, "", "")
    got, want = pq.read_table(out), pq.read_table(source)
    assert got.drop_columns("density") == want
    np.testing.assert_array_equal(got["density"].to_numpy(), cukde.kde(columns["a"], columns["a"], 0.5))
    assert got["density"].type == want["a"].type


def test_csv_to_parquet_and_parquet_to_csv(capsys, tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("a,b,word\n1.5,2,x\n0.25,,y\n-3,4e3,7\n")
    out, back = tmp_path / "out.parquet", tmp_path / "back.csv"
    assert run(capsys, "density", source, "--columns", "a", "--bandwidth", 1, "--log", "--out", out)[0] == 0
    rows = pq.read_table(out).to_pydict()
    assert (rows["a"], rows["b"], rows["word"]) == ([1.5, 0.25, -3.0], [2.0, None, 4e3], ["x", "y", "7"])
    assert run(capsys, "density", out, "--columns", "a", "--bandwidth", 1, "--out", back)[0] == 0
    with back.open() as file:
        header, *lines = list(csv.reader(file))
    assert header == ["a", "b", "word", "log_density", "density"]
    assert [line[:3] for line in lines] == [["1.5", "2.0", "x"], ["0.25", "", "y"], ["-3.0", "4000.0", "7"]]
    np.testing.assert_array_equal([float(line[3]) for line in lines], rows["log_density"])


def test_array_to_parquet(capsys, tmp_path):
    np.save(tmp_path / "x.npy", TRAIN)
    assert run(capsys, "density", tmp_path / "x.npy", "--bandwidth", 1, "--out", tmp_path / "p.parquet")[0] == 0
    got = pq.read_table(tmp_path / "p.parquet")
    assert got.column_names == ["x0", "x1", "x2", "density"]
    np.testing.assert_array_equal(got["x1"].to_numpy(), TRAIN[:, 1])


@pytest.mark.parametrize("dtype", [">f8", "<f4", "i2", "?"])
def test_an_array_keeps_its_dtype_in_parquet(tmp_path, dtype):
    A = (2 * TRAIN[:, :2]).astype(dtype)
    np.save(tmp_path / "x.npy", A)
    output.save(np.zeros(len(A)), tmp_path / "p.parquet", open_table(tmp_path / "x.npy"), "density")
    got = pq.read_table(tmp_path / "p.parquet")
    for index in range(2):
        column = got[f"x{index}"].to_numpy()
        assert column.dtype == np.dtype(dtype).newbyteorder("=")
        np.testing.assert_array_equal(column, A[:, index])


def test_types_of_csv_in_parquet_are_those_of_all_rows(tmp_path):
    """A whole number in every row but the last, far from the first; quoted lines, blank lines and no header."""
    source = tmp_path / "in.csv"
    source.write_text(
        "\ufeff" + '\n0;1;"two\nlines";"";007\n\n' + 200_000 * "1;2;word;;8\n" + "1.5;2;;3;x\n", encoding="utf-8"
    )
    output.save(np.zeros(200_002), tmp_path / "p.parquet", open_table(source), "density")
    got = pq.read_table(tmp_path / "p.parquet")
    assert [str(field.type) for field in got.schema] == ["double", "int64", "string", "int64", "string", "double"]
    first, *_, last = got.to_pylist()
    assert list(first.values()) == [0.0, 1, "two\nlines", None, "007", 0.0]
    assert list(last.values()) == [1.5, 2, "", 3, "x", 0.0]


def test_types_of_parquet_that_are_numbers(tmp_path):
    path = write_parquet(
        tmp_path / "a.parquet",
        whole=pyarrow.array([1, None, 3]),
        yes=pyarrow.array([True, False, None]),
        exact=pyarrow.array([Decimal("0.25"), Decimal("1.50"), Decimal("2.75")]),
        small=pyarrow.array([1.0, 2.0, 3.0], pyarrow.float32()),
        when=pyarrow.array([1, 2, 3], pyarrow.timestamp("ms")),
    )
    opened = open_table(path)
    assert opened.text_columns() == {4: "its type is timestamp[ms]"}
    got = opened.read([2, 0, 1], finite=False)
    np.testing.assert_array_equal(got, [[0.25, 1, 1], [1.5, np.nan, 0], [2.75, 3, np.nan]])
    assert opened.read([3]).dtype == np.float32


def test_parquet_refusals(capsys, tmp_path, table):
    assert "column 'kind' holds no numbers (its type is string)" in refusal(capsys, "density", table)
    assert "no column 'z'; its columns are a, kind, b, c" in refusal(capsys, "density", table, "--columns", "z")
    holes = write_parquet(tmp_path / "holes.parquet", a=[1.0, 2.0, None])
    assert "row 2 (from 0), column 'a': expected a finite number; got null" in refusal(capsys, "density", holes)
    endless = write_parquet(tmp_path / "inf.parquet", a=[1.0, np.inf])
    assert "row 1 (from 0), column 'a': expected a finite number; got inf" in refusal(capsys, "density", endless)
    assert "cannot read" in refusal(capsys, "density", tmp_path / "none.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 but nothing else PAR1")
    assert "bad.parquet" in refusal(capsys, "density", tmp_path / "bad.parquet")
    assert "holds no rows" in refusal(capsys, "density", write_parquet(tmp_path / "no.parquet", a=np.empty(0)))
    assert "has no columns" in refusal(capsys, "density", write_parquet(tmp_path / "none_at_all.parquet"))


def test_parquet_has_no_two_columns_of_one_name(capsys, tmp_path):
    source = write_csv(tmp_path / "in.csv", TRAIN, header="a,b,b")
    message = refusal(capsys, "density", source, "--columns", "a", "--out", tmp_path / "out.parquet")
    assert "cannot have several columns of one name: a, b, b" in message
    assert not (tmp_path / "out.parquet").exists()


def test_without_pyarrow(capsys, table, train, monkeypatch):  # noqa: F811
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for arguments in ((table,), (train, "--out", table.with_name("out.parquet"))):
        assert "Parquet files need pyarrow: pip install 'pyarrow>=15'" in refusal(capsys, "density", *arguments)


# --- pictures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", ["a", "c,a", "a,b,c"])
@pytest.mark.parametrize("method", ["kde", "laplace"])
def test_plot_writes_a_picture_of_each_number_of_columns(capsys, tmp_path, table, monkeypatch, names, method):
    from matplotlib.figure import Figure
    from matplotlib.image import imread

    drawn = []
    monkeypatch.setattr(Figure, "savefig", _remembering(drawn, Figure.savefig))
    path = tmp_path / "p.png"
    plain = printed(capsys, table, "--columns", names, "--method", method)
    np.testing.assert_array_equal(printed(capsys, table, "--columns", names, "--method", method, "--plot", path), plain)
    image = imread(path)
    assert image.shape[0] > 400
    assert image.std() > 0.05
    (figure,) = drawn
    chosen = names.split(",")
    axes = figure.axes[-len(chosen) :] if len(chosen) > 2 else figure.axes
    assert [ax.get_xlabel() for ax in axes] == (chosen if len(chosen) > 2 else chosen[:1])
    if len(chosen) == 1:
        x, p = axes[0].lines[0].get_data()
        h = (cukde.bandwidth.silverman if method == "kde" else cukde.bandwidth.laplace)(TRAIN[:, 0])
        want = (cukde.kde if method == "kde" else cukde.laplace_kde)(TRAIN[:, 0], x, h)
        np.testing.assert_allclose(p, want, rtol=1e-9, atol=1e-12)


def _remembering(drawn, savefig):
    def save(figure, *args, **options):
        drawn.append(figure)
        return savefig(figure, *args, **options)

    return save


def test_plot_refusals(capsys, tmp_path, train, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    assert "--plot must end in .png; got p.pdf" in refusal(capsys, "density", train, "--plot", "p.pdf")
    assert "--plot must be a file in an existing folder" in refusal(capsys, "density", train, "--plot", "no/p.png")
    wide = write_csv(tmp_path / "wide.csv", np.random.default_rng(0).normal(size=(9, 17)))
    assert "--plot draws up to 16 columns; got 17" in refusal(capsys, "density", wide, "--plot", "p.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = refusal(capsys, "density", train, "--plot", "p.png")
    assert "--plot needs Matplotlib: pip install 'matplotlib>=3.8'" in message
    assert not Path("p.png").exists()


def test_a_picture_that_fails_leaves_no_file(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    def fails(self, *args, **options):
        raise RuntimeError("no ink")

    monkeypatch.setattr(Figure, "savefig", fails)
    with pytest.raises(RuntimeError, match="no ink"):
        density.save_picture(tmp_path / "p.png", TRAIN[:, :1], 0.5, "kde", None, ["a"])
    assert list(tmp_path.iterdir()) == []


# --- the GPU ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("density", "--bandwidth", "0.5"), ("density", "--method", "sd"), ("kendall",)])
def test_gpu_moves_the_data_there(capsys, train, monkeypatch, command):  # noqa: F811
    name, *options = command
    plain = run(capsys, name, train, *options)
    moved = []

    def asarray(a):
        moved.append(a)
        return a

    monkeypatch.setattr(info, "gpu", lambda: (True, "one"))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(asarray=asarray))
    assert run(capsys, name, train, *options, "--gpu") == plain
    np.testing.assert_array_equal(moved, [TRAIN])


@pytest.mark.parametrize("command", ["density", "kendall"])
def test_without_a_gpu(capsys, tmp_path, monkeypatch, command):
    monkeypatch.setattr(info, "gpu", lambda: (False, "no GPU today"))
    assert "--gpu needs a working GPU: no GPU today" in refusal(capsys, command, tmp_path / "none.csv", "--gpu")


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["kde", "sd", "laplace"])
def test_density_on_the_gpu(capsys, tmp_path, train, query, method):  # noqa: F811
    plain = printed(capsys, train, query, "--method", method)
    got = printed(capsys, train, query, "--method", method, "--gpu", "--plot", tmp_path / "p.png")
    np.testing.assert_allclose(got, plain, rtol=1e-9)


@pytest.mark.gpu
def test_kendall_on_the_gpu(capsys, train):  # noqa: F811
    assert run(capsys, "kendall", train, "--gpu") == run(capsys, "kendall", train)


# --- kendall ---------------------------------------------------------------------------------------------

TIED = np.random.default_rng(2).integers(0, 6, (40, 5)).astype(float)


def test_kendall_prints_two_tables(capsys, train):  # noqa: F811
    code, out, err = run(capsys, "kendall", train)
    assert (code, err) == (0, "")
    want = cukde.kendall_matrix(TRAIN, pvalue=True)
    first, second = out.split("\n\n")
    for text, title, matrix in (
        (first, "Kendall's tau-b, 60 rows", want.statistic),
        (second, "p-values, two-sided", want.pvalue),
    ):
        lines = text.splitlines()
        assert lines[0] == title
        assert lines[1].split() == ["a", "b", "c"]
        assert len({len(line) for line in lines[1:]}) == 1
        rows = [line.split() for line in lines[2:]]
        assert [name for name, *_ in rows] == ["a", "b", "c"]
        np.testing.assert_allclose([list(map(float, row[1:])) for row in rows], matrix, rtol=6e-3, atol=6e-5)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_kendall_writes_a_row_for_each_pair(capsys, tmp_path, suffix):
    source, out = write_csv(tmp_path / "in.csv", TIED, header="v,w,x,y,z"), tmp_path / f"out{suffix}"
    assert run(capsys, "kendall", source, "--columns", "z,v,x", "--variant", "c", "--out", out) == (0, "", "")
    with out.open() as file:
        header, *rows = list(csv.reader(file, delimiter="\t" if suffix == ".tsv" else ","))
    assert header == ["first", "second", "tau", "pvalue"]
    want = cukde.kendall_matrix(TIED[:, [4, 0, 2]], variant="c", pvalue=True)
    for row, (i, j) in zip(rows, [(0, 1), (0, 2), (1, 2)], strict=True):
        assert row == ["zvx"[i], "zvx"[j], str(want.statistic[i, j]), str(want.pvalue[i, j])]


@pytest.mark.parametrize("variant", ["a", "b", "c"])
@pytest.mark.parametrize("policy", ["propagate", "omit"])
def test_kendall_is_one_call(capsys, tmp_path, variant, policy):
    A = TIED.copy()
    A[3, 1], A[5, 1], A[5, 4] = np.nan, np.nan, np.nan
    A[:, 2] = 1
    np.save(tmp_path / "a.npy", A)
    options = ("--variant", variant, "--nan-policy", policy, "--out", tmp_path / "tau.npy")
    assert run(capsys, "kendall", tmp_path / "a.npy", *options) == (0, "", "")
    want = cukde.kendall_matrix(A, variant=variant, nan_policy=policy, pvalue=True)
    np.testing.assert_array_equal(np.load(tmp_path / "tau.npy"), [want.statistic, want.pvalue])


def test_kendall_of_missing_values(capsys, tmp_path):
    source, out = tmp_path / "in.csv", tmp_path / "out.npy"
    source.write_text(
        "a,b,c\n" + "".join(f"{a},{b},{c}\n" for a, b, c in [*TRAIN[:20, :3], ("", 1, 2), ("nan", 3, "inf")])
    )
    A = np.concatenate([TRAIN[:20], [[np.nan, 1, 2], [np.nan, 3, np.inf]]])
    for policy in ("propagate", "omit"):
        assert run(capsys, "kendall", source, "--nan-policy", policy, "--out", out) == (0, "", "")
        want = cukde.kendall_matrix(A, nan_policy=policy, pvalue=True)
        np.testing.assert_array_equal(np.load(out), [want.statistic, want.pvalue])
    assert "contains nan" in refusal(capsys, "kendall", source, "--nan-policy", "raise").lower()
    holes = write_parquet(tmp_path / "holes.parquet", a=[1, 2, None, 4], b=[1.0, None, 3.0, 2.0])
    assert run(capsys, "kendall", holes, "--out", out)[0] == 0
    assert np.isnan(np.load(out)).all()


def test_kendall_refusals(capsys, tmp_path, train, table):  # noqa: F811
    assert "at least 2 columns; got 1" in refusal(capsys, "kendall", train, "--columns", "a")
    assert "has no column 'z'" in refusal(capsys, "kendall", train, "--columns", "a,z")
    assert "holds no numbers" in refusal(capsys, "kendall", table)
    assert "--out must end in one of .npy, .csv, .tsv; got" in refusal(capsys, "kendall", train, "--out", "a.txt")
    assert "--out must not be an input" in refusal(capsys, "kendall", train, "--out", train)
    words = tmp_path / "words.csv"
    words.write_text("a,b\n1,2\n3,word\n")
    assert "line 3, column 'b': expected a number such as -1.5e3; got 'word'" in refusal(capsys, "kendall", words)
    words.write_text("a,b\n")
    assert "holds no rows" in refusal(capsys, "kendall", words)
    refusal(capsys, "kendall", train, "--variant", "d")


# --- progress --------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_of_a_long_call(monkeypatch, terminal):
    """A line is written over on a terminal, and is one of its own elsewhere; nothing comes of short work."""
    monkeypatch.setattr(progress, "_SECONDS", {True: 0.01, False: 0.01})
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    reached = threading.Event()

    def task(index):
        if index == 1:
            reached.wait(10)

    def until_said():
        while "50% of this pass" not in stream.getvalue():
            time.sleep(0.01)
        reached.set()

    watcher = threading.Thread(target=until_said)
    watcher.start()
    with progress.progress():
        core_threads.run(task, [0, 1])
    watcher.join()
    if terminal:
        assert re.fullmatch(r"(0 s(, \d+% of this pass)? *\r)+ +\r", stream.getvalue())
    else:
        assert re.fullmatch(r"(cukde: 0 s(, \d+% of this pass)?\n)+", stream.getvalue())
    monkeypatch.undo()
    assert core_threads.part_done() is None


def test_short_work_has_no_progress(monkeypatch):
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress.progress():
            pass
        assert stream.getvalue() == ""


def test_a_line_of_the_terminal_is_written_over_and_empty_at_the_end(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)

    def interrupted() -> None:
        with progress.stages() as say:
            say("compiling")
            say("run")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert stream.getvalue() == "compiling\rrun      \r   \r"


# --- completion ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_commands_and_options(capsys, shell):
    pytest.importorskip("shtab")
    code, out, err = run(capsys, "--print-completion", shell)
    assert (code, err) == (0, "")
    for word in ("density", "kendall", "roofline", "bandwidth", "variant", "laplace"):
        assert word in out


@pytest.mark.skipif(os.name == "nt", reason="bash is that of another system there")
def test_bash_completes(tmp_path, capsys):
    pytest.importorskip("shtab")
    script = tmp_path / "cukde.sh"
    script.write_text(run(capsys, "--print-completion", "bash")[1])
    (tmp_path / "data.csv").touch()

    def completed(*words: str) -> set[str]:
        line = " ".join(f"'{word}'" for word in words)
        code = f"source '{script}'; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
        code += "$(complete -p cukde | sed 's/.*-F \\([^ ]*\\).*/\\1/'); printf '%s\\n' \"${COMPREPLY[@]}\""
        done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
        return set(done.stdout.split())

    assert {"density", "kendall", "demo", "info", "roofline"} <= completed("cukde", "")
    assert completed("cukde", "den") == {"density"}
    assert {"--method", "--gpu", "--plot"} <= completed("cukde", "density", "--")
    assert completed("cukde", "density", "--method", "") == {"kde", "sd", "laplace", "positive"}
    assert "data.csv" in completed("cukde", "density", "")


def test_completion_without_shtab(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert "needs shtab: pip install 'shtab>=1.7'" in refusal(capsys, "--print-completion", "bash")


def test_completion_of_an_unknown_shell(capsys):
    refusal(capsys, "--print-completion", "fish")


def test_help_loads_neither_pyarrow_nor_shtab():
    code = "import sys, cukde.cli.main; cukde.cli.main.main(['--help']); "
    code += "print([m for m in ('pyarrow', 'shtab') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_command_explains_itself(capsys):
    for action in main._parser()._actions:
        for name in getattr(action, "choices", None) or ():
            if name not in ("bash", "zsh", "tcsh"):
                assert run(capsys, name, "--help")[0] == 0
    assert parquet.SUFFIX in run(capsys, "density", "--help")[1]
