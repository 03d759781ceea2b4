"""Comments that were meant for ampcheck and are written for nobody, or for another tool: what to write instead.

``# ampchek: ignore[AMP101]``, ``# ampcheck ignore[AMP101]``, ``# noqa: AMP101``.  Prose, a bare ``# noqa`` and the
codes of other tools are none of our business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ampcheck import registry
from ampcheck.meant import close_to

__all__ = ["FORMS", "MARK", "Misread", "is_worth_reading", "misread_in"]

MARK = "ampcheck"
FORMS = ("ignore", "ignore-function", "ignore-file")

COMMENT = re.compile(rf"#.*{MARK}", re.IGNORECASE)
NEARLY = re.compile(
    r"#\s*(?P<mark>[A-Za-z][\w -]{2,10}?)\s*(?P<colon>[:;=.-]?)\s*(?P<form>ig\w*(?:-\w+)?)\s*"
    r"(?:\[(?P<rules>\s*[\w-]+\s*(?:,\s*[\w-]+\s*)*)\]|(?P<bare>(?=\s*(?:#|$))))",
    re.IGNORECASE | re.MULTILINE,
)
ALONE = re.compile(
    rf"#\s*{MARK}\s*:\s*(?P<rules>[\w-]+\s*(?:,\s*[\w-]+\s*)*)(?=#|$)", re.IGNORECASE | re.MULTILINE
)
OTHERS = re.compile(
    r"#\s*(?P<form>(?P<file>(?:ruff|flake8)\s*:\s*)?noqa\s*:|pylint\s*:\s*disable(?:-next)?\s*=|[\w-]+\s*:\s*ignore\s*\[)"
    r"\s*(?P<rules>[\w-]+(?:[\s,]+[\w-]+)*)",
    re.IGNORECASE,
)
CODE = re.compile(r"AMP\d{3}", re.IGNORECASE)
RULE_LIKE = re.compile(r"AMP\w+$|\w+(-\w+)+$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Misread:
    """What stands between two places of a comment's text, and what is to be said of it."""

    start: int
    end: int
    message: str


def is_worth_reading(text: str) -> bool:
    """Whether a file's text may hold a comment of ours, or one that was meant to be; cheap."""
    return (
        COMMENT.search(text) is not None
        or NEARLY.search(text) is not None
        or any(map(_ours, OTHERS.finditer(text)))
    )


def misread_in(comment: str) -> Iterator[Misread]:
    """What is wrong in a comment, but for what stands behind a right ``# ampcheck:``."""
    for match in NEARLY.finditer(comment):
        if form := _form(match):
            rules = (match["rules"] or "clip-before-unscale").strip()
            yield Misread(match.start(), match.end(), f"not understood: write `# {MARK}: {form}[{rules}]`")
    for match in ALONE.finditer(comment):
        if all(map(_is_rule, re.findall(r"[\w-]+", match["rules"]))):
            rules = match["rules"].strip()
            end = match.start("rules") + len(rules)
            yield Misread(match.start(), end, f"say what to do with it: `# {MARK}: ignore[{rules}]`")
    for match in OTHERS.finditer(comment):
        if rules := ", ".join(_ours(match)):
            form = "ignore-file" if match["file"] else "ignore"
            said = f"{MARK} does not read `{match['form'].rstrip(':=[ ')}`: write `# {MARK}: {form}[{rules}]`"
            yield Misread(match.start(), match.end(), said)


def _form(match: re.Match[str]) -> str:
    """What form of ours was meant; "" where none was."""
    mark = match["mark"].strip().lower()
    if mark == MARK and (match["colon"] == ":" or match["rules"] is None):
        return ""  # read as ours, or prose
    if match["rules"] is None and match["colon"] != ":":
        return ""
    if match["rules"] and not any(map(RULE_LIKE.match, re.findall(r"[\w-]+", match["rules"]))):
        return ""
    if not close_to(mark, [MARK], cutoff=0.8):
        return ""
    return "".join(close_to(match["form"].lower(), FORMS, cutoff=0.75))


def _ours(match: re.Match[str]) -> list[str]:
    """Our rules at the head of another tool's list; what comes after the first word that is no code is prose."""
    found = []
    for word in re.findall(r"[\w-]+", match["rules"]):
        if _is_rule(word):
            found.append(word)
        elif not re.fullmatch(r"[A-Za-z]+\d+|[a-z]+(-[a-z]+)+", word):
            break
    tool = match["form"].partition(":")[0].strip().lower()
    return [] if close_to(tool, [MARK], cutoff=0.8) else found


def _is_rule(word: str) -> bool:
    return CODE.fullmatch(word) is not None or any(word == rule.name for rule in registry.built_in())
