"""`--add-ignores`: writes a suppression comment for each finding, and touches nothing else of the file.

Encoding, byte order mark, line ends and a notebook's JSON stay as they are; a file is replaced all at once or not at
all, and only where Python reads the same program in it as before and every finding is silenced.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ampcheck.finding import Failure, Finding
from ampcheck.fixes.cells import with_sources
from ampcheck.fixes.files import replace_file
from ampcheck.source import NOTEBOOK, Source, Unreadable, decode, read_bytes
from ampcheck.suppressions.applying import NOT_TO_BE_KNOWN, suppressions_of
from ampcheck.suppressions.comments import MARK, OURS, SAID
from ampcheck.suppressions.statements import Statements, statements_of

__all__ = ["Added", "Refused", "add_comments", "commented", "edits_for"]

ENDS = re.compile(r"(\r\n|\r|\n)")

Place = tuple[int, int]
"""A cell (0 in a file that is no notebook) and a line within it, both from 1."""

Edits = Mapping[Place, Callable[[str], str]]
"""What becomes of a line's text, by its place."""


@dataclass(frozen=True, slots=True)
class Added:
    """The findings that are silenced now, and the files that were left as they are, with the reason."""

    silenced: tuple[Finding, ...] = ()
    failures: tuple[Failure, ...] = ()


def add_comments(findings: Iterable[Finding]) -> Added:
    """Silence findings where they stand."""
    by_path: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.code not in NOT_TO_BE_KNOWN and finding.site.path.endswith((".py", NOTEBOOK)):
            by_path[finding.site.path].append(finding)
    silenced: list[Finding] = []
    failures: list[Failure] = []
    for path, here in sorted(by_path.items()):
        try:
            data = read_bytes(path)
            replace_file(path, commented(path, data, here))
            silenced += here
        except (Unreadable, Refused) as error:
            failures.append(Failure(path, f"no comment was added: {error}"))
        except OSError as error:
            failures.append(Failure(path, f"cannot be written: {error.strerror or error}"))
    return Added(tuple(silenced), tuple(failures))


class Refused(Exception):
    """A file cannot be changed without changing more than its comments."""


def commented(path: str, data: bytes, findings: Sequence[Finding]) -> bytes:
    """A file's bytes with a comment for each finding; raises `Refused` or Unreadable."""
    source = decode(path, data)
    new = _rewritten(path, data, edits_for(source, findings))
    after = decode(path, new)
    if not _is_same_program(source, after):
        raise Refused("there is no place for it; silence the finding by hand")
    read = suppressions_of(after)
    if read is None or len(read.sift(findings, frozenset()).silenced) < len(findings):
        raise Refused("a comment would not be read there; silence the finding by hand")
    return new


def edits_for(source: Source, findings: Iterable[Finding]) -> Edits:
    """What becomes of which lines so that each finding has its comment."""
    statements = statements_of(source.text)
    rules: dict[int, list[str]] = defaultdict(list)
    for finding in findings:
        line = _line_for(finding, statements)
        if finding.name not in rules[line]:
            rules[line].append(finding.name)
    comments = {c.line: c.text for c in statements.comments}

    def edit(line: int) -> Callable[[str], str]:
        return lambda text: _with(text, comments.get(line, ""), rules[line])

    return {_place(source, line): edit(line) for line in rules}


def _line_for(finding: Finding, statements: Statements) -> int:
    """The line of the finding or, where no comment can end that one, of its statement's beginning or end."""
    around = statements.around(finding.site.line)
    lines = [finding.site.line, *([around.first, finding.site.end_line, around.last] if around else [])]
    return next((line for line in lines if line not in statements.unending), lines[-1])


def _with(line: str, comment: str, rules: Sequence[str]) -> str:
    """A line with rules in its comment."""
    found = OURS.search(comment)
    said = SAID.match(found["said"]) if found is not None else None
    if found is None or said is None or said["form"].lower() != "ignore" or not said["end"]:
        return f"{line.rstrip()}  # {MARK}: ignore[{', '.join(rules)}]"
    at = line.rindex(comment) + found.start("said") + said.end("rules")
    return f"{line[:at]}, {', '.join(rules)}{line[at:]}" if said["rules"].strip() else line


def _place(source: Source, line: int) -> Place:
    if source.cells is None:
        return 0, line
    at = source.cells.lines[line - 1]
    return at.cell, at.number


def _rewritten(path: str, data: bytes, edits: Edits) -> bytes:
    if path.endswith(NOTEBOOK):
        return with_sources(data, lambda cell, text: _changed(text, cell, edits))
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    text = data.decode(encoding)
    if text.encode(encoding) != data:
        raise Refused(f"its {encoding} is not written as it was read; save it as UTF-8")
    return _changed(text, 0, edits).encode(encoding)


def _changed(text: str, cell: int, edits: Edits) -> str:
    parts = ENDS.split(text)  # lines and their ends by turns
    for (in_cell, line), edit in edits.items():
        if in_cell == cell:
            parts[2 * (line - 1)] = edit(parts[2 * (line - 1)])
    return "".join(parts)


def _is_same_program(before: Source, after: Source) -> bool:
    if before.tree is None or after.tree is None:  # newer Python than this one: line by line then
        return before.text.count("\n") == after.text.count("\n")
    return ast.dump(before.tree) == ast.dump(after.tree)
