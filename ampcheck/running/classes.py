"""What a class of the project is, by its bases."""

from __future__ import annotations

from typing import Literal

from ampcheck.library import torch as lib
from ampcheck.running import values as v
from ampcheck.running.describing import text_of

__all__ = ["class_kind", "has_unseen_base"]

Kind = Literal["scaler", "optimizer", "scheduler", "module", "engine", ""]
# Classes whose methods another library calls, in an order of its own.
ENGINES = ("Trainer", "Callback", "Plugin", "Strategy")


def class_kind(cls: v.Class) -> Kind:
    """What the bases of a class, and theirs, make of it; "" for an ordinary class."""
    pending = [cls]
    while pending:
        for base in pending.pop().bases:
            if isinstance(base, v.Class):
                if "__drive__" in base.members:
                    return "engine"
                pending.append(base)
                continue
            name = base.name if isinstance(base, v.Lib) else text_of(base)
            last = name.rsplit(".", 1)[-1]
            if last in lib.SCALERS:
                return "scaler"
            if last == "Optimizer" or last in lib.OPTIMIZERS:
                return "optimizer"
            if last in ("LRScheduler", "_LRScheduler") or last in lib.SCHEDULERS:
                return "scheduler"
            if last in ("Module", "PreTrainedModel", "Sequential"):
                return "module"
            if name.startswith("."):
                continue  # the project's own, however it is called
            if "Lightning" in last or last.endswith(ENGINES):
                return "engine"
    return ""


def has_unseen_base(cls: v.Class) -> bool:
    """Whether a class inherits methods that are not in this file."""
    for base in cls.bases:
        if isinstance(base, v.Class):
            if has_unseen_base(base):
                return True
        elif text_of(base).rsplit(".", 1)[-1] not in ("object", "ABC", "Module", "Generic", "Protocol"):
            return True
    return False
