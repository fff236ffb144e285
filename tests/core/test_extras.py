"""Hints that name what to install."""

from __future__ import annotations

import shlex
import tomllib
from importlib import metadata
from typing import Any

import pytest

from cukde.core import extras
from tests import processes


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package lies in no checkout."""
    monkeypatch.setattr(extras, "_project", lambda: None)
    extras._requirements.cache_clear()
    yield
    extras._requirements.cache_clear()


def project() -> dict[str, Any]:
    return tomllib.loads((processes.ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("extra", ["plot", "parquet", "completion", "cuda12", "cuda13"])
def test_a_checkout_names_the_packages_of_an_extra(extra: str) -> None:
    assert shlex.split(extras.install(extra)) == ["pip", "install", *project()["optional-dependencies"][extra]]


def test_an_installed_package_names_those_of_its_metadata(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["numpy>=1.26", 'matplotlib>=3.8; extra == "plot"', "shtab>=1.7 ; extra == 'completion'"]
    monkeypatch.setattr(metadata, "requires", lambda name: lines if name == "cukde" else None)
    assert extras.install("plot") == "pip install 'matplotlib>=3.8'"
    assert extras.install("completion") == "pip install 'shtab>=1.7'"
