"""What files and words of others can do: nothing but be refused."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cukde
from cukde import KernelDensity
from tests.conftest import Backend
from tests.private import core_compile, estimators_file, kernel_code

# --- files of estimators -----------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "saved.npz"
    KernelDensity().fit(np.random.default_rng(0).normal(size=(200, 2))).save(path)
    return path


def _members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _write(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def _refusal(path: Path, most: int) -> str:
    """Return why a file is refused, which takes at most so many bytes of memory."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"must be an undamaged file written by KernelDensity\.save") as refused:
            KernelDensity.load(path)
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()
    return str(refused.value)


def test_compressed_arrays_are_refused_before_they_are_read(saved: Path) -> None:
    with np.load(saved) as arrays:
        held = {name: arrays[name] for name in arrays.files}
    held["value.fitted.points_"] = np.zeros((2**22, 2))
    np.savez_compressed(saved, **held)  # type: ignore[arg-type]
    assert saved.stat().st_size < 2**18
    assert "compressed" in _refusal(saved, 2**22)


def test_a_header_that_says_more_than_is_there_is_refused(saved: Path) -> None:
    members = _members(saved)
    name = "value.fitted.points_.npy"
    honest = members[name]
    members[name] = honest.replace(b"(200, 2), }      ", b"(200000000, 2), }")
    assert members[name] != honest
    _write(saved, members)
    assert "not as long as its shape (200000000, 2)" in _refusal(saved, 2**22)


def _with_about(saved: Path, change: Callable[[Any], None]) -> None:
    members = _members(saved)
    with np.load(saved) as arrays:
        about = json.loads(str(arrays["about"]))
    change(about["values"]["dictionary"])
    np.save(saved.with_suffix(".npy"), np.array(json.dumps(about)))
    members["about.npy"] = saved.with_suffix(".npy").read_bytes()
    _write(saved, members)


def test_an_array_that_is_named_many_times_is_refused(saved: Path) -> None:
    def repeat(values: Any) -> None:
        fitted = values["fitted"]["dictionary"]
        fitted |= {f"copy{i}": fitted["points_"] for i in range(1000)}

    _with_about(saved, repeat)
    assert "KeyError" in _refusal(saved, 2**22)


@pytest.mark.parametrize("name", ["__class__", "score_samples", "save", "__reduce__"])
def test_nothing_but_what_a_fit_learns_is_set(saved: Path, name: str) -> None:
    _with_about(saved, lambda values: values["fitted"]["dictionary"].update({name: 1}))
    assert "unknown contents" in _refusal(saved, 2**22)


def test_members_that_lie_over_each_other_are_refused(saved: Path) -> None:
    with zipfile.ZipFile(saved, "a") as archive:
        (points,) = [member for member in archive.infolist() if "points_" in member.filename]
        archive.filelist += [points] * 100
        archive._didModify = True  # type: ignore[attr-defined]
    assert "longer than it is" in _refusal(saved, 2**22)


def test_a_file_writes_no_other(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved.parent)
    with zipfile.ZipFile(saved, "a") as archive:
        for name in ("../outside.npy", "/tmp/outside.npy", "inside.npy"):
            archive.writestr(name, b"text")
    kept = KernelDensity.load(saved)  # what nothing names is not read
    assert kept.points_.shape == (200, 2)
    assert os.listdir(saved.parent) == [saved.name]
    assert not (saved.parent.parent / "outside.npy").exists()


@pytest.mark.parametrize("dtype", ["O", "V8", "M8[s]", "c16", "i4,f8"])
def test_arrays_of_anything_but_numbers_and_words_are_refused(saved: Path, dtype: str) -> None:
    members = _members(saved)
    np.save(saved.with_suffix(".npy"), np.zeros((200, 2), dtype))
    members["value.fitted.points_.npy"] = saved.with_suffix(".npy").read_bytes()
    _write(saved, members)
    assert "neither numbers nor words" in _refusal(saved, 2**22)


def test_words_of_any_length_come_back(tmp_path: Path) -> None:
    values = {"words": np.array(["größe", "b" * 100_000]), "none": np.empty((0, 3)), "number": np.float32(2)}
    estimators_file.write(tmp_path / "kept", values)
    kept = estimators_file.read(tmp_path / "kept")
    np.testing.assert_array_equal(kept["words"], values["words"])
    assert (kept["none"].shape, kept["number"]) == ((0, 3), 2.0)


# --- words and compilers -----------------------------------------------------------------------------------

_X = np.linspace(0, 1, 12).reshape(6, 2)
_HOSTILE = ('kde"\n#include "/etc/passwd"\n', "1; } void f() {", "SUM\n#define X", "__import__('os')", "float32 ")


@pytest.mark.parametrize("value", [*_HOSTILE, "", "a-b", "f(1)", "1.5f", '"', "\\"])
def test_a_macro_is_a_name_and_a_number_or_names(value: str) -> None:
    with pytest.raises(ValueError, match="a macro must be a name"):
        kernel_code("core/survey", (("STORAGE", value),))
    with pytest.raises(ValueError, match="a macro must be a name"):
        kernel_code("core/survey", ((value, "float"),))


def test_macros_of_all_kernels_are_of_that_form() -> None:
    pytest.importorskip("cupy")
    from cukde import catalogue

    for stem, name, defines in catalogue.kernels():
        assert name in kernel_code(stem, defines)


_CALLS: dict[str, Callable[..., Any]] = {
    "kde": lambda X, **words: cukde.kde(X, X, 0.5, **words),
    "score": lambda X, **words: cukde.score(X, X, 0.5, **words),
    "density_and_score": lambda X, **words: cukde.density_and_score(X, X, 0.5, **words),
    "debias": lambda X, **words: cukde.debias(X, 0.5, **words),
    "sd_kde": lambda X, **words: cukde.sd_kde(X, X, 0.5, **words),
    "laplace_kde": lambda X, **words: cukde.laplace_kde(X, X, 0.5, **words),
    "positive_kde": lambda X, **words: cukde.positive_kde(X, X, 0.5, **words),
    "positive_score": lambda X, **words: cukde.positive_score(X, X, 0.5, **words),
    "positive_mass": lambda X, **words: cukde.positive_mass(X, 0.5, **words),
    "evaluate_grid": lambda X, **words: cukde.evaluate_grid(X, [np.arange(3.0)] * 2, 0.5, **words),
    "kernel_sum": lambda X, **words: cukde.kernel_sum(X, X, X, 0.5, **words),
    "marginal": lambda X, **words: cukde.marginal(X, [0], X[:, 0], 0.5, **words),
    "conditional": lambda X, **words: cukde.conditional(X, {0: 0.5}, X[:, 1], 0.5, **words),
    "conditional_cdf": lambda X, **words: cukde.conditional_cdf(X, {0: 0.5}, X[:, 1], 0.5, **words),
    "conditional_quantile": lambda X, **words: cukde.conditional_quantile(X, {0: 0.5}, 0.5, 0.5, **words),
    "conditional_sample": lambda X, **words: cukde.conditional_sample(X, {0: 0.5}, 0.5, **words),
    "regions": lambda X, **words: cukde.regions(X, 0.5, **words),
    "hdr_threshold": lambda X, **words: cukde.hdr_threshold(X, 0.5, **words),
    "density_interval": lambda X, **words: cukde.density_interval(X, X, 0.5, **words),
    "entropy": lambda X, **words: cukde.entropy(X, 0.5, **words),
    "mutual_information": lambda X, **words: cukde.mutual_information(X, [0], [1], **({"h": 0.5} | words)),
    "kl_divergence": lambda X, **words: cukde.kl_divergence(X, X, 0.5, **words),
    "hessian": lambda X, **words: cukde.hessian(X, X, 0.5, **words),
    "density_ratio": lambda X, **words: cukde.density_ratio(X, X, X, 0.5, **words),
    "cdf": lambda X, **words: cukde.cdf(X[:, 0], X[:, 0], 0.5, **words),
    "log_cdf": lambda X, **words: cukde.log_cdf(X[:, 0], X[:, 0], 0.5, **words),
    "modes": lambda X, **words: cukde.modes(X, 0.5, **words),
    "kendalltau": lambda X, **words: cukde.kendalltau(X[:, 0], X[:, 1], **words),
    "kendall_matrix": lambda X, **words: cukde.kendall_matrix(X, **words),
    "depthwise_conv1d": lambda X, **words: cukde.depthwise_conv1d(X[None], X[:, :1], **words),
    "depthwise_conv1d_input_grad": lambda X, **words: cukde.depthwise_conv1d_input_grad(X[None], X[:, :1], **words),
    "depthwise_conv1d_weight_grad": lambda X, **words: cukde.depthwise_conv1d_weight_grad(X[None], X[None], 1, **words),
    "activation_grad": lambda X, name: cukde.activation_grad(name, X),
    "fit_piecewise": lambda X, **words: cukde.fit_piecewise(np.exp, (0, 1), 4, **words),
    "pwpa": lambda X, **words: cukde.pwpa(X, np.ones((1, 2)), np.arange(2.0), **words),
    "set_output": lambda X, kind: cukde.set_output(kind),
    "warmup": lambda X, **words: cukde.warmup(6, 6, 2, **words),
}


def _words(function: Any) -> list[str]:
    """Names of the parameters that take words."""
    parameters = inspect.signature(function).parameters.values()
    return [
        each.name for each in parameters if re.search(r"\bstr\b|Literal", f"{each.annotation} {type(each.default)}")
    ]


def test_functions_that_take_words_are_all_tried() -> None:
    functions = {name: getattr(cukde, name) for name in cukde.__all__}
    assert {name for name, f in functions.items() if inspect.isfunction(f) and _words(f)} == set(_CALLS)


_OF_ESTIMATOR = ("algorithm", "kernel", "metric", "method", "backend", "bandwidth", "precision")


@pytest.mark.parametrize("parameter", _OF_ESTIMATOR)
def test_words_of_the_estimator_are_refused(parameter: str) -> None:
    for word in _HOSTILE:
        with pytest.raises(ValueError, match=re.escape(repr(word))):
            KernelDensity(**{parameter: word}).fit(_X)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "parameter"), [(name, word) for name in _CALLS for word in _words(getattr(cukde, name))]
)
def test_words_are_refused_before_anything_is_compiled(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, name: str, parameter: str
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(core_compile, "kernel", lambda stem, *others, **options: asked.append(stem))
    for word in _HOSTILE:
        with pytest.raises(ValueError, match=f"{parameter}|{re.escape(repr(word))}"):
            _CALLS[name](backend.asarray(_X), **{parameter: word})
    assert asked == []


# What runs text, or unpickles: each where it is meant to be.
_RISKY = {
    "pickle": {"cukde/core/cpu/jit.py"},  # the user's own cache of compiled code
    # Addresses of parameters for launches by the driver, and its version.
    "ctypes": {"cukde/core/gpu/numba_cuda.py", "cukde/cli/info.py", "cukde/core/gpu/launch.py"},
}


def test_no_text_is_run_and_nothing_unpickled_but_where_it_is_known() -> None:
    root = Path(cukde.__file__).parents[1]
    imported: dict[str, set[str]] = {}
    for file in (root / "cukde").rglob("*.py"):
        where = file.relative_to(root).as_posix()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "compile", "__import__"), where
            if isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "shell"):
                assert isinstance(node.value, ast.Constant), where
                assert node.value.value is False, where
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [str(node.module)]
            for name in names:
                imported.setdefault(name.partition(".")[0], set()).add(where)
    for module in ("pickle", "subprocess", "ctypes", "marshal", "shelve", "joblib", "cloudpickle", "dill", "socket"):
        assert imported.get(module, set()) == _RISKY.get(module, set()), module
