"""Every keyword of the density family's table, with every function that takes it, and in each of its forms."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from typing import Any, NamedTuple

import numpy as np
import pytest

import cukde
import cukde.dask
from cukde.core import dispatch
from cukde.core.keywords import Keyword, documented as documented_with, takes
from cukde.density import keywords
from cukde.density.estimates import ESTIMATES
from cukde.density.keywords import TABLE
from tests.array_api import Tensor
from tests.conftest import Backend

RNG = np.random.default_rng(0)
X = RNG.uniform(0.1, 0.9, (40, 2))
Y = RNG.uniform(0.1, 0.9, (6, 2))
V = RNG.normal(size=40)

OTHER: dict[str, Any] = {
    "score_bandwidth": 0.3,
    "steps": 2,
    "own_point": False,
    "weights": RNG.uniform(1, 2, 40),
    "signed": True,
    "local_factors": RNG.uniform(0.5, 2, 40),
    "n_eff": 20,
    "rtol": 1e-2,
    "log": True,
    "precision": "float64",
    "deterministic": True,
    "check_finite": False,
    "bounds": [(0, 1), None],
    "periods": [None, 1.0],
    "boundary": "linear",
    "leave_one_out": True,
    "devices": "all",
    "nan_policy": "omit",
    "kinds": ["number", "number"],
}
"""A value of each keyword that is not its default."""

WRONG: dict[str, Any] = {
    "score_bandwidth": -1.0,
    "steps": 0,
    "own_point": "no",
    "weights": -np.ones(40),
    "signed": "yes",
    "local_factors": np.zeros(40),
    "n_eff": -1.0,
    "rtol": 1.0,
    "log": 2,
    "precision": "half",
    "deterministic": 2,
    "check_finite": "no",
    "bounds": "ab",
    "periods": [0.0, 0.0],
    "boundary": "mirror",
    "leave_one_out": "yes",
    "devices": "some",
    "nan_policy": "keep",
    "kinds": ["number", "colour"],
}
"""A value of each that it cannot have."""

ONE_COLUMN = ("cdf", "log_cdf")


class Operation(NamedTuple):
    """A public function and arguments of it: those before the keywords."""

    name: str
    has_stacks: bool = False

    @property
    def function(self) -> Any:
        function = getattr(cukde, self.name)
        return functools.partial(function, random_state=0) if self.name == "conditional_sample" else function

    @property
    def names(self) -> list[str]:
        return [name for name in inspect.signature(self.function).parameters if name in TABLE]

    def arguments(self, X: Any, name: str) -> tuple[Any, ...]:
        values = abs(V) if name == "log" else V  # of one sign
        first = X[..., :1] if self.name in ONE_COLUMN else X
        queries = first if name == "leave_one_out" else Y[:, : first.shape[-1]]
        more = {
            "kernel_sum": (first, values, queries, 0.2),
            "debias": (first, 0.2),
            "positive_mass": (first, 0.2),
            "modes": (first, 0.2),
            "hdr_threshold": (first, 0.2),
            "entropy": (first, 0.2),
            "mutual_information": (first, 0, 1, 0.2),
            "kl_divergence": (first, X[:20] + 0.05, 0.2),
            "evaluate_grid": (first, [np.linspace(0.1, 0.8, 3)] * 2, 0.2),
            "density_ratio": (first, X[:20] + 0.05, queries, 0.2),
            "marginal": (first, [0], queries[:, :1], 0.2),
            "conditional": (first, {0: 0.5}, queries[:, :1], 0.2),
            "conditional_cdf": (first, {0: 0.5}, queries[:, :1], 0.2),
            "conditional_quantile": (first, {0: 0.5}, [0.2, 0.6], 0.2),
            "conditional_sample": (first, {0: 0.5}, 0.2),
            "regions": (first, 0.2),
        }
        return more.get(self.name, (first, queries, 0.2))

    def options(self, name: str) -> dict[str, Any]:
        value = OTHER[name]
        if self.name == "positive_kde":  # or the mass is of random points
            return {name: value, "mass": 1.0}
        if self.name == "modes":  # of Dask arrays they start from others
            return {name: value, "seeds": Y}
        if self.name in ONE_COLUMN and name in ("bounds", "periods"):
            value = [(0, 1)] if name == "bounds" else [1.0]
        return {name: value}


STACKS = ("kde", "score", "density_and_score", "debias", "sd_kde", "laplace_kde")
OPERATIONS = [
    Operation(name, name in STACKS)
    for name in sorted(dir(cukde))
    if inspect.isfunction(getattr(cukde, name)) and "check_finite" in inspect.signature(getattr(cukde, name)).parameters
]
CALLS = [(operation, name) for operation in OPERATIONS for name in operation.names]
IDS = [f"{operation.name}-{name}" for operation, name in CALLS]


def numbers(result: Any) -> list[np.ndarray]:
    """The arrays of a result, computed; those of a tuple or a result class in order."""
    if isinstance(result, tuple | list):
        return [each for part in result for each in numbers(part)]
    if hasattr(result, "compute"):
        result = result.compute()
    if type(result).__module__.startswith("cupy"):
        result = result.get()
    return [np.asarray(getattr(result, "kept", result))]


def assert_same(got: Any, want: Any) -> None:
    for one, other in zip(numbers(got), numbers(want), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_all_functions_and_keywords_are_here() -> None:
    assert len(OPERATIONS) >= 18
    of_rules = typing.get_type_hints(keywords.OfReference).keys()
    assert OTHER.keys() == WRONG.keys() == TABLE.keys() == {name for _, name in CALLS} | of_rules
    kinds = keywords.OfMovedDensity, keywords.OfKde, keywords.OfReference, keywords.OfInterval
    assert set[str]().union(*map(typing.get_type_hints, kinds)) == TABLE.keys()


@pytest.mark.parametrize(("operation", "name"), CALLS, ids=IDS)
def test_a_default_is_as_if_left_out(operation: Operation, name: str) -> None:
    function, arguments = operation.function, operation.arguments(X, "")
    default = inspect.signature(function).parameters[name].default
    if operation.name != "hdr_threshold" or name != "leave_one_out":
        assert default is TABLE[name].default
    for one, other in zip(numbers(function(*arguments, **{name: default})), numbers(function(*arguments)), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("operation", "name"), CALLS, ids=IDS)
def test_frames_lists_and_tensors_take_it(operation: Operation, name: str) -> None:
    pandas = pytest.importorskip("pandas")
    arguments, options = operation.arguments(X, name), operation.options(name)
    want = operation.function(*arguments, **options)
    frame = pandas.DataFrame(arguments[0], columns=list("ab")[: arguments[0].shape[1]])
    same = [frame if each is arguments[0] else each for each in arguments]
    if name == "leave_one_out" or operation.name == "marginal" or "conditional" in operation.name:
        same = [frame, *arguments[1:]] if name != "leave_one_out" else same
    listed = {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in options.items()}
    assert_same(operation.function(*same, **listed), want)
    tensors = {id(each): Tensor(each) for each in arguments if isinstance(each, np.ndarray)}
    assert_same(operation.function(*(tensors.get(id(each), each) for each in arguments), **options), want)


@pytest.mark.parametrize(
    ("operation", "name"),
    [call for call in CALLS if call[1] != "devices"],
    ids=[of for of, call in zip(IDS, CALLS, strict=True) if call[1] != "devices"],
)
def test_a_gpu_takes_it(device: Backend, operation: Operation, name: str) -> None:
    arguments, options = operation.arguments(X, name), operation.options(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch, "backend", lambda *arrays, **others: dispatch.named("cpu"))
        want = operation.function(*arguments, **options)
    there = {id(each): device.asarray(each) for each in arguments if isinstance(each, np.ndarray)}
    options = {key: device.asarray(a) if isinstance(a, np.ndarray) else a for key, a in options.items()}
    found = operation.function(*(there.get(id(each), each) for each in arguments), **options)
    for one, other in zip(numbers(found), numbers(want), strict=True):
        np.testing.assert_allclose(one, other, rtol=0.05 if name == "rtol" else 1e-6, atol=1e-9)


@pytest.mark.parametrize(("operation", "name"), CALLS, ids=IDS)
def test_dask_takes_it_or_refuses_it(operation: Operation, name: str) -> None:
    da = pytest.importorskip("dask.array")
    if not hasattr(cukde.dask, operation.name):
        pytest.skip("no Dask form")
    arguments, options = operation.arguments(X, name), operation.options(name)
    lazy = da.from_array(arguments[0], chunks=(15, -1))
    blocks = [lazy if each is arguments[0] else each for each in arguments]
    if "Dask arrays" in TABLE[name].not_of:
        with pytest.raises(ValueError, match=f"{name} must be .* Dask"):
            operation.function(*blocks, **options)
        return
    assert name in inspect.signature(getattr(cukde.dask, operation.name)).parameters
    try:
        want = operation.function(*arguments, **options)
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error)[:20]):
            operation.function(*blocks, **options)
        return
    found = operation.function(*blocks, **options)
    if operation.name == "positive_mass":  # of other random points
        assert abs(found.value - want.value) < 4 * (found.error + want.error)
        return
    for one, other in zip(numbers(found), numbers(want), strict=True):
        np.testing.assert_allclose(one, other, rtol=0.05 if name == "rtol" else 1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("operation", "name"),
    [call for call in CALLS if call[0].has_stacks],
    ids=[of for of, call in zip(IDS, CALLS, strict=True) if call[0].has_stacks],
)
def test_stacks_take_it_or_refuse_it(operation: Operation, name: str) -> None:
    members = np.stack([X, X[::-1] * 0.9])
    arguments, options = operation.arguments(members, name), operation.options(name)
    if "stacks" in TABLE[name].not_of:
        with pytest.raises(ValueError, match=f"{name} must be .* for stacks"):
            operation.function(*arguments, **options)
        return
    stacked = operation.function(*arguments, **options)
    for i, member in enumerate(members):
        alone = [member if each is members else each for each in arguments]
        want = operation.function(*alone, **options)
        of_member = tuple(each[i] for each in stacked) if isinstance(stacked, tuple) else stacked[i]
        for one, other in zip(numbers(of_member), numbers(want), strict=True):
            np.testing.assert_allclose(one, other, rtol=0.05 if name == "rtol" else 1e-9, atol=1e-9)


OF_ESTIMATOR = {name: each for name, each in inspect.signature(cukde.KernelDensity).parameters.items() if name in TABLE}


@pytest.mark.parametrize("name", OF_ESTIMATOR)
def test_the_estimator_takes_it_as_the_function_does(name: str) -> None:
    assert OF_ESTIMATOR[name].default is TABLE[name].default
    method = "kde" if name in inspect.signature(cukde.kde).parameters else "sd"
    function, option = ESTIMATES[method].density, {name: OTHER[name]}
    fitted = cukde.KernelDensity(bandwidth=0.2, method=method, **option).fit(X)
    assert_same(fitted.score_samples(Y), function(X, Y, 0.2, log=True, **option))


@pytest.mark.parametrize("form", ["plain", "stacks", "Dask arrays"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=[each.name for each in OPERATIONS])
def test_wrong_arguments_are_named(operation: Operation, form: str) -> None:
    """Of every keyword, and of data, queries and bandwidths."""
    if (form == "stacks" and not operation.has_stacks) or (
        form == "Dask arrays" and not hasattr(cukde.dask, operation.name)
    ):
        pytest.skip("no such form")

    def refused(name: str, arguments: list[Any], **options: Any) -> None:
        if form == "Dask arrays":
            lazy = pytest.importorskip("dask.array").from_array(arguments[0], chunks=(15, -1))
            arguments = [lazy if each is arguments[0] else each for each in arguments]
        if operation.name == "modes":
            options |= {"seeds": Y}
        with pytest.raises((TypeError, ValueError), match=rf"^{name}\b"):
            numbers(operation.function(*arguments, **options))

    data = np.stack([X, X]) if form == "stacks" else X
    for name in operation.names:
        if form not in TABLE[name].not_of:
            refused(name, [*operation.arguments(data, name)], **(operation.options(name) | {name: WRONG[name]}))
    good = [*operation.arguments(data, "")]
    places = list(inspect.signature(operation.function).parameters)
    for name, wrong in (("X", np.nan * good[0]), ("X", good[0][..., :0, :]), ("h", -1.0), ("h", "no rule")):
        refused(name, [wrong if place == name else each for place, each in zip(places, good, strict=False)])
    if "Y" in places:
        at = places.index("Y")
        for wrong in (np.nan * good[at], np.ones((3, 7))):
            refused("Y", [*good[:at], wrong, *good[at + 1 :]])


@pytest.mark.parametrize("operation", OPERATIONS, ids=[each.name for each in OPERATIONS])
def test_others_are_refused(operation: Operation) -> None:
    arguments = operation.arguments(X, "")
    for wrong in ({"wieghts": 1}, {"may_be_unchecked": True}, {"method_": "sd"}):
        with pytest.raises(TypeError, match=rf"{operation.name}\(\) got an unexpected keyword argument"):
            operation.function(*arguments, **wrong)
    for name in TABLE.keys() - set(operation.names):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            operation.function(*arguments, **{name: OTHER[name]})


class Some(typing.TypedDict, total=False):
    """Keywords of a test."""

    first: int | None
    second: bool


SENTENCES = {
    "second": Keyword(False, "bool", "Do."),
    "first": Keyword(None, "int", "Count."),
    "third": Keyword(1, "", ""),
}


@takes(Some, SENTENCES, described=True)
def documented(x: int, **options: typing.Unpack[Some]) -> float:
    """Do.

    Parameters
    ----------
    x
        One.

    Returns
    -------
    float
    """
    return x + len(options)


def test_a_function_says_what_it_takes() -> None:
    parameters = inspect.signature(documented).parameters
    assert [(each.name, each.default) for each in parameters.values()][1:] == [("second", False), ("first", None)]
    assert typing.get_type_hints(documented) == {"x": int, "return": float, "first": int | None, "second": bool}
    said = inspect.getdoc(documented) or ""
    assert "x\n    One.\nsecond : bool\n    Do.\nfirst : int\n    Count.\n\nReturns" in said


def test_a_docstring_is_the_same_however_it_is_indented() -> None:
    """Python 3.13 takes the indentation away as it compiles."""
    text = "Do.\n\n{0}Parameters\n{0}----------\n{0}x\n{0}    One.\n\n{0}Returns\n{0}-------\n{0}float\n{0}"
    for space in ("", "    ", "        "):
        found = documented_with(text.format(space), ["x", "first"], SENTENCES, like="")
        assert found == "Do.\n\nParameters\n----------\nx\n    One.\nfirst : int\n    Count.\n\nReturns\n-------\nfloat"
    without = text[: text.index("{0}Par")] + text[text.index("{0}Ret") :]
    found = documented_with(without.format("    "), ["x"], like="cukde.kde")
    assert found == "Do.\n\nParameters\n----------\nx\n    As in :func:`cukde.kde`.\n\nReturns\n-------\nfloat"


MODULES = (cukde, cukde.bandwidth, cukde.dask, cukde.plot)
PUBLIC = [each for module in MODULES for name in module.__all__ if inspect.isfunction(each := getattr(module, name))]


@pytest.mark.parametrize("function", PUBLIC, ids=lambda each: f"{each.__module__}.{each.__name__}")
def test_entries_refer_to_functions_that_have_these_parameters(function: Any) -> None:
    entries = re.findall(r"^([\w, ]+)\n    As in :func:`([\w.]+)`", inspect.getdoc(function) or "", re.MULTILINE)
    for names, other in entries:
        found = [
            m for m in MODULES if other.rpartition(".")[0] in (m.__name__, "") and other.split(".")[-1] in m.__all__
        ]
        assert any(
            set(names.split(", ")) <= set(inspect.signature(getattr(m, other.split(".")[-1])).parameters) for m in found
        ), (names, other)


def test_a_docstring_without_sections_stays() -> None:
    def within(**options: typing.Unpack[Some]) -> None:
        """No."""

    assert takes(Some, SENTENCES)(within).__doc__ == "No."


def test_dask_forms_have_keywords_of_their_own() -> None:
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(X, chunks=(15, -1))
    boxes = cukde.dask.block_boxes(lazy)
    np.testing.assert_allclose(cukde.kde(lazy, Y, 0.2, boxes=boxes), cukde.kde(X, Y, 0.2), rtol=1e-9)
    with pytest.raises(TypeError, match=r"kde\(\) got an unexpected keyword argument 'boxes'"):
        cukde.kde(X, Y, 0.2, boxes=boxes)
    with pytest.raises(TypeError, match="unexpected keyword argument 'wieghts'"):
        cukde.kde(lazy, Y, 0.2, wieghts=boxes)
