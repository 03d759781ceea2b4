"""AMP401: all micro-batches of a window but the last run without synchronisation."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ampcheck import events as ev
from ampcheck.fixes.case import Candidate, Cannot, Case, Place, candidate
from ampcheck.fixes.draft import Draft
from ampcheck.fixes.guards import boundary_test
from ampcheck.fixes.moving import insert, under
from ampcheck.fixes.spelling import is_meant_alike, written
from ampcheck.fixes.syntax import Module

__all__ = ["accumulate_each", "without_sync"]


def without_sync(case: Case) -> Iterator[Candidate]:
    """Forward and backward go under ``no_sync``, but on the window's last micro-batch."""
    record = case.record
    if not isinstance(record.event, ev.Backward):
        raise Cannot("it is not a backward")
    place = case.place(record.event.site)
    module, block = place.module, place.module.block(place.statement)
    forwards = record.event.loss.forwards
    wrapper = forwards[0].wrapper if forwards else ""
    model, start = _forward(case, place)
    step = next((r for r in reversed(case.story) if isinstance(r.event, ev.Step)), None)
    first = Place(module, block[start])
    last = _last_of_loop(place) if step is None else boundary_test(case, step, first) or _last_of_loop(place)
    if not last:
        raise Cannot("the window's end is not known before the forward")
    statements = block[start : block.index(place.statement) + 1]
    draft, nullcontext = _imported(Draft.of(module), module)
    header = f"with {nullcontext}() if {last} else {model}.no_sync():"
    doubt = (
        "FSDP keeps whole gradients while it does not synchronise: it takes more memory"
        if "fsdp" in wrapper
        else ""
    )
    yield candidate(
        "synchronise the gradients only on the window's last micro-batch",
        under(draft, module, header, statements),
        doubt=doubt,
    )


def accumulate_each(case: Case) -> Iterator[Candidate]:
    """``accelerator.accumulate(models)`` takes models one by one, not a list of them."""
    for record, call in case.trace.of(ev.EngineCall):
        if (call.library, call.call) != ("accelerate", "accumulate"):
            continue
        for module, argument in written(case, record, "argument", "accumulate"):
            if isinstance(argument, (ast.Name, ast.Attribute)):
                line, column = module.start(argument)
                text = module.lines[line - 1]
                draft = Draft.of(module).replace(line, f"{text[: column - 1]}*{text[column - 1 :]}")
                yield candidate("hand the models to `accumulate` one by one", draft)
                return
    raise Cannot("`accumulate` is not used")


def _forward(case: Case, place: Place) -> tuple[str, int]:
    """The wrapped model as it is called, and the first statement of the backward's block that does."""
    assert isinstance(case.record.event, ev.Backward)
    module, block = place.module, place.module.block(place.statement)
    end = block.index(place.statement)
    names = {f.model for f in case.record.event.loss.forwards}
    wrapped = set(_wrapped(case, module))
    for index, statement in enumerate(block[: end + 1]):
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and module.text(node.func) in wrapped | names:
                model = _that_waits(case, module, module.text(node.func))
                if model and is_meant_alike(module, node.func, Place(module, block[index])):
                    return model, index
    raise Cannot("forward and backward do not stand in one block")


def _wrapped(case: Case, module: Module) -> Iterator[str]:
    """The names that the wrapped models are given where they are built."""
    for record, build in case.trace.of(ev.Build):
        if build.kind == "wrapper" and record.event.site.path == module.path:
            statement = module.statement(record.event.site)
            if isinstance(statement, ast.Assign):
                yield from (module.text(target) for target in statement.targets)
    for node in ast.walk(module.tree):
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
            continue
        if module.text(node.value.func).rsplit(".", 1)[-1] in (*_WRAPPERS, "compile"):
            yield from (module.text(target) for target in node.targets)


_WRAPPERS = ("DDP", "DistributedDataParallel", "FSDP", "FullyShardedDataParallel")


def _that_waits(case: Case, module: Module, name: str) -> str:
    """The object that has `no_sync`: the wrapper itself, where a compiled one is called."""
    for node in ast.walk(module.tree):
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
            continue
        if name not in [module.text(target) for target in node.targets]:
            continue
        made = module.text(node.value.func).rsplit(".", 1)[-1]
        if made == "compile" and node.value.args and module.text(node.value.args[0]) != name:
            return _that_waits(case, module, module.text(node.value.args[0]))
    return name


def _last_of_loop(place: Place) -> str:
    """The test of the last iteration of ``for i in range(k)``, which is a window of its own."""
    for around in place.module.enclosing(place.statement):
        if isinstance(around, ast.For):
            call = around.iter
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Name)
                and call.func.id == "range"
                and len(call.args) == 1
                and isinstance(around.target, ast.Name)
                and around.target.id != "_"
            ):
                return f"{around.target.id} == {place.module.text(call.args[0])} - 1"
            return ""
    return ""


def _imported(draft: Draft, module: Module) -> tuple[Draft, str]:
    """How to write ``nullcontext`` in a file, imported where it is not yet."""
    imports = [s for s in module.tree.body if isinstance(s, (ast.Import, ast.ImportFrom))]
    for statement in imports:
        for alias in statement.names:
            if isinstance(statement, ast.ImportFrom) and (statement.module, alias.name) == (
                "contextlib",
                "nullcontext",
            ):
                return draft, alias.asname or alias.name
            if isinstance(statement, ast.Import) and alias.name == "contextlib":
                return draft, f"{alias.asname or alias.name}.nullcontext"
    first = next((s for s in imports if getattr(s, "module", None) != "__future__"), None)
    if first is None:
        raise Cannot("there is no import to put `contextlib` beside")
    return insert(draft, module, ["import contextlib"], before=first), "contextlib.nullcontext"
