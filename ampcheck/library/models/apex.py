"""apex.amp, as it was until its removal from apex (NVIDIA/apex, commit cb65b8ed^): apex/amp/{frontend,handle}.py.

``with amp.scale_loss(loss, optimizer) as scaled_loss`` scales on entering and unscales on leaving, and it keeps
gradients of earlier micro-batches, which are unscaled already, apart from those of this backward.  Skipping a step
after an overflow is done by replacing the optimizer's `step` for once.

Left out: opt levels O2 and O3 (their master parameters are the model's own here), `loss_id`, the deprecated
FP16_Optimizer, LARC, and apex's DistributedDataParallel.
"""

import torch

from ampcheck.models import shape_of, unscale_latest

SCALER = torch.amp.GradScaler("cuda")


def initialize(
    models,
    optimizers=None,
    enabled=True,
    opt_level="O1",
    cast_model_type=None,
    patch_torch_functions=None,
    keep_batchnorm_fp32=None,
    master_weights=None,
    loss_scale=None,
    cast_model_outputs=None,
    num_losses=1,
    verbosity=1,
    min_loss_scale=None,
    max_loss_scale=16777216.0,
):
    if shape_of(optimizers) == "none":
        return models
    return models, optimizers


class scale_loss:
    """The context manager; its value is the scaled loss."""

    def __init__(
        self, loss, optimizers, loss_id=0, model=None, delay_unscale=False, delay_overflow_check=False
    ):
        self.scaler = SCALER
        self.loss = loss
        self.optimizers = optimizers if shape_of(optimizers) == "sequence" else [optimizers]
        self.delay_unscale = delay_unscale

    def __enter__(self):
        return self.scaler.scale(self.loss)

    def __exit__(self, *error):
        if not self.delay_unscale:
            for optimizer in self.optimizers:
                unscale_latest(self.scaler, optimizer)


def master_params(optimizer):
    return optimizer.param_groups[0]["params"]


def state_dict():
    return {}


def load_state_dict(state):
    return None
