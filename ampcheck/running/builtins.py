"""Functions that the run computes itself: Python's own, and the few of torch that only pass things on."""

from __future__ import annotations

import re
from collections.abc import Callable

from ampcheck import events as ev
from ampcheck import program as p
from ampcheck.events import PLAIN
from ampcheck.library.torch import WRAPPERS
from ampcheck.running import derivatives, emitting, iterators, norms, roles
from ampcheck.running import values as v
from ampcheck.running.arguments import Arguments
from ampcheck.running.arithmetic import binary, coerce
from ampcheck.running.describing import asks_for_finiteness, flow_of, is_varying, text_of
from ampcheck.running.machine import Machine
from ampcheck.running.naming import names_loader

__all__ = ["BUILTINS", "of_gradient"]

# How many examples a batch holds: ``x.shape[0]``, ``x.size(0)``, ``len(x)``.
_SIZE = re.compile(r"\.shape\[0\]$|\.size\(0\)$|^len\(")

Builtin = Callable[[Machine, Arguments, p.Expr], "v.Value | None"]


def of_gradient(machine: Machine, name: str, gradient: v.Gradient, given: Arguments, node: p.Expr) -> v.Value:
    """A library function of gradients."""
    base = name.removesuffix("_")
    if base in ("nan_to_num", "where", "masked_fill"):
        # A mask of another kind (frozen rows) is a mask, and hides nothing.
        hides = base == "nan_to_num" or any(map(asks_for_finiteness, given.all))
        result = v.Gradient(gradient.parameters, "hide" if hides else "multiply")
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
    elif norms.is_reduction(base):
        return norms.taken(machine, gradient, node)
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
    if (
        isinstance(raw[0], v.Number)
        and len(raw) == 1
        and label
        and machine.names_window(label)
        and raw[0].value > 1
    ):
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
    """``islice(loader, n)``: no more than n items, and just as many as make whole windows where n is not known.

    What is left of an iterator over parameters afterwards is not known.
    """
    if given.args and isinstance(given.args[0], v.Parameters):
        return iterators.kept(given.args[0])
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
    iterators.consume(machine, value, node.site)
    return iterators.kept(value) if isinstance(value, v.Parameters) else value


def _collected(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    """``set(model.parameters())``; of anything else it is opaque."""
    return _list(machine, given, node) if given.args and isinstance(given.args[0], v.Parameters) else None


def _filter(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    """``filter(lambda p: p.requires_grad, parameters)`` keeps all that has gradients."""
    if len(given.args) < 2:
        return None
    return _lazily(machine, given.args[1], given.args[1])


def _lazily(machine: Machine, value: v.Value, source: v.Value) -> v.Value:
    """An iterator over a source, where it goes over parameters."""
    return iterators.iterator_over(machine, value, [source]) if isinstance(value, v.Parameters) else value


def _map(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    """``map(lambda q: q[1], model.named_parameters())``; over anything else it is opaque."""
    source = given.args[1] if len(given.args) == 2 else None
    if not isinstance(source, v.Parameters):
        return None
    each = v.Parameters(source.models, source.partial, True, source.text)
    result = machine.call(given.args[0], [each], {}, node)
    if isinstance(result, v.Parameters):
        return _lazily(machine, v.Parameters(result.models, result.partial, False, result.text), source)
    iterators.consume(machine, source, node.site)  # numbers of elements and the like: summed up at once
    return v.Items("items", "a map", items=[result])


def _next(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    if not given.args:
        return None
    source = given.args[0]
    if isinstance(source, v.Items) and source.kind == "items" and source.items:
        return source.items[0]
    return v.Unknown(f"next({text_of(source)})", True)


def _chain(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    links = [a for a in given.args if not _is_empty(a)]
    parameters = roles.parameters_of(machine, v.Seq("list", links)) if links else None
    if parameters is not None and parameters.models:
        return iterators.iterator_over(machine, parameters, links)
    return v.Items("zip", "chain", tuple(links))


def _is_empty(value: v.Value) -> bool:
    """An empty list, or a chain of them: what a chain begins with that parts are added to."""
    match value:
        case v.Seq(items=[]):
            return True
        case v.Items(kind="zip", text="chain", inner=()):
            return True
        case _:
            return False


def _chain_of(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    """``chain.from_iterable(groups)``."""
    value = given.args[0] if given.args else None
    parameters = roles.parameters_of(machine, value) if isinstance(value, v.Seq) else None
    if value is None or parameters is None or not parameters.models:
        return value
    return iterators.iterator_over(machine, parameters, [value])


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


def _isinstance(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    """Whether a model is wrapped, where it was seen to be."""
    model = given.args[0] if given.args else None
    model = model.role if isinstance(model, v.Unknown) else model
    if not isinstance(model, v.Model) or not model.wrapper or len(given.args) < 2:
        return None
    asked = given.args[1]
    classes = asked.items if isinstance(asked, v.Seq) else [asked]
    wrappers = [WRAPPERS.get(c.name.rsplit(".", 1)[-1]) for c in classes if isinstance(c, v.Lib)]
    # "fsdp1?" and the like are FSDP all the same; `fully_shard` works in place and has no class to ask for.
    kind = "fsdp" if model.wrapper.startswith("fsdp1") else model.wrapper
    return v.Truth(True) if kind in wrappers else None


def _hasattr(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    """``hasattr(model, "no_sync")``: what DDP and FSDP1 have, and a model that is not wrapped has not."""
    model = given.args[0] if given.args else None
    model = model.role if isinstance(model, v.Unknown) else model
    if not isinstance(model, v.Model) or not model.wrapper or len(given.args) < 2:
        return None
    asked = given.args[1].value if isinstance(given.args[1], v.Const) else ""
    return v.TRUE if asked == "no_sync" and model.wrapper.startswith(("ddp", "fsdp1")) else None


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
    derived = derivatives.passed_on(machine, "sum", [value])
    if derived is not None:
        return derived
    flow = flow_of(value)
    if isinstance(value, v.Seq) and any(isinstance(i, v.GradientNorm) for i in value.items):
        return norms.passed_on(machine, "sum", value.items, node)
    return v.Unknown(f"sum({text_of(value)})", True, flow) if flow is not None else None


def _foreach(op: str) -> Builtin:
    """``torch._foreach_mul_(grads, x)``: what is done to each of the gradients in a list."""

    def each(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
        grads, factor = given.get(0, "tensors"), given.get(1, "scalar")
        items = grads.items if isinstance(grads, (v.Seq, v.Items)) else []
        for gradient in items:
            result = binary(machine, op, gradient, factor, "") if factor is not None else gradient
            if isinstance(gradient, v.Gradient) and isinstance(result, v.Gradient):
                emitting.edit(machine, result, node)
        return v.NONE if any(isinstance(i, v.Gradient) for i in items) else None

    return each


def _autograd_backward(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    """``torch.autograd.backward(losses)``."""
    loss = given.get(0, "tensors")
    if loss is None:
        return None
    emitting.backward(machine, loss, node, given.keywords.get("inputs"))
    return v.NONE


def _autograd_grad(machine: Machine, given: Arguments, node: p.Expr) -> v.Value | None:
    """``torch.autograd.grad(outputs, inputs, grad_outputs)``."""
    return derivatives.differentiated(machine, given.get(0, "outputs"), given.get(2, "grad_outputs"), node)


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
    "set": _collected,
    "sorted": _collected,
    "filter": _filter,
    "map": _map,
    "next": _next,
    "chain": _chain,
    "itertools.chain": _chain,
    "itertools.chain.from_iterable": _chain_of,
    "int": _number,
    "float": _number,
    "round": _number,
    "ceil": _number,
    "max": _extreme,
    "min": _extreme,
    "len": _len,
    "getattr": _getattr,
    "hasattr": _hasattr,
    "isinstance": _isinstance,
    "partial": _partial,
    "div": _quotient,
    "mul": _product,
    "sum": _sum,
    "_foreach_mul_": _foreach("*"),
    "_foreach_div_": _foreach("/"),
    "_foreach_add_": _foreach("+"),
    "torch.autograd.backward": _autograd_backward,
    "torch.autograd.grad": _autograd_grad,
    "all": _all_of,
    "any": _all_of,
    "spawn": _spawn,
    "bool": _first,
    "cast": lambda machine, given, node: given.args[1] if len(given.args) > 1 else None,
}
