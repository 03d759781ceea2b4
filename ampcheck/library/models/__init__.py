"""Library models: what known libraries do around a training step, as abridged source that ampcheck itself reads.

One file a library.  It is Python, but nothing ever imports or runs it: calls of the library are inlined into it like
calls of the project's own functions, and its events are reported at the user's call that led there.  Each file says
which version it was read from.  `ampcheck.models` in them is no module: its names are the intrinsics of
`ampcheck.running.intrinsics`.
"""

from __future__ import annotations

import os
from functools import lru_cache

__all__ = ["ENGINE_NAMES", "model_file", "model_of"]

HERE = os.path.dirname(os.path.abspath(__file__))

# Packages by the file that models them; a longer prefix goes first.
LIBRARIES: dict[str, str] = {
    "accelerate": "accelerate",
    "apex.amp": "apex",
    "deepspeed": "deepspeed",
    "horovod.torch": "horovod",
    "lightning.fabric": "fabric",
    "lightning_fabric": "fabric",
    "lightning": "lightning",
    "pytorch_lightning": "lightning",
    "timm": "timm",
    "torch_xla": "torch_xla",
    "transformers": "transformers",
}

# Engines that are known by what everybody calls them, where nothing shows how they were built.
ENGINE_NAMES: dict[str, str] = {
    "accelerator": "accelerate.Accelerator",
}


def model_file(path: str) -> str:
    """The file of a model's path: ``<accelerate>``."""
    return os.path.join(HERE, f"{path.strip('<>')}.py")


@lru_cache(maxsize=4096)
def model_of(dotted: str) -> tuple[str, str] | None:
    """The model's path and the name in it that a dotted name may stand for; None for libraries without a model.

    Libraries export their names at several places: the last part counts.
    """
    for prefix, stem in LIBRARIES.items():
        if dotted == prefix:
            return f"<{stem}>", ""
        if dotted.startswith(f"{prefix}."):
            return f"<{stem}>", dotted.rsplit(".", 1)[-1]
    return None
