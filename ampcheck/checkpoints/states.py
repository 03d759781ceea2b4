"""Whose state an expression holds: ``{"model": net.state_dict(), "optimizer": self.opt.state_dict()}``."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ampcheck.running.naming import names_optimizer, names_scaler, names_scheduler
from ampcheck.syntax import called, last_name

__all__ = ["NOTHING", "States", "states_in", "states_under"]

STATE_METHODS = frozenset({"state_dict", "local_state_dict", "sharded_state_dict"})
OPTIMIZER_STATE = re.compile(r"optim\w*_state_dict$|^get_optimizer_state|optim_state")
MODEL_KEY = re.compile(
    r"model|(^|_)net(work)?(_|$)|weights?$|^params|^state_dict|generator|discriminator|encoder|decoder",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class States:
    """The optimizers whose state is in a container, by their bare names, and whether a model's is.

    `open`: more may be in it than can be seen (``**others``).
    """

    optimizers: frozenset[str] = frozenset()
    model: bool = False
    open: bool = False

    def __or__(self, other: States) -> States:
        return States(self.optimizers | other.optimizers, self.model or other.model, self.open or other.open)

    @property
    def resumable(self) -> bool:
        """Whether a training can be resumed from it: weights and an optimizer's state."""
        return self.model and bool(self.optimizers)


NOTHING = States()


def states_in(node: ast.expr, known: Mapping[str, States], key: str = "") -> States:
    """The states in an expression; `known` are those in local names, `key` what it is stored under."""
    match node:
        case ast.Name(id=name):
            return known.get(name, NOTHING)
        case ast.Dict(keys=keys, values=values):
            found = NOTHING
            for entry, value in zip(keys, values, strict=True):
                if entry is None:
                    inside = states_in(value, known)
                    found |= inside if inside != NOTHING else States(open=True)
                else:
                    found |= states_under(_literal(entry) or key, value, known)
            return found
        case ast.Call(keywords=keywords) if called(node) == "dict" or called(node)[:1].isupper():
            found = NOTHING
            for argument in node.args:
                inside = states_in(argument, known)
                found |= inside if inside != NOTHING or called(node) != "dict" else States(open=True)
            for keyword in keywords:
                if keyword.arg is not None:
                    found |= states_under(keyword.arg, keyword.value, known)
                else:
                    inside = states_in(keyword.value, known)
                    found |= inside if inside != NOTHING else States(open=True)
            return found
        case _:
            return _inside(node, known, key)


def states_under(key: str, value: ast.expr, known: Mapping[str, States]) -> States:
    """What a dict holds under a key: a model may also be stored as it is."""
    found = states_in(value, known, key)
    if found == NOTHING and MODEL_KEY.search(key) and not isinstance(value, ast.Constant):
        return States(model=True)
    return found


def _inside(node: ast.expr, known: Mapping[str, States], key: str) -> States:
    found = NOTHING
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            found |= _state_of(part, key)
        elif isinstance(part, ast.Name) and part.id in known and part is not node:
            found |= known[part.id]
    return found


def _state_of(call: ast.Call, key: str) -> States:
    name = called(call)
    if OPTIMIZER_STATE.search(name) and name not in STATE_METHODS:
        owners = [last_name(a) for a in call.args if names_optimizer(last_name(a))]
        return States(frozenset(owners))
    if name not in STATE_METHODS or not isinstance(call.func, ast.Attribute):
        return NOTHING
    owner = last_name(call.func.value)
    if names_optimizer(owner) or (names_optimizer(key.removesuffix("_state_dict")) and not _is_model(owner)):
        return States(frozenset({owner}))
    if names_scaler(owner) or names_scheduler(owner) or (key and not MODEL_KEY.search(key) and not owner):
        return NOTHING
    return States(model=True)


def _is_model(name: str) -> bool:
    return MODEL_KEY.search(name) is not None


def _literal(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
