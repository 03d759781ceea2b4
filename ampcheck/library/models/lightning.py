"""Lightning 2.6.6: what its loops do around a LightningModule, a Callback and an optimizer.

Read from lightning/pytorch: loops/optimization/{automatic,manual}.py, loops/training_epoch_loop.py,
plugins/precision/{precision,amp}.py, core/{module,optimizer}.py, trainer/configuration_validator.py.

Automatic optimisation, for each micro-batch: training_step, then (on the first of a window) on_before_zero_grad and
optimizer_zero_grad, then on_before_backward, backward and on_after_backward with the loss scaled and divided by
`accumulate_grad_batches`.  The window's last micro-batch, or the epoch's, does this inside optimizer_step: the
optimizer runs it as a closure, unscales, calls on_before_optimizer_step and configure_gradient_clipping, steps and
updates.
Manual optimisation never divides, and `clip_gradients` called before `step` clips gradients that are still scaled.

Engine calls: ("lightning", "hook NAME") and ("lightning", "end NAME") around a hook of the user's in which Lightning
itself does nothing to gradients; ("lightning", "backward").  The engines are "lightning" under automatic optimisation
and "lightning-manual-fp16" under manual optimisation with a loss scale.

Left out: strategies (DDP's reduction is its own, DeepSpeed's and FSDP's clips are theirs: nothing is said where one is
chosen), validation, profilers, restarts, tuners; of several optimizers under automatic optimisation (Lightning 1)
only the first is run.
"""

import torch

from ampcheck.models import (
    at_last_batch,
    engine_call,
    instance_of,
    kind_of,
    own,
    shape_of,
    unknown,
    unknown_loader,
)

FLOAT16 = ("16-mixed", "16", 16)
OTHER_ENGINES = (
    "deepspeed",
    "deepspeed_stage_1",
    "deepspeed_stage_1_offload",
    "deepspeed_stage_2",
    "deepspeed_stage_2_offload",
    "deepspeed_stage_3",
    "deepspeed_stage_3_offload",
    "fsdp",
    "fsdp_cpu_offload",
    "model_parallel",
)


class MixedPrecision:
    """The precision plugin: it holds the loss scaler."""

    def __init__(self, precision=None, device="cuda", scaler=None):
        self.scaler = scaler
        if scaler is None and precision in FLOAT16:
            self.scaler = torch.amp.GradScaler("cuda")

    def backward(self, loss, module):
        if self.scaler is not None:
            loss = self.scaler.scale(loss)
        trainer = module.trainer
        for callback in trainer.callbacks:
            callback.on_before_backward(trainer, module, loss)
        module.on_before_backward(loss)
        engine_call("lightning", "backward", module)
        module.backward(loss)
        engine_call("lightning", "hook on_after_backward")
        for callback in trainer.callbacks:
            callback.on_after_backward(trainer, module)
        module.on_after_backward()
        engine_call("lightning", "end on_after_backward")

    def optimizer_step(self, optimizer, module, closure):
        closure()
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)
            self.after_closure(module, optimizer)
            self.scaler.step(optimizer)
            self.scaler.update()
        else:
            self.after_closure(module, optimizer)
            optimizer.step()

    def after_closure(self, module, optimizer):
        trainer = module.trainer
        for callback in trainer.callbacks:
            callback.on_before_optimizer_step(trainer, module, optimizer)
        module.on_before_optimizer_step(optimizer)
        if module.automatic_optimization:
            module.configure_gradient_clipping(
                optimizer,
                gradient_clip_val=trainer.gradient_clip_val,
                gradient_clip_algorithm=trainer.gradient_clip_algorithm,
            )


class LightningOptimizer:
    """What `self.optimizers()` returns: a step unscales, calls the hooks, steps and updates."""

    __wraps__ = "optimizer"

    def __init__(self, optimizer, module):
        self.optimizer = optimizer
        self.module = module
        self.param_groups = optimizer.param_groups

    def step(self, closure=None, **kwargs):
        if closure is None:
            closure = do_nothing
        return self.module.trainer.precision_plugin.optimizer_step(self.optimizer, self.module, closure)

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none=set_to_none)

    def toggle_model(self, sync_grad=True):
        return Toggled(self.module, self)


def do_nothing():
    return None


class Toggled:
    """``with self.toggled_optimizer(opt)``: other optimizers' parameters get no gradients inside."""

    def __init__(self, module, optimizer):
        self.module = module
        self.optimizer = optimizer

    def __enter__(self):
        self.module.toggle_optimizer(self.optimizer)

    def __exit__(self, *error):
        self.module.untoggle_optimizer(self.optimizer)


def parsed(result, module):
    """The optimizers and schedulers in what `configure_optimizers` returned, in any of the forms it may take."""
    shape = shape_of(result)
    optimizers = []
    schedulers = []
    if shape == "dict":
        optimizers = [result["optimizer"]]
        if "lr_scheduler" in result:
            schedulers = [result["lr_scheduler"]]
    elif shape == "sequence" and len(result) > 0:
        first = shape_of(result[0])
        if first == "sequence":
            optimizers = result[0]
            if len(result) > 1:
                schedulers = result[1] if shape_of(result[1]) == "sequence" else [result[1]]
        elif first == "dict":
            for one in result:
                optimizers.append(one["optimizer"])
                if "lr_scheduler" in one:
                    schedulers.append(one["lr_scheduler"])
        else:
            optimizers = result
    elif kind_of(result) == "optimizer":
        optimizers = [result]
    return optimizers, schedulers


class Trainer:
    """``Trainer(...)``: `fit` runs the module's hooks over the data."""

    def __init__(
        self,
        accelerator="auto",
        strategy="auto",
        devices="auto",
        num_nodes=1,
        precision=None,
        logger=None,
        callbacks=None,
        fast_dev_run=False,
        max_epochs=None,
        min_epochs=None,
        max_steps=-1,
        min_steps=None,
        max_time=None,
        limit_train_batches=None,
        limit_val_batches=None,
        limit_test_batches=None,
        limit_predict_batches=None,
        overfit_batches=0.0,
        val_check_interval=None,
        check_val_every_n_epoch=1,
        num_sanity_val_steps=None,
        log_every_n_steps=None,
        enable_checkpointing=None,
        enable_progress_bar=None,
        enable_model_summary=None,
        accumulate_grad_batches=1,
        gradient_clip_val=None,
        gradient_clip_algorithm=None,
        **kwargs,
    ):
        self.strategy = strategy
        self.precision_plugin = MixedPrecision(precision)
        self.callbacks = []
        if shape_of(callbacks) == "sequence":
            for callback in callbacks:
                if instance_of(callback, Callback):
                    self.callbacks.append(callback)
        elif instance_of(callbacks, Callback):
            self.callbacks = [callbacks]
        self.accumulate_grad_batches = accumulate_grad_batches
        self.gradient_clip_val = gradient_clip_val
        self.gradient_clip_algorithm = gradient_clip_algorithm
        self.max_epochs = max_epochs

    def fit(
        self, model, train_dataloaders=None, val_dataloaders=None, datamodule=None, ckpt_path=None, **kwargs
    ):
        elsewhere = shape_of(self.strategy) == "text" and self.strategy in OTHER_ENGINES
        if instance_of(model, LightningModule) and not elsewhere:
            self.run(model)

    @property
    def is_last_batch(self):
        return at_last_batch()

    def run(self, model):
        self.lightning_module = model
        model.trainer = self
        model.setup("fit")
        model.configure_model()
        self.optimizers, self.schedules = parsed(model.configure_optimizers(), model)
        seen = len(self.optimizers) > 0
        if not seen:
            self.optimizers = [torch.optim.SGD(model.parameters(), lr=0.1)]
        if model.automatic_optimization:
            own("lightning", *self.optimizers)
        elif self.precision_plugin.scaler is not None:
            own("lightning-manual-fp16", *self.optimizers)
        self.wrapped = [LightningOptimizer(optimizer, model) for optimizer in self.optimizers]
        model.on_fit_start()
        model.on_train_start()
        if model.automatic_optimization:
            self.run_automatic(model)
        elif seen:  # else it cannot be told which optimizers there are, and so not what their steps unscale
            self.run_manual(model)

    def run_manual(self, model):
        for epoch in range(self.max_epochs):
            model.on_train_epoch_start()
            loader = unknown_loader("train_dataloader")
            self.num_training_batches = len(loader)
            for batch_idx, batch in enumerate(loader):
                self.start_batch(model, batch, batch_idx)
                model.training_step(batch, batch_idx)
                self.end_batch(model, batch, batch_idx)
            model.on_train_epoch_end()

    def run_automatic(self, model):
        for epoch in range(self.max_epochs):
            model.on_train_epoch_start()
            loader = unknown_loader("train_dataloader")
            self.num_training_batches = len(loader)
            for batch_idx, batch in enumerate(loader):
                self.start_batch(model, batch, batch_idx)
                self.run_batch(model, self.wrapped[0], epoch, batch, batch_idx, 0, len(loader))
                if (batch_idx + 1) % self.accumulate_grad_batches == 0 or batch_idx + 1 == len(loader):
                    self.advance("step", model)
                self.end_batch(model, batch, batch_idx)
            self.advance("epoch", model)
            model.on_train_epoch_end()

    def run_batch(self, model, optimizer, epoch, batch, batch_idx, index, length):
        def closure():
            engine_call("lightning", "hook training_step", model)
            output = model.training_step(batch, batch_idx, index)
            engine_call("lightning", "end training_step", model)
            if batch_idx % self.accumulate_grad_batches == 0:
                for callback in self.callbacks:
                    callback.on_before_zero_grad(self, model, optimizer.optimizer)
                model.on_before_zero_grad(optimizer.optimizer)
                model.optimizer_zero_grad(epoch, batch_idx, optimizer.optimizer, index)
            loss = output["loss"] if shape_of(output) == "dict" else output
            if shape_of(loss) != "none":
                loss = loss / self.accumulate_grad_batches
                self.precision_plugin.backward(loss, model)
            return loss

        if (batch_idx + 1) % self.accumulate_grad_batches == 0 or batch_idx + 1 == length:
            model.optimizer_step(epoch, batch_idx, optimizer, optimizer_closure=closure, optimizer_idx=index)
        else:
            closure()

    def start_batch(self, model, batch, batch_idx):
        for callback in self.callbacks:
            callback.on_train_batch_start(self, model, batch, batch_idx)
        model.on_train_batch_start(batch, batch_idx)

    def end_batch(self, model, batch, batch_idx):
        outputs = unknown("outputs")
        if model.automatic_optimization:
            engine_call("lightning", "hook on_train_batch_end")
        for callback in self.callbacks:
            callback.on_train_batch_end(self, model, outputs, batch, batch_idx)
        model.on_train_batch_end(outputs, batch, batch_idx)
        if model.automatic_optimization:
            engine_call("lightning", "end on_train_batch_end")

    def advance(self, interval, model):
        for schedule in self.schedules:
            if shape_of(schedule) == "dict":
                if "interval" in schedule:
                    if schedule["interval"] == interval:
                        model.lr_scheduler_step(schedule["scheduler"], None)
                elif interval == "epoch":
                    model.lr_scheduler_step(schedule["scheduler"], None)
            elif interval == "epoch":
                model.lr_scheduler_step(schedule, None)


class LightningModule(torch.nn.Module):
    """The hooks that a module may override, with what Lightning does where it doesn't."""

    automatic_optimization = True

    def __drive__(self):
        precision = "16-mixed" if unknown("precision is 16-mixed") else "bf16-mixed"
        Trainer(precision=precision).fit(self)

    # --- automatic optimisation ---

    def setup(self, stage):
        pass

    def configure_model(self):
        pass

    def configure_optimizers(self):
        return None

    def training_step(self, batch, batch_idx, optimizer_idx=0):
        return self(batch)

    def on_fit_start(self):
        pass

    def on_train_start(self):
        pass

    def on_train_epoch_start(self):
        pass

    def on_train_epoch_end(self):
        pass

    def on_train_batch_start(self, batch, batch_idx):
        pass

    def on_train_batch_end(self, outputs, batch, batch_idx):
        pass

    def on_before_zero_grad(self, optimizer):
        pass

    def on_before_backward(self, loss):
        pass

    def on_after_backward(self):
        pass

    def on_before_optimizer_step(self, optimizer):
        pass

    def backward(self, loss, *args, **kwargs):
        loss.backward()

    def optimizer_zero_grad(self, epoch, batch_idx, optimizer, optimizer_idx=0):
        optimizer.zero_grad()

    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_idx=0, optimizer_closure=None, **kwargs):
        optimizer.step(closure=optimizer_closure)

    def configure_gradient_clipping(
        self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None, **kwargs
    ):
        self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    def lr_scheduler_step(self, scheduler, metric):
        # Lightning advances a schedule once an update, skipped or not: nothing that its user could write better.
        pass

    # --- manual optimisation ---

    def optimizers(self, use_pl_optimizer=True):
        trainer = self.trainer
        found = trainer.wrapped if use_pl_optimizer else trainer.optimizers
        return found[0] if len(found) == 1 else found

    def lr_schedulers(self):
        found = []
        for schedule in self.trainer.schedules:
            found.append(schedule["scheduler"] if shape_of(schedule) == "dict" else schedule)
        if len(found) == 0:
            return None
        return found[0] if len(found) == 1 else found

    def manual_backward(self, loss, *args, **kwargs):
        self.trainer.precision_plugin.backward(loss, self)

    def clip_gradients(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        if gradient_clip_val is None:
            gradient_clip_val = self.trainer.gradient_clip_val
        if shape_of(gradient_clip_val) != "none":
            parameters = optimizer.param_groups[0]["params"]
            if gradient_clip_algorithm == "value":
                torch.nn.utils.clip_grad_value_(parameters, gradient_clip_val)
            else:
                torch.nn.utils.clip_grad_norm_(parameters, gradient_clip_val)

    def toggle_optimizer(self, optimizer, optimizer_idx=0):
        self.switch(optimizer, False)

    def untoggle_optimizer(self, optimizer=None):
        self.switch(optimizer, True)

    def toggled_optimizer(self, optimizer):
        return Toggled(self, optimizer)

    def switch(self, optimizer, wanted):
        for other in self.trainer.wrapped:
            if other is not optimizer:
                for group in other.param_groups:
                    for parameter in group["params"]:
                        parameter.requires_grad = wanted


class Callback:
    """The hooks of a callback that see gradients."""

    def __drive__(self):
        precision = "16-mixed" if unknown("precision is 16-mixed") else "bf16-mixed"
        Trainer(precision=precision, callbacks=[self]).fit(SomeModule())

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        pass

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        pass

    def on_before_zero_grad(self, trainer, pl_module, optimizer):
        pass

    def on_before_backward(self, trainer, pl_module, loss):
        pass

    def on_after_backward(self, trainer, pl_module):
        pass

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        pass


class SomeModule(LightningModule):
    """The module that a callback on its own is run with."""

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
