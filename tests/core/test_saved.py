"""What users saved with version 0.1: pickles and files load, are of the public classes and give what they gave.

``data/saved_0_1`` holds an instance of every class whose objects public functions return, pickled by protocol 4 and
some by 5, and files that the library wrote. ``expected.json`` there says of each what it is and what it gave then.
"""

from __future__ import annotations

import dataclasses
import json
import pickle
import pickletools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cukde
from cukde import perf

SAVED = Path(__file__).parents[1] / "data" / "saved_0_1"
EXPECTED: dict[str, Any] = json.loads((SAVED / "expected.json").read_text())
PICKLES = [name for name in EXPECTED if name.endswith(".pickle")]
PUBLIC = {f"cukde{name}" for name in ("", ".bandwidth", ".dask", ".estimators", ".functions", ".perf", ".plot")}

QUERIES = np.random.default_rng(1).normal(size=(6, 2)).round(3)
PROCESSOR = perf.Peaks(
    "a processor",
    "cpu",
    {
        "memory": 2e10,
        "fma": 2e11,
        "float64": 1e11,
        "gemm_f64": 1e11,
        "exponential": 2e9,
        "exponential_f64": 1e9,
        "scalar": 4e9,
    },
    launch=1e-5,
    multiprocessors=2,
    clock=2.5e9,
    cache_bytes=3.2e7,
    capability=(0, 0),
    source="by hand",
)
POINTS = np.array([-3.0, -1.0, -0.25, 0.0, 0.5, 0.999, 1.0, 1.75, 5.0, np.nan])


def _predicted() -> Any:
    return perf.predict("kde", "H200", n=100, m=10, d=2)


def _explained() -> Any:
    X = np.zeros((9, 2))
    return perf.explain(cukde.sd_kde, X, X, 1.0, on=PROCESSOR, seconds=1e-3)


LATER = {"CallPlan", "DeviceWarning"}
"""Classes that version 0.1 did not have."""

# Classes by their names: public, or of what a public function returns.
CLASSES: dict[str, Callable[[], type]] = {
    "KernelDensity": lambda: cukde.KernelDensity,
    "PiecewisePolynomial": lambda: cukde.PiecewisePolynomial,
    "FittedPolynomial": lambda: type(cukde.fit_piecewise(np.exp, (0, 1), 1)),
    "CrossValidation": lambda: type(cukde.bandwidth.cross_validate(np.arange(3.0), bandwidths=[0.5, 1, 2])),
    "Modes": lambda: type(cukde.modes(np.zeros(2), 1.0)),
    "SignificanceResult": lambda: type(cukde.kendalltau([1, 2, 3], [1, 3, 2])),
    "Concordance": lambda: type(cukde.concordance(np.eye(3))),
    "PartTime": lambda: type(_predicted().parts[0]),
    "Perturbed": lambda: type(perf.sensitivity("kde", "H200", n=100, m=10, d=2).rows[0]),
    "Stage": lambda: type(_explained().stages[0]),
    "UnitRate": lambda: type(_explained().rates[0]),
    **{
        name: lambda name=name: getattr(perf, name)
        for name in perf.__all__
        if name[0].isupper() and name not in {"Unit", *LATER}
    },
    **{
        name: lambda name=name: getattr(cukde, name)
        for name in cukde.__all__
        if name.endswith("Warning") and name not in LATER
    },
}


def plain(value: Any) -> Any:
    """A value as JSON has it; of records all fields, and numbers that their properties return."""
    if isinstance(value, np.ndarray):
        return {"dtype": str(value.dtype), "array": value.tolist()}
    if isinstance(value, np.generic):
        return plain(np.asarray(value))
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    names: tuple[str, ...] = getattr(value, "_fields", ())
    if dataclasses.is_dataclass(value):
        names = tuple(field.name for field in dataclasses.fields(value))
    if names:
        derived = {name: getattr(value, name) for name, item in vars(type(value)).items() if isinstance(item, property)}
        numbers = {name: item for name, item in derived.items() if isinstance(item, int | float)}
        return {"class": type(value).__name__} | {name: plain(getattr(value, name)) for name in names} | numbers
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


def given(saved: Any) -> Any:
    """What an object gives when it is used."""
    if isinstance(saved, cukde.KernelDensity):
        out = {"parameters": {name: plain(value) for name, value in saved.get_params().items()}}
        if not hasattr(saved, "points_"):
            return out
        out |= {name: plain(getattr(saved, name)) for name in ("points_", "bandwidth_", "sample_weight_")}
        out["log_density"] = plain(saved.score_samples(_queries(saved)))
        if saved.kernel == "gaussian" and saved.method != "laplace":
            out["sample"] = plain(saved.sample(3, random_state=0))
        return out
    if isinstance(saved, cukde.PiecewisePolynomial):
        out = {name: plain(getattr(saved, name)) for name in ("c", "x", "extrapolate", "max_error")}
        out |= {"max_errors": plain(getattr(saved, "max_errors", None)), "values": plain(saved(POINTS))}
        return out | {"slopes": plain(saved.derivative()(POINTS)), "integral": plain(saved.integrate(0.25, 0.75))}
    if isinstance(saved, Warning):
        return {"class": type(saved).__name__, "args": plain(saved.args)}
    return plain(saved)


def _queries(saved: Any) -> Any:
    """Queries with the names of columns that an estimator was fitted to."""
    Y = QUERIES.astype(saved.points_.dtype)
    names = getattr(saved, "feature_names_in_", None)
    if names is None:
        return Y
    return pytest.importorskip("pandas").DataFrame(Y, columns=names)


def _wanted(name: str) -> Any:
    """What a file is to give, which may be what another one gives."""
    of = EXPECTED[name]
    return EXPECTED[of["as"]]["gives"] if "as" in of else of["gives"]


def _loaded(name: str) -> Any:
    if name.startswith("protocol_5_") and int(np.__version__.split(".")[0]) < 2:
        pytest.skip("NumPy 1 does not load arrays that NumPy 2 pickled by protocol 5")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Trying to unpickle estimator", UserWarning)  # of another scikit-learn
        return pickle.loads((SAVED / name).read_bytes())


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def modules_of(pickled: bytes) -> set[str]:
    """Modules that a pickle names."""
    found, words = set(), []
    memo: dict[int, str] = {}
    for opcode, argument, _ in pickletools.genops(pickled):
        if opcode.name == "GLOBAL":
            found.add(argument.split(" ")[0])
        elif opcode.name == "STACK_GLOBAL":
            found.add(words[-2])
        elif opcode.name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            at = len(memo) if argument is None else argument
            memo[at] = words[-1] if words else ""
        elif opcode.name in ("BINGET", "LONG_BINGET"):
            words.append(memo.get(argument, ""))
        elif "UNICODE" in opcode.name:
            words.append(argument)
    return found


def _check(got: Any, want: Any, place: str) -> None:
    """Compare what JSON has; numbers that are computed may differ by rounding."""
    if isinstance(want, dict) and "array" in want:
        assert got["dtype"] == want["dtype"], place
        if not want["dtype"].startswith(("float", "int")):
            assert got == want, place
            return
        rtol = 1e-5 if want["dtype"] == "float32" else 1e-10
        np.testing.assert_allclose(got["array"], want["array"], rtol=rtol, atol=1e-300, err_msg=place)
    elif isinstance(want, dict):
        assert want.keys() <= got.keys(), place
        for key in want:
            _check(got[key], want[key], f"{place}, {key}")
    elif isinstance(want, list):
        assert len(got) == len(want), place
        for i, (a, b) in enumerate(zip(got, want, strict=True)):
            _check(a, b, f"{place}, {i}")
    elif isinstance(want, float):
        assert got == pytest.approx(want, rel=1e-12, nan_ok=True), place
    else:
        assert got == want, place


@pytest.mark.parametrize("name", PICKLES)
def test_pickles_are_of_the_public_class(name: str) -> None:
    saved = _loaded(name)
    assert type(saved) is CLASSES[EXPECTED[name]["class"]]()


@pytest.mark.parametrize("name", PICKLES)
def test_pickles_give_what_they_gave(name: str) -> None:
    _check(_as_json(given(_loaded(name))), _wanted(name), name)


@pytest.mark.parametrize("name", PICKLES)
def test_what_is_pickled_again_names_public_modules_alone(name: str) -> None:
    saved = _loaded(name)
    named = set().union(*(modules_of(pickle.dumps(saved, protocol)) for protocol in (2, 4, 5)))
    ours = {module for module in named if module.split(".")[0] == "cukde"}
    assert ours
    assert ours <= PUBLIC


@pytest.mark.parametrize("name", PICKLES)
def test_what_is_pickled_again_stays_the_same(name: str) -> None:
    again = pickle.loads(pickle.dumps(_loaded(name)))
    assert json.dumps(given(again)) == json.dumps(given(_loaded(name)))


@pytest.mark.parametrize("name", [name for name in EXPECTED if name.endswith(".npz")])
def test_files_of_estimators(name: str, tmp_path: Path) -> None:
    saved = cukde.KernelDensity.load(SAVED / name)
    assert type(saved) is cukde.KernelDensity
    _check(_as_json(given(saved)), _wanted(name), name)
    saved.save(tmp_path / name)
    _check(_as_json(given(cukde.KernelDensity.load(tmp_path / name))), _wanted(name), name)


def test_files_of_the_performance_model(monkeypatch: pytest.MonkeyPatch) -> None:
    record = perf.read_record(SAVED / "record.json")
    assert record == EXPECTED["record.json"]["gives"]
    assert [row.verdict for row in perf.compare(record, SAVED / "record.json").rows] == [
        ""
    ]  # neither slower nor faster
    monkeypatch.setenv("CUKDE_PEAKS", str(SAVED / "peaks.json"))
    wanted = EXPECTED["peaks.json"]["gives"]
    _check(_as_json(plain(perf.peaks(wanted["name"]))), wanted, "peaks.json")


def test_every_class_has_been_saved() -> None:
    assert {of["class"] for name, of in EXPECTED.items() if name in PICKLES} == set(CLASSES)
