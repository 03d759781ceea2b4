"""Horovod (horovod/horovod, commit 2626dc87): horovod/torch/optimizer.py.

A distributed optimizer reduces in its `step`, unless `synchronize` has done so and the step runs inside
`skip_synchronize`: a clip between backward and a plain `step` bounds each rank's own gradients.  Gradients of several
backward passes (`backward_passes_per_step`) are summed, never divided.

Read from source: nothing of it is run in a test.  Left out: compression, Adasum, elastic state.
"""

import torch


def DistributedOptimizer(
    optimizer,
    named_parameters=None,
    compression=None,
    backward_passes_per_step=1,
    op=None,
    gradient_predivide_factor=1.0,
    **kwargs,
):
    return Distributed(optimizer)


class Distributed:
    """The wrapped optimizer."""

    __wraps__ = "optimizer"

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.param_groups = optimizer.param_groups
        self.synchronizes = True

    def synchronize(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                torch.distributed.all_reduce(parameter.grad)

    def skip_synchronize(self):
        return SkipSynchronize(self)

    def step(self, closure=None):
        if self.synchronizes:
            self.synchronize()
        return self.optimizer.step() if closure is None else self.optimizer.step(closure)

    def zero_grad(self, *args, **kwargs):
        self.optimizer.zero_grad()

    def set_backward_passes_per_step(self, passes):
        return None


class SkipSynchronize:
    """``with optimizer.skip_synchronize()``."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def __enter__(self):
        self.optimizer.synchronizes = False

    def __exit__(self, *error):
        self.optimizer.synchronizes = True


def broadcast_parameters(params, root_rank=0):
    return None


def broadcast_optimizer_state(optimizer, root_rank=0):
    return None
