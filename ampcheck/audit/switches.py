"""Every place in the code that turns mixed precision or a loss scale on or off, by line.

A reviewer's rule is *one source of truth*: this list shows how many there are.  It is read from the text, so that it
also shows what no run reaches.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ampcheck.audit.sizes import Values
from ampcheck.events import Site
from ampcheck.source import Source
from ampcheck.syntax import called, last_name, site_of

__all__ = ["Switch", "SwitchKind", "kind_of", "switches"]

SwitchKind = Literal["loss scale", "float16", "bfloat16", "mixed precision"]

SCALERS = re.compile(
    r"(Grad|Loss|Native|Apex|Dynamic)\w*Scaler\w*$|^scale_loss$|^FP16_(Unf|F)used_Optimizer$"
)
OF_SCALE = re.compile(
    r"loss_scale|init_scale|initial_scale|growth_interval|scale_window|grad_scaler|fp16_scale"
)
HALF = re.compile(r"(^|_)(fp16|half|float16)(_|$)")
BFLOAT = re.compile(r"(^|_)(bf16|bfloat16)(_|$)")
MIXED = re.compile(
    r"^(use_|enable_|no_)?amp$|^mixed_precision$|^precision$|^autocast$|^opt_level$|^amp_(dtype|level|opt_level|backend)$"
)


@dataclass(frozen=True, slots=True)
class Switch:
    """One place that has a say in the precision: what it is about, what it says, and who says it.

    `place` is a line of code, or of a configuration file.
    """

    place: Site
    kind: SwitchKind
    text: str
    owner: str


def kind_of(name: str) -> SwitchKind | None:
    """What a keyword, an option or a key of a configuration is about, by its name."""
    name = name.lower().replace("-", "_").lstrip("_")
    if OF_SCALE.search(name):
        return "loss scale"
    if BFLOAT.search(name):
        return "bfloat16"
    if HALF.search(name):
        return "float16"
    return "mixed precision" if MIXED.search(name) else None


def switches(source: Source) -> Iterator[Switch]:
    """The switches of one file, in order."""
    if source.tree is None:
        return
    values, lines = Values(source.tree), source.lines
    found: list[Switch] = []

    def add(node: ast.expr, kind: SwitchKind, text: str, owner: str) -> None:
        found.append(Switch(site_of(node, source.path, lines), kind, text, owner))

    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call):
            for kind, text in _of_call(node, values):
                add(node.func, kind, text, called(node))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            target = node.targets[0]
            about = kind_of(last_name(target))
            if about:
                add(target, about, f"{ast.unparse(target)} = {node.value.value!r}", "assignment")
    yield from sorted(dict.fromkeys(found), key=lambda switch: switch.place)


def _of_call(node: ast.Call, values: Values) -> Iterator[tuple[SwitchKind, str]]:
    name = called(node)
    given = {k.arg: k.value for k in node.keywords if k.arg}
    arguments = ", ".join(
        [
            *map(values.spelled, node.args[:2]),
            *(f"{key}={values.spelled(value)}" for key, value in given.items()),
        ]
    )
    shown = f"{ast.unparse(node.func)}({arguments if len(arguments) < 90 else arguments[:88] + ' …'})"
    if name == "add_argument":
        options = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        about = next((kind for option in options if (kind := kind_of(option))), None)
        if about:
            default = f", default {values.spelled(given['default'])}" if "default" in given else ""
            flag = ", off unless given" if "store_true" in ast.unparse(node) else default
            yield about, f"option {' '.join(options)}{flag}"
        return
    if SCALERS.search(name):
        yield "loss scale", shown
    elif name in ("autocast", "custom_fwd"):
        yield _dtype(arguments) or "mixed precision", shown
    elif name in ("half", "bfloat16") and not node.args and isinstance(node.func, ast.Attribute):
        yield "float16" if name == "half" else "bfloat16", shown
    elif name in ("to", "set_default_dtype", "MixedPrecision") and (half := _dtype(arguments)):
        yield half, shown
    else:
        for key, value in given.items():
            about = kind_of(key) or (_dtype(ast.unparse(value)) if "dtype" in key else None)
            if about:
                yield about, f"{name}(…, {key}={values.spelled(value)})"


def _dtype(text: str) -> SwitchKind | None:
    """The half precision that an expression names."""
    if re.search(r"\bbfloat16\b|\bbf16\b", text):
        return "bfloat16"
    return "float16" if re.search(r"\bfloat16\b|\bfp16\b|\btorch\.half\b", text) else None
