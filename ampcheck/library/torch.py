"""torch 2.13: which names build, clip, wrap and schedule.  Names are compared by their last parts."""

from __future__ import annotations

from typing import Literal

__all__ = [
    "AUTOCASTS",
    "CLIPS",
    "DEPRECATED",
    "DEPRECATED_SINCE",
    "ENGINES",
    "FSDP1",
    "FSDP2",
    "LOSSES",
    "OPTIMIZERS",
    "REDUCING_OPTIMIZERS",
    "REDUCTIONS",
    "SCALERS",
    "SCALER_FACTORIES",
    "SCHEDULERS",
    "SCHEDULER_PACKAGES",
    "WRAPPERS",
    "autocast_dtype",
    "deprecated",
    "is_torch",
]

OPTIMIZERS = frozenset(
    [
        "SGD",
        "Adam",
        "AdamW",
        "Adamax",
        "NAdam",
        "RAdam",
        "Adagrad",
        "Adadelta",
        "RMSprop",
        "Rprop",
        "ASGD",
        "SparseAdam",
        "Adafactor",
        "Muon",
        "AdamW8bit",
        "Adam8bit",
        "PagedAdamW8bit",
        "PagedAdamW",
        "FusedAdam",
        "FusedLAMB",
        "FusedSGD",
        "LAMB",
        "Lamb",
        "Lion",
        "Prodigy",
        "Ranger",
        "RangerLars",
        "DeepSpeedCPUAdam",
        "AdaBelief",
        "AdaBound",
        "SophiaG",
        "ScaledAdam",
        "RAdamScheduleFree",
        "AdamWScheduleFree",
        "SGDScheduleFree",
    ]
)

SCALERS = frozenset({"GradScaler", "ShardedGradScaler"})

# Functions of other libraries that return torch's own scaler.
SCALER_FACTORIES = frozenset(
    {"accelerate.utils.get_grad_scaler", "accelerate.utils.modeling.get_grad_scaler"}
)

# Schedules counted in updates, epochs or metrics.  The classes of `torch.optim.lr_scheduler` count whatever their
# caller counts, except those whose very purpose is per-update.
SCHEDULERS: dict[str, Literal["updates", "epochs", "metric", "unknown"]] = {
    "OneCycleLR": "updates",
    "CyclicLR": "updates",
    "ReduceLROnPlateau": "metric",
    "LambdaLR": "unknown",
    "MultiplicativeLR": "unknown",
    "StepLR": "unknown",
    "MultiStepLR": "unknown",
    "ConstantLR": "unknown",
    "LinearLR": "unknown",
    "ExponentialLR": "unknown",
    "CosineAnnealingLR": "unknown",
    "CosineAnnealingWarmRestarts": "unknown",
    "PolynomialLR": "unknown",
    "SequentialLR": "unknown",
    "ChainedScheduler": "unknown",
    "WarmupCosineSchedule": "updates",
    "WarmupLinearSchedule": "updates",
    "get_scheduler": "updates",
    "get_linear_schedule_with_warmup": "updates",
    "get_cosine_schedule_with_warmup": "updates",
    "get_constant_schedule_with_warmup": "updates",
    "get_polynomial_decay_schedule_with_warmup": "updates",
    "get_constant_schedule": "updates",
}

# Other packages whose schedulers are torch's, with a function of their own for the rate.
SCHEDULER_PACKAGES = ("transformers.", "diffusers.", "pytorch_transformers.")

WRAPPERS: dict[str, str] = {
    "DistributedDataParallel": "ddp",
    "FullyShardedDataParallel": "fsdp",
    "FSDP": "fsdp",
    "fully_shard": "fsdp",
    "DataParallel": "",
}

# Which of them are torch's own FSDP1 (`torch.distributed.fsdp.FullyShardedDataParallel`) and FSDP2 (`fully_shard`,
# which works in place); `torch.distributed._composable.fully_shard` is neither.
FSDP1 = ("torch.distributed.fsdp", "torch.distributed._fsdp")
FSDP2 = ("torch.distributed.fsdp", "torch.distributed._composable.fsdp")

CLIPS: dict[str, Literal["norm", "value"]] = {
    "clip_grad_norm_": "norm",
    "clip_grad_norm": "norm",
    "clip_grads_with_norm_": "norm",
    "clip_grad_value_": "value",
    # timm.utils: the mode decides ("norm" unless told otherwise; "agc" bounds by the norm of the weights)
    "dispatch_clip_grad": "norm",
    "adaptive_clip_grad": "norm",
}

AUTOCASTS = frozenset({"autocast"})

LOSSES = frozenset(
    [
        "cross_entropy",
        "nll_loss",
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "kl_div",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "cosine_embedding_loss",
        "triplet_margin_loss",
        "ctc_loss",
        "CrossEntropyLoss",
        "NLLLoss",
        "MSELoss",
        "L1Loss",
        "SmoothL1Loss",
        "HuberLoss",
        "KLDivLoss",
        "BCELoss",
        "BCEWithLogitsLoss",
        "CTCLoss",
        "TripletMarginLoss",
        "CosineEmbeddingLoss",
    ]
)

# Objects whose engines own the training step; their models are separate files of this package, later.
ENGINES = (
    "lightning",
    "pytorch_lightning",
    "deepspeed",
    "apex.amp",
    "transformers.Trainer",
    "transformers.Seq2SeqTrainer",
    "catalyst",
    "ignite",
    "paddle",
    "tensorflow",
    "oneflow",
    "mindspore",
    "jax",
    "colossalai",
    "opacus",
)

# Optimizers that reduce gradients over ranks in `synchronize`, or in `step` where nobody has called that
# (horovod/torch/optimizer.py, 0.28).
REDUCING_OPTIMIZERS = frozenset({"horovod.torch.DistributedOptimizer", "byteps.torch.DistributedOptimizer"})

# Functions that reduce the gradients of the optimizer they are given (torch_xla/core/xla_model.py, 2.5).
REDUCTIONS = frozenset({"torch_xla.core.xla_model.reduce_gradients"})

DEPRECATED: dict[str, str] = {
    "torch.cuda.amp.GradScaler": 'torch.amp.GradScaler("cuda", ...)',
    "torch.cuda.amp.autocast": 'torch.amp.autocast("cuda", ...)',
    "torch.cuda.amp.custom_fwd": 'torch.amp.custom_fwd(..., device_type="cuda")',
    "torch.cuda.amp.custom_bwd": 'torch.amp.custom_bwd(..., device_type="cuda")',
    "torch.cuda.amp.grad_scaler.GradScaler": 'torch.amp.GradScaler("cuda", ...)',
    "torch.cuda.amp.autocast_mode.autocast": 'torch.amp.autocast("cuda", ...)',
    "torch.cpu.amp.GradScaler": 'torch.amp.GradScaler("cpu", ...)',
    "torch.cpu.amp.autocast": 'torch.amp.autocast("cpu", ...)',
}


def autocast_dtype(device: str, dtype: str | None) -> str:
    """What autocast casts to: what it is told, else the device's default; "" when that is not known."""
    if dtype is None:
        return {"cuda": "float16", "cpu": "bfloat16"}.get(device, "")
    if not dtype.startswith("torch."):
        return ""
    last = dtype.rsplit(".", 1)[-1]
    return {"half": "float16"}.get(last, last)


DEPRECATED_SINCE = (2, 4)
"""The release in which they are: https://github.com/pytorch/pytorch/pull/126527"""


def deprecated(name: str) -> str | None:
    """What to write instead of a deprecated name (see `DEPRECATED_SINCE`), None for any other."""
    return DEPRECATED.get(name)


def is_torch(name: str) -> bool:
    """Whether a dotted name belongs to torch itself or a vendor's device package with the same interface."""
    return name.split(".")[0] in {
        "torch",
        "torch_npu",
        "torch_mlu",
        "torch_musa",
        "intel_extension_for_pytorch",
    }
