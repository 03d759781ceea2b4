"""Checks files: one file to its findings, many files to a report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ampcheck import imports, registry
from ampcheck import program as p
from ampcheck.assembly import assemble
from ampcheck.checkpoints import with_checkpoints
from ampcheck.configurations import configurations_of, precision_traces
from ampcheck.events import Deprecated, Event, Recompute, Site
from ampcheck.finding import Failure, Finding, Report
from ampcheck.gradients import State
from ampcheck.importers import SKIPPED, Importers, is_test
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
from ampcheck.source import Source, Unreadable, decode, passes_gate, read_bytes
from ampcheck.trace import Record, Trace
from ampcheck.verdict import findings_of

__all__ = ["Options", "check_paths", "python_files", "traces_of"]


# A file that only imports the one in question is explored less widely.
FEWER_RUNS = 48


@dataclass(frozen=True, slots=True)
class Options:
    """What to report: codes selected and ignored, and whether possible findings are shown.

    None selected: all but those that are off unless they are.
    """

    select: frozenset[str] = field(default_factory=frozenset)
    ignore: frozenset[str] = field(default_factory=frozenset)
    possible: bool = False

    def wants(self, finding: Finding) -> bool:
        """Whether a finding is to be reported."""
        if self.select and finding.code not in self.select:
            return False
        return finding.code not in self.ignore and (self.possible or finding.verdict == "certain")


def check_paths(
    paths: Sequence[str],
    *,
    options: Options | None = None,
    on_file: Callable[[str], None] | None = None,
    memory: Memory | None = None,
) -> Report:
    """Check files and the Python files under directories.

    Every file is checked whatever happens to the others: one that cannot be read is finding AMP900 and a failure,
    one on which ampcheck itself breaks is AMP903.  With a `memory`, what has not changed since it was last used is
    not done again.
    """
    options = options or Options()
    rules = [rule for rule in registry.load() if not rule.opt_in or rule.code in options.select]
    findings: list[Finding] = []
    failures: list[Failure] = []
    notebooks: dict[str, Cells] = {}
    count = 0
    files = list(python_files(paths))
    session = _Session(rules, {os.path.abspath(path): path for path in files}, memory)
    for path in files:
        if on_file is not None:
            on_file(path)
        checked = session.check(path)
        # Some lie in other files of this check, which may not know of this one.
        findings += [f for f in checked.findings if options.wants(f)]
        failures += checked.failures
        count += not checked.failures
        if checked.cells is not None:
            notebooks[path] = checked.cells
    found = sorted(merged(findings), key=lambda f: (f.site, f.code))
    return Report(tuple(found), tuple(failures), count, notebooks)


def python_files(paths: Sequence[str]) -> Iterator[str]:
    """The files to check: those named, and the Python files and notebooks under the directories named, each once."""
    seen: set[str] = set()
    for path in paths:
        for file in _under(path):
            place = os.path.abspath(file)
            if place not in seen:
                seen.add(place)
                yield file


def _under(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(f for f in folders if f not in SKIPPED and not f.startswith("."))
        for name in sorted(files):
            if name.endswith((".py", ".ipynb")):
                yield os.path.normpath(os.path.join(folder, name))


def traces_of(path: str) -> tuple[Trace, ...]:
    """All traces of one file, those of its declarations first; raises `Unreadable`."""
    data = read_bytes(path)
    if not passes_gate(data):
        return ()
    declared, exploration = _analyse(decode(path, data), Project(), explore)
    return (*declared, *exploration.traces)


def _analyse(
    source: Source, project: Project, explored: Callable[[p.Program], Exploration]
) -> tuple[list[Trace], Exploration]:
    """What holds without running anything, and the runs."""
    program = assemble(project, source)
    program.settings = _settings(source)
    found = explored(program)
    runs = with_checkpoints(source, (*found.traces, *found.repeats))
    count = len(found.traces)
    declared = [*_declarations(program.main), *internals_of(source)]
    return declared, replace(found, traces=runs[:count], repeats=runs[count:])


@dataclass(frozen=True, slots=True)
class _Checked:
    """What became of one file; `cells` of a notebook that has something to report."""

    findings: Sequence[Finding] = ()
    failures: Sequence[Failure] = ()
    cells: Cells | None = None


class _Session:
    """One check: what was read and run once serves every file that needs it."""

    def __init__(self, rules: Sequence[Rule], checked: Mapping[str, str], memory: Memory | None) -> None:
        imports.forget()
        self.rules = rules
        self.checked = checked
        self.memory = memory
        self.readings = memory.readings if memory is not None else Readings()
        self.project = Project(self.readings)
        self.importers = Importers(self.project)
        self._found: dict[tuple[str, int | None], tuple[list[Finding], Exploration]] = {}

    def check(self, path: str) -> _Checked:
        """One file's findings, and why it could not be analysed."""
        rules = self.rules
        cells: Cells | None = None
        try:
            data = read_bytes(path)
            if not passes_gate(data):
                return _Checked()
            source = self.readings.source(path, data)
            cells = source.cells
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
            return _Checked(found, failures, cells if found else None)
        except Unreadable as error:
            found = _about_analysis(rules, "AMP900", path, str(error), error.line)
            return _Checked(found, [Failure(path, str(error))], cells)
        except Exception as error:  # a bug of ours in one file must not hide the others
            message = f"ampcheck failed on this file ({_spelled(error)}); please report it"
            found = _about_analysis(rules, "AMP903", path, message)
            return _Checked(found, [Failure(path, message)], cells)

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
            declared, exploration = _analyse(source, self.project, lambda program: run(program, most))
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
