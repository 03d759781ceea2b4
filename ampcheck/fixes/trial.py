"""Whether a candidate mends its finding: the edited files are checked again, in memory, across the project.

Required are that it is Python still, that the finding is gone, that nothing else has come or become worse, and that every
configuration which could run before can still run and train: a run that would now fail is no cure.
"""

from __future__ import annotations

import ast
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ampcheck.check import Options, check_paths, traces_of
from ampcheck.events import Site, Step
from ampcheck.finding import Finding
from ampcheck.fixes.case import Candidate, Cannot
from ampcheck.fixes.draft import Draft
from ampcheck.fixes.files import written
from ampcheck.imports import spelled
from ampcheck.source import is_file, read_bytes, unsaved
from ampcheck.trace import Guard, Trace

__all__ = ["Accepted", "Trial", "contents"]

EVERYTHING = Options(possible=True)
_WORSE = {"note": 0, "warning": 1, "error": 2}


@dataclass(frozen=True, slots=True)
class Accepted:
    """A candidate that passed, with the runs of the mended root, and what they were before."""

    finding: Finding
    candidate: Candidate
    before: tuple[Trace, ...]
    after: tuple[Trace, ...]


@dataclass(slots=True)
class Trial:
    """Tries candidates; what the files are like as they stand is remembered."""

    _findings: dict[tuple[str, ...], tuple[Finding, ...]] = field(default_factory=dict)
    _traces: dict[str, tuple[Trace, ...]] = field(default_factory=dict)

    def accept(self, finding: Finding, candidate: Candidate) -> Accepted:
        """The candidate, if it passes; raises `Cannot` with what speaks against it."""
        texts = contents(candidate.drafts)
        for draft in candidate.drafts.values():
            _must_compile(draft)
        files = self._files(finding, candidate)
        before = self._before(files)
        with unsaved(texts):
            after = check_paths(files, options=EVERYTHING).findings
        _must_be_better(finding, before, after, candidate.drafts)
        home = _home(finding)
        old = self._runs(home, finding)
        with unsaved(texts):
            new = _of_root(traces_of(home), finding)
        _must_still_run(old, new)
        return Accepted(finding, candidate, old, new)

    def _files(self, finding: Finding, candidate: Candidate) -> tuple[str, ...]:
        named = (finding.site.path, _home(finding), *candidate.drafts)
        return tuple(dict.fromkeys(path for path in named if is_file(path)))

    def _before(self, files: tuple[str, ...]) -> tuple[Finding, ...]:
        if files not in self._findings:
            self._findings[files] = check_paths(files, options=EVERYTHING).findings
        return self._findings[files]

    def _runs(self, home: str, finding: Finding) -> tuple[Trace, ...]:
        if home not in self._traces:
            self._traces[home] = traces_of(home)
        return _of_root(self._traces[home], finding)


def contents(drafts: Mapping[str, Draft]) -> dict[str, bytes]:
    """The edited files' bytes by absolute path, as they would be written."""
    return {os.path.abspath(path): written(draft, read_bytes(path)) for path, draft in drafts.items()}


def _must_compile(draft: Draft) -> None:
    try:
        ast.parse(draft.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Cannot("the edited file would not be Python") from None


def _home(finding: Finding) -> str:
    """The file whose runs show the finding."""
    witness = finding.witness
    if witness is None or witness.trace.root == "the file":
        return finding.site.path
    record = witness.trace.records[witness.record]
    sites = (*record.calls, record.event.site)
    return next((site.path for site in sites if is_file(site.path)), finding.site.path)


def _of_root(traces: Iterable[Trace], finding: Finding) -> tuple[Trace, ...]:
    """The runs of a finding's root; of a declaration, all runs of the file."""
    root = finding.witness.trace.root if finding.witness else ""
    found = tuple(traces)
    return (
        tuple(t for t in found if t.root == root)
        if root != "the file"
        else tuple(t for t in found if t.root != root)
    )


# --- findings -----------------------------------------------------------------------------------------------------

Key = tuple[str, str, int]


def _must_be_better(
    finding: Finding, before: Sequence[Finding], after: Sequence[Finding], drafts: Mapping[str, Draft]
) -> None:
    own = _key(finding, finding.site)
    was = {_key(f, f.site): f for f in before}
    if own not in was:
        raise Cannot("the finding cannot be reproduced from its file alone")
    is_now: dict[Key, Finding] = {}
    for f in after:
        is_now[_key(f, _origin(f.site, drafts))] = f
    if own in is_now:
        raise Cannot("the finding would stay")
    gone = Counter((f.code, f.message) for key, f in was.items() if key not in is_now and key != own)
    for key, f in is_now.items():
        known = was.get(key)
        if known is None and gone[f.code, f.message]:
            gone[f.code, f.message] -= 1  # the same, at another line
        elif known is None or _rank(f) > _rank(known):
            raise Cannot(f"the change would bring {f.code} ({f.name}) at line {f.site.line}")


def _key(finding: Finding, site: Site) -> Key:
    return finding.code, spelled(site.path), site.line


def _origin(site: Site, drafts: Mapping[str, Draft]) -> Site:
    """Where a line of the edited files stood before; line 0 for a new one."""
    for path, draft in drafts.items():
        if spelled(path) == spelled(site.path):
            return Site(site.path, draft.origin(site.line), 1, draft.origin(site.line), 1)
    return site


def _rank(finding: Finding) -> tuple[bool, int]:
    return finding.verdict == "certain", _WORSE[finding.severity]


# --- runs ---------------------------------------------------------------------------------------------------------


def _must_still_run(before: Sequence[Trace], after: Sequence[Trace]) -> None:
    """Every configuration of before is still one of after, and trains if it did."""
    for trace in before:
        chosen = _choices(trace.choices)
        alike = [t for t in after if _agree(chosen, _choices(t.choices))]
        trains = any(trace.of(Step))
        if not alike or (trains and not any(any(t.of(Step)) for t in alike)):
            raise Cannot(
                f"the loop would no longer run{f' when {trace.condition}' if trace.condition else ''}"
            )


def _choices(guards: Iterable[Guard]) -> dict[str, bool]:
    return {g.text: g.holds for g in guards if not g.varying}


def _agree(one: Mapping[str, bool], other: Mapping[str, bool]) -> bool:
    return all(other.get(text, holds) == holds for text, holds in one.items())
