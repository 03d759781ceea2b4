"""Accelerate 1.15.0: what an `Accelerator` does to losses, gradients, optimizers, schedulers and the window.

Read from the installed package: ``accelerator.py`` (`__init__`, `prepare`, `accumulate`, `_do_sync`, `no_sync`,
`backward`, `unscale_gradients`, `clip_grad_norm_`), ``optimizer.py``, ``scheduler.py``, ``local_sgd.py`` and
``utils/deepspeed.py``.  Since Accelerate 0.20 none of this has changed.

What it comes to: `backward` divides by ``gradient_accumulation_steps`` whatever happens; `accumulate` counts its own
entries, and the last batch of an epoch closes a window; a prepared optimizer ignores `step` and `zero_grad` inside a
window, and its `step` is ``scaler.step`` *and* ``scaler.update``; Accelerate's clips unscale all prepared optimizers
first; a prepared scheduler waits for the window and for a step that was not skipped.

Left out: XLA, Megatron-LM, tensor and context parallelism, fp8; the one step of the scheduler per process; FSDP's test
that a clip is of all parameters; the engine's own loss scale under DeepSpeed.  A prepared model is taken to be wrapped
in DDP, as it is wherever several processes train: what it costs is only felt there.

Engine calls: ("accelerate", "accumulate") with the accelerator's scaler, ("accelerate", "backward"), and
("accelerate", "zero_grad ignored") inside a window.
"""

import torch

from ampcheck.models import at_last_batch, configured, engine_call, every_optimizer, kind_of, own, unknown


class DistributedType:
    NO = "NO"
    MULTI_CPU = "MULTI_CPU"
    MULTI_GPU = "MULTI_GPU"
    MULTI_NPU = "MULTI_NPU"
    MULTI_MLU = "MULTI_MLU"
    MULTI_MUSA = "MULTI_MUSA"
    MULTI_SDAA = "MULTI_SDAA"
    MULTI_XPU = "MULTI_XPU"
    MULTI_HPU = "MULTI_HPU"
    DEEPSPEED = "DEEPSPEED"
    FSDP = "FSDP"
    XLA = "XLA"
    TPU = "XLA"
    MEGATRON_LM = "MEGATRON_LM"


class GradientAccumulationPlugin:
    def __init__(self, num_steps=1, adjust_scheduler=True, sync_with_dataloader=True, sync_each_batch=False):
        self.num_steps = num_steps
        self.adjust_scheduler = adjust_scheduler
        self.sync_with_dataloader = sync_with_dataloader
        self.sync_each_batch = sync_each_batch


class DeepSpeedPlugin:
    def __init__(
        self,
        hf_ds_config=None,
        gradient_accumulation_steps=configured("gradient_accumulation_steps"),
        gradient_clipping=None,
        zero_stage=configured("zero_stage"),
        **more,
    ):
        self.deepspeed_config = unknown("the DeepSpeed configuration")
        self.hf_ds_config = hf_ds_config
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self.gradient_clipping = gradient_clipping
        self.zero_stage = zero_stage


class FullyShardedDataParallelPlugin:
    def __init__(self, fsdp_version=1, **more):
        self.fsdp_version = fsdp_version


class GradScalerKwargs:
    def __init__(
        self, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True
    ):
        self.enabled = enabled


class DistributedDataParallelKwargs:
    def __init__(self, **more):
        self.more = more


class InitProcessGroupKwargs:
    def __init__(self, **more):
        self.more = more


class AutocastKwargs:
    def __init__(self, enabled=True, cache_enabled=None):
        self.enabled = enabled


class ProjectConfiguration:
    def __init__(self, project_dir=None, logging_dir=None, **more):
        self.project_dir = project_dir
        self.logging_dir = logging_dir


class DataLoaderConfiguration:
    def __init__(self, **more):
        self.more = more


class GradientState:
    def __init__(self, plugin):
        self.plugin = plugin
        self.sync_gradients = True
        self.num_steps = plugin.num_steps
        self.remainder = -1

    @property
    def end_of_dataloader(self):
        return at_last_batch()

    def _set_sync_gradients(self, sync_gradients):
        self.sync_gradients = sync_gradients


class AcceleratorState:
    def __init__(self, distributed_type, mixed_precision, deepspeed_plugin, fsdp_plugin):
        self.distributed_type = distributed_type
        self.mixed_precision = mixed_precision
        self.deepspeed_plugin = deepspeed_plugin
        self.fsdp_plugin = fsdp_plugin


class Accelerator:
    is_main_process = unknown("accelerator.is_main_process")
    is_local_main_process = unknown("accelerator.is_local_main_process")
    is_last_process = unknown("accelerator.is_last_process")
    num_processes = unknown("accelerator.num_processes")
    process_index = unknown("accelerator.process_index")
    local_process_index = unknown("accelerator.local_process_index")
    device = unknown("accelerator.device")
    use_distributed = unknown("accelerator.use_distributed")
    trackers = unknown("accelerator.trackers")
    __usual__ = ("step_scheduler_with_optimizer",)

    def __init__(
        self,
        device_placement=True,
        split_batches=False,
        mixed_precision=configured("mixed_precision"),
        gradient_accumulation_steps=1,
        cpu=False,
        dataloader_config=None,
        deepspeed_plugin=None,
        fsdp_plugin=None,
        torch_tp_plugin=None,
        megatron_lm_plugin=None,
        rng_types=None,
        log_with=None,
        project_dir=None,
        project_config=None,
        gradient_accumulation_plugin=None,
        step_scheduler_with_optimizer=True,
        kwargs_handlers=None,
        dynamo_backend=None,
        dynamo_plugin=None,
        deepspeed_plugins=None,
        parallelism_config=None,
        **older,
    ):
        self.mixed_precision = mixed_precision
        if gradient_accumulation_plugin is None:
            gradient_accumulation_plugin = GradientAccumulationPlugin(num_steps=gradient_accumulation_steps)
        self.gradient_accumulation_steps = gradient_accumulation_plugin.num_steps
        self.gradient_state = GradientState(gradient_accumulation_plugin)
        self.step_scheduler_with_optimizer = step_scheduler_with_optimizer
        self.split_batches = split_batches
        self.step = 0
        self._models = []
        self._optimizers = []
        self._schedulers = []
        if deepspeed_plugin is None:
            deepspeed_plugin = deepspeed_plugins
        self.distributed_type = "MULTI_GPU"
        if fsdp_plugin is not None:
            self.distributed_type = "FSDP"
        if deepspeed_plugin is not None:
            self.distributed_type = "DEEPSPEED"
            self.gradient_accumulation_steps = deepspeed_plugin.gradient_accumulation_steps
        self.deepspeed_plugin = deepspeed_plugin
        self.fsdp_plugin = fsdp_plugin
        self.state = AcceleratorState(self.distributed_type, mixed_precision, deepspeed_plugin, fsdp_plugin)
        self.scaler = None
        if self.distributed_type == "FSDP":
            self.scaler = torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler(
                enabled=mixed_precision == "fp16"
            )
        elif self.distributed_type != "DEEPSPEED":
            self.scaler = torch.amp.GradScaler("cuda", enabled=mixed_precision == "fp16")

    # --- prepare ---

    def prepare(self, *args, device_placement=None):
        first = [self._prepare_first(one) for one in args]
        result = [self._prepare_second(one) for one in first]
        if len(result) == 1:
            return result[0]
        return tuple(result)

    def _prepare_first(self, one):
        kind = kind_of(one)
        if kind == "model" or kind == "unknown":  # nothing else is handed in
            return self.prepare_model(one)
        if kind == "optimizer":
            return self.prepare_optimizer(one)
        return one

    def _prepare_second(self, one):
        if kind_of(one) == "scheduler":
            return self.prepare_scheduler(one)
        return one

    def prepare_model(self, model, device_placement=None, evaluation_mode=False):
        if self.distributed_type == "MULTI_GPU":
            model = torch.nn.parallel.DistributedDataParallel(model)
        elif self.distributed_type == "FSDP" and self.fsdp_plugin.fsdp_version == 1:
            model = torch.distributed.fsdp.FullyShardedDataParallel(model)
        own("accelerate", model)
        self._models.append(model)
        return model

    def prepare_optimizer(self, optimizer, device_placement=None):
        if kind_of(optimizer) == "prepared":
            return optimizer
        own("accelerate", optimizer)
        prepared = AcceleratedOptimizer(optimizer, self)
        self._optimizers.append(prepared)
        return prepared

    def prepare_scheduler(self, scheduler):
        own("accelerate", scheduler)
        prepared = AcceleratedScheduler(scheduler, self)
        self._schedulers.append(prepared)
        return prepared

    def prepare_data_loader(self, data_loader, device_placement=None, slice_fn_for_dispatch=None):
        return data_loader

    def unwrap_model(self, model, keep_fp32_wrapper=True, keep_torch_compile=True):
        if kind_of(model) == "model":
            return model.module
        return model

    def free_memory(self, *objects):
        self._models = []
        self._optimizers = []
        self._schedulers = []
        return objects

    def clear(self, *objects):
        return self.free_memory(*objects)

    # --- the window ---

    @property
    def sync_gradients(self):
        return self.gradient_state.sync_gradients

    def _do_sync(self):
        if self.gradient_state.plugin.sync_with_dataloader and at_last_batch():
            self.step = 0
            self.gradient_state.sync_gradients = True
        else:
            self.step += 1
            self.gradient_state.sync_gradients = self.step % self.gradient_accumulation_steps == 0

    def accumulate(self, *models):
        return _Accumulate(self, models)

    def no_sync(self, model):
        # What has no `no_sync` (a list of models, say) is left alone, in silence.
        if kind_of(model) == "model" and self.distributed_type != "DEEPSPEED":
            return model.no_sync()
        return _Nothing()

    def trigger_sync_in_backward(self, model):
        return _Nothing()

    def join_uneven_inputs(self, joinables, even_batches=None):
        return _Nothing()

    # --- gradients ---

    def backward(self, loss, **kwargs):
        engine_call("accelerate", "backward")
        loss = loss / self.gradient_accumulation_steps
        if self.distributed_type == "DEEPSPEED":
            loss.backward()
            if self.sync_gradients:
                self._engine_step()
        else:
            self.scaler.scale(loss).backward()

    def _engine_step(self):
        # DeepSpeed's `engine.step` does all of this by itself; the prepared objects' own methods do nothing.
        for optimizer in self._optimizers:
            optimizer.optimizer.step()
            optimizer.optimizer.zero_grad()
        for scheduler in self._schedulers:
            scheduler.scheduler.step()

    def unscale_gradients(self, optimizer=None):
        if self.distributed_type != "DEEPSPEED":
            if optimizer is None:
                # What was built where nobody looks was prepared there too.
                optimizers = every_optimizer(self._optimizers)
            elif kind_of(optimizer) == "sequence":
                optimizers = optimizer
            else:
                optimizers = [optimizer]
            for one in optimizers:
                self.scaler.unscale_(one)

    def clip_grad_norm_(self, parameters, max_norm, norm_type=2):
        if self.distributed_type == "DEEPSPEED":
            return unknown("the engine's norm of the gradients")
        self.unscale_gradients()
        if self.distributed_type == "FSDP":
            for model in self._models:
                return model.clip_grad_norm_(max_norm, norm_type)
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)

    def clip_grad_value_(self, parameters, clip_value):
        if self.distributed_type != "DEEPSPEED":
            self.unscale_gradients()
            torch.nn.utils.clip_grad_value_(parameters, clip_value)

    @property
    def optimizer_step_was_skipped(self):
        skipped = False
        for optimizer in self._optimizers:
            skipped = skipped or optimizer.step_was_skipped
        return skipped

    def autocast(self, autocast_handler=None):
        return torch.autocast("cuda", dtype=unknown("the precision that Accelerate was set up with"))

    # --- values of all processes: no gradient flows through them ---

    def gather(self, tensor):
        return tensor.detach()

    def gather_for_metrics(self, input_data, use_gather_object=False):
        return input_data.detach()

    def reduce(self, tensor, reduction="sum", scale=1.0):
        return tensor.detach()

    def pad_across_processes(self, tensor, dim=0, pad_index=0, pad_first=False):
        return tensor.detach()

    # --- what touches no gradient ---

    def skip_first_batches(self, dataloader, num_batches=0):
        return dataloader

    def main_process_first(self):
        return _Nothing()

    def local_main_process_first(self):
        return _Nothing()

    def profile(self, profile_handler=None):
        return _Nothing()

    def maybe_context_parallel(self, buffers=None, buffer_seq_dims=None, no_restore_buffers=None):
        return _Nothing()

    def split_between_processes(self, inputs, apply_padding=False):
        return _Nothing()

    def wait_for_everyone(self):
        pass

    def print(self, *args, **kwargs):
        pass

    def log(self, values, step=None, log_kwargs=None):
        pass

    def init_trackers(self, project_name, config=None, init_kwargs=None):
        pass

    def get_tracker(self, name, unwrap=False):
        return unknown("a tracker")

    def end_training(self):
        pass

    def save(self, obj, f, safe_serialization=False):
        pass

    def save_model(self, model, save_directory, max_shard_size="10GB", safe_serialization=True):
        pass

    def save_state(self, output_dir=None, safe_serialization=True, **more):
        pass

    def load_state(self, input_dir=None, **more):
        pass

    def register_for_checkpointing(self, *objects):
        pass

    def register_save_state_pre_hook(self, hook):
        pass

    def register_load_state_pre_hook(self, hook):
        pass

    def get_state_dict(self, model, unwrap=True):
        return unknown("a state dict")

    def set_trigger(self):
        pass

    def check_trigger(self):
        return unknown("accelerator.check_trigger()")


class _Nothing:
    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        pass


class _Accumulate:
    def __init__(self, accelerator, models):
        self.accelerator = accelerator
        self.models = models
        self.entered = []

    def __enter__(self):
        engine_call("accelerate", "accumulate", self.accelerator.scaler, self.accelerator)
        self.accelerator._do_sync()
        if not self.accelerator.sync_gradients and not self.accelerator.gradient_state.plugin.sync_each_batch:
            for model in self.models:
                context = self.accelerator.no_sync(model)
                context.__enter__()
                self.entered.append(context)
        return None

    def __exit__(self, kind, value, trace):
        for context in self.entered:
            context.__exit__(kind, value, trace)
        self.entered = []


class AcceleratedOptimizer:
    __wraps__ = "optimizer"

    def __init__(self, optimizer, accelerator):
        self.optimizer = optimizer
        self.accelerator = accelerator
        self.step_was_skipped = False

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    def zero_grad(self, set_to_none=None):
        if self.accelerator.distributed_type != "DEEPSPEED" and self.accelerator.sync_gradients:
            if set_to_none is None:
                set_to_none = True
            self.optimizer.zero_grad(set_to_none=set_to_none)
        else:
            engine_call("accelerate", "zero_grad ignored", self.optimizer)

    def step(self, closure=None):
        if self.accelerator.distributed_type != "DEEPSPEED" and self.accelerator.sync_gradients:
            scaler = self.accelerator.scaler
            before = scaler.get_scale()
            if closure is None:
                scaler.step(self.optimizer)
            else:
                scaler.step(self.optimizer, closure)
            scaler.update()
            # Accelerate itself finds out whether the optimizer was called, which comes to the same.
            self.step_was_skipped = scaler.get_scale() < before


class AcceleratedScheduler:
    __wraps__ = "scheduler"

    def __init__(self, scheduler, accelerator):
        self.scheduler = scheduler
        self.accelerator = accelerator

    def step(self, *args, **kwargs):
        accelerator = self.accelerator
        if accelerator.distributed_type != "DEEPSPEED":
            if not accelerator.step_scheduler_with_optimizer:
                self.scheduler.step(*args, **kwargs)
            elif accelerator.sync_gradients and not accelerator.optimizer_step_was_skipped:
                self.scheduler.step(*args, **kwargs)


class LocalSGD:
    """Its `step` averages *parameters* now and then, so that ranks without a reduction of gradients meet again."""

    def __init__(self, accelerator, model, local_sgd_steps, enabled=True):
        self.accelerator = accelerator
        self.model = model

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        pass

    def step(self):
        pass


def DummyOptim(params, lr=0.001, weight_decay=0, **more):
    # Stands for the optimizer that a DeepSpeed configuration file describes.
    return torch.optim.AdamW(params)


def DummyScheduler(optimizer, total_num_steps=None, warmup_num_steps=0, lr_scheduler_callable=None, **more):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, None)


def notebook_launcher(function, args=(), num_processes=None, mixed_precision="no", **more):
    return function(*args)


def debug_launcher(function, args=(), num_processes=2):
    return function(*args)


def skip_first_batches(dataloader, num_batches=0):
    return dataloader


def set_seed(seed, device_specific=False, deterministic=False):
    pass
