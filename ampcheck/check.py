"""Checks files: one file to its findings, many files to a report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ampcheck import program as p
from ampcheck import registry
from ampcheck.events import Deprecated, Site
from ampcheck.finding import Failure, Finding, Report
from ampcheck.gradients import State
from ampcheck.importers import SKIPPED, Importers
from ampcheck.library.torch import deprecated
from ampcheck.placing import merged, own, placed
from ampcheck.project import Project
from ampcheck.rule import Rule
from ampcheck.running import Exploration, explore
from ampcheck.source import Unreadable, decode, passes_gate, read_bytes
from ampcheck.trace import Record, Trace
from ampcheck.verdict import findings_of

__all__ = ["Options", "check_paths", "python_files", "traces_of"]


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
    paths: Sequence[str], *, options: Options | None = None, on_file: Callable[[str], None] | None = None
) -> Report:
    """Check files and the Python files under directories.

    Every file is checked whatever happens to the others: one that cannot be read is finding AMP900 and a failure,
    one on which ampcheck itself breaks is AMP903.
    """
    options = options or Options()
    rules = [rule for rule in registry.load() if not rule.opt_in or rule.code in options.select]
    findings: list[Finding] = []
    failures: list[Failure] = []
    count = 0
    files = list(python_files(paths))
    session = _Session(rules, frozenset(map(os.path.normpath, files)))
    for path in files:
        if on_file is not None:
            on_file(path)
        found, failure = session.check(path)
        findings += [f for f in found if options.wants(f)]
        if failure is not None:
            failures.append(failure)
        elif all(f.code != "AMP900" for f in found):
            count += 1
    findings.sort(key=lambda f: (f.site, f.code))
    return Report(tuple(findings), tuple(failures), count)


def python_files(paths: Sequence[str]) -> Iterator[str]:
    """The files to check: those named, and the Python files and notebooks under the directories named, each once."""
    seen: set[str] = set()
    for path in paths:
        for file in _under(path):
            if file not in seen:
                seen.add(file)
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
    module, exploration = _analyse(path, data, Project())
    return (*_declarations(module), *exploration.traces)


def _analyse(path: str, data: bytes, project: Project) -> tuple[p.Module, Exploration]:
    program = project.program(decode(path, data))
    return program.main, explore(program)


class _Session:
    """One check: what was read and run once serves every file that needs it."""

    def __init__(self, rules: Sequence[Rule], checked: frozenset[str]) -> None:
        self.rules = rules
        self.checked = checked
        self.project = Project()
        self.importers = Importers(self.project)
        self._found: dict[str, tuple[list[Finding], Exploration]] = {}

    def check(self, path: str) -> tuple[list[Finding], Failure | None]:
        """One file's findings, and why it could not be analysed."""
        rules = self.rules
        try:
            data = read_bytes(path)
            if not passes_gate(data):
                return [], None
            if path.endswith(".ipynb"):
                return _notebook(path, rules), None
            findings, exploration = self._findings(path, data)
            found = placed(findings, path, self.checked)
            for importer in self.importers.of(path):
                found += own(self._elsewhere(importer), path)
            return merged(found) + list(_truncated(exploration, rules)), None
        except Unreadable as error:
            return _about_analysis(rules, "AMP900", path, str(error), error.line), Failure(path, str(error))
        except Exception as error:  # a bug of ours in one file must not hide the others
            message = f"ampcheck failed on this file ({_spelled(error)}); please report it"
            return _about_analysis(rules, "AMP903", path, message), Failure(path, message)

    def _elsewhere(self, importer: str) -> list[Finding]:
        """What the runs of another file show; whatever is wrong with that file is said when it is checked itself."""
        try:
            return self._findings(importer, read_bytes(importer))[0]
        except Exception:
            return []

    def _findings(self, path: str, data: bytes) -> tuple[list[Finding], Exploration]:
        key = os.path.normpath(path)
        if key not in self._found:
            module, exploration = _analyse(path, data, self.project)
            traces = [*_declarations(module), *exploration.traces, *exploration.repeats]
            self._found[key] = findings_of(traces, self.rules), exploration
        return self._found[key]


def _notebook(path: str, rules: Sequence[Rule]) -> list[Finding]:
    """Notebooks are not read yet, and not called clean either: a note says so."""
    message = "a notebook: not analysed yet; export it as a script to have it checked"
    return [replace(f, severity="note") for f in _about_analysis(rules, "AMP900", path, message)]


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


def _declarations(module: p.Module) -> Iterator[Trace]:
    """What holds without running anything: each use of a deprecated name, as a trace of its own."""
    imports: dict[str, str] = {}
    for node in p.walk(*module.body):
        if isinstance(node, p.Import):
            imports.update(node.names)
        elif isinstance(node, p.Call):
            name = _dotted(node.func, imports)
            instead = deprecated(name) if name else None
            if name and instead:
                event = Deprecated(site=node.site, name=name, instead=instead)
                yield Trace("the file", (Record(0, event, State(), State(), 0, 0),), {})


def _dotted(node: p.Expr, imports: dict[str, str]) -> str | None:
    if isinstance(node, p.Name):
        return imports.get(node.id)
    if isinstance(node, p.Attribute):
        owner = _dotted(node.value, imports)
        return f"{owner}.{node.attr}" if owner else None
    return None
