"""What a project calls its own wrappers: names that its settings give, for what the code alone does not tell."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["OwnNames"]

WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class OwnNames:
    """Names for torch's scaler and optimizers, Accelerate's `Accelerator`, and the length of the window.

    A name is given with its package (``company.amp.LossScaler``), with the last parts of it, or alone.
    """

    scalers: tuple[str, ...] = ()
    optimizers: tuple[str, ...] = ()
    accumulators: tuple[str, ...] = ()
    windows: tuple[str, ...] = ()

    def is_scaler(self, dotted: str) -> bool:
        """Whether a class or function is to be taken for ``torch.amp.GradScaler``."""
        return _is_among(dotted, self.scalers)

    def is_optimizer(self, dotted: str) -> bool:
        """Whether a class or function is to be taken for one of torch's optimizers."""
        return _is_among(dotted, self.optimizers)

    def is_accumulator(self, dotted: str) -> bool:
        """Whether a class is to be taken for ``accelerate.Accelerator``."""
        return _is_among(dotted, self.accumulators)

    def is_window(self, text: str) -> bool:
        """Whether an expression spells the window's length: ``args.virtual_batches``, ``config["virtual_batches"]``."""
        if not self.windows or " " in text:
            return False
        return (WORD.findall(text) or [""])[-1] in self.windows or _is_among(text, self.windows)


def _is_among(dotted: str, names: tuple[str, ...]) -> bool:
    return any(dotted == name or dotted.endswith(f".{name}") for name in names)
