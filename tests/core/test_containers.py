"""Each public function with each container of data: the numbers of the plain call, or a refusal that says why."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests import containers
from tests.containers import CONTAINERS, FUNCTIONS
from tests.public_calls import sandbox

pytestmark = pytest.mark.small


@pytest.fixture(scope="module", autouse=True)
def folder() -> Iterator[None]:
    with sandbox():
        yield


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.crossed)], ids=["a quarter", "all"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_container(name: str, every: bool) -> None:
    """Those of libraries that are not installed are left out; the record of all has them."""
    here = containers.here()
    chosen = here if every else here[list(FUNCTIONS).index(name) % 4 :: 4]
    wrong = [found for each in chosen if (found := containers.wrong(name, each, containers.SEEDS[0]))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_containers_beside_each_other(name: str) -> None:
    """Arguments of different containers, drawn: never other numbers."""
    draw = random.Random(name)
    for _ in range(2):
        containers.outcome(name, CONTAINERS[draw.choice(containers.here())], draw.randrange(1000), draw.choice)
