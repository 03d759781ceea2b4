"""Analyses one file: what it declares, and the traces of its roots' runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ampcheck import imports
from ampcheck import program as p
from ampcheck.assembly import assemble
from ampcheck.checkpoints import with_checkpoints
from ampcheck.configurations import Configurations, configurations_of
from ampcheck.events import Deprecated, Event, Recompute
from ampcheck.gradients import State
from ampcheck.implementing import Implementing
from ampcheck.importers import Importers
from ampcheck.internals import internals_of
from ampcheck.library.torch import DEPRECATED_SINCE, deprecated
from ampcheck.project import Project
from ampcheck.requirements import Requirements, all_before
from ampcheck.running import Exploration, explore
from ampcheck.running.recomputing import FUNCTION, bare_recompute, uses_autocast
from ampcheck.settings import Settings
from ampcheck.source import Source, decode, passes_gate, read_bytes
from ampcheck.trace import Record, Trace

__all__ = ["Analysed", "analyse", "traces_of"]


@dataclass(frozen=True, slots=True)
class Analysed:
    """A file as it was read, and the runs of its roots."""

    source: Source
    traces: tuple[Trace, ...]


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
    source = decode(path, data)
    declared, exploration = analyse(source, configurations_of(source), project, implementing, explore)
    return (*declared, *exploration.traces)


def analyse(
    source: Source,
    configured: Configurations,
    project: Project,
    implementing: Implementing,
    explored: Callable[[p.Program], Exploration],
) -> tuple[list[Trace], Exploration]:
    """What holds without running anything, and the runs; `configured` are the file's configurations."""
    program = assemble(project, source, implementing.of(imports.spelled(source.path)))
    program.settings, program.names = _settings(configured), project.names
    found = explored(program)
    runs = with_checkpoints(source, (*found.traces, *found.repeats))
    count = len(found.traces)
    declared = [*_declarations(program.main, project.requirements), *internals_of(source)]
    return declared, replace(found, traces=runs[:count], repeats=runs[count:])


def _settings(found: Configurations) -> dict[str, int]:
    """The numbers that configuration files certainly give to a file's engines."""
    answers = {
        "gradient_accumulation_steps": found.gradient_accumulation_steps,
        "zero_stage": found.zero_stage,
    }
    return {name: answer.value for name, answer in answers.items() if answer is not None and answer.sure}


def _declarations(module: p.Module, requirements: Requirements) -> Iterator[Trace]:
    """What holds without running anything, each as a trace of its own: deprecated names, recomputes by hand.

    No name is deprecated yet for a project that keeps to an older torch.
    """
    origins: dict[str, str] = {}
    for node in p.walk(*module.body):
        if isinstance(node, p.Import):
            origins.update(node.names)
        elif isinstance(node, p.Call):
            name = p.dotted(node.func, origins)
            instead = deprecated(name) if name else None
            if name and instead and not all_before(requirements.of(module.path), DEPRECATED_SINCE):
                yield _declared(Deprecated(site=node.site, name=name, instead=instead))
        elif isinstance(node, p.ClassDef) and FUNCTION in (p.dotted(base, origins) for base in node.bases):
            again = bare_recompute(node)
            if again is not None and uses_autocast(module.body):
                yield _declared(Recompute(site=again.site, function=node.name))


def _declared(event: Event) -> Trace:
    return Trace("the file", (Record(0, event, State(), State(), 0, 0),), {})
