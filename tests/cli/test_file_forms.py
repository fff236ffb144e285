"""Files in the forms that people have them in: the command's answer is that of the plain call, or it is refused."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import lzma
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import cukde
from cukde.cli.main import main
from tests.cli.test_cli import TRAIN, run, write_csv
from tests.private import open_table

NAMES = {
    "words": ["height", "weight", "age"],
    "years": ["2019", "2020", "2021"],
    "counting": ["0", "1", "2"],
    "none": None,
    "wavelengths": ["400.5", "401.0", "401.5"],  # two of them would be a row of numbers as any other
}
# What stands before the numbers of a row: nothing, or labels under an empty or missing name.
LABELS = {"none": None, "pandas": "", "R": None, "again": "Unnamed: 0"}
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "space": " ", "aligned": "   "}
MISSING = ["NA", "NaN", "nan", "NULL", "N/A", "<NA>", ""]
PACKED = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@st.composite
def forms(draw):
    """A table of numbers and the bytes of a file that holds it."""
    generator = np.random.default_rng(draw(st.integers(0, 99)))
    A = np.round(generator.normal(0, 30, (draw(st.integers(3, 7)), draw(st.integers(2, 3)))), 2) + 0.0625
    separator, decimal = draw(st.sampled_from(list(SEPARATORS))), draw(st.sampled_from(".,"))
    if separator == "comma":
        decimal = "."
    space = separator in ("space", "aligned")
    names, labels = (
        draw(st.sampled_from(list(NAMES)[: 5 if A.shape[1] > 2 else 4])),
        draw(st.sampled_from(list(LABELS))),
    )
    if names == "none" or (space and labels == "pandas"):
        labels = "none"
    rows = [[repr(float(x)).replace(".", decimal) for x in row] for row in A]
    hole = draw(st.sampled_from([None, *MISSING]))
    if hole is not None and not (space and not hole):
        i, k = draw(st.integers(0, len(A) - 1)), draw(st.integers(0, A.shape[1] - 1))
        A[i, k], rows[i][k] = np.nan, draw(st.sampled_from([hole, f'"{hole}"']))
    quote = draw(st.sampled_from(["", '"'])) if not (space and labels == "again") else '"'
    header = [f"{quote}{name}{quote}" for name in (NAMES[names] or [])[: A.shape[1]]]
    if labels != "none":
        words = draw(st.booleans())
        rows = [[f"{quote}{f'r {k}' if words and quote else k}{quote}", *row] for k, row in enumerate(rows)]
        header = header if labels == "R" else [f"{quote}{LABELS[labels]}{quote}", *header]
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines = [SEPARATORS[separator].join(row) + end for row in ([header] if header else []) + rows]
    comment = draw(st.sampled_from(["", "# what was measured, and where", "#"]))
    text = (draw(st.sampled_from(["", "\ufeff"])) + (comment and comment + end) + "".join(lines)).encode()
    return A, text, draw(st.sampled_from([".csv", ".txt", ".dat", "-"])), draw(st.sampled_from(list(PACKED)))


def answer(command: str, text: bytes, suffix: str, packed: str, *options: str) -> tuple[np.ndarray | None, str]:
    """Run a command on a file; None where it is refused. And what it says."""
    err = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, f"in{suffix}{packed}"), Path(folder, "out.npy")
        content = PACKED[packed](text)
        if suffix != "-":
            path.write_bytes(content)
        stdin = SimpleNamespace(buffer=io.BytesIO(content))
        arguments = [command, "-" if suffix == "-" else str(path), *options, "--out", str(out)]
        with redirect_stderr(err), redirect_stdout(io.StringIO()), mock.patch("sys.stdin", stdin):
            code = main(arguments)
        assert code in (0, 2), err.getvalue()
        return np.load(out) if code == 0 else None, err.getvalue()


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(form=forms(), command=st.sampled_from(["kendall", "density"]))
def test_a_file_in_any_form_gives_the_answer_of_its_numbers(form, command):
    A, text, suffix, packed = form
    if command == "kendall":
        got, err = answer("kendall", text, suffix, packed, "--nan-policy", "omit")
        want = cukde.kendall_matrix(A, nan_policy="omit", pvalue=True)
        want = np.stack([want.statistic, want.pvalue])
    else:
        got, err = answer("density", text, suffix, packed, "--bandwidth", "20")
        if np.isnan(A).any():
            assert got is None
            assert "fill or drop that row" in err
            complete = ~np.isnan(A).any(axis=1)
            if not complete.any():
                return
            got, err = answer("density", text, suffix, packed, "--bandwidth", "20", "--nan-policy", "omit")
            want = np.full(len(A), np.nan)
            want[complete] = cukde.kde(A[complete], A[complete], 20.0)
        else:
            want = cukde.kde(A, A, 20.0)
    assert got is not None, (text, err)
    np.testing.assert_array_equal(got, want, err_msg=f"{text!r} {err}")


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    A=st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=2), min_size=3, max_size=6).map(np.array),
    header=st.sampled_from([None, "0,1", "1,2", "2019,2020", "a,b", ",b"]),
)
def test_whole_numbers_are_taken_as_what_they_are_or_as_a_note_says(A, header):
    lines = ([header] if header else []) + [",".join(map(str, row)) for row in A]
    got, err = answer("kendall", "\n".join(lines).encode(), ".csv", "")
    want = np.stack(cukde.kendall_matrix(A.astype(float), pvalue=True))
    right = got is not None and got.shape == want.shape and np.array_equal(got, want, equal_nan=True)
    assert right or got is None or "cukde: note: " in err, (lines, got, want)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("country,2019,2020\nFR,1.5,3\nDE,2.5,1\nIT,1,2\n", "country,2019,2020, was taken as the header (--header no"),
        ("0,1\n0.5,1.5\n1.5,0.25\n", "the first row, 0,1, was taken as the header (--header no"),
        ("0,1\n0,2\n1,2\n", "the first row, 0,1, was taken as data (--header yes"),
        ("x,1\ny,2\n", "the first row, x,1, was taken as data (--header yes"),
        (",5,1\n2,3,4\n", "the first row, ,5,1, was taken as data (--header yes"),
        ("# when where\n1 2\n3 5\n", "the comment when,where was taken as the header (--header no"),
        ("0,1.5\n1,2.5\n2,0.5\n", "column 0, which counts the rows, was taken as data (--index 0"),
        ("a;b\n1,5;2\n", "commas were taken as decimal signs, as in 1,5 (--decimal point"),
        ("1.5;2 5\n3;4 6\n", "cells were taken to be separated by semicolon (--separator space"),
        ("0,1,2\n3,4,5\n6,7,8\n", "the first row, 0,1,2, was taken as data (--header yes"),
        ("0.0,1.0,2.0\n3.0,4.0,5.0\n", ""),
        ("2000\n1500.5\n900\n", ""),
        ("1,,3\n2,5,1\n", ""),
        ("1.5,x\n2,y\n", ""),
        ("a,b\n1,2\n", ""),
    ],
)
def test_a_note_says_what_was_taken_as_what_where_that_is_uncertain(capsys, tmp_path, text, said):
    (tmp_path / "a.csv").write_text(text)
    open_table(tmp_path / "a.csv")
    err = capsys.readouterr().err
    assert (said in err and err.count("cukde: note: ") == 1) if said else not err


@pytest.mark.parametrize(
    ("text", "options", "want"),
    [
        ("0,1\n0.5,1.5\n1.5,0.25\n", ("--header", "no"), [[0, 1], [0.5, 1.5], [1.5, 0.25]]),
        ("0,1\n0,2\n1,2\n3,1\n", ("--header", "yes"), [[0, 2], [1, 2], [3, 1]]),
        ("# 5 6\n1 2\n2 1\n", ("--header", "no"), [[1, 2], [2, 1]]),
        (",a,b\n5,1,2\n7,2,1\n", ("--index", "none"), [[5, 1, 2], [7, 2, 1]]),
        ("a,id,b\n5,1,2\n7,2,1\n", ("--index", "id"), [[5, 2], [7, 1]]),
        ("0,1.5,3\n1,2.5,4\n2,0.5,2\n", ("--index", "0"), [[1.5, 3], [2.5, 4], [0.5, 2]]),
        ("a:b\n1:2\n2:1\n", ("--separator", ":"), [[1, 2], [2, 1]]),
        ("a;b\n1,500;2\n2,500;1\n", ("--decimal", "comma"), [[1.5, 2], [2.5, 1]]),
        ("x\n1,5\n2,5\n", ("--decimal", "comma", "--index", "none"), None),
        ('a,b\n"1,5","2"\n"2,5","1"\n', ("--separator", "comma", "--decimal", "comma"), [[1.5, 2], [2.5, 1]]),
        ("sep=:\na:b\n1:2\n2:1\n", (), [[1, 2], [2, 1]]),
        ("#,x,y\n1,2,3\n2,3,1\n", (), [[1, 2, 3], [2, 3, 1]]),
        ("a,b,\n1,2,\n2,1,\n", (), [[1, 2], [2, 1]]),
        ("a,b\n1,2,\n2,1,\n", (), [[1, 2], [2, 1]]),
    ],
)
def test_an_option_overrides_what_a_file_is_taken_for(text, options, want):
    got, err = answer("kendall", text.encode(), ".csv", "", *options)
    if want is None:
        assert "at least 2 columns; got 1" in err
        return
    assert got is not None, err
    np.testing.assert_array_equal(got, np.stack(cukde.kendall_matrix(np.array(want, float), pvalue=True)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('a,b\n"1,500",2\n3,4\n', "'1,500' on line 2: write numbers without separators of thousands"),
        ("a\tb\n1.5\t2\n1,234\t5\n", "got '1,234': write numbers without separators of thousands"),
        ("a;b\n1.500,5;2\n2,5;1\n", "write numbers without separators of thousands"),
        ("a;b\n1,234;2\n2,345;1\n", "1,234 may be 1.234 or 1234: --decimal comma for the first"),
        ("a;b\n1.5;2\n2,5;1\n", "got '2,5': give --decimal comma if all numbers are written so"),
        ("x\n1,5\n2,5\n", "one name and two numbers a row: --index 0 if"),
        ("a,b\n9007199254740993,1.5\n1,2\n", "9007199254740993 would be rounded"),
        ("a,b\n9007199254740993,1\n1,\n", "9007199254740993 would be rounded"),
        ("a,b\n18446744073709551617,1\n1,3\n", "18446744073709551617 would be rounded"),
        ("a,b\n1,2\n3,?\n", "expected a number such as -1.5e3; got '?'"),
    ],
)
def test_a_file_that_has_no_certain_numbers_is_refused(text, said):
    got, err = answer("kendall", text.encode(), ".csv", "", "--nan-policy", "omit")
    assert got is None
    assert said in err


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    whole=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(2**53, 2**53 + 9), min_size=3, max_size=6),
    parquet=st.booleans(),
    missing=st.booleans(),
)
def test_whole_numbers_are_exact_or_refused(whole, parquet, missing):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    others = [*range(len(whole) - 1), None] if missing else list(range(len(whole)))
    if parquet:
        buffer = io.BytesIO()
        pq.write_table(pyarrow.table({"a": pyarrow.array(whole), "b": pyarrow.array(others)}), buffer)
        content = buffer.getvalue()
    else:
        rows = (f"{a},{'' if b is None else b}" for a, b in zip(whole, others, strict=True))
        content = "\n".join(["a,b", *rows]).encode()
    got, err = answer("kendall", content, ".parquet" if parquet else "-", "", "--nan-policy", "omit")
    if got is None:
        assert "would be rounded" in err
        assert missing
    else:
        rows = [row for row in zip(whole, others, strict=True) if None not in row]
        pair = cukde.kendalltau(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))
        np.testing.assert_allclose(got[0, 0, 1], pair.statistic, rtol=1e-12)


def test_unsigned_whole_numbers_are_exact():
    got, err = answer("kendall", b"a,b\n18446744073709551615,1\n18446744073709551614,2\n5,3\n", ".csv", "")
    assert got is not None, err
    assert got[0, 0, 1] == -1


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_index_of_pandas_is_no_column(capsys, tmp_path, named, suffix):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(TRAIN, columns=["u", "v", "w"])
    frame = frame[frame.u > -0.6]
    frame.index.name = "id" if named else None
    path = tmp_path / f"a{suffix}"
    (frame.to_csv if suffix == ".csv" else frame.to_parquet)(path)
    index = ["--index", "id"] if named and suffix == ".csv" else []
    code, out, err = run(capsys, "density", path, "--bandwidth", 1, *index)
    assert code == 0
    assert "was taken as row labels and left out (--index none to keep it)" in err
    np.testing.assert_array_equal(list(map(float, out.split())), cukde.kde(frame, frame, 1.0))
    plain = write_csv(tmp_path / "query.csv", TRAIN[:5])
    code, out, _ = run(capsys, "density", plain, path, "--bandwidth", 1, *([] if named else index))
    if not named or suffix == ".parquet":
        np.testing.assert_array_equal(list(map(float, out.split())), cukde.kde(TRAIN[:5], frame, 1.0))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npy"])
def test_rows_in_another_form_are_written_plainly(tmp_path, suffix):
    pytest.importorskip("pyarrow")
    source, out = tmp_path / "a.txt", tmp_path / f"out{suffix}"
    source.write_text("# from Excel\na;b;word\n1,5;NA;x\n2,25;7;y, z\n0,5;8;NA\n")
    with redirect_stderr(io.StringIO()):
        assert main(["density", str(source), "--columns", "a", "--bandwidth", "1", "--out", str(out)]) == 0
    density = cukde.kde([1.5, 2.25, 0.5], [1.5, 2.25, 0.5], 1.0)
    if suffix == ".npy":
        np.testing.assert_array_equal(np.load(out), density)
    elif suffix == ".csv":
        rows = ["1.5,NA,x", '2.25,7,"y, z"', "0.5,8,NA"]
        lines = ["a,b,word,density", *(f"{row},{p!r}" for row, p in zip(rows, density.tolist(), strict=True))]
        assert out.read_text().splitlines() == lines
    else:
        import pyarrow.parquet as pq

        columns = pq.read_table(out).to_pydict()
        assert columns["a"] == [1.5, 2.25, 0.5]
        assert columns["b"] == [None, 7, 8]
        assert columns["word"] == ["x", "y, z", "NA"]
        np.testing.assert_array_equal(columns["density"], density)


def test_standard_input_can_be_one_file_only(capsys):
    code, _, err = run(capsys, "density", "-", "-")
    assert code == 2
    assert "only one of TRAIN and QUERY can be standard input" in err


@pytest.mark.parametrize("packed", [".gz", ".bz2", ".xz"])
def test_a_damaged_compressed_file_is_refused(capsys, tmp_path, packed):
    content = PACKED[packed](b"a,b\n" + b"".join(b"%d,%d\n" % (k, k * k) for k in range(999)))
    for wrong in (content[: len(content) // 2], b"a,b\n1,2\n"):
        (tmp_path / f"a.csv{packed}").write_bytes(wrong)
        code, _, err = run(capsys, "kendall", tmp_path / f"a.csv{packed}")
        assert code == 2
        assert f"a.csv{packed}" in err


def test_forms_are_told_by_a_part_of_the_file(capsys, tmp_path):
    """A number in a form of its own beyond the first lines is refused, and names its line."""
    lines = ["a;b", *itertools.repeat("1;2", 200), "1,5;2"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    code, _, err = run(capsys, "density", tmp_path / "a.csv")
    assert code == 2
    assert "line 202, column 'a': expected a number such as -1.5e3; got '1,5': give --decimal comma" in err
