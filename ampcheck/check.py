"""Checks files: one file to its findings, many files to a report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ampcheck import imports, registry
from ampcheck import program as p
from ampcheck.assembly import assemble
from ampcheck.checkpoints import with_checkpoints
from ampcheck.configurations import configurations_of, precision_traces
from ampcheck.events import Deprecated, Event, Recompute, Site
from ampcheck.finding import Failure, Finding, Report
from ampcheck.gradients import State
from ampcheck.implementing import Implementing
from ampcheck.importers import Importers, is_test
from ampcheck.internals import internals_of
from ampcheck.library.torch import deprecated
from ampcheck.memory import Memory
from ampcheck.notebook import Cells
from ampcheck.placing import merged, own, placed
from ampcheck.project import Project
from ampcheck.readings import Readings
from ampcheck.rule import Rule
from ampcheck.running import Exploration, explore
from ampcheck.running.recomputing import FUNCTION, bare_recompute, uses_autocast
from ampcheck.settings import Nearest, Options, Settings, SettingsError, python_files
from ampcheck.source import Source, Unreadable, decode, passes_gate, read_bytes
from ampcheck.suppressions import Suppressions, suppressions_of
from ampcheck.suppressions.comments import MARK
from ampcheck.trace import Record, Trace
from ampcheck.verdict import findings_of

__all__ = ["Analysed", "Options", "check_paths", "python_files", "traces_of"]


# A file that only imports the one in question is explored less widely.
FEWER_RUNS = 48


@dataclass(frozen=True, slots=True)
class Analysed:
    """A file as it was read, and the runs of its roots."""

    source: Source
    traces: tuple[Trace, ...]


def check_paths(
    paths: Sequence[str],
    *,
    options: Options | None = None,
    settings: Nearest | None = None,
    on_file: Callable[[str], None] | None = None,
    on_analysed: Callable[[Analysed], None] | None = None,
    memory: Memory | None = None,
) -> Report:
    """Check files and the Python files under directories.

    What is reported of a file is said by its `settings`, or by `options` for all of them.  Every file is checked
    whatever happens to the others: one that cannot be read is finding AMP900 and a failure, one on which ampcheck
    itself breaks is AMP903; a settings file that cannot be used is a failure, and the files that it is for are left.
    `on_file` is called before each file, `on_analysed` with what was seen of each that holds a word of training.
    With a `memory`, what has not changed since it was last used is not done again.
    """
    files = list(python_files(paths, settings))
    checked_files = {os.path.abspath(path): path for path in files}
    sessions = _Sessions(checked_files, settings, options or Options(), memory)
    findings: list[Finding] = []
    failures: list[Failure] = []
    comments: dict[str, Suppressions] = {}
    notebooks: dict[str, Cells] = {}
    count = 0
    for path in files:
        if on_file is not None:
            on_file(path)
        try:
            checked = sessions.of(path).check(path)
        except SettingsError as error:
            failures += [
                Failure(error.path, f"line {n}: {said}" if n else said) for n, said in error.problems
            ]
            continue
        if on_analysed is not None and checked.analysed is not None:
            on_analysed(checked.analysed)
        findings += checked.findings
        failures += checked.failures
        count += not checked.failures
        if checked.cells is not None:
            notebooks[path] = checked.cells
        if checked.suppressions is not None:
            comments[path] = checked.suppressions
    # Some lie in other files of this check, whose comments and settings may be others.
    findings, silenced = sessions.sifted(merged(findings), comments)
    return Report(
        sessions.wanted(findings), tuple(dict.fromkeys(failures)), count, notebooks, sessions.wanted(silenced)
    )


def traces_of(path: str, settings: Settings | None = None, *, gated: bool = True) -> tuple[Trace, ...]:
    """All traces of one file, those of its declarations first; raises `Unreadable`.

    A file without a word of training has none, unless it is not `gated`: it may only call a loop of another file.
    """
    data = read_bytes(path)
    if gated and not passes_gate(data):
        return ()
    settings = settings or Settings()
    project = Project(settings.search_folders, settings.names)
    implementing = Implementing(project, Importers(project))
    declared, exploration = _analyse(decode(path, data), project, implementing, explore)
    return (*declared, *exploration.traces)


def _analyse(
    source: Source, project: Project, implementing: Implementing, explored: Callable[[p.Program], Exploration]
) -> tuple[list[Trace], Exploration]:
    """What holds without running anything, and the runs."""
    program = assemble(project, source, implementing.of(imports.spelled(source.path)))
    program.settings, program.names = _settings(source), project.names
    found = explored(program)
    runs = with_checkpoints(source, (*found.traces, *found.repeats))
    count = len(found.traces)
    declared = [*_declarations(program.main), *internals_of(source)]
    return declared, replace(found, traces=runs[:count], repeats=runs[count:])


@dataclass(frozen=True, slots=True)
class _Checked:
    """What became of one file; `cells` of a notebook that may have something to report."""

    findings: Sequence[Finding] = ()
    failures: Sequence[Failure] = ()
    cells: Cells | None = None
    analysed: Analysed | None = None
    suppressions: Suppressions | None = None


class _Sessions:
    """The sessions of a check, one for each settings file; without settings there is one."""

    def __init__(
        self, checked: Mapping[str, str], nearest: Nearest | None, options: Options, memory: Memory | None
    ) -> None:
        self.checked, self.nearest, self.fallback, self.memory = checked, nearest, options, memory
        self._sessions: dict[Settings, _Session] = {}

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

    def of(self, path: str) -> _Session:
        """The session that checks a file; raises `SettingsError`."""
        settings = self.nearest.of(path) if self.nearest is not None else Settings()
        if settings not in self._sessions:
            asked = self.options(path)
            rules = [rule for rule in registry.load() if asked.applies(rule)]
            self._sessions[settings] = _Session(rules, self.checked, settings, self.memory)
        return self._sessions[settings]


class _Session:
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
        self.importers = Importers(self.project)
        self.implementing = Implementing(self.project, self.importers)
        self._found: dict[tuple[str, int | None], tuple[list[Finding], Exploration]] = {}

    def check(self, path: str) -> _Checked:
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
            for broken in configurations_of(source).problems:
                found += _about_analysis(rules, "AMP900", broken.path, broken.message, broken.line)
            failures = [Failure(path, cell.message) for cell in source.omitted if cell.matters]
            seen = Analysed(source, tuple(exploration.traces))
            return _Checked(found, failures, cells if found or suppressions else None, seen, suppressions)
        except Unreadable as error:
            found = _about_analysis(rules, "AMP900", path, str(error), error.line)
            return _Checked(found, [Failure(path, str(error))], cells)
        except Exception as error:  # a bug of ours in one file must not hide the others
            message = f"ampcheck failed on this file ({_spelled(error)}); please report it"
            found = _about_analysis(rules, "AMP903", path, message)
            return _Checked(found, [Failure(path, message)], cells)

    def _untrained(self, path: str, data: bytes) -> _Checked:
        """A file without a word of a training step; its comments may speak of one that is gone."""
        if MARK.encode() not in data:
            return _Checked()
        try:
            source = self.readings.source(path, data)
        except Unreadable:
            return _Checked()
        return _Checked(cells=source.cells, suppressions=suppressions_of(source))

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
            declared, exploration = _analyse(
                source, self.project, self.implementing, lambda program: run(program, most)
            )
            configured = precision_traces(configurations_of(source), source.path)
            traces = [*declared, *configured, *exploration.traces, *exploration.repeats]
            self._found[key] = findings_of(traces, self.rules), exploration
        return self._found[key]


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


def _settings(source: Source) -> dict[str, int]:
    """The numbers that configuration files certainly give to this file's engines."""
    found = configurations_of(source)
    answers = {
        "gradient_accumulation_steps": found.gradient_accumulation_steps,
        "zero_stage": found.zero_stage,
    }
    return {name: answer.value for name, answer in answers.items() if answer is not None and answer.sure}


def _declarations(module: p.Module) -> Iterator[Trace]:
    """What holds without running anything, each as a trace of its own: deprecated names, recomputes by hand."""
    origins: dict[str, str] = {}
    for node in p.walk(*module.body):
        if isinstance(node, p.Import):
            origins.update(node.names)
        elif isinstance(node, p.Call):
            name = p.dotted(node.func, origins)
            instead = deprecated(name) if name else None
            if name and instead:
                yield _declared(Deprecated(site=node.site, name=name, instead=instead))
        elif isinstance(node, p.ClassDef) and FUNCTION in (p.dotted(base, origins) for base in node.bases):
            again = bare_recompute(node)
            if again is not None and uses_autocast(module.body):
                yield _declared(Recompute(site=again.site, function=node.name))


def _declared(event: Event) -> Trace:
    return Trace("the file", (Record(0, event, State(), State(), 0, 0),), {})
