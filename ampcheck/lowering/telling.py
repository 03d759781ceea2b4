"""What a top-level definition tells of itself, by its names alone: whether it can be part of a training step."""

from __future__ import annotations

import ast

from ampcheck.lowering.names import EVENT_NAMES
from ampcheck.lowering.piece import Piece

__all__ = ["TELLING", "bases_of", "contributes", "is_mute", "own_attributes", "tells"]

# What makes a definition part of a step; the other event names are everyday words.
TELLING = EVENT_NAMES - set(
    "scale half grad requires_grad requires_grad_ autocast update step state_dict".split()
) | {"prepare"}

# What a step can depend on without being one: losses and how they are reduced, parameters, tests of values.
CONTRIBUTING = frozenset(
    "mean sum reduction parameters named_parameters requires_grad param_groups isfinite isnan isinf float16 bfloat16 "
    "half cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy "
    "binary_cross_entropy_with_logits ctc_loss clip_grad grad autocast module".split()
)


def tells(piece: Piece) -> bool:
    """Whether a definition itself holds an event; what a network's layers do is none."""
    return bool(piece.used & TELLING) or (piece.steps and not _is_network(piece))


def is_mute(piece: Piece) -> bool:
    """Whether a definition is a network without any event: nothing that it refers to matters either."""
    return _is_network(piece) and not piece.used & TELLING


def contributes(piece: Piece) -> bool:
    """Whether a step can depend on a definition without events: a boundary's test, a loss, a constant."""
    if is_mute(piece):
        return False
    if piece.is_class:
        return not any(isinstance(node, ast.FunctionDef) for node in ast.walk(piece.statement))
    if not piece.is_definition:
        return True
    nodes = list(ast.walk(piece.statement))
    gives = any(isinstance(node, ast.Return) and node.value is not None for node in nodes)
    return gives and (bool(piece.used & CONTRIBUTING) or any(isinstance(node, ast.Mod) for node in nodes))


def _is_network(piece: Piece) -> bool:
    """Whether a class is a model by its bases: its layers tell nothing of the step."""
    names = [base.rsplit(".", 1)[-1] for base in bases_of(piece)]
    return any(n.endswith(("Module", "Model", "Mixin", "Network", "Layer")) for n in names) and not any(
        n.startswith("Lightning") or n.endswith("DataModule") for n in names
    )


def bases_of(piece: Piece) -> list[str]:
    """A class's bases as dotted names."""
    bases = piece.statement.bases if isinstance(piece.statement, ast.ClassDef) else []
    plain = [base.value if isinstance(base, ast.Subscript) else base for base in bases]
    return [ast.unparse(base) for base in plain if isinstance(base, (ast.Name, ast.Attribute))]


def own_attributes(piece: Piece) -> set[str]:
    """The attributes of ``self`` that a class mentions, and the names bound in its body."""
    found: set[str] = set()
    for node in ast.walk(piece.statement):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            found.add(node.attr)
    for statement in getattr(piece.statement, "body", []):
        if isinstance(statement, ast.Assign):
            found |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            found.add(statement.target.id)
    return found
