"""Functions that the run computes itself: Python's own, and the few of torch that only pass things on."""

from __future__ import annotations

import re
from collections.abc import Callable

from ampcheck import events as ev
from ampcheck import program as p
from ampcheck.events import PLAIN
from ampcheck.running import emitting, roles
from ampcheck.running import values as v
from ampcheck.running.arguments import Arguments
from ampcheck.running.arithmetic import binary, coerce
from ampcheck.running.describing import flow_of, is_varying, text_of
from ampcheck.running.machine import Machine
from ampcheck.running.naming import names_loader, names_window

__all__ = ["BUILTINS", "of_gradient"]

# How many examples a batch holds: ``x.shape[0]``, ``x.size(0)``, ``len(x)``.
_SIZE = re.compile(r"\.shape\[0\]$|\.size\(0\)$|^len\(")

Builtin = Callable[[Machine, Arguments, p.Expr], "v.Value | None"]


def of_gradient(machine: Machine, name: str, gradient: v.Gradient, given: Arguments, node: p.Expr) -> v.Value:
    """A library function of gradients."""
    base = name.removesuffix("_")
    if base in ("nan_to_num", "where", "masked_fill"):
        result = v.Gradient(gradient.parameters, "hide")
    elif base.endswith("_like"):
        return v.Unknown(f"{base}(...)")
    elif base in ("clamp", "clip"):
        result = v.Gradient(gradient.parameters, "clamp")
    elif base in ("sign", "normalize", "round", "quantize"):
        result = v.Gradient(gradient.parameters, "nonlinear")
    elif base in ("isnan", "isinf", "isfinite"):
        return v.Atom(f"{base} of the gradients", True, base == "isfinite", finite=True)
    elif base in ("all_reduce", "reduce", "reduce_scatter"):
        owners, _ = roles.owners_of(machine, gradient.parameters)
        if owners:
            machine.emit(ev.Reduce(site=node.site, owners=owners))
        return gradient
    elif base in (
        "norm",
        "vector_norm",
        "stack",
        "get_total_norm",
        "sum",
        "mean",
        "max",
        "sqrt",
        "cat",
        "item",
    ):
        return v.GradientNorm(gradient.parameters)
    else:
        return v.GradientNorm(gradient.parameters)
    result.at = node.site
    if name.endswith("_") or isinstance(given.keywords.get("out"), v.Gradient):
        emitting.edit(machine, result, node)
    return result


def _first(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    return given.args[0] if given.args else None


def _range(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    raw = given.args
    bounds = [coerce(machine, a) for a in raw]
    text = text_of(v.Seq("", raw)) if len(raw) > 1 else text_of(raw[0]) if raw else ""
    if not bounds:
        return None
    stop = bounds[0] if len(bounds) == 1 else bounds[1]
    start = bounds[0] if len(bounds) > 1 else v.Number(0)
    step = bounds[2] if len(bounds) > 2 else v.Number(1)
    first = start.value if isinstance(start, v.Number) else getattr(start, "offset", 0)
    stride = step.value if isinstance(step, v.Number) else 1
    window = ""
    if isinstance(stop, v.Number) and stop.unit.window == 1 and len(bounds) == 1:
        window = stop.symbol
    length: int | None = None
    label = getattr(raw[-1], "label", "")
    if isinstance(raw[0], v.Number) and len(raw) == 1 and label and names_window(label) and raw[0].value > 1:
        machine.setting.label(str(raw[0].value), label)
    if isinstance(stop, v.Number) and isinstance(start, v.Number) and isinstance(step, v.Number) and stride:
        length = max(0, -(-(int(stop.value) - int(first)) // int(stride)))
        if length > lib_limit(machine):
            length = None
        elif len(bounds) == 1 and length > 1 and stop.unit == PLAIN and not stop.symbol.startswith("len("):
            window = str(length)
    if len(raw) == 3 and isinstance(raw[2], v.Unknown):
        window = raw[2].text  # ``range(0, batch_size, micro_batch_size)``
    elif isinstance(raw[-1], v.Unknown) and len(raw) == 1 and not window:
        window = raw[0].text if isinstance(raw[0], v.Unknown) else ""
    if len(raw) == 3 and length is None and window:
        # A batch cut into slices is a window of as many; a range over anything else need not be one.
        stops = text_of(raw[1])
        window = f"{stops} // {window}" if is_varying(raw[1]) and _SIZE.search(stops) else window
        return v.Items(
            "data", f"range({text})", start=int(first), window=window, stride=text_of(raw[2]), stop=stops
        )
    name = "range" if length is not None else "data"
    return v.Items(name, f"range({text})", start=int(first), step=int(stride), length=length, window=window)


def lib_limit(machine: Machine) -> int:
    """The longest range that is run as it stands."""
    return 2 * max(machine.setting.length, 3) + 2


def _enumerate(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    if not given.args:
        return None
    start = coerce(machine, given.get(1, "start") or v.Number(0))
    first = start.value if isinstance(start, v.Number) else getattr(start, "offset", 0)
    return v.Items("enumerate", text_of(given.args[0]), (given.args[0],), start=int(first))


def _zip(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    return v.Items("zip", "zip", tuple(given.args)) if given.args else None


def _same_items(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    """``tqdm(loader)``, ``iter(loader)``, ``cycle(loader)``, ``list(x)``, ``reversed(x)``: the items stay."""
    if not given.args:
        return given.keywords.get("iterable")
    return given.args[0]


def _islice(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    """``islice(loader, n)``: no more than n items, and just as many as make whole windows where n is not known."""
    if len(given.args) != 2:
        return given.args[0] if given.args else None
    source, stop = given.args[0], coerce(machine, given.args[1])
    batches = machine.setting.batches
    length = (
        int(stop.value) if isinstance(stop, v.Number) else batches - (1 if machine.setting.windows else 0)
    )
    window = (
        text_of(stop) if isinstance(stop, v.Unknown) else stop.symbol if isinstance(stop, v.Number) else ""
    )
    return v.Items("slice", text_of(source), (source,), length=max(length, 0), window=window)


def _list(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    if not given.args:
        return v.Seq("list", [])
    value = given.args[0]
    if isinstance(value, v.Seq):
        return v.Seq("list", list(value.items))
    return value


def _filter(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    """``filter(lambda p: p.requires_grad, parameters)`` keeps all that has gradients."""
    if len(given.args) < 2:
        return None
    return given.args[1]


def _next(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    if not given.args:
        return None
    source = given.args[0]
    if isinstance(source, v.Items) and source.kind == "items" and source.items:
        return source.items[0]
    return v.Unknown(f"next({text_of(source)})", True)


def _chain(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    return v.Items("zip", "chain", tuple(given.args))


def _number(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    if not given.args:
        return None
    value = coerce(machine, given.args[0])
    if isinstance(value, v.Number):
        return value
    if isinstance(value, v.Unknown) and value.flow is not None:
        return v.Unknown(value.text, True, v.Flow(detached=True))
    return value if isinstance(value, (v.Unknown, v.GradientNorm, v.Reading)) else None


def _extreme(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    """``max(1, accum)``: an unknown stays what it is; numbers are computed."""
    if any(isinstance(a, v.GradientNorm) for a in given.args):
        return next(a for a in given.args if isinstance(a, v.GradientNorm))
    values = [coerce(machine, a) for a in given.args]
    numbers = [q for q in values if isinstance(q, v.Number)]
    if numbers and len(numbers) == len(values):
        name = machine.text(node.func) if isinstance(node, p.Call) else ""
        if name.endswith(("max", "maximum")):
            return max(numbers, key=lambda q: q.value)
        return min(numbers, key=lambda q: q.value) if name.endswith(("min", "minimum")) else None
    unknown = [a for a in given.args if isinstance(a, v.Unknown)]
    return unknown[0] if len(unknown) == 1 and len(values) == 2 and unknown[0].flow is None else None


def _len(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    if not given.args:
        return None
    value = given.args[0]
    if isinstance(value, v.Seq):
        return v.Number(len(value.items))
    text = f"len({text_of(value)})"
    if text_of(value) in machine.loaders or names_loader(text_of(value)):
        return v.Number(machine.setting.batches, symbol=text)
    return v.Unknown(text, is_varying(value))


def _getattr(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    if len(given.args) >= 2 and isinstance(given.args[1], v.Const) and isinstance(given.args[1].value, str):
        return machine.evaluate_attribute(given.args[0], given.args[1].value)
    return None


def _partial(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    return v.Partial(given.args[0], tuple(given.args[1:]), given.keywords) if given.args else None


def _quotient(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    return binary(machine, "/", given.args[0], given.args[1], "") if len(given.args) > 1 else None


def _product(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    return binary(machine, "*", given.args[0], given.args[1], "") if len(given.args) > 1 else None


def _sum(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    if not given.args:
        return None
    value = given.args[0]
    if isinstance(value, v.Items) and value.kind == "items":
        value = v.Seq("list", value.items)
    flow = flow_of(value)
    if isinstance(value, v.Seq) and any(isinstance(i, v.GradientNorm) for i in value.items):
        return v.GradientNorm(None)
    return v.Unknown(f"sum({text_of(value)})", True, flow) if flow is not None else None


def _autograd_backward(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    """``torch.autograd.backward(losses)``."""
    loss = given.get(0, "tensors")
    if loss is None:
        return None
    emitting.backward(machine, loss, node, given.keywords.get("inputs"))
    return v.NONE


def _all_of(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    """``all(torch.isfinite(p.grad).all() for p in ...)``: one test stands for all of them."""
    source = given.args[0] if given.args else None
    items = source.items if isinstance(source, (v.Items, v.Seq)) else []
    tests = [i for i in items if isinstance(i, (v.Atom, v.Formula))]
    if tests:
        return tests[0]
    return v.Unknown(machine.text(node), True) if any(is_varying(i) for i in items) else None


def _spawn(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    """``torch.multiprocessing.spawn(worker, args=...)``: one of the workers runs here."""
    worker, rest = given.get(0, "fn"), given.get(1, "args")
    if not isinstance(worker, (v.Function, v.Bound)):
        return None
    return machine.call(
        worker, [v.Unknown("rank"), *(rest.items if isinstance(rest, v.Seq) else [])], {}, node
    )


BUILTINS: dict[str, Builtin] = {
    "range": _range,
    "trange": _range,
    "enumerate": _enumerate,
    "zip": _zip,
    "tqdm": _same_items,
    "tqdm.tqdm": _same_items,
    "TQDM": _same_items,
    "iter": _same_items,
    "cycle": _same_items,
    "reversed": _same_items,
    "compile": _same_items,
    "track": _same_items,
    "islice": _islice,
    "unwrap_model": _same_items,
    "DataParallel": _same_items,
    "convert_sync_batchnorm": _same_items,
    "list": _list,
    "tuple": _list,
    "filter": _filter,
    "next": _next,
    "chain": _chain,
    "itertools.chain": _chain,
    "itertools.chain.from_iterable": _same_items,
    "int": _number,
    "float": _number,
    "round": _number,
    "ceil": _number,
    "max": _extreme,
    "min": _extreme,
    "len": _len,
    "getattr": _getattr,
    "partial": _partial,
    "div": _quotient,
    "mul": _product,
    "sum": _sum,
    "torch.autograd.backward": _autograd_backward,
    "all": _all_of,
    "any": _all_of,
    "spawn": _spawn,
    "bool": _first,
    "cast": lambda machine, given, node: given.args[1] if len(given.args) > 1 else None,
}
