"""Whether a candidate mends its finding: the edited files are checked again, in memory, across the project.

It must be Python still, the finding gone, nothing else come or become worse, and every configuration which could run
before must still run and train (a run that would now fail is no cure), with nothing new where nothing was wrong.
"""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ampcheck import registry
from ampcheck.check import Analysed, check_paths, traces_of
from ampcheck.events import Site, Step
from ampcheck.finding import Finding
from ampcheck.fixes.case import Candidate, Cannot
from ampcheck.fixes.draft import Draft
from ampcheck.fixes.files import written
from ampcheck.imports import spelled
from ampcheck.rule import Rule
from ampcheck.settings import Nearest
from ampcheck.source import is_file, read_bytes, unsaved
from ampcheck.trace import Guard, Trace

__all__ = ["Accepted", "Trial", "contents", "must_be_better", "said"]

MOST_REMEMBERED = 16
"""Analyses that are remembered; each holds the runs of a few files."""

COUNTED = re.compile(r"(?<=\bline )\d+|\d+(?= runs: )|\d+(?= combinations of)|\d+(?= not explored)")
_Asked = tuple[tuple[str, ...], frozenset[tuple[str, bytes]]]
_WORSE = {"note": 0, "warning": 1, "error": 2}


@dataclass(frozen=True, slots=True)
class Accepted:
    """A candidate that passed, with the runs of the mended root, and what they were before.

    `others`: findings are left in the same root.
    """

    finding: Finding
    candidate: Candidate
    before: tuple[Trace, ...]
    after: tuple[Trace, ...]
    others: bool = False


@dataclass(frozen=True, slots=True)
class _Seen:
    """What an analysis of some files gives: the findings, and the runs of those files that hold a word of training."""

    findings: tuple[Finding, ...]
    traces: Mapping[str, tuple[Trace, ...]]


@dataclass(slots=True)
class Trial:
    """Tries candidates; analyses are remembered, since findings share files, and renamings their edits.

    Of the `settings` that the check had, those count that the analysis reads; every rule is on, possible findings too.
    """

    settings: Nearest
    rules: Mapping[str, Rule]
    _seen: dict[_Asked, _Seen] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Nearest | None) -> Trial:
        """A trial under the settings of a check."""
        codes = tuple(rule.code for rule in registry.load() if not rule.opt_in)
        base = settings or Nearest(isolated=True)
        given = {**base.given, "possible": True, "force_exclude": False}
        rules = {rule.code: rule for rule in registry.load()}
        return cls(Nearest(base.config, base.isolated, codes, given=given), rules)

    def accept(self, finding: Finding, candidate: Candidate) -> Accepted:
        """The candidate, if it passes; raises `Cannot` with what speaks against it."""
        for draft in candidate.drafts.values():
            _must_compile(draft)
        texts = contents(candidate.drafts)
        home = _home(finding)
        named = dict.fromkeys((finding.site.path, home, *candidate.drafts))
        files = tuple(path for path in named if is_file(path))
        before, after = self._look(files, {}), self._look(files, texts)
        must_be_better([finding], before.findings, after.findings, candidate.drafts)
        old, new = (_of_root(seen.traces[home], finding) for seen in (before, after))
        _must_still_run(self.rules[finding.code], old, new)
        root = finding.witness.trace.root if finding.witness else ""
        others = any(f.witness is not None and f.witness.trace.root == root for f in after.findings)
        return Accepted(finding, candidate, old, new, others)

    def _look(self, files: tuple[str, ...], texts: Mapping[str, bytes]) -> _Seen:
        """The files with some contents replaced."""
        asked = files, frozenset(texts.items())
        if asked not in self._seen:
            if len(self._seen) >= MOST_REMEMBERED:
                del self._seen[next(iter(self._seen))]
            with unsaved(texts):
                self._seen[asked] = self._analysed(files)
        return self._seen[asked]

    def _analysed(self, files: tuple[str, ...]) -> _Seen:
        traces: dict[str, tuple[Trace, ...]] = {}

        def keep(analysed: Analysed) -> None:
            traces[analysed.source.path] = analysed.traces

        found = check_paths(files, settings=self.settings, on_analysed=keep).findings
        for path in files:
            if path not in traces:  # it only calls a loop of another file
                traces[path] = traces_of(path, self.settings.of(path), gated=False)
        return _Seen(found, traces)


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


def must_be_better(
    fixed: Sequence[Finding], before: Sequence[Finding], after: Sequence[Finding], drafts: Mapping[str, Draft]
) -> None:
    """Raises `Cannot` unless the findings fixed are gone and no other has come or become worse."""
    own = {_key(f, f.site) for f in fixed}
    was = {_key(f, f.site): f for f in before}
    if not own <= was.keys():
        raise Cannot("the finding cannot be reproduced from its file alone")
    is_now = {_key(f, _origin(f.site, drafts)): f for f in after}
    if own & is_now.keys():
        raise Cannot("the finding would stay")
    gone = Counter(said(f) for key, f in was.items() if key not in is_now and key not in own)
    for key, f in is_now.items():
        known = was.get(key)
        if known is None and gone[said(f)]:
            gone[said(f)] -= 1  # the same, at another line
        elif known is None or _rank(f) > _rank(known):
            raise Cannot(f"the change would bring {f.code} ({f.name}) at line {f.site.line}")


def said(finding: Finding) -> tuple[str, str]:
    """What a finding says, wherever it and what it speaks of may stand now, and however much was not analysed."""
    return finding.code, COUNTED.sub("", finding.message)


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


def _must_still_run(rule: Rule, before: Sequence[Trace], after: Sequence[Trace]) -> None:
    """Every configuration of before is one of after, and trains if it did; where nothing was wrong, nothing comes."""
    if not before:
        raise Cannot("the runs that show it cannot be reproduced from its file alone")
    wrong = [_choices(trace.choices) for trace in before if any(rule.check(trace))]
    for trace in before:
        chosen = _choices(trace.choices)
        alike = [t for t in after if _agree(chosen, _choices(t.choices))]
        trains = any(trace.of(Step))
        when = f" when {trace.condition}" if trace.condition else ""
        if not alike or (trains and not any(any(t.of(Step)) for t in alike)):
            raise Cannot(f"the loop would no longer run{when}")
        held = {type(r.event) for t in before if _agree(chosen, _choices(t.choices)) for r in t.records}
        if chosen not in wrong and any(type(r.event) not in held for t in alike for r in t.records):
            raise Cannot(f"it would change the loop{when}, where nothing is wrong")


def _choices(guards: Iterable[Guard]) -> dict[str, bool]:
    return {g.text: g.holds for g in guards if not g.varying}


def _agree(one: Mapping[str, bool], other: Mapping[str, bool]) -> bool:
    return all(other.get(text, holds) == holds for text, holds in one.items())
