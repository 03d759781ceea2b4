"""Method calls on roles, as events."""

from __future__ import annotations

import re
from typing import Literal

from ampcheck import events as ev
from ampcheck import program as p
from ampcheck.engines import OWN_BACKWARDS, WIPED, needs_own_backward, open_hook, partitions_gradients
from ampcheck.events import Unit
from ampcheck.gradients import STEPPED
from ampcheck.library.torch import REDUCING_OPTIMIZERS
from ampcheck.running import norms
from ampcheck.running import values as v
from ampcheck.running.casting import in_force, settled
from ampcheck.running.derivatives import used_in
from ampcheck.running.describing import flow_of, text_of
from ampcheck.running.iterators import consume, spent
from ampcheck.running.machine import Infeasible, Machine
from ampcheck.running.naming import names_option
from ampcheck.running.roles import as_optimizer, is_frozen, overlaps, owners_of, parameters_of
from ampcheck.running.truth import truth
from ampcheck.trace import Guard, Record

__all__ = [
    "backward",
    "clip",
    "declare",
    "edit",
    "escape",
    "is_on",
    "reduce",
    "scale",
    "schedule",
    "step",
    "take_state",
    "unscale",
    "update",
    "zero_grad",
]


FREEZES = re.compile(
    r"requires?_?grad|freez|toggle|trainable|set_grad|grads?_(on|off|enabled)|enable|disable|lock|switch",
    re.IGNORECASE,
)


def is_on(machine: Machine, scaler: v.Scaler, node: p.Node) -> tuple[bool, list[Guard]]:
    """Whether a scaler is enabled in this run, and the guard that says so."""
    if isinstance(scaler.enabled, v.Truth):
        return scaler.enabled.value, []
    if not machine.roles[scaler.id].site and isinstance(scaler.enabled, v.Atom):
        # Known by its name only: it is called, so it is not None, and nothing says that it is disabled.
        if machine.choices.invariant.get(scaler.enabled.text) is False:
            raise Infeasible
        return True, []
    machine.touch()
    on, guards = truth(machine, scaler.enabled, node.site, text_of(scaler.enabled))
    return on, [g for g in guards if not g.boundary]


def scale(machine: Machine, scaler: v.Scaler, value: v.Value, node: p.Node) -> v.Value:
    """``scaler.scale(loss)``."""
    on, _ = is_on(machine, scaler, node)
    if not on:
        return value
    if isinstance(value, v.Seq):
        return v.Seq(value.kind, [scale(machine, scaler, item, node) for item in value.items])
    flow = flow_of(value) or v.Flow()
    return v.Unknown(text_of(value), True, flow.times(Unit(((scaler.id, 1),))))


def unscale(machine: Machine, scaler: v.Scaler, optimizer: v.Optimizer, node: p.Node) -> None:
    """``scaler.unscale_(optimizer)``."""
    on, guards = is_on(machine, scaler, node)
    if on:
        with machine.guarded(*guards):
            machine.emit(ev.Unscale(site=node.site, scaler=scaler.id, optimizer=optimizer.id))


def step(
    machine: Machine,
    optimizer: v.Optimizer,
    node: p.Node,
    scaler: v.Scaler | None = None,
    closure: bool = False,
    passed: Literal["", "keyword", "positional"] = "",
) -> Record:
    """``optimizer.step()`` or ``scaler.step(optimizer)``."""
    role = machine.roles.get(optimizer.id)
    if role is not None and role.detail in REDUCING_OPTIMIZERS:
        reduce(machine, optimizer, node)
    on, guards = is_on(machine, scaler, node) if scaler is not None else (False, [])
    name = scaler.id if scaler is not None and on else None
    with machine.guarded(*guards):
        event = ev.Step(site=node.site, optimizer=optimizer.id, scaler=name, closure=closure, passed=passed)
        record = machine.emit(event)
    declare(machine, "step", (optimizer.id,), record.index)
    return record


def reduce(machine: Machine, optimizer: v.Optimizer | None, node: p.Node) -> None:
    """``optimizer.synchronize()`` of an optimizer that reduces over ranks: once for the gradients that are there."""
    if optimizer is not None and "reduced" not in machine.state.buffer(optimizer.id).marks:
        machine.emit(ev.Reduce(site=node.site, owners=(optimizer.id,)))


def update(machine: Machine, scaler: v.Scaler, explicit: bool, node: p.Node) -> None:
    """``scaler.update()``."""
    on, guards = is_on(machine, scaler, node)
    if on:
        with machine.guarded(*guards):
            record = machine.emit(ev.Update(site=node.site, scaler=scaler.id, explicit=explicit))
        if not explicit:  # raising the scale by hand now and then has nothing to do with windows
            declare(machine, "update", (), record.index)


def take_state(machine: Machine, scaler: v.Scaler, node: p.Node) -> None:
    """``scaler.state_dict()``: an event only where an update is still to come, so that it never forks a run else."""
    if any(s == scaler.id and phase == STEPPED for (s, _), phase in machine.state.phases.items()):
        machine.emit(ev.StateDict(site=node.site, scaler=scaler.id))


def zero_grad(machine: Machine, owners: tuple[str, ...], to_none: bool, node: p.Node) -> None:
    """``optimizer.zero_grad()``, ``model.zero_grad()``, ``p.grad = None``."""
    if owners:
        record = machine.emit(ev.ZeroGrad(site=node.site, owners=owners, to_none=to_none))
        declare(machine, "zero", owners, record.index)


def schedule(machine: Machine, scheduler: v.Scheduler, with_metric: bool, node: p.Node) -> None:
    """``scheduler.step()``."""
    counts = "metric" if with_metric else scheduler.counts
    optimizers = scheduler.optimizers
    if not optimizers and len(machine.optimizers()) == 1:
        optimizers = (machine.optimizers()[0].id,)
    event = ev.ScheduleStep(site=node.site, scheduler=scheduler.id, optimizers=optimizers, counts=counts)
    record = machine.emit(event)
    declare(machine, "schedule", (), record.index)


def backward(machine: Machine, loss: v.Value, node: p.Node, inputs: v.Value | None = None) -> None:
    """``loss.backward()``: which owners it reaches follows from the forwards behind the loss.

    `inputs`: it is told to differentiate with respect to these alone.
    """
    if isinstance(loss, v.Foreign):
        return
    machine.differentiates = True
    flow = flow_of(loss) or v.Flow()
    if flow.detached:
        return
    used_in(machine, flow)
    models = [f.model for f in flow.forwards]
    optimizers = machine.optimizers()
    reaches, assumed = [], []
    for optimizer in optimizers:
        if optimizer.models and is_frozen(machine, optimizer.models):
            continue
        if models and optimizer.models:
            if overlaps(optimizer.models, models):
                reaches.append(optimizer.id)
        else:
            reaches.append(optimizer.id)
            if len(optimizers) > 1:
                assumed.append(optimizer.id)
    wanted = inputs.models if isinstance(inputs, v.Parameters) else ()
    if inputs is not None and not wanted:
        assumed = list(reaches)  # some of them
    reaches = [o.id for o in optimizers if o.id in reaches and (not wanted or overlaps(o.models, wanted))]
    held = {m for o in optimizers for m in o.models}
    if held and all(o.models for o in optimizers):
        reaches += [f"free:{m}" for m in dict.fromkeys(models) if not (inputs or overlaps([m], held))]
    synced = not machine.unsynced
    announced = machine.records[-1].event if machine.records else None
    own = isinstance(announced, ev.EngineCall) and announced.call in OWN_BACKWARDS
    _note_loops(machine)
    _note_batches(machine)
    machine.emit(
        ev.Backward(
            site=node.site,
            loss=ev.Loss(flow.parts, flow.reduction, settled(machine, flow.forwards)),
            reaches=tuple(reaches),
            micro=machine.begin_micro(),
            assumed=tuple(assumed),
            synced=synced,
            autocast=in_force(machine)[0],
        )
    )
    inside = open_hook(machine.records)
    astray = tuple(
        o
        for o in reaches
        if not own and (needs_own_backward(_engine(machine, o)) or (inside in WIPED and _engine(machine, o)))
    )
    if astray:
        # What becomes of such gradients is the engine's business: that backward is the mistake, nothing after it.
        machine.emit(ev.Escape(site=node.site, roles=astray, into="an engine"))
    for model, hook, of_gradient, picked in list(machine.hooks):
        if not models or overlaps([model], models):
            parameters = v.Parameters((model,), each=True, text=model)
            given: v.Value = v.Gradient(parameters) if of_gradient else parameters
            before, machine.picked = machine.picked, picked
            result = machine.call(hook, [given], {}, p.Opaque(node.site))
            _edited(machine, result, node, "hook")
            machine.picked = before


def _engine(machine: Machine, owner: str) -> str:
    """The engine that owns an optimizer."""
    return machine.roles[owner].engine if owner in machine.roles else ""


def _note_batches(machine: Machine) -> None:
    """A backward in a loop that was not expected to hold one: it is run again, with as many batches as it takes."""
    if machine.loop_nodes:
        loop = machine.loop_nodes[-1]
        if machine.synthetic and not machine.setting.loops and loop not in machine.layout.idle:
            machine.setting.loops = machine.setting.grown = True
        if not machine.is_over_batches(loop) and not machine.is_outer(loop):
            machine.setting.batch_loops.add(loop.site)
            machine.setting.outer_loops.update(around.site for around in machine.loop_nodes[:-1])
            machine.setting.grown = True


def _note_loops(machine: Machine) -> None:
    """A backward inside ``for _ in range(k)``: the loop declares a window where k is one, or is called like one."""
    for window in machine.loops:
        if window in machine.setting.windows or (window and machine.names_window(window)):
            machine.setting.add_window(window, "loop")
    innermost = machine.loops[-1] if machine.loops else ""
    # ``range(batch_size // micro)``; the windows of an epoch (``range(len(loader) // k)``) are no window.
    if " // " in innermost and not innermost.startswith("len("):
        machine.setting.add_window(innermost, "loop")


def _edited(machine: Machine, result: v.Value, node: p.Node, by: str) -> None:
    if isinstance(result, v.Gradient) and result.effect:
        edit(machine, result, node, by)


def edit(machine: Machine, gradient: v.Gradient, node: p.Node, by: str = "hand") -> None:
    """Gradients are replaced by what was computed from them."""
    owners, _ = owners_of(machine, gradient.parameters)
    if not owners:
        return
    if by == "hook" and gradient.at is not None:
        node = p.Opaque(gradient.at)
    match gradient.effect:
        case "clip" | "clamp":
            style = "norm" if gradient.effect == "clip" else "value"
            clip(machine, style, gradient.parameters, None, node, by, local=gradient.local)
        case "":
            return
        case effect:
            machine.emit(
                ev.Edit(
                    site=node.site,
                    effect=effect,
                    owners=owners,
                    factor=gradient.factor,
                    partial=machine.picked,
                )
            )
            if effect == "multiply" and gradient.factor.window:
                for spelling in machine.setting.windows:
                    machine.setting.declared.setdefault(spelling, set()).add("division")


def clip(
    machine: Machine,
    style: str,
    given: v.Value | None,
    threshold: v.Value | None,
    node: p.Node,
    by: str = "torch",
    strict: bool = False,
    local: bool = False,
) -> v.Value:
    """A clip of some parameters' gradients; its value is their norm.  `local`: by hand, each on its own norm."""
    parameters = (
        given if isinstance(given, v.Parameters) else parameters_of(machine, given) if given else None
    )
    owners, whole = owners_of(machine, parameters)
    empty = spent(given)
    if empty is None:
        consume(machine, given, node.site)
    elif not owners and parameters and machine.optimizers():
        owners = tuple(f"free:{m}" for m in parameters.models)
    bound = float(threshold.value) if isinstance(threshold, v.Number) else None
    if (bound is not None and (bound == float("inf") or bound <= 0)) or _is_infinite(threshold):
        return norms.taken_from(machine, parameters, node, empty)
    if owners and _is_scaled(threshold):
        # ``max_norm * scaler.get_scale()``: right for scaled gradients, which it changes by a plain number.
        machine.emit(ev.Edit(site=node.site, effect="multiply", owners=owners))
        return v.GradientNorm(parameters, frozenset())
    hidden = tuple(o for o in owners if partitions_gradients(_engine(machine, o)))
    if hidden:
        # The engine has taken the gradients away: what is clipped is nothing.
        machine.emit(ev.EngineCall(site=node.site, library="deepspeed", call="clip", roles=hidden))
        owners = tuple(o for o in owners if o not in hidden)
    if owners:
        each = bool(parameters and parameters.each)
        record = machine.emit(
            ev.Clip(
                site=node.site,
                style="norm" if style == "norm" else "value",
                owners=owners,
                by=by,  # type: ignore[arg-type]
                threshold=bound,
                whole=whole,
                per_parameter=style == "norm" and ((each and by == "torch") or (local and by == "hand")),
                error_if_nonfinite=strict,
                exhausted=empty.at if empty else None,
                assumed=bool(empty and empty.guessed),
            )
        )
        declare(machine, "clip", owners, record.index)
    return v.GradientNorm(parameters, frozenset())


def _is_scaled(threshold: v.Value | None) -> bool:
    """Whether the loss scale is in a threshold."""
    flow = flow_of(threshold) if threshold is not None else None
    units = flow.parts if flow is not None else (threshold.unit,) if isinstance(threshold, v.Number) else ()
    return any(exponent > 0 for unit in units for _, exponent in unit.scale)


def _is_infinite(threshold: v.Value | None) -> bool:
    """``math.inf``, ``float("inf")``: such a clip measures the norm and bounds nothing."""
    text = text_of(threshold).lower() if threshold is not None else ""
    return text.endswith((".inf", "('inf')", "('infinity')"))


def escape(machine: Machine, values: list[v.Value], into: str, node: p.Node) -> None:
    """Roles go where they cannot be followed."""
    roles = []
    for value in values:
        role = value.role if isinstance(value, v.Unknown) else value
        if role is None and isinstance(value, v.Unknown) and _may_be_optimizer(value.text):
            role = as_optimizer(machine, value)  # ``opt`` alone is as often the options
        if isinstance(role, v.Optimizer):
            roles.append(role.id)
        elif isinstance(role, v.Scaler):
            roles.append(f"S:{role.id}")
        elif isinstance(role, v.Seq):
            escape(machine, role.items, into, node)
        elif isinstance(role, v.DictValue):
            escape(machine, list(role.items.values()), into, node)
    if roles:
        machine.emit(ev.Escape(site=node.site, roles=tuple(roles), into=into))


def may_freeze(machine: Machine, values: list[v.Value], into: str, node: p.Node) -> None:
    """Models go to unseen code that may freeze their parameters or free them again: ``toggle_grad(d, False)``."""
    if not FREEZES.search(into):
        return
    given = [item for value in values for item in (value.items if isinstance(value, v.Seq) else [value])]
    models = [value.role if isinstance(value, v.Unknown) else value for value in given]
    found = [f"M:{model.id}" for model in models if isinstance(model, v.Model)]
    found += [f"M:{name}" for value in given if isinstance(value, v.Parameters) for name in value.models]
    if found:
        machine.emit(ev.Escape(site=node.site, roles=tuple(found), into=into))


def _may_be_optimizer(text: str) -> bool:
    """Whether unseen code may have been given an optimizer: its name among the options is none."""
    return "optim" in text.lower() and not names_option(text)


def declare(machine: Machine, how: str, owners: tuple[str, ...] = (), index: int = 0) -> None:
    """Take note of how the window is declared, and of moduli that turn out to be windows.

    A modulus that guards a step is a window only if gradients from outside the guard are stepped: a generator that is
    trained on every fifth batch has its backward under the same guard.
    """
    setting = machine.setting
    is_model = machine.program.is_model
    counts = [g for g in machine.guards if is_model(g.site.path) and (g.boundary or g in machine.moduli)]
    for guard in counts or machine.guards:  # an engine counts by itself, whatever its call depends on
        modulus = machine.moduli.get(guard)
        if modulus is None:
            if guard.boundary:
                for spelling in setting.windows:
                    setting.declared.setdefault(spelling, set()).add(how)
            continue
        if modulus in setting.windows:
            continue
        if how in ("clip", "schedule") and not machine.names_window(modulus):
            continue
        if (
            how in ("update", "sync")
            or _outside(machine, guard, modulus, owners, index)
            or machine.names_window(modulus)
        ):
            setting.add_window(modulus, how)


def _outside(machine: Machine, guard: Guard, modulus: str, owners: tuple[str, ...], index: int) -> bool:
    before = machine.records[index].before
    for owner in owners:
        for contribution in before.buffer(owner).contributions:
            guards = machine.records[contribution.record].guards
            if not any(machine.moduli.get(g) == modulus for g in guards):
                return True
    return False
