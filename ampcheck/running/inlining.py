"""Functions of the project are inlined: their bodies run in frames of their own."""

from __future__ import annotations

from collections.abc import Callable

from ampcheck import program as p
from ampcheck.running import values as v
from ampcheck.running.iterators import iterator_over
from ampcheck.running.machine import MAX_CALLS, MAX_DEPTH, Frame, Machine, Signal

__all__ = ["bind", "call_function"]


def call_function(
    machine: Machine, function: v.Function, args: list[v.Value], kwargs: dict[str, v.Value], node: p.Expr
) -> v.Value:
    """Run a function's body in a frame of its own."""
    machine.called += 1
    if machine.called > MAX_CALLS:
        machine.cap(f"more than {MAX_CALLS} calls")
    if machine.depth >= MAX_DEPTH or machine.active.count(function.node) > 1:
        return v.Unknown(machine.text(node), True)
    frame = Frame(parent=function.frame, owner=function.owner)
    bind(machine, frame, function.node.parameters, args, kwargs)
    if isinstance(function.node, p.Lambda):
        return _in_frame(machine, frame, lambda: machine.evaluate(function.node.body), function.node, node)  # type: ignore[arg-type]
    body = function.node.body
    machine.entered.add(function.node)
    if function.node.generator:
        frame.yields = []
    return _in_frame(machine, frame, lambda: _run(machine, body), function.node, node)


def _run(machine: Machine, body: tuple[p.Stmt, ...]) -> v.Value:
    """A function's result: what it returns, or what its generator yields."""
    frame = machine.frame
    result: v.Value = v.NONE
    try:
        machine.execute(body)
    except Signal as signal:
        if signal.kind not in ("return", "enough"):
            raise
        result = signal.value
    if frame.yields is not None:
        parameters = [q for q in frame.yields if isinstance(q, v.Parameters)]
        if parameters and len(parameters) == len(frame.yields):
            models = tuple(dict.fromkeys(m for q in parameters for m in q.models))
            found = v.Parameters(models, any(q.partial for q in parameters), False, "a generator")
            return iterator_over(machine, found)
        return v.Items("items", items=frame.yields, text="a generator")
    return result


def _in_frame(
    machine: Machine, frame: Frame, run: Callable[[], v.Value], function: p.Node, node: p.Expr
) -> v.Value:
    outer, guards = machine.frame, len(machine.guards)
    without_gradients = isinstance(function, p.FunctionDef) and any(
        text.rstrip("()").endswith(("no_grad", "inference_mode"))
        for text in map(machine.text, function.decorators)
    )
    casts = _casts(machine, function)
    machine.no_grad += without_gradients
    machine.frame = frame
    machine.depth += 1
    machine.calls.append(node.site)
    machine.active.append(function)
    try:
        for context in casts:
            machine.enter(context, function)
        return run()
    finally:
        for context in casts:
            machine.leave(context)
        machine.frame = outer
        machine.no_grad -= without_gradients
        machine.depth -= 1
        machine.calls.pop()
        machine.active.pop()
        del machine.guards[guards:]
        is_model = machine.program.is_model
        in_engine = is_model(node.site.path) and all(is_model(site.path) for site in machine.calls)
        if in_engine and not is_model(function.site.path):
            machine.at = function.site  # a hook: what its engine does next is told of at the hook


def _casts(machine: Machine, function: p.Node) -> list[v.Context]:
    """Autocast as a decorator."""
    decorators = function.decorators if isinstance(function, p.FunctionDef) else ()
    values = [machine.evaluate(d) for d in decorators if "autocast" in machine.text(d)]
    return [value for value in values if isinstance(value, v.Context)]


def bind(
    machine: Machine,
    frame: Frame,
    parameters: tuple[p.Parameter, ...],
    args: list[v.Value],
    kwargs: dict[str, v.Value],
) -> None:
    """Bind arguments to parameters; what is missing takes its default, or stays unknown under its own name."""
    rest, keywords = list(args), dict(kwargs)
    keyword_only = False
    for parameter in parameters:
        name = parameter.name
        if parameter.star == "*":
            keyword_only = True
            if name:
                frame.names[name] = v.Seq("tuple", rest)
                rest = []
        elif parameter.star == "**":
            frame.names[name] = v.DictValue(dict(keywords))
        elif rest and not keyword_only:
            frame.names[name] = rest.pop(0)
            keywords.pop(name, None)
        elif name in keywords:
            frame.names[name] = keywords.pop(name)
        elif parameter.default is not None:
            frame.names[name] = _default(machine, frame, parameter.default)
        else:
            frame.names[name] = v.Unknown(name, argument=True)


def _default(machine: Machine, frame: Frame, default: p.Expr) -> v.Value:
    """A default is evaluated where its function is defined, which may be another module."""
    outer, machine.frame = machine.frame, frame.parent or machine.frame
    try:
        return machine.evaluate(default)
    finally:
        machine.frame = outer
