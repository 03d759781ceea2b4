"""The guides: every rule can be found from what people see or review, and no link leads nowhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ampcheck import registry

LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
GUIDES = ("checklist.md", "symptoms.md")


def links(page: Path) -> list[tuple[str, str]]:
    return LINK.findall(page.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"(?m)^#+ (.*)$", page.read_text("utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_rule_is_found_from_a_guide(checkout: Path) -> None:
    linked = {Path(target).stem for guide in GUIDES for _, target in links(checkout / "docs" / guide)}
    pages = {path.stem for path in (checkout / "docs" / "rules").glob("*.md")} - {"index"}
    assert pages - linked == set()


@pytest.mark.parametrize("guide", [*GUIDES, "audit.md", "index.md"])
def test_no_link_is_dead(guide: str, checkout: Path) -> None:
    page = checkout / "docs" / guide
    for _, target in links(page):
        if target.startswith(("http:", "https:")):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{guide}: {target}"
        assert not anchor or anchor in anchors(file), f"{guide}: {target}"


@pytest.mark.parametrize("guide", GUIDES)
def test_a_code_leads_to_its_own_page(guide: str, checkout: Path) -> None:
    names = {rule.code: rule.name for rule in registry.built_in()}
    shown = [(text, target) for text, target in links(checkout / "docs" / guide) if text.startswith("AMP")]
    assert len(shown) > 60
    assert [pair for pair in shown if Path(pair[1]).stem != names.get(pair[0])] == []
