"""What is published agrees with itself: versions, Pythons, dependencies, and files that only GitHub reads."""

from __future__ import annotations

import configparser
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import cukde
from tests.processes import ROOT

yaml = pytest.importorskip("yaml", reason="comes with Dask: install the test extra")

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")


def read(path: str | Path) -> Any:
    return yaml.safe_load((ROOT / path).read_text("utf-8"))


def test_versions_agree() -> None:
    citation, recipe = read("CITATION.cff"), read("conda/recipe.yaml")
    newest = re.search(r"^## (\S+) \((\S+)\)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest
    assert newest.groups() == (cukde.__version__, str(citation["date-released"]))
    assert citation["version"] == recipe["context"]["version"] == cukde.__version__


def test_pythons_agree() -> None:
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert PROJECT["requires-python"] == f">={named[0]}"
    assert f"python >={named[0]}" in read("conda/recipe.yaml")["requirements"]["run"]
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", "utf-8")
    assert [f"py{python.replace('.', '')}" for python in named] == re.findall(r"py3\d+", tox["tox"]["env_list"])
    assert read(".github/workflows/tests.yml")["jobs"]["tests"]["strategy"]["matrix"]["python"] == named
    tried = read(".github/workflows/release.yml")["jobs"]["quickstart"]["strategy"]["matrix"]["python"]
    assert tried == [named[0], named[-1]]


def test_conda_takes_the_dependencies_of_the_wheel() -> None:
    wanted = {re.sub(r"^([\w.-]+) *", r"\1 ", line).strip() for line in PROJECT["dependencies"]}
    recipe = read("conda/recipe.yaml")
    assert {line for line in recipe["requirements"]["run"] if not line.startswith("python ")} == wanted
    (command,) = recipe["build"]["python"]["entry_points"]
    assert command.split(" = ") == [*PROJECT["scripts"].keys(), *PROJECT["scripts"].values()]


def test_citation_has_what_its_format_asks_for() -> None:
    citation = read("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert (citation["license"], citation["title"]) == (PROJECT["license"], PROJECT["name"])
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in PROJECT["authors"]]
    assert (citation["repository-code"], citation["url"]) == (
        PROJECT["urls"]["Source"],
        PROJECT["urls"]["Documentation"],
    )


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_may_only_read_and_their_actions_have_a_version(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in path.read_text("utf-8")
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] > 0
        more = {"id-token": "write"} if name == "publish" else None
        assert job.get("permissions") == more
        used = [step["uses"] for step in job["steps"] if "uses" in step]
        assert used
        assert all(re.fullmatch(r"[\w-]+/[\w-]+@(release/)?v\d+", action) for action in used)
        for step in job["steps"]:
            assert "actions/checkout" not in step.get("uses", "") or step["with"]["persist-credentials"] is False


def test_actions_run_the_test_command_of_the_readme() -> None:
    """Without its virtual environment, which is another path on Windows."""
    readme = (ROOT / "README.md").read_text("utf-8")
    command = re.search(r"<!-- test command -->\n+```sh\n(.*?)\n```", readme, re.DOTALL)
    assert command
    _, *steps = re.split(r" &&\s+", command[1].replace(".venv/bin/python", "python"))
    job = read(".github/workflows/tests.yml")["jobs"]["tests"]
    assert [step["run"] for step in job["steps"] if "run" in step] == steps


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_ask_for_what_can_be_answered(path: Path) -> None:
    form = read(path)
    assert {"name", "description", "body"} <= form.keys()
    ids = [field["id"] for field in form["body"]]
    assert len(set(ids)) == len(ids)
    for field in form["body"]:
        assert field["type"] in {"textarea", "input", "dropdown", "checkboxes"}
        assert field["attributes"]["label"]
    assert {"code", "info"} <= {field["id"] for field in form["body"] if field.get("validations") == {"required": True}}


def test_the_documentation_is_built_as_in_continuous_integration() -> None:
    (command,) = read(".readthedocs.yaml")["build"]["jobs"]["build"]["html"]
    built = command.split(" -d ")[0]
    assert built.endswith("mkdocs build --strict -f docs/site/mkdocs.yml")
    assert built.removeprefix("NO_MKDOCS_2_WARNING=1 ") in (ROOT / ".ci" / "run").read_text("utf-8")


def test_hooks_are_of_one_version_each() -> None:
    hooks = read(".pre-commit-config.yaml")["repos"]
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+", source["rev"]) for source in hooks if source["repo"] != "local")
    assert {"ruff-check", "ruff-format"} <= {hook["id"] for source in hooks for hook in source["hooks"]}
