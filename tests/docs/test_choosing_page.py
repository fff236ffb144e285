"""What docs/choosing.md says of methods and rules is what the records say."""

from __future__ import annotations

from docs.figures import choosing


def test_the_page_is_made_of_its_records() -> None:
    page = choosing.PAGE.read_text(encoding="utf-8")
    assert page == choosing.written(page, choosing.made())
