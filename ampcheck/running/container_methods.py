"""Methods of containers, contexts and numbers."""

from __future__ import annotations

from ampcheck import program as p
from ampcheck.running import values as v
from ampcheck.running.arguments import Arguments
from ampcheck.running.describing import flow_of, is_varying
from ampcheck.running.iterators import consume, kept
from ampcheck.running.machine import Machine

__all__ = ["on_context", "on_dict", "on_iterable", "on_number", "on_reading", "on_sequence"]


def on_context(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.Context)
    if name == "__enter__":
        machine.enter(it, node)
    elif name == "__exit__":
        machine.leave(it)
    return v.NONE


def on_sequence(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.Seq)
    match name:
        case "append" | "add" if given.args:
            machine.touch()
            item = given.args[0]
            if isinstance(item, v.Parameters) and item.each:
                item = v.Parameters(
                    item.models, item.partial, False, item.text
                )  # one stands for all that follow
            it.items.append(item)
            return v.NONE
        case "extend" if given.args:
            machine.touch()
            more = given.args[0]
            consume(machine, more, node.site)
            more = kept(more) if isinstance(more, v.Parameters) else more
            it.items.extend(more.items if isinstance(more, v.Seq) else [more])
            return v.NONE
        case "clear":
            machine.touch()
            it.items.clear()
            return v.NONE
        case "zero_grad" | "step":
            return None
        case _:
            return v.Unknown(f"items.{name}()", is_varying(it), flow_of(it))


def on_dict(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.DictValue)
    match name:
        case "values":
            return v.Seq("list", list(it.items.values()))
        case "keys":
            return v.Seq("list", [v.Const(k) if isinstance(k, str) else v.Number(k) for k in it.items])
        case "items":
            pairs: list[v.Value] = [v.Seq("tuple", [v.Const(k), item]) for k, item in it.items.items()]
            return v.Seq("list", pairs)
        case "get" if given.args and isinstance(given.args[0], (v.Const, v.Number)):
            default = given.get(1, "default") or v.NONE
            return it.items.get(given.args[0].value, default)
        case "update" if given.args and isinstance(given.args[0], v.DictValue):
            for key, value in given.args[0].items.items():
                machine.store(it.items, key, value)
            return v.NONE
        case _:
            return v.Unknown(f"dict.{name}()")


def on_iterable(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.Items)
    return it if name == "__iter__" else v.Unknown(f"{it.text}.{name}()")


def on_number(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    return it if name in ("item", "float") else None


def on_reading(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    return it
