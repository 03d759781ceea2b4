"""torch_xla (pytorch/xla, commit 41398bff): torch_xla/core/xla_model.py, torch_xla/amp.

`xm.optimizer_step` reduces the gradients over all cores and steps; a clip before it bounds each core's own gradients.
The scalers and sync-free optimizers of `torch_xla.amp` are torch's with the same interface.

Read from source: nothing of it can run here.  Left out: barriers, step closures, SPMD, FSDP.
"""

import torch


def reduce_gradients(optimizer, groups=None, pin_layout=True):
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            torch.distributed.all_reduce(parameter.grad)


def optimizer_step(optimizer, barrier=False, optimizer_args=None, groups=None, pin_layout=True):
    reduce_gradients(optimizer)
    return optimizer.step()


def _fetch_gradients(optimizer):
    gradients = []
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            gradients.append(parameter.grad)
    return gradients


def all_reduce(reduce_type, inputs, scale=1.0, groups=None, cctx=None, pin_layout=True):
    if isinstance(inputs, list):
        for one in inputs:
            torch.distributed.all_reduce(one)
    return inputs


class GradScaler(torch.amp.GradScaler):
    """The same interface."""


class SGD(torch.optim.SGD):
    """The same interface, with a step that skips on the device."""


class Adam(torch.optim.Adam):
    """The same interface, with a step that skips on the device."""


class AdamW(torch.optim.AdamW):
    """The same interface, with a step that skips on the device."""
