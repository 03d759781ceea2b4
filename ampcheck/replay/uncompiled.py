"""torch without its compiler, until somebody really needs it.

The first optimizer that is built imports ``torch._dynamo``, seconds of it, only to ask that some functions not be
compiled.  Here nothing is, so that a stand-in answers that one question; whatever else is asked of it (by
DistributedDataParallel) imports the real module.  Only the replay's own process does this.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

__all__ = ["stand_in"]

NAME = "torch._dynamo"


class _StandIn(ModuleType):
    """Says that a function is not compiled; for all else it gives way to the real module."""

    def disable(self, function: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
        return function

    def __getattr__(self, name: str) -> Any:
        return getattr(_real(), name)


def stand_in() -> None:
    """Put the stand-in in place, unless the real module is there already."""
    import torch

    if NAME not in sys.modules:
        sys.modules[NAME] = torch._dynamo = _StandIn(NAME)


def _real() -> ModuleType:
    if isinstance(sys.modules.get(NAME), _StandIn):
        del sys.modules[NAME]
    return importlib.import_module(NAME)
