"""Links between the pages of the documentation lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def anchors(text: str) -> set[str]:
    """The headings as GitHub turns them into anchors."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub(lambda code: code[0].strip("`"), text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_no_link_is_dead(checkout: Path) -> None:
    dead = []
    for page in (checkout / "README.md", *(checkout / "docs").glob("*.md")):
        for link in LINK.findall(CODE.sub("", page.read_text("utf-8"))):
            if "://" in link:
                continue
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
                dead.append(f"{page.name}: {link}")
    assert dead == []
