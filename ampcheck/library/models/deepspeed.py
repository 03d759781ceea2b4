"""DeepSpeed 0.19.8: what an engine does to losses, gradients, optimizers and schedules.

Read from deepspeed/__init__.py and deepspeed/runtime/engine.py (backward, step, _take_model_step, no_sync,
set_gradient_accumulation_boundary).

`backward` divides by `gradient_accumulation_steps` and scales in fp16.  `step` must be called once a micro-batch: the
engine counts the calls, and on every K-th one it unscales, clips, steps, zeroes and advances the schedule.

Engine calls: ("deepspeed", "setup"), ("deepspeed", "backward"), ("deepspeed", "no_sync") and one for each `step`:
("deepspeed", "counted step") where the engine is known to count to more than one, ("deepspeed", "step") where that is
not known, none where each call is an update.  The roles' engines are "deepspeed-zero0" to "deepspeed-zero3", or
"deepspeed" where the stage is not known.

Left out: the pipeline engine (`train_batch`), offloading, sparse gradients, MoE, curriculum learning; the fp16
optimizer's own loss scale is torch's.
"""

import torch

from ampcheck.models import configured, engine_call, kind_of, own, shape_of, unknown, unknown_loader


def initialize(
    args=None,
    model=None,
    optimizer=None,
    model_parameters=None,
    training_data=None,
    lr_scheduler=None,
    distributed_port=29500,
    mpu=None,
    dist_init_required=None,
    collate_fn=None,
    config=None,
    mesh_param=None,
    config_params=None,
):
    if shape_of(config) == "none":
        config = config_params
    engine = DeepSpeedEngine(model, optimizer, model_parameters, lr_scheduler, config)
    return engine, engine.optimizer, unknown_loader("training_data"), engine.lr_scheduler


def stage_of(config):
    """The ZeRO stage as a name for the engine."""
    if shape_of(config) != "dict":
        stage = configured("zero_stage")
    elif "zero_optimization" in config:
        section = config["zero_optimization"]
        if shape_of(section) != "dict":
            return "deepspeed"
        stage = section["stage"] if "stage" in section else 0
    else:
        stage = 0
    if shape_of(stage) != "number":
        return "deepspeed"
    if stage == 0:
        return "deepspeed-zero0"
    if stage == 1:
        return "deepspeed-zero1"
    if stage == 2:
        return "deepspeed-zero2"
    return "deepspeed-zero3"


def uses_float16(config):
    """Whether the engine keeps a loss scale."""
    if shape_of(config) != "dict":
        return unknown("fp16 is on")
    if "fp16" not in config:
        return False
    section = config["fp16"]
    if shape_of(section) != "dict":
        return unknown("fp16 is on")
    return section["enabled"] if "enabled" in section else False


def accumulation(config):
    """How many micro-batches a window has; None where that is not in the code."""
    if shape_of(config) == "dict":
        if "gradient_accumulation_steps" in config:
            return config["gradient_accumulation_steps"]
        if "train_batch_size" in config and "train_micro_batch_size_per_gpu" in config:
            return None
        return 1
    steps = configured("gradient_accumulation_steps")
    return steps if shape_of(steps) == "number" else None


class DeepSpeedEngine:
    """``engine, optimizer, loader, scheduler = deepspeed.initialize(...)``."""

    __wraps__ = "module"

    def __init__(self, model, optimizer, model_parameters, lr_scheduler, config):
        self.module = model
        if kind_of(optimizer) != "optimizer":
            parameters = model.parameters() if shape_of(model_parameters) == "none" else model_parameters
            optimizer = torch.optim.SGD(parameters, lr=0.1)
        self.optimizer = optimizer
        self.lr_scheduler = lr_scheduler
        self.scaler = torch.amp.GradScaler("cuda") if uses_float16(config) else None
        self.steps = accumulation(config)
        self.managed = True
        if shape_of(config) == "dict" and "managed_gradient_accumulation" in config:
            self.managed = config["managed_gradient_accumulation"]
        self.boundary = None
        self.micro_steps = 0
        stage = stage_of(config)
        engine_call("deepspeed", "setup", model, optimizer)
        own(stage, model, optimizer)

    def __call__(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def scale(self, loss):
        engine_call("deepspeed", "scale")
        return self.scaler.scale(loss) if self.scaler is not None else loss

    def backward(self, loss, retain_graph=False, scale_wrt_gas=True, **kwargs):
        engine_call("deepspeed", "backward")
        if scale_wrt_gas:
            loss = loss / (
                unknown("what the engine divides by") if shape_of(self.steps) == "none" else self.steps
            )
        if self.scaler is not None:
            loss = self.scaler.scale(loss)
        loss.backward()
        return loss

    def is_gradient_accumulation_boundary(self):
        if self.boundary is not None:
            return self.boundary
        if shape_of(self.steps) == "none":
            return unknown("engine.is_gradient_accumulation_boundary()")
        return (self.micro_steps + 1) % self.steps == 0

    def set_gradient_accumulation_boundary(self, is_boundary):
        self.boundary = is_boundary

    def no_sync(self):
        engine_call("deepspeed", "no_sync", self.module, self.optimizer)
        return NoSync()

    def zero_grad(self):
        pass

    def step(self, lr_kwargs=None):
        if shape_of(self.steps) == "none":
            # How many micro-batches a window has is not known: each call may be an update.
            if self.boundary is None:
                engine_call("deepspeed", "step", self.module, self.optimizer)
            self.take_model_step()
        else:
            if self.boundary is None and self.managed:
                self.announce()
            if not self.managed or self.is_gradient_accumulation_boundary():
                self.take_model_step()
            self.micro_steps += 1

    def announce(self):
        if shape_of(self.steps) != "number" or self.steps > 1:
            engine_call("deepspeed", "counted step", self.module, self.optimizer)

    def take_model_step(self):
        if self.scaler is not None:
            before = self.scaler.get_scale()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()
            if before <= self.scaler.get_scale():
                self.advance()
        else:
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.advance()

    def advance(self):
        if kind_of(self.lr_scheduler) == "scheduler":
            self.lr_scheduler.step()

    def train_batch(self, data_iter=None):
        return unknown("engine.train_batch()")


class NoSync:
    """``with engine.no_sync()``."""

    def __enter__(self):
        return None

    def __exit__(self, *error):
        return None
