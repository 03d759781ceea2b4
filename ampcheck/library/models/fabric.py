"""Fabric (lightning 2.6.6): its wrappers, backward, clips and precision.

Read from lightning/fabric: fabric.py, wrappers.py, strategies/strategy.py, plugins/precision/amp.py.

`backward` scales and never divides, an optimizer's step is the scaler's step and update, `clip_gradients` unscales
first; torch's own clip sees gradients that are still scaled.  ``loss.backward()`` raises where the precision or the
strategy has a backward of its own.

Engine calls: ("fabric", "setup") with the models and optimizers, ("fabric", "backward").

Left out: strategies' own reductions and clips (nothing is said where DeepSpeed or FSDP is chosen by name), loaders'
devices, callbacks, checkpoints.
"""

import torch

from ampcheck.models import engine_call, own, shape_of

FLOAT16 = ("16-mixed", "16", 16)
OTHER_ENGINES = (
    "deepspeed",
    "deepspeed_stage_1",
    "deepspeed_stage_2",
    "deepspeed_stage_2_offload",
    "deepspeed_stage_3",
    "deepspeed_stage_3_offload",
    "fsdp",
    "model_parallel",
)


class FabricOptimizer:
    """A prepared optimizer: its step goes through the loss scaler, where there is one."""

    __wraps__ = "optimizer"

    def __init__(self, optimizer, fabric):
        self.optimizer = optimizer
        self.fabric = fabric
        self.param_groups = optimizer.param_groups

    def step(self, closure=None):
        scaler = self.fabric.scaler
        if scaler is not None:
            scaler.step(self.optimizer)
            scaler.update()
        elif closure is None:
            self.optimizer.step()
        else:
            self.optimizer.step(closure)

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none=set_to_none)


class Fabric:
    """``Fabric(...)``."""

    def __init__(
        self,
        accelerator="auto",
        strategy="auto",
        devices="auto",
        num_nodes=1,
        precision=None,
        plugins=None,
        callbacks=None,
        loggers=None,
    ):
        self.scaler = None
        self.strategy = strategy
        if shape_of(strategy) == "text" and strategy in OTHER_ENGINES:
            precision = None
        self.engine = "fabric"
        if precision in FLOAT16:
            self.engine = "fabric-mixed"
            self.scaler = torch.amp.GradScaler("cuda")
        elif precision == "bf16-mixed":
            self.engine = "fabric-mixed"

    def launch(self, function=None, *args, **kwargs):
        if shape_of(function) == "function":
            return function(self, *args, **kwargs)
        return None

    def setup(self, module, *optimizers, scheduler=None, move_to_device=True, **kwargs):
        engine_call("fabric", "setup", module, *optimizers)
        own(self.engine, module, *optimizers)
        if len(optimizers) == 0:
            return module
        wrapped = [FabricOptimizer(optimizer, self) for optimizer in optimizers]
        if shape_of(scheduler) != "none":
            return (module, *wrapped, scheduler)
        return (module, *wrapped)

    def setup_module(self, module, move_to_device=True, **kwargs):
        engine_call("fabric", "setup", module)
        own(self.engine, module)
        return module

    def setup_optimizers(self, *optimizers):
        engine_call("fabric", "setup", *optimizers)
        own(self.engine, *optimizers)
        wrapped = [FabricOptimizer(optimizer, self) for optimizer in optimizers]
        return wrapped[0] if len(wrapped) == 1 else tuple(wrapped)

    def setup_dataloaders(self, *loaders, **kwargs):
        return loaders[0] if len(loaders) == 1 else loaders

    def backward(self, tensor, *args, model=None, **kwargs):
        engine_call("fabric", "backward")
        if self.scaler is not None:
            tensor = self.scaler.scale(tensor)
        tensor.backward()

    def clip_gradients(
        self, module, optimizer, clip_val=None, max_norm=None, norm_type=2.0, error_if_nonfinite=True
    ):
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)
        parameters = optimizer.param_groups[0]["params"]
        norm = None
        if shape_of(clip_val) != "none":
            torch.nn.utils.clip_grad_value_(parameters, clip_val)
        else:
            norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
        return norm

    def autocast(self):
        return torch.autocast("cuda", dtype=torch.float16, enabled=self.scaler is not None)

    def no_backward_sync(self, module, enabled=True):
        return NoBackwardSync(module, enabled)

    def to_device(self, value):
        return value

    def run(self, *args, **kwargs):
        return None

    def __drive__(self):
        self.run()


class NoBackwardSync:
    """``with fabric.no_backward_sync(model, enabled=...)``: one device is unaffected."""

    def __init__(self, module, enabled):
        self.module = module
        self.enabled = enabled

    def __enter__(self):
        if self.enabled:
            self.module.no_sync().__enter__()

    def __exit__(self, *error):
        if self.enabled:
            self.module.no_sync().__exit__()
