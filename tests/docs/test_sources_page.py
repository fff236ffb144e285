"""What docs/sources.md says was measured is what the records have, and what it found follows from them."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from benchmarks.sources import claim, claims_errors, claims_flash, claims_kernels, claims_page

TEXT = claims_page.PAGE.read_text(encoding="utf-8")
CLAIMS = [one for claims in claims_page.TABLES.values() for one in claims()]
FOUND = ("confirmed", "refuted", "open")
"""As the page's head explains them."""


@pytest.fixture
def altered(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replace a record by one whose rows a function has changed."""
    kept = claim.record

    def alter(name: str, change: Any) -> None:
        run = copy.deepcopy(kept(name))
        for row in run["rows"]:
            change(row)
        read = lambda of: run if of == name else kept(of)  # noqa: E731
        for module in (claim, claims_flash, claims_errors, claims_kernels):
            monkeypatch.setattr(module, "record", read, raising=False)

    return alter


def test_tables_are_those_of_the_records() -> None:
    assert claims_page.page_with(TEXT, claims_page.made()) == TEXT, "run python -m benchmarks.sources.claims_page"


@pytest.mark.parametrize("one", CLAIMS, ids=lambda one: one.said[:40])
class TestClaim:
    def test_what_was_found_is_what_the_page_explains(self, one: claim.Claim) -> None:
        assert one.found.startswith(FOUND)

    def test_what_is_open_has_a_reason(self, one: claim.Claim) -> None:
        assert not re.search(r"\bopen\b(?![:)]| with a network's:)", one.found)

    def test_it_is_short(self, one: claim.Claim) -> None:
        assert max(map(len, one[:-1])) <= 220

    def test_a_time_has_a_record(self, one: claim.Claim) -> None:
        assert one.records or not re.search(r"\d ms\b", one.measured)

    def test_its_records_are_there(self, one: claim.Claim) -> None:
        assert [name for name in one.records if not (claim.RESULTS / f"{name}.json").is_file()] == []

    def test_no_cell_ends_early(self, one: claim.Claim) -> None:
        assert one.line().count("|") == 5


def test_another_time_is_another_table(altered: Any) -> None:
    def slower(row: dict[str, Any]) -> None:
        if "median_ms" in row:
            row["median_ms"] *= 1.1

    before = claim.table(claims_flash.sixteen_dimensions())
    altered(claims_flash.RUNTIME, slower)
    assert claim.table(claims_flash.sixteen_dimensions()) != before


def test_a_finding_that_the_records_contradict_is_an_error(altered: Any) -> None:
    def exact(row: dict[str, Any]) -> None:
        if (row.get("peer") or {}).get("name") == claims_flash.FLASH:
            row["peer"]["rel_err_max"] = 1e-7

    altered(claims_flash.RUNTIME, exact)
    with pytest.raises(ValueError, match="refuted in the default mode"):
        claims_flash.sixteen_dimensions()


def test_the_head_explains_what_can_be_found() -> None:
    assert re.findall(r"(?m)^- \*\*([^*]+)\*\*: ", TEXT) == list(FOUND)


def test_a_run_that_has_its_record_is_no_longer_open(monkeypatch: pytest.MonkeyPatch) -> None:
    before = claims_page.made()[claims_page.OPEN]
    monkeypatch.setattr(claims_page, "there", lambda name: name == claims_errors.OWN)
    gone = set(before.splitlines()) - set(claims_page.made()[claims_page.OPEN].splitlines())
    assert all("flash_errors" in line for line in gone)
