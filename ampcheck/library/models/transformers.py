"""transformers 5.24.0: the training loop of `Trainer`, around the methods that a subclass or a callback overrides.

Read from ``trainer.py`` (`_inner_training_loop`, `_run_epoch`, `training_step`, `compute_loss`,
`create_accelerator_and_postprocess`) and ``trainer_callback.py``, and from the same files of 4.45.2, 4.46.3, 4.47.1,
4.48.3 and 4.52.4.

Who divides the loss by ``gradient_accumulation_steps``?

up to 4.45
    Accelerate's `backward`, always.  A `compute_loss` that takes no ``num_items_in_batch`` can only run there, since
    later Trainers pass it.
from 4.46
    Accelerate never does (the Trainer counts windows itself).  `training_step` does, unless the loss is taken to be
    normalised over the whole window already: when the model's forward takes ``**kwargs`` and the batch has labels, or
    when `compute_loss_func` is given; ``loss_is_scaled_for_ga`` (5.x) or ``model_accepts_loss_kwargs`` say so outright.
    (4.46 and 4.47 forgot the division for the other models.)

Whether a model's forward takes ``**kwargs`` is not to be seen in a Trainer: what follows from it alone is *possible*.

Batches are taken to have labels, so that items are counted.

Left out: DeepSpeed's and SageMaker's own steps, LOMO, label smoothing, resuming, evaluation; a tail that is not a whole
window is divided by its own length there, by the window's here.

Engine calls: ("trainer", "hook NAME") and ("trainer", "end NAME") around a callback's method, `compute_loss` and
``Trainer.training_step``; the Accelerator's own calls are those of its model.
"""

import torch
from accelerate import Accelerator, GradientAccumulationPlugin

from ampcheck.models import (
    accepts,
    at_last_batch,
    doubtful,
    engine_call,
    kind_of,
    own,
    quantity,
    unknown,
    unknown_loader,
)


class TrainingArguments:
    def __init__(
        self,
        output_dir=None,
        gradient_accumulation_steps=1,
        max_grad_norm=1.0,
        fp16=False,
        bf16=False,
        **more,
    ):
        self.output_dir = output_dir
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self.max_grad_norm = max_grad_norm
        self.fp16 = fp16
        self.bf16 = bf16


class Seq2SeqTrainingArguments(TrainingArguments):
    pass


class TrainerCallback:
    def __drive__(self):
        Trainer(callbacks=[self]).train()

    def on_init_end(self, args, state, control, **kwargs):
        pass

    def on_train_begin(self, args, state, control, **kwargs):
        pass

    def on_train_end(self, args, state, control, **kwargs):
        pass

    def on_epoch_begin(self, args, state, control, **kwargs):
        pass

    def on_epoch_end(self, args, state, control, **kwargs):
        pass

    def on_step_begin(self, args, state, control, **kwargs):
        pass

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        pass

    def on_optimizer_step(self, args, state, control, **kwargs):
        pass

    def on_substep_end(self, args, state, control, **kwargs):
        pass

    def on_step_end(self, args, state, control, **kwargs):
        pass


class Trainer:
    loss_is_scaled_for_ga = None
    model_accepts_loss_kwargs = doubtful("the model's forward takes **kwargs")
    label_smoother = None
    is_deepspeed_enabled = False
    is_fsdp_enabled = False
    use_apex = False
    use_cuda_amp = False
    use_cpu_amp = False
    do_grad_scaling = False
    state = unknown("self.state")
    control = unknown("self.control")
    processing_class = unknown("self.processing_class")
    tokenizer = unknown("self.tokenizer")
    train_dataset = unknown("self.train_dataset")
    eval_dataset = unknown("self.eval_dataset")
    data_collator = unknown("self.data_collator")

    def __init__(
        self,
        model=unknown("model"),
        args=unknown("args"),
        data_collator=None,
        train_dataset=None,
        eval_dataset=None,
        processing_class=None,
        model_init=None,
        compute_loss_func=None,
        compute_metrics=None,
        callbacks=None,
        optimizers=(None, None),
        optimizer_cls_and_kwargs=None,
        preprocess_logits_for_metrics=None,
        **older,
    ):
        self.args = args
        self.model = model
        self.model_wrapped = model
        self.compute_loss_func = compute_loss_func
        self.compute_metrics = compute_metrics
        self.optimizer = optimizers[0]
        self.lr_scheduler = optimizers[1]
        self.callbacks = []
        if kind_of(callbacks) == "sequence":
            for callback in callbacks:
                self.add_callback(callback)
        self.create_accelerator_and_postprocess()

    def create_accelerator_and_postprocess(self):
        num_steps = 1
        if self._is_older:
            num_steps = self.args.gradient_accumulation_steps
        self.accelerator = Accelerator(
            gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=num_steps)
        )
        self.accelerator.scaler = torch.amp.GradScaler("cuda", enabled=self.args.fp16)

    @property
    def _is_older(self):
        """Written for a Trainer before 4.46: later ones pass ``num_items_in_batch``."""
        takes = accepts(self.compute_loss, "num_items_in_batch") and accepts(
            self.training_step, "num_items_in_batch"
        )
        return not takes

    def __drive__(self):
        self.train()

    # --- what a subclass may override ---

    def create_optimizer_and_scheduler(self, num_training_steps):
        self.create_optimizer()
        self.create_scheduler(num_training_steps=num_training_steps)

    def create_optimizer(self, model=None):
        if self.optimizer is None:
            self.optimizer = torch.optim.AdamW(self.model.parameters())
        return self.optimizer

    def create_scheduler(self, num_training_steps, optimizer=None):
        if self.lr_scheduler is None:
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, None)
        return self.lr_scheduler

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        if self.compute_loss_func is not None:
            loss = self.compute_loss_func(outputs, inputs["labels"], num_items_in_batch=num_items_in_batch)
        else:
            loss = outputs.loss
            if num_items_in_batch is not None and self.model_accepts_loss_kwargs:
                loss = loss / num_items_in_batch
        if return_outputs:
            return loss, outputs
        return loss

    def training_step(self, model, inputs, num_items_in_batch=None):
        model.train()
        inputs = self._prepare_inputs(inputs)
        engine_call("trainer", "hook compute_loss")
        loss = self.compute_loss(model, inputs, num_items_in_batch=num_items_in_batch)
        engine_call("trainer", "end compute_loss")
        if not self._is_older and not self._is_normalised():
            loss = loss / self.current_gradient_accumulation_steps
        self.accelerator.backward(loss)
        return loss.detach()

    def _is_normalised(self):
        if self.loss_is_scaled_for_ga is not None:
            return self.loss_is_scaled_for_ga
        return self.compute_loss_func is not None or self.model_accepts_loss_kwargs

    # --- the loop ---

    def train(self, resume_from_checkpoint=None, trial=None, ignore_keys_for_eval=None, **kwargs):
        return self._inner_training_loop(args=self.args)

    def _inner_training_loop(
        self, batch_size=None, args=None, resume_from_checkpoint=None, trial=None, **more
    ):
        accumulation = self.args.gradient_accumulation_steps
        num_items_in_batch = quantity("num_items_in_batch")
        self.current_gradient_accumulation_steps = accumulation
        self.create_optimizer()
        model = self.accelerator.prepare_model(self.model)
        self.model_wrapped = model
        self.optimizer = self.accelerator.prepare_optimizer(self.optimizer)
        self.create_scheduler(num_training_steps=1000)
        own("trainer", self.optimizer, self.lr_scheduler, self.model)
        model.zero_grad()
        self._call("on_train_begin")
        for epoch in range(self.args.num_train_epochs):
            self._call("on_epoch_begin")
            for step, inputs in enumerate(unknown_loader("the training data")):
                is_last = (step + 1) % accumulation == 0 or at_last_batch()
                self.accelerator.gradient_state.sync_gradients = is_last
                if step % accumulation == 0:
                    self._call("on_step_begin")
                engine_call("trainer", "hook Trainer.training_step")
                if is_last:
                    self.training_step(model, inputs, num_items_in_batch)
                else:
                    with self.accelerator.no_sync(model):
                        self.training_step(model, inputs, num_items_in_batch)
                engine_call("trainer", "end Trainer.training_step")
                if is_last:
                    self.accelerator.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm)
                    self._call("on_pre_optimizer_step")
                    self.optimizer.step()
                    self._call("on_optimizer_step")
                    if not self.accelerator.optimizer_step_was_skipped:
                        self.lr_scheduler.step()
                    model.zero_grad()
                    self._call("on_step_end")
                else:
                    self._call("on_substep_end")
            self._call("on_epoch_end")
        self._call("on_train_end")

    # --- callbacks ---

    def add_callback(self, callback):
        self.callbacks.append(callback)

    def _call(self, event):
        for callback in self.callbacks:
            engine_call("trainer", "hook callback")
            getattr(callback, event)(
                self.args,
                self.state,
                self.control,
                model=self.model,
                optimizer=self.optimizer,
                lr_scheduler=self.lr_scheduler,
            )
            engine_call("trainer", "end callback")

    # --- what touches no gradient ---

    def _prepare_inputs(self, inputs):
        return inputs

    def compute_loss_context_manager(self):
        return _Nothing()

    def autocast_smart_context_manager(self, cache_enabled=True):
        return _Nothing()

    def _wrap_model(self, model, training=True, dataloader=None):
        return model

    def get_train_dataloader(self):
        return unknown_loader("the training data")

    def get_eval_dataloader(self, eval_dataset=None):
        return unknown_loader("the evaluation data")

    def get_batch_samples(self, epoch_iterator, num_batches, device=None):
        return unknown("batch_samples"), quantity("num_items_in_batch")

    def log(self, logs, start_time=None):
        pass

    def evaluate(self, *args, **kwargs):
        return unknown("metrics")

    def predict(self, *args, **kwargs):
        return unknown("predictions")

    def save_model(self, output_dir=None, _internal_call=False):
        pass

    def save_state(self):
        pass

    def push_to_hub(self, *args, **kwargs):
        pass

    def create_model_card(self, *args, **kwargs):
        pass

    def is_world_process_zero(self):
        return unknown("self.is_world_process_zero()")

    def is_local_process_zero(self):
        return unknown("self.is_local_process_zero()")


class Seq2SeqTrainer(Trainer):
    pass


class _Nothing:
    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        pass
