"""The names by which a training step's events are known in source."""

from __future__ import annotations

__all__ = ["EVENT_NAMES", "is_scaler_state", "plain"]

# Everyday words that are an event as a method only: a variable called ``step`` is none.
WORDS = frozenset({"step", "scale", "update", "grad", "half", "backward"})

# A statement that mentions none of these, and nothing that depends on one, cannot be part of a step.
EVENT_NAMES = frozenset(
    {
        "backward",
        "step",
        "zero_grad",
        "unscale_",
        "scale",
        "update",
        "get_scale",
        "scale_loss",
        "GradScaler",
        "NativeScaler",
        "clip_grad_norm_",
        "clip_grad_value_",
        "clip_grad_norm",
        "clip_grads_with_norm_",
        "dispatch_clip_grad",
        "adaptive_clip_grad",
        "get_total_norm",
        "grad",
        "no_sync",
        "autocast",
        "half",
        "requires_grad",
        "requires_grad_",
        "require_backward_grad_sync",
        "set_requires_gradient_sync",
        "register_hook",
        "register_post_accumulate_grad_hook",
        "DistributedDataParallel",
        "FullyShardedDataParallel",
        "fully_shard",
        "update_parameters",
        "scaler.state_dict",
        # What engines are told by attributes and methods of their own.
        "automatic_optimization",
        "set_gradient_accumulation_boundary",
    }
)


def is_scaler_state(owner: str, attribute: str) -> bool:
    """``scaler.state_dict``: the state of a loss scaler is an event, that of anything else is none."""
    return attribute == "state_dict" and "scaler" in owner.lower()


def plain(name: str) -> str:
    """How a bare name is told apart from the method of the same name: ``step`` the variable is ``step=``."""
    return f"{name}=" if name in WORDS else name
