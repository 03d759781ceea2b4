"""A baseline: findings that are known and wait for repair, so that a check fails for new ones only.

It is a JSON file with one line a finding, known by its fingerprint.  An entry whose finding is gone is reported (901)
until the baseline is written again, so that what was repaired stays repaired.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ampcheck import registry
from ampcheck.events import Site
from ampcheck.finding import Finding, Report
from ampcheck.fingerprint import fingerprints
from ampcheck.suppressions import NOT_TO_BE_KNOWN, UNUSED

__all__ = ["Baseline", "BaselineError", "Entry"]

VERSION = 1


class BaselineError(Exception):
    """A baseline cannot be read or written; the message says which, why and what to do."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A known finding: its file, from the folder of the baseline, and by what it is known again."""

    path: str
    code: str
    fingerprint: str
    verdict: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The entries of a file, and its lines."""

    path: str
    entries: tuple[Entry, ...] = ()
    lines: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: str) -> Baseline:
        """Read a file; raises `BaselineError`."""
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            data = json.loads(text)
        except FileNotFoundError:
            raise BaselineError(f"{path}: no such file: make it with --write-baseline") from None
        except OSError as error:
            raise BaselineError(f"{path}: cannot be read: {error.strerror or error}") from None
        except ValueError as error:
            raise BaselineError(
                f"{path}: no baseline: {error}; make it again with --write-baseline"
            ) from None
        if not isinstance(data, dict) or data.get("version") != VERSION:
            raise BaselineError(f"{path}: no baseline of this version: make it again with --write-baseline")
        return cls(path, tuple(_entries(path, data.get("findings"))), tuple(text.split("\n")))

    def apply(self, report: Report, files: Sequence[str], is_judged: Callable[[Entry, str], bool]) -> Report:
        """The report without the findings that are known, and with a complaint for each entry that is out of date.

        An entry is out of date where its file is among those checked, or gone, and it `is_judged`: its rule was looked
        for in this file.
        """
        left = dict.fromkeys(self.entries)
        kept: list[Finding] = []
        known: list[Finding] = []
        for finding, entry in zip(report.findings, self._entries_of(report), strict=True):
            if entry in left:
                del left[entry]
                known.append(finding)
            else:
                kept.append(finding)
        checked = {self._from_here(path) for path in files}
        for entry in left:
            path = os.path.join(self._folder, entry.path)
            if (entry.path in checked or not os.path.exists(path)) and is_judged(entry, path):
                kept += self._complaint(entry)
        found = tuple(sorted(kept, key=lambda finding: (finding.site, finding.code)))
        return replace(report, findings=found, known=tuple(known))

    def renewed(self, report: Report, files: Sequence[str]) -> Baseline:
        """The baseline that knows all of a report; of files that were not checked it knows what it knew."""
        checked = {self._from_here(path) for path in files}
        others = [
            entry
            for entry in self.entries
            if entry.path not in checked and os.path.exists(os.path.join(self._folder, entry.path))
        ]
        found = [entry for entry in self._entries_of(report) if entry.code not in NOT_TO_BE_KNOWN]
        return Baseline(self.path, tuple(sorted({*others, *found})))

    def write(self) -> None:
        """Put the entries into the file, all at once; raises `BaselineError`."""
        from ampcheck.fixes.files import replace_file

        try:
            if os.path.exists(self.path):
                replace_file(self.path, self.text().encode())
            else:
                with open(self.path, "xb") as file:
                    file.write(self.text().encode())
        except OSError as error:
            raise BaselineError(f"{self.path}: cannot be written: {error.strerror or error}") from None

    def text(self) -> str:
        """The file's contents: an entry a line, so that two branches can be merged."""
        lines = ",\n".join(f"  {json.dumps(_plain(entry), ensure_ascii=False)}" for entry in self.entries)
        return f'{{\n"version": {VERSION},\n"findings": [\n{lines}\n]\n}}\n'

    def _complaint(self, entry: Entry) -> Iterator[Finding]:
        line = next((n for n, text in enumerate(self.lines, start=1) if entry.fingerprint in text), 1)
        site = Site(self.path, line, 1, line, 1)
        message = f"{entry.code} in {entry.path} is in the baseline, and is found no more"
        hint = "write the baseline again: --write-baseline"
        for rule in registry.load():
            if rule.code == UNUSED:
                yield Finding(rule.code, rule.name, rule.severity, "certain", site, message, hint=hint)

    @property
    def _folder(self) -> str:
        return os.path.dirname(os.path.abspath(self.path))

    def _from_here(self, path: str) -> str:
        return os.path.relpath(os.path.abspath(path), self._folder).replace(os.sep, "/")

    def _entries_of(self, report: Report) -> Iterator[Entry]:
        for finding, known_by in zip(report.findings, fingerprints(report, self._folder), strict=True):
            yield Entry(self._from_here(finding.site.path), finding.code, known_by, finding.verdict)


def _plain(entry: Entry) -> dict[str, str]:
    return {name: getattr(entry, name) for name in Entry.__slots__}


def _entries(path: str, items: Any) -> Iterator[Entry]:
    for item in items if isinstance(items, list) else [None]:
        held = item if isinstance(item, dict) else {}
        values = [value for name in Entry.__slots__ if isinstance(value := held.get(name), str)]
        if len(values) < len(Entry.__slots__):
            raise BaselineError(
                f"{path}: no baseline: {item!r} is no entry; make it again with --write-baseline"
            )
        yield Entry(*values)
