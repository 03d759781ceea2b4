"""What one check has read and run: each file once, for all that ask."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ampcheck import imports, registry
from ampcheck.analysis import Analysed, analyse
from ampcheck.configurations import Configurations, configurations_of, precision_traces
from ampcheck.events import Site
from ampcheck.finding import Failure, Finding
from ampcheck.implementing import Implementing
from ampcheck.importers import Importers, is_test
from ampcheck.memory import Memory
from ampcheck.notebook import Cells
from ampcheck.placing import merged, own, placed
from ampcheck.project import Project
from ampcheck.readings import Readings
from ampcheck.rule import Rule
from ampcheck.running import Exploration, explore
from ampcheck.settings import Nearest, Options, Settings, SettingsError
from ampcheck.source import Source, Unreadable, passes_gate, read_bytes
from ampcheck.suppressions import Suppressions, suppressions_of
from ampcheck.suppressions.comments import MARK
from ampcheck.trace import Trace
from ampcheck.verdict import findings_of
from ampcheck.words import Words

__all__ = ["Checked", "Session", "Sessions"]


# A file that only imports the one in question is explored less widely.
FEWER_RUNS = 48


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of one file; `cells` of a notebook that may have something to report."""

    findings: Sequence[Finding] = ()
    failures: Sequence[Failure] = ()
    cells: Cells | None = None
    analysed: Analysed | None = None
    suppressions: Suppressions | None = None


class Sessions:
    """The sessions of a check, one for each settings file; without settings there is one."""

    def __init__(
        self, checked: Mapping[str, str], nearest: Nearest | None, options: Options, memory: Memory | None
    ) -> None:
        self.checked, self.nearest, self.fallback, self.memory = checked, nearest, options, memory
        self._sessions: dict[Settings, Session] = {}

    def options(self, path: str) -> Options:
        """What to report of a file."""
        try:
            return self.nearest.options(path) if self.nearest is not None else self.fallback
        except SettingsError:
            return self.fallback

    def sifted(
        self, findings: list[Finding], comments: Mapping[str, Suppressions]
    ) -> tuple[list[Finding], list[Finding]]:
        """The findings that files' own comments let through, and those that they silence."""
        silenced: list[Finding] = []
        for path, suppressions in comments.items():
            here = [finding for finding in findings if finding.site.path == path]
            sifted = suppressions.sift(here, self.of(path).ran)
            findings = [finding for finding in findings if finding.site.path != path] + [*sifted.kept]
            silenced += sifted.silenced
        return findings, silenced

    def wanted(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """The findings to report, in order of place, each as severe as the settings of its own file say."""
        found = [self.options(f.site.path).rated(f) for f in findings if self.options(f.site.path).wants(f)]
        return tuple(sorted(found, key=lambda f: (f.site, f.code)))

    def of(self, path: str) -> Session:
        """The session that checks a file; raises `SettingsError`."""
        settings = self.nearest.of(path) if self.nearest is not None else Settings()
        if settings not in self._sessions:
            asked = self.options(path)
            rules = [rule for rule in registry.load() if asked.applies(rule)]
            self._sessions[settings] = Session(rules, self.checked, settings, self.memory)
        return self._sessions[settings]


class Session:
    """One check: what was read and run once serves every file that needs it."""

    def __init__(
        self,
        rules: Sequence[Rule],
        checked: Mapping[str, str],
        settings: Settings | None = None,
        memory: Memory | None = None,
    ) -> None:
        imports.forget()
        self.rules = rules
        self.checked = checked
        self.settings = settings or Settings()
        self.memory = memory
        self.readings = memory.readings if memory is not None else Readings()
        self.project = Project(self.settings.search_folders, self.settings.names, self.readings)
        self.importers = Importers(self.project, memory.words if memory is not None else Words())
        self.implementing = Implementing(self.project, self.importers)
        self._found: dict[tuple[str, int | None], tuple[list[Finding], Exploration]] = {}
        self._configured: dict[str, tuple[Source, Configurations]] = {}

    def check(self, path: str) -> Checked:
        """One file's findings, and why it could not be analysed."""
        rules = self.rules
        cells: Cells | None = None
        try:
            data = read_bytes(path)
            if not passes_gate(data):
                return self._untrained(path, data)
            source = self.readings.source(path, data)
            cells = source.cells
            suppressions = suppressions_of(source)
            findings, exploration = self._findings(source)
            found = placed(findings, path, self._judged(findings))
            if is_test(path):  # of a helper, it shows nothing
                found = [finding for finding in found if finding.site.path == path]
            traces = list(exploration.traces)
            for importer in self.importers.of(path):
                elsewhere, runs = self._elsewhere(importer)
                found += own(elsewhere, path)
                traces += runs
            if self.memory is not None:
                self.memory.traces[path] = traces
            found = [*merged(found), *_truncated(exploration, rules), *_omitted(source, rules)]
            for broken in self._configurations(source).problems:
                found += _about_analysis(rules, "AMP900", broken.path, broken.message, broken.line)
            failures = [Failure(path, cell.message) for cell in source.omitted if cell.matters]
            seen = Analysed(source, tuple(exploration.traces))
            return Checked(found, failures, cells if found or suppressions else None, seen, suppressions)
        except Unreadable as error:
            found = _about_analysis(rules, "AMP900", path, str(error), error.line)
            return Checked(found, [Failure(path, str(error))], cells)
        except Exception as error:  # a bug of ours in one file must not hide the others
            message = f"ampcheck failed on this file ({_spelled(error)}); please report it"
            found = _about_analysis(rules, "AMP903", path, message)
            return Checked(found, [Failure(path, message)], cells)

    def _untrained(self, path: str, data: bytes) -> Checked:
        """A file without a word of a training step; its comments may speak of one that is gone."""
        if MARK.encode() not in data:
            return Checked()
        try:
            source = self.readings.source(path, data)
        except Unreadable:
            return Checked()
        return Checked(cells=source.cells, suppressions=suppressions_of(source))

    @property
    def ran(self) -> frozenset[str]:
        """The codes of the rules that are looked for."""
        return frozenset(rule.code for rule in self.rules)

    def _judged(self, findings: Sequence[Finding]) -> dict[str, str]:
        """The files in which findings lie and that are checked themselves; one without a word of training is not."""
        files = {os.path.abspath(finding.site.path) for finding in findings} & self.checked.keys()
        return {file: self.checked[file] for file in files if passes_gate(read_bytes(file))}

    def _elsewhere(self, importer: str) -> tuple[list[Finding], list[Trace]]:
        """What another file's runs show; whatever is wrong with that file is said when it is checked itself."""
        try:
            source = self.readings.source(importer, read_bytes(importer))
            findings, exploration = self._findings(source, FEWER_RUNS)
            return findings, exploration.traces
        except Exception:
            return [], []

    def _findings(self, source: Source, most: int | None = None) -> tuple[list[Finding], Exploration]:
        key = imports.spelled(source.path), most
        if key not in self._found and (key[0], None) in self._found:
            key = key[0], None  # its own turn has come already
        if key not in self._found:
            run = explore if self.memory is None else self.memory.explorations.explore
            configured = self._configurations(source)
            declared, exploration = analyse(
                source, configured, self.project, self.implementing, lambda program: run(program, most)
            )
            precisions = precision_traces(configured, source.path)
            traces = [*declared, *precisions, *exploration.traces, *exploration.repeats]
            if self.memory is None:
                found = findings_of(traces, self.rules)
            else:
                found = self.memory.judgements.of(key[0], traces, self.rules)
            self._found[key] = found, exploration
        return self._found[key]

    def _configurations(self, source: Source) -> Configurations:
        known = self._configured.get(source.path)
        if known is None or known[0] is not source:
            known = self._configured[source.path] = source, configurations_of(source)
        return known[1]


def _omitted(source: Source, rules: Sequence[Rule]) -> Iterator[Finding]:
    """The cells of a notebook that are no Python; a note where no word of a training step stands in it."""
    for cell in source.omitted:
        for finding in _about_analysis(rules, "AMP900", source.path, cell.message, cell.line):
            yield finding if cell.matters else replace(finding, severity="note")


def _spelled(error: Exception) -> str:
    """An exception on one short line; formatting one can itself fail (a KeyError of a deep syntax tree)."""
    try:
        return f"{type(error).__name__}: {error}".splitlines()[0][:200]
    except Exception:
        return type(error).__name__


def _about_analysis(
    rules: Sequence[Rule], code: str, path: str, message: str, line: int = 1
) -> list[Finding]:
    site = Site(path, line, 1, line, 1)
    return [Finding(r.code, r.name, r.severity, "certain", site, message) for r in rules if r.code == code]


def _truncated(exploration: Exploration, rules: Sequence[Rule]) -> Iterator[Finding]:
    for cut in exploration.truncations:
        for rule in rules:
            if rule.code == "AMP902":
                message = f"analysis of `{cut.root}` was cut short: {cut.why}"
                yield Finding(rule.code, rule.name, rule.severity, "certain", cut.site, message)
