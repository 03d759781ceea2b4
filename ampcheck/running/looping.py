"""Iteration in a small scope: how many items a loop gets, and what each of them is."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck import program as p
from ampcheck.running import values as v
from ampcheck.running.describing import flow_of, is_varying, text_of
from ampcheck.running.iterators import consume
from ampcheck.running.machine import Machine
from ampcheck.running.naming import names_optimizer

__all__ = ["bind_target", "count_of", "counts_batches", "is_over_data", "iterate"]

OUTER = 2


def counts_batches(value: v.Value) -> bool:
    """Whether a loop over a value iterates over data, so that its iterations tell micro-batches apart."""
    match value:
        case v.Seq() | v.DictValue() | v.Parameters() | v.Derivative():
            return False
        case v.Items(kind="items", items=items):
            return len(items) > 1
        case v.Items(kind="enumerate" | "zip" | "slice", inner=inner):
            return all(counts_batches(i) for i in inner)
        case _:
            return True


def is_over_data(value: v.Value) -> bool:
    """Whether an iterable ends with an epoch's data, as a loader does and a range does not."""
    match value:
        case v.Items(kind="enumerate" | "zip", inner=inner):
            return any(is_over_data(i) for i in inner)
        case v.Items(kind="range" | "window"):
            return False
        case v.Items(text=text):
            return not text.startswith("range")
        case _:
            return counts_batches(value)


def count_of(machine: Machine, value: v.Value, outer: bool) -> int:
    match value:
        case v.Items(kind="range", length=length) if length is not None:
            return min(length, OUTER) if outer and value.window not in machine.setting.windows else length
        case v.Items(kind="data", window=window) if window in machine.setting.windows:
            return machine.setting.windows[window]
        case v.Items(kind="data", text=text) if not outer and _is_counted(text):
            # How many iterations an unknown number is, nobody knows: a tail that it may not have proves nothing.
            return machine.setting.batches - (1 if machine.setting.windows else 0)
        case v.Items(kind="items", items=items):
            return len(items)
        case v.Items(kind="slice", inner=inner, length=int(length)):
            return min(count_of(machine, inner[0], outer), length)
        case v.Items(kind="enumerate", inner=inner):
            return count_of(machine, inner[0], outer)
        case v.Items(kind="zip", inner=inner) if inner:
            return min(count_of(machine, i, outer) for i in inner)
        case v.Seq(items=items):
            return len(items)
        case v.DictValue(items=items):
            return len(items)
        case v.Parameters() | v.Derivative():
            return 1
        case _:
            machine.loaders.add(text_of(value))
            return OUTER if outer else machine.setting.batches


def _is_counted(text: str) -> bool:
    """``range(steps)``, by a number that nobody knows; ``range(0, len(data), size)`` goes through data."""
    return text.startswith("range(") and "," not in text


def _element(machine: Machine, value: v.Value, index: int) -> v.Value:
    """The item at an index."""
    match value:
        case v.Items(stride=stride, stop=stop) if stride:
            return v.Strided(index, count_of(machine, value, False), stride, stop)
        case v.Items(kind="range" | "data", start=start, step=step) if value.text.startswith("range"):
            return v.Number(start + index * step, counter=True)
        case v.Items(kind="items", items=items) | v.Seq(items=items):
            return items[index]
        case v.Items(kind="enumerate", inner=inner, start=start):
            return v.Seq("tuple", [v.Number(start + index, counter=True), _element(machine, inner[0], index)])
        case v.Items(kind="slice", inner=inner):
            return _element(machine, inner[0], index)
        case v.Items(kind="zip", inner=inner):
            return v.Seq("tuple", [_element(machine, i, index) for i in inner])
        case v.DictValue(items=items):
            key = list(items)[index]
            return v.Const(key) if isinstance(key, str) else v.Number(key)
        case v.Parameters():
            return v.Parameters(value.models, value.partial, True, value.text)
        case v.Derivative():
            return value
        case _:
            return v.Unknown(f"an item of {text_of(value)}", True, flow_of(value))


def iterate(
    machine: Machine,
    value: v.Value,
    node: p.Node,
    outer: bool = False,
    single: bool = False,
    lazily: bool = False,
) -> Iterator[v.Value]:
    """The items of an iterable; `outer` for a loop around a data loop, `single` where one item stands for all.

    `lazily`: the loop is a generator's, which consumes nothing before somebody goes through it.
    """
    if isinstance(value, v.Unknown) and value.role is not None:
        value = value.role
    if isinstance(value, v.Method):
        value = v.Unknown(text_of(value))
    if isinstance(value, v.Unknown) and not value.varying and (single or names_optimizer(value.text)):
        # Optimizers in a container that cannot be seen: one stands for all of them.
        one = value.attributes.setdefault("[each]", v.Unknown(f"{value.text}[each]"))
        yield one
        return
    length = count_of(machine, value, outer)
    if single and not isinstance(value, (v.Seq, v.DictValue)) and not _is_items(value):
        length = min(length, 1)
    for index in range(length):
        yield _element(machine, value, index)
    if not lazily:
        consume(machine, value, node.site)


def _is_items(value: v.Value) -> bool:
    if isinstance(value, v.Items):
        if value.kind in ("enumerate", "zip", "slice"):
            return all(_is_items(i) for i in value.inner)
        return value.kind in ("items", "range")
    return isinstance(value, (v.Seq, v.DictValue))


def bind_target(machine: Machine, target: p.Expr, value: v.Value) -> None:
    """Bind a target to a value: names, tuples (a single unknown is spread over them)."""
    match target:
        case p.Name(id=name):
            if isinstance(value, v.Number) and value.counter and not value.label:
                value.label = name
            elif isinstance(value, v.Strided):
                value.text = name
            machine.bind_name(name, value)
        case p.Display(items=targets):
            for part, item in zip(targets, _spread(machine, value, targets), strict=True):
                bind_target(machine, part, item)
        case p.Starred(value=inner):
            bind_target(machine, inner, value)
        case p.Attribute() | p.Subscript():
            machine.assign(target, value)


def _spread(machine: Machine, value: v.Value, targets: tuple[p.Expr, ...]) -> list[v.Value]:
    if isinstance(value, v.Items) and value.kind == "items":
        value = v.Seq("tuple", value.items)
    if isinstance(value, v.Seq) and len(value.items) == len(targets):
        return value.items
    stars = [i for i, target in enumerate(targets) if isinstance(target, p.Starred)]
    if isinstance(value, v.Seq) and len(stars) == 1 and len(value.items) >= len(targets) - 1:
        first, last = stars[0], len(value.items) - (len(targets) - 1 - stars[0])
        rest: v.Value = v.Seq("list", value.items[first:last])
        return [*value.items[:first], rest, *value.items[last:]]
    if isinstance(value, v.Model):  # ``for name, layer in model.named_children()``
        return [v.Unknown("name"), *[value] * (len(targets) - 1)]
    if isinstance(value, v.Parameters):  # ``for name, parameter in model.named_parameters()``
        return [v.Unknown("name"), *[value] * (len(targets) - 1)]
    if isinstance(value, v.Derivative):  # ``(gradient,) = torch.autograd.grad(loss, x)``
        return [value] * len(targets)
    if isinstance(value, v.Foreign):
        return [v.Foreign(f"{value.text}[{i}]") for i in range(len(targets))]
    flow = flow_of(value)
    text = text_of(value)
    # What unseen code returned together, or a loader, is called what its variables are called.
    nameless = "(" in text or text.startswith("an item of ")
    names = [t.id if isinstance(t, p.Name) and nameless else f"{text}[{i}]" for i, t in enumerate(targets)]
    return [v.Unknown(name, is_varying(value), flow) for name in names]
