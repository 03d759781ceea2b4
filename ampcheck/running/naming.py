"""What a name tells, where nothing better does: roles and quantities by how people spell them.

Each function is given an expression's text and looks at its last component: ``self.trainer.optimizer_g``.
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = [
    "names_clip",
    "names_loader",
    "names_optimizer",
    "names_option",
    "names_scaler",
    "names_scheduler",
    "names_settings",
    "names_start",
    "names_window",
    "names_world",
]

OPTIMIZER = re.compile(r"optim|(^|_)opt(_|\d|$)|(^|_)(sgd|adamw?)$", re.IGNORECASE)
# An optimizer's path, arguments or state is no optimizer.
NOT_OPTIMIZER = re.compile(
    r"state|path|checkpoint|ckpt|config|cfg|args|kwargs|option|name|type|class|_cls|params|group|dict|sched|_fn|lr$|file|steps?$|"
    r"wrapper|closure|idx|index|hyper|builder|factory|ization",
    re.IGNORECASE,
)
SCALER = re.compile(r"scaler|(^|_)amp_scal", re.IGNORECASE)
# What is kept of a scaler, and the scalers of data.
NOT_SCALER = re.compile(
    r"meter|metric|state|path|config|args|kwargs|standard|min_?max|robust|feature", re.IGNORECASE
)
SCHEDULER = re.compile(r"sched|warmup|^lr_?(policy|decay)?$", re.IGNORECASE)
NOT_SCHEDULER = re.compile(r"noise|ddpm|ddim|diffusion|pipeline|beta|schedule_free|sampl", re.IGNORECASE)
WINDOW = re.compile(
    r"accum|grad_acc|micro|^gas$|update_freq|(^|_)iter_size|backward_passes|acc_steps", re.IGNORECASE
)
WORLD = re.compile(r"world_?size|num_processes|num_replicas|n_?gpus?$|num_gpus", re.IGNORECASE)
LOADER = re.compile(r"loader$|(^|_)(train_)?dl$|dataloader", re.IGNORECASE)
SETTINGS = re.compile(
    r"(^|[._])(config|cfg|conf|hparams|hyperparameters|hps|settings|options|opts?)\[", re.IGNORECASE
)
START = re.compile(r"start|resume|begin|warm|skip|offset|init|after|from|delay|freeze", re.IGNORECASE)
OPTION = re.compile(
    r"^(self\.)?(opts?|args?|cfg|config|conf|hparams|hps|hyp|params|flags|options)[.\[]", re.IGNORECASE
)
SIZE = re.compile(r"micro_?batch(_?size)?$|(^|_)mbs$", re.IGNORECASE)


CLIP = re.compile(r"(^|_)(clip_?grad|grad(ient)?s?_?clip)", re.IGNORECASE)


@lru_cache(maxsize=8192)
def names_clip(text: str) -> bool:
    """``self.grad_clip_fn``, ``clip_gradients``: a function that clips the parameters which it is given."""
    return CLIP.search(_last(text)) is not None


@lru_cache(maxsize=8192)
def _last(text: str) -> str:
    """The last component of a dotted text: what is called or subscripted, not the arguments."""
    head = text.split("(")[0]
    return head.rsplit(".", 1)[-1] if "[" not in head else head.split(".")[-1]


@lru_cache(maxsize=8192)
def names_optimizer(text: str) -> bool:
    """``optimizer_g``, ``self.opt``, ``optims["encoder"]``."""
    last = _last(text).split("[")[0]
    return OPTIMIZER.search(last) is not None and NOT_OPTIMIZER.search(last) is None


@lru_cache(maxsize=8192)
def names_scaler(text: str) -> bool:
    """``scaler``, ``self.grad_scaler``, ``fp16_scaler``."""
    last = _last(text)
    return SCALER.search(last) is not None and NOT_SCALER.search(last) is None


@lru_cache(maxsize=8192)
def names_scheduler(text: str) -> bool:
    """``lr_scheduler``, ``sched_g``; not the noise schedulers of diffusion models."""
    last = _last(text)
    return SCHEDULER.search(last) is not None and NOT_SCHEDULER.search(text) is None


@lru_cache(maxsize=8192)
def names_window(text: str) -> bool:
    """``args.gradient_accumulation_steps``, ``ACCUM``, ``update_freq``, ``num_micro_batches``."""
    return " " not in text and WINDOW.search(text) is not None and SIZE.search(text) is None


@lru_cache(maxsize=8192)
def names_loader(text: str) -> bool:
    """``train_loader``, ``self.dataloader``, ``train_dl``."""
    return LOADER.search(_last(text)) is not None


@lru_cache(maxsize=8192)
def names_settings(text: str) -> bool:
    """``config["batch_size"]``."""
    return SETTINGS.search(text) is not None


@lru_cache(maxsize=8192)
def names_start(text: str) -> bool:
    """``start_step``, ``resume_iter``, ``warmup_steps``: what a counter is past most of the time."""
    return START.search(text) is not None


@lru_cache(maxsize=8192)
def names_option(text: str) -> bool:
    """``args.optimizer``, ``cfg.training.optimizer``: what somebody chose, not what came of it."""
    return OPTION.search(text) is not None


@lru_cache(maxsize=8192)
def names_world(text: str) -> bool:
    """``args.world_size``, ``dist.get_world_size()``, ``n_gpu``."""
    return WORLD.search(_last(text)) is not None
