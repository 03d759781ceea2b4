"""timm 1.0.31: the loss scalers and clips of timm/utils/{cuda,clip_grad,agc}.py, the factory of timm/optim.

Left out: the schedulers, whose `step` counts epochs and whose `step_update` counts updates, and the averages, which are
known by their names.
"""

import torch
from apex import amp

from ampcheck.models import kind_of


class NativeScaler:
    """``loss_scaler(loss, optimizer, clip_grad=..., parameters=..., need_update=...)``."""

    def __init__(self, device="cuda"):
        self._scaler = torch.amp.GradScaler(device)

    def __call__(
        self,
        loss,
        optimizer,
        clip_grad=None,
        clip_mode="norm",
        parameters=None,
        create_graph=False,
        need_update=True,
    ):
        self._scaler.scale(loss).backward()
        if need_update:
            if clip_grad is not None:
                self._scaler.unscale_(optimizer)
                dispatch_clip_grad(parameters, clip_grad, mode=clip_mode)
            self._scaler.step(optimizer)
            self._scaler.update()

    def state_dict(self):
        return self._scaler.state_dict()

    def load_state_dict(self, state_dict):
        self._scaler.load_state_dict(state_dict)


class ApexScaler:
    """The same with apex."""

    def __call__(
        self,
        loss,
        optimizer,
        clip_grad=None,
        clip_mode="norm",
        parameters=None,
        create_graph=False,
        need_update=True,
    ):
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        if need_update:
            if clip_grad is not None:
                dispatch_clip_grad(amp.master_params(optimizer), clip_grad, mode=clip_mode)
            optimizer.step()

    def state_dict(self):
        return amp.state_dict()

    def load_state_dict(self, state_dict):
        amp.load_state_dict(state_dict)


def dispatch_clip_grad(parameters, value, mode="norm", norm_type=2.0):
    if mode == "value":
        torch.nn.utils.clip_grad_value_(parameters, value)
    else:
        torch.nn.utils.clip_grad_norm_(parameters, value)


def adaptive_clip_grad(parameters, clip_factor=0.01, eps=1e-3, norm_type=2.0):
    # Each unit's gradient is bounded by a share of the unit's own norm.
    torch.nn.utils.clip_grad_norm_(parameters)


def create_optimizer_v2(model_or_params, opt="sgd", lr=None, **kwargs):
    if kind_of(model_or_params) == "model":
        return torch.optim.SGD(model_or_params.parameters(), lr)
    return torch.optim.SGD(model_or_params, lr)


def create_optimizer(args, model, filter_bias_and_bn=True):
    return torch.optim.SGD(model.parameters(), lr=0.1)
