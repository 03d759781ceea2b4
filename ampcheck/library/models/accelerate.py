"""Accelerate 1.15.0: what an `Accelerator` does to losses, optimizers and schedulers.

Read from ``src/accelerate/accelerator.py``, ``optimizer.py`` and ``scheduler.py``.
"""

import torch

from ampcheck.models import engine_call, kind_of, unknown


class Accelerator:
    def __init__(
        self,
        device_placement=True,
        split_batches=False,
        mixed_precision=None,
        gradient_accumulation_steps=1,
        cpu=False,
        dataloader_config=None,
        deepspeed_plugin=None,
        fsdp_plugin=None,
        step_scheduler_with_optimizer=True,
        gradient_accumulation_plugin=None,
    ):
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self.sync_gradients = True
        self.step = 0
        if mixed_precision is None:
            mixed_precision = unknown("mixed_precision")
        if mixed_precision == "fp16":
            self.scaler = torch.amp.GradScaler("cuda")
        else:
            self.scaler = None
        self._optimizers = []

    def prepare(self, *args):
        prepared = [self._prepare_one(one) for one in args]
        if len(prepared) == 1:
            return prepared[0]
        return tuple(prepared)

    def _prepare_one(self, one):
        kind = kind_of(one)
        if kind == "optimizer":
            optimizer = AcceleratedOptimizer(one, self)
            self._optimizers.append(optimizer)
            return optimizer
        if kind == "scheduler":
            return AcceleratedScheduler(one, self)
        if kind == "loader" or kind == "prepared":
            return one
        return torch.nn.parallel.DistributedDataParallel(one)

    def accumulate(self, *models):
        return _Accumulate(self, models)

    def backward(self, loss):
        loss = loss / self.gradient_accumulation_steps
        if self.scaler is not None:
            self.scaler.scale(loss).backward()
        else:
            loss.backward()

    def unscale_gradients(self):
        if self.scaler is not None:
            for optimizer in self._optimizers:
                self.scaler.unscale_(optimizer)

    def clip_grad_norm_(self, parameters, max_norm, norm_type=2):
        self.unscale_gradients()
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm)


class _Accumulate:
    def __init__(self, accelerator, models):
        self.accelerator = accelerator
        self.models = models

    def __enter__(self):
        engine_call("accelerate", "accumulate")
        accelerator = self.accelerator
        accelerator.step += 1
        accelerator.sync_gradients = accelerator.step % accelerator.gradient_accumulation_steps == 0
        for model in self.models:
            model.require_backward_grad_sync = accelerator.sync_gradients
        return self


class AcceleratedOptimizer:
    __wraps__ = "optimizer"

    def __init__(self, optimizer, accelerator):
        self.optimizer = optimizer
        self.accelerator = accelerator

    def zero_grad(self, set_to_none=None):
        if self.accelerator.sync_gradients:
            self.optimizer.zero_grad()

    def step(self, closure=None):
        if self.accelerator.sync_gradients:
            if self.accelerator.scaler is not None:
                self.accelerator.scaler.step(self.optimizer)
                self.accelerator.scaler.update()
            else:
                self.optimizer.step()


class AcceleratedScheduler:
    __wraps__ = "scheduler"

    def __init__(self, scheduler, accelerator):
        self.scheduler = scheduler
        self.accelerator = accelerator

    def step(self):
        if self.accelerator.sync_gradients:
            self.scheduler.step()
