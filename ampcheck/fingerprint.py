"""The fingerprint of a finding: by it, the same fault is known again after lines were moved above it.

It is made of the rule, the file (from its project's top), the names of the definitions around, and the tokens of the
place itself, without comments, space and line breaks.  Equal places are numbered from the top of the file down.
"""

from __future__ import annotations

import hashlib
import io
import linecache
import os
import re
import tokenize
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from ampcheck.events import Site
from ampcheck.finding import Finding, Report
from ampcheck.imports import project_top

__all__ = ["fingerprint", "fingerprints"]

LENGTH = 32  # hexadecimal digits: 128 bits
DEFINITION = re.compile(r"[ \t]*(?:async[ \t]+def|def|class)[ \t]+(\w+)")
BETWEEN = ("#", ")", "]", "}")  # lines whose indentation tells nothing
NO_TEXT = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)

Reader = Callable[[int], str]
"""The text of a line (from 1) of one file; "" beyond its end."""


def fingerprints(report: Report, top: str | None = None) -> tuple[str, ...]:
    """The fingerprint of each finding of a report, in the report's order.

    Paths are taken from `top`, by default from the top of each file's own project.
    Source is read from the notebooks' cells of the report, or from disk; a file that cannot be read has no text.
    """
    for path in {finding.site.path for finding in report.findings}:
        linecache.checkcache(path)
    seen: Counter[tuple[str, ...]] = Counter()
    found = []
    for finding in report.findings:
        parts = _parts(finding, report, top)
        number = seen[parts]
        seen[parts] += 1
        digest = hashlib.sha256("\0".join((*parts, str(number))).encode("utf-8", "surrogateescape"))
        found.append(digest.hexdigest()[:LENGTH])
    return tuple(found)


def fingerprint(finding: Finding, report: Report) -> str:
    """The fingerprint of one finding of a report; `fingerprints` is quicker for all of them."""
    return next(f for f, known in zip(fingerprints(report), report.findings, strict=True) if known is finding)


def _parts(finding: Finding, report: Report, top: str | None) -> tuple[str, ...]:
    site = finding.site
    path = os.path.abspath(site.path)
    from_top = os.path.relpath(path, top or project_top(os.path.dirname(path))).replace(os.sep, "/")
    cells = report.notebooks.get(site.path)
    if cells is None:
        return finding.code, from_top, *_text(site, lambda line: linecache.getline(site.path, line))
    at = cells.place(site)  # a magic in front of a statement shifts its columns
    shifted = replace(site, column=at.column, end_column=at.end_column)
    return finding.code, from_top, *_text(shifted, cells.text)


def _text(site: Site, line: Reader) -> tuple[str, str]:
    return ".".join(_around(site, line)), _tokens(site, line)


def _tokens(site: Site, line: Reader) -> str:
    """The tokens of a place, one space between; the whole line where the place has no width."""
    lines = [line(number).rstrip("\r\n") for number in range(site.line, site.end_line + 1)]
    if (site.line, site.column) != (site.end_line, site.end_column):
        lines[-1] = lines[-1][: site.end_column - 1]
        lines[0] = lines[0][site.column - 1 :]
    text = "\n".join(lines)
    try:
        # Brackets let a place of several lines be read as one expression.
        tokens = list(tokenize.generate_tokens(io.StringIO(f"({text}\n)").readline))
    except (tokenize.TokenError, SyntaxError):
        return " ".join(text.split())
    return " ".join(token.string for token in tokens if token.type not in NO_TEXT)


def _around(site: Site, line: Reader) -> list[str]:
    """The names of the definitions around a place, outermost first, as indentation shows them."""
    names: list[str] = []
    indent = _indent(line(site.line))
    for number in range(site.line - 1, 0, -1):
        text = line(number)
        if not text.strip() or text.lstrip().startswith(BETWEEN) or _indent(text) >= indent:
            continue
        indent = _indent(text)
        found = DEFINITION.match(text)
        names[:0] = [found[1]] if found else []
    return names


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
