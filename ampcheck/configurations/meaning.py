"""What the entries of each kind of configuration mean.

Read from deepspeed 0.19 (runtime/config.py), accelerate 1.15 (utils/dataclasses.py, commands/config) and
transformers 5.24 (training_args.py).  "auto" leaves the value to somebody else, so it says nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ampcheck.configurations.answers import Configuration
from ampcheck.events import Site

__all__ = ["accelerate", "accelerator", "arguments", "deepspeed", "is_accelerate", "is_deepspeed"]

DEEPSPEED_KEYS = frozenset(
    {
        "train_batch_size",
        "train_micro_batch_size_per_gpu",
        "zero_optimization",
        "gradient_clipping",
        "zero_allow_untested_optimizer",
    }
)


def is_deepspeed(content: Mapping[str, Any]) -> bool:
    """Whether a mapping is a DeepSpeed configuration, by its entries."""
    return bool(DEEPSPEED_KEYS & set(content))


def is_accelerate(content: Mapping[str, Any]) -> bool:
    """Whether a mapping is a configuration that ``accelerate config`` writes."""
    return "distributed_type" in content and ("mixed_precision" in content or "num_processes" in content)


def deepspeed(
    owner: str, path: str, site: Site | None, content: Mapping[str, Any], within: str = ""
) -> Configuration:
    """A DeepSpeed configuration."""
    zero = content.get("zero_optimization")
    return Configuration(
        kind="deepspeed",
        owner=owner,
        path=path,
        site=site,
        fp16=_enabled(content.get("fp16")),
        bf16=_enabled(content.get("bf16", content.get("bfloat16"))),
        gradient_accumulation_steps=_whole(content.get("gradient_accumulation_steps")),
        gradient_clipping=_number(content.get("gradient_clipping")),
        zero_stage=_whole(zero.get("stage")) if isinstance(zero, Mapping) else None,
        within=within,
    )


def accelerate(path: str, content: Mapping[str, Any]) -> Configuration:
    """A file of ``accelerate config``; what its DeepSpeed section says counts where that is on."""
    inner = content.get("deepspeed_config")
    engine: Mapping[str, Any] = inner if isinstance(inner, Mapping) else {}
    fp16, bf16 = _precision(content.get("mixed_precision"))
    steps = content.get("gradient_accumulation_steps", engine.get("gradient_accumulation_steps"))
    distributed = content.get("distributed_type")
    return Configuration(
        kind="accelerate",
        owner=os.path.basename(path),
        path=path,
        fp16=fp16,
        bf16=bf16,
        gradient_accumulation_steps=_whole(steps),
        gradient_clipping=_number(engine.get("gradient_clipping")),
        zero_stage=_whole(engine.get("zero_stage")),
        # YAML 1.1 reads a bare NO as false.
        distributed_type="NO" if distributed is False else str(distributed).upper() if distributed else None,
    )


def accelerator(path: str, site: Site, given: Mapping[str, Any]) -> Configuration:
    """``Accelerator(mixed_precision=..., gradient_accumulation_steps=...)``."""
    fp16, bf16 = _precision(given.get("mixed_precision"))
    return Configuration(
        kind="accelerator",
        owner="Accelerator",
        path=path,
        site=site,
        fp16=fp16,
        bf16=bf16,
        gradient_accumulation_steps=_whole(given.get("gradient_accumulation_steps")),
    )


def arguments(name: str, path: str, site: Site, given: Mapping[str, Any]) -> Configuration:
    """``TrainingArguments(fp16=..., gradient_accumulation_steps=...)``; a default is not what anybody has said."""
    return Configuration(
        kind="arguments",
        owner=name,
        path=path,
        site=site,
        fp16=_flag(given.get("fp16")),
        bf16=_flag(given.get("bf16")),
        gradient_accumulation_steps=_whole(given.get("gradient_accumulation_steps")),
        gradient_clipping=_number(given.get("max_grad_norm")),
    )


def _enabled(section: Any) -> bool | None:
    return _flag(section.get("enabled")) if isinstance(section, Mapping) else None


def _flag(value: Any) -> bool | None:
    """A truth, also one that is written as text; None for "auto"."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def _precision(name: Any) -> tuple[bool | None, bool | None]:
    """fp16 and bf16 by Accelerate's name of a precision; YAML 1.1 reads a bare `no` as false."""
    if name is False or name == "no":
        return False, False
    if name not in ("fp16", "bf16"):
        return None, None
    return name == "fp16", name == "bf16"


def _whole(value: Any) -> int | None:
    if isinstance(value, str) and value.isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
