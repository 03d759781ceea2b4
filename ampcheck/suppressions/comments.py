"""Suppression comments: ``# ampcheck: ignore[clip-before-unscale]``, for a line, a function or a file.

In brackets stand rules: names, codes or prefixes of codes, with commas between.  What follows is for the reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ampcheck import registry
from ampcheck.meant import close_to
from ampcheck.suppressions.misread import FORMS, MARK, misread_in
from ampcheck.suppressions.statements import Comment, Lines, Statements

__all__ = ["MARK", "Complaint", "Scope", "Suppression", "suppressions_in"]

Scope = Literal["line", "function", "file"]

OURS = re.compile(rf"#\s*{MARK}\s*:\s*(?P<said>[^#]*)", re.IGNORECASE)
SAID = re.compile(r"(?P<form>[\w-]+)\s*(?P<bracket>\[(?P<rules>[^\]]*)(?P<end>\])?)?")
# What people write who know other linters; any other word after the mark is prose.
MEANT = re.compile(r"ig|noqa|disable|skip|off$|allow|suppress|nolint", re.IGNORECASE)
ENDLESS = 10**9


@dataclass(frozen=True, slots=True)
class Suppression:
    """One rule or prefix in one comment: the codes that it stands for, and the lines that it covers.

    `column` and `end_column` (from 1, the end exclusive) are where the rule stands on the line of the comment.
    """

    scope: Scope
    rule: str
    codes: frozenset[str]
    line: int
    column: int
    end_column: int
    covers: Lines

    def silences(self, code: str, first: int, last: int) -> bool:
        """Whether it is about a finding of a rule that begins on one line, where its statement ends on another."""
        return code in self.codes and (
            first in self.covers or (self.scope == "line" and first <= self.line <= last)
        )


@dataclass(frozen=True, slots=True)
class Complaint:
    """A comment that cannot be understood, and why."""

    line: int
    column: int
    end_column: int
    message: str


def suppressions_in(found: Statements) -> Iterator[Suppression | Complaint]:
    """The suppressions of a text, in order, and what is wrong with those that are none."""
    for comment in found.comments:
        read = False
        for match in OURS.finditer(comment.text):
            said = SAID.match(match["said"])
            if said is not None and MEANT.match(said["form"]):
                yield from _read(found, comment, match, said)
                read = True
        for one in () if read else misread_in(comment.text):
            yield Complaint(comment.line, comment.column + one.start, comment.column + one.end, one.message)


def _read(
    found: Statements, comment: Comment, match: re.Match[str], said: re.Match[str]
) -> Iterator[Suppression | Complaint]:
    start = comment.column + match.start()
    end = comment.column + match.start("said") + said.end()
    form = said["form"].lower()
    if form not in FORMS:
        close = close_to(form, FORMS) or ["ignore"]
        yield Complaint(
            comment.line, start, end, f"`{said['form']}` is unknown: did you mean `{close[0]}[...]`?"
        )
        return
    if not said["bracket"] or not said["end"] or not said["rules"].strip():
        message = f"say which rules: `# {MARK}: {form}[clip-before-unscale]`"
        yield Complaint(comment.line, start, end, message)
        return
    scope: Scope = {"ignore": "line", "ignore-function": "function", "ignore-file": "file"}[form]  # type: ignore[assignment]
    covers = _covered(found, scope, comment.line)
    if covers is None:
        message = (
            f"no function here: put `{form}[...]` on the line of its `def`, or inside it"
            if scope == "function"
            else f"it stands on a line of its own: put `{form}[...]` on the line of the statement"
        )
        yield Complaint(comment.line, start, end, message)
        return
    offset = comment.column + match.start("said") + said.start("rules")
    for part in re.finditer(r"[^,\s](?:[^,]*[^,\s])?", said["rules"]):
        column, end_column = offset + part.start(), offset + part.end()
        try:
            codes = registry.select([part[0]], registry.load())
        except registry.UnknownRuleError as error:
            yield Complaint(comment.line, column, end_column, str(error))
            continue
        yield Suppression(scope, part[0], codes, comment.line, column, end_column, covers)


def _covered(found: Statements, scope: Scope, line: int) -> Lines | None:
    """The lines that a comment covers; None where there is nothing at its place."""
    if scope == "file":
        return Lines(1, ENDLESS)
    if scope == "function":
        function = found.function_around(line)
        return Lines(function.head.first, function.end) if function is not None else None
    statement = found.around(line)
    if statement is None:
        return None
    # At either end of a statement a comment is about all of it; formatters move comments behind the last bracket.
    return statement if line in (statement.first, statement.last) else Lines(line, line)
