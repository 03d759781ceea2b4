"""Dressings: a correct loop becomes another one, which a fault needs: under DDP, with an average, with an engine."""

from __future__ import annotations

import re

from tests.seeding.script import (
    AUTOCAST,
    BACKWARD,
    BEFORE,
    BOUNDARY,
    CLIP,
    DIVIDE,
    EPOCHS,
    GUARD,
    LOSS,
    OPTIMIZER,
    SCALER,
    SCHEDULE,
    STEP,
    UNSCALE,
    UPDATE,
    ZERO,
    Impossible,
    Script,
)

__all__ = [
    "CALLS",
    "UPDATES",
    "accelerated",
    "averaged",
    "engined",
    "fsdp2",
    "plain",
    "reduced",
    "saved",
    "sharded",
    "single",
    "synchronised",
    "two_losses",
    "two_optimizers",
    "windowed",
]

CALLS = (
    r"total \+= accumulate\(",
    r"self\.micro_batch\(images",
    r"forward_backward\(images\.cuda",
)
"""Where a loop hands a micro-batch to a function of its own."""

LAST = {
    r"range\(gradient_accumulate_every\)": "number + 1 == gradient_accumulate_every",
    r"micro_step % ACCUMULATE": "(micro_step + 1) % ACCUMULATE == 0",
}
"""Which micro-batch is a window's last, where the boundary test stands too late to say so."""


def single(script: Script) -> None:
    """Each micro-batch is an update."""
    if not script.has(DIVIDE):
        return
    window = script.name("window")
    script.drop(DIVIDE)
    script.unwrap(rf"for _ in range\({re.escape(window)}\)" if script.has(r"for _ in range") else BOUNDARY)
    _without_flush(script)
    if script.has(r"with .*\.no_sync\(\)"):
        script.unwrap(r"with .*\.no_sync\(\)")


def plain(script: Script) -> None:
    """No loss scale: bfloat16."""
    if not script.has(SCALER):
        return
    scaler = script.name("scaler")
    step = rf"{re.escape(scaler)}\.step\(([\w.]+)\)"
    for mark in (UNSCALE, UPDATE, SCALER, BEFORE):
        if script.has(mark):
            script.drop(mark)
    if script.has(GUARD):
        script.unwrap(GUARD)
    script.replace(BACKWARD, rf"{re.escape(scaler)}\.scale\(loss\)", "loss")
    script.lines = [re.sub(step, r"\1.step()", line) for line in script.lines]
    script.lines = [line.replace("torch.float16", "torch.bfloat16") for line in script.lines]
    script.lines = [re.sub(r"\bscaler(: [\w.]+)?, |, scaler\b(: [\w.]+)?", "", line) for line in script.lines]


def last(script: Script) -> str:
    """The test of a window's last micro-batch, as it can be made before its forward."""
    if script.has(r"if pending == window"):
        raise Impossible("which micro-batch is an epoch's last is known only behind the loop")
    for mark, test in LAST.items():
        if script.has(mark):
            script.lines = [
                line.replace("for _ in range(grad", "for number in range(grad") for line in script.lines
            ]
            return test
    found = re.search(BOUNDARY, script.lines[script.places(BOUNDARY)[0]])
    assert found
    return found["test"]


def _wrapped(script: Script, wrapper: str) -> None:
    models = list(dict.fromkeys(script.names("model")))
    for model in models:
        script.before(
            rf"= torch\.optim\.\w+\({re.escape(model)}\.parameters", f"{model} = {wrapper.format(model)}"
        )


def _unsynchronised(script: Script, models: list[str]) -> None:
    """`no_sync` around the forward and backward of all micro-batches but a window's last."""
    if script.has(DIVIDE) and not script.has(r"\.no_sync\(\)"):
        test = last(script)
        contexts = ", ".join(f"(nullcontext() if {test} else {model}.no_sync())" for model in models)
        call = next((mark for mark in CALLS if script.has(mark)), "")
        script.wrap(call or AUTOCAST, call or BACKWARD, f"with {contexts}:")
        script.on_top("from contextlib import nullcontext")


def synchronised(script: Script) -> None:
    """DistributedDataParallel, with `no_sync` until a window's last micro-batch."""
    models = list(dict.fromkeys(script.names("model")))
    if script.has(r"DistributedDataParallel\("):
        return
    _unsynchronised(script, models)
    _wrapped(script, "DistributedDataParallel({})")
    script.on_top("from torch.nn.parallel import DistributedDataParallel")


def sharded(script: Script) -> None:
    """FSDP1, with its own clip and a scaler that asks all ranks."""
    if script.has(r"DistributedDataParallel\("):
        script.lines = [
            re.sub(r"DistributedDataParallel\((\w+\.cuda\(\)).*\)", r"FullyShardedDataParallel(\1)", line)
            for line in script.lines
            if "import DistributedDataParallel" not in line
        ]
    else:
        _unsynchronised(script, list(dict.fromkeys(script.names("model"))))
        _wrapped(script, "FullyShardedDataParallel({})")
    models = list(dict.fromkeys(script.names("model")))
    for i in reversed(script.places(CLIP)):
        arguments = script.lines[i].split(",")[-1].split("=")[-1].strip(" )")
        script.lines[i : i + 1] = [
            f"{script.indent(i)}{model}.clip_grad_norm_({arguments})" for model in models
        ]
    if script.has(SCALER):
        script.replace(SCALER, r"(torch\.amp\.)?GradScaler\(\"cuda\"", 'ShardedGradScaler("cuda"')
        script.on_top("from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler")
    script.on_top("from torch.distributed.fsdp import FullyShardedDataParallel")


def fsdp2(script: Script) -> None:
    """FSDP2, sharded before the optimizer is built; each micro-batch is an update."""
    single(script)
    _without_ddp(script)
    for model in dict.fromkeys(script.names("model")):
        script.before(rf"= torch\.optim\.\w+\({re.escape(model)}\.parameters", f"fully_shard({model})")
    script.on_top("from torch.distributed.fsdp import fully_shard")


def two_optimizers(script: Script) -> None:
    """A second optimizer for the model's head, which shares scaler, window and clip with the first."""
    if len(script.names("optimizer")) > 1:
        return
    first, model = script.name("optimizer"), script.name("model")
    second = re.sub(r"\w+$", "second", first)
    own = rf"(?<![\w.]){re.escape(first)}(?!\w)"
    if script.has(SCHEDULE):
        for mark in (BEFORE, SCHEDULE, GUARD):
            if script.has(mark):
                script.drop(mark)
    for i in reversed(script.places(OPTIMIZER)):
        script.lines[i] = script.lines[i].replace(f"{model}.parameters()", f"{model}.body.parameters()")
        changed = script.lines[i].replace(".body.", ".head.")
        script.lines.insert(i + 1, re.sub(own, second, changed, count=1))
    doubled = "|".join((UNSCALE, STEP, ZERO))
    for i in reversed(script.places(doubled)):
        script.lines.insert(i + 1, re.sub(own, second, script.lines[i]))
    for i, line in enumerate(script.lines):
        if re.match(rf"\s+{own}: [\w.]+,$", line):
            script.lines[i] = f"{line}\n{line.replace(first, second)}"
        if re.search(doubled + r"|optim\.", line) or "." in first:
            continue
        line = re.sub(rf"{own}(: [\w.]+)", rf"{first}\1, {second}\1", line)
        script.lines[i] = re.sub(rf"{own}(?=, |\))", f"{first}, {second}", line)


def averaged(script: Script) -> None:
    """A moving average of the weights, after each step."""
    model = script.name("model")
    script.on_top("", "averaged = torch.optim.swa_utils.AveragedModel(torch.nn.Linear(1, 1))")
    script.after(ZERO, f"averaged.update_parameters({model})")
    places = script.places(r"averaged\.update_parameters")
    if len(script.names("optimizer")) > 1:
        del script.lines[places[0]]


def saved(script: Script) -> None:
    """A checkpoint after each epoch."""
    states = {
        "model": script.name("model"),
        "optimizer": script.name("optimizer"),
        "scaler": script.name("scaler"),
    }
    parts = ", ".join(f'"{key}": {value}.state_dict()' for key, value in states.items())
    place = script.places(EPOCHS)[0]
    script.lines.insert(
        script.block(place).stop, f"{script.indent(place)}    torch.save({{{parts}}}, 'last.pt')"
    )


def reduced(script: Script) -> None:
    """Gradients are averaged over ranks by hand, before the clip."""
    _without_ddp(script)
    mark = UNSCALE if script.has(UNSCALE) else CLIP
    calls = [f"average({model})" for model in dict.fromkeys(script.names("model"))]
    for i in reversed(script.places(mark)):
        if not re.search(mark, script.lines[i - 1]):
            script.lines[i:i] = [script.indent(i) + call for call in calls]
    script.on_top(
        "import torch.distributed as dist",
        "",
        "",
        "def average(module: nn.Module) -> None:",
        "    for parameter in module.parameters():",
        "        dist.all_reduce(parameter.grad)",
        "        parameter.grad /= dist.get_world_size()",
        "",
    )


def two_losses(script: Script) -> None:
    """The loss goes through a critic with an optimizer of its own, which is zeroed before its own backward."""
    single(script)
    script.replace(LOSS, r"loss = (.*)$", r"loss = critic(\1.expand(1, 10)).mean()")
    script.before(
        AUTOCAST,
        "critic_optimizer.zero_grad()",
        "judged = critic(torch.randn(8, 10).cuda()).mean()",
        "judged.backward()",
        "critic_optimizer.step()",
    )
    script.on_top(
        "",
        "critic = nn.Linear(10, 1).cuda()",
        "critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)",
    )


def engined(script: Script) -> None:
    """DeepSpeed's engine scales, divides, clips, steps and zeroes, on every micro-batch; ZeRO stage 2.

    A comment stays where the loop's own step was.
    """
    if len(script.names("optimizer")) > 1:
        raise Impossible("an engine has one optimizer")
    _without_ddp(script)
    model, optimizer = script.name("model"), script.name("optimizer")
    precision = "bf16" if script.has("bfloat16") else "fp16"
    _without(script, UNSCALE, CLIP, BEFORE, UPDATE, ZERO, GUARD, SCHEDULE, DIVIDE)
    script.replace(BACKWARD, r"\S+\.backward\(\)", f"{model}.backward(loss)")
    script.lines = [re.sub(r"\S+$", "pass  # boundary", x) if re.search(STEP, x) else x for x in script.lines]
    script.after(rf"{re.escape(model)}\.backward\(loss\)", f"{model}.step()")
    given = f"model={model}, optimizer={optimizer}, config=CONFIG"
    script.after(OPTIMIZER, f"{model}, {optimizer}, _, _ = deepspeed.initialize({given})")
    _without_scaler(script)
    script.on_top(
        "import deepspeed",
        "",
        "CONFIG = {",
        '    "train_micro_batch_size_per_gpu": 4,',
        f'    "gradient_accumulation_steps": {4 if windowed(script) else 1},',
        f'    "{precision}": {{"enabled": True}},',
        '    "zero_optimization": {"stage": 2},',
        "}",
    )
    script.fill()


def accelerated(script: Script) -> None:
    """Accelerate with float16: `accumulate` decides which micro-batch ends a window."""
    if len(script.names("optimizer")) > 1:
        raise Impossible("Accelerate updates its scaler after each of several optimizers, which is a fault")
    _without_ddp(script)
    windowed = script.has(DIVIDE)
    if windowed:
        inner = r"for _ in range\(gradient"
        script.unwrap(inner if script.has(inner) else BOUNDARY)
    _without_flush(script)
    models, optimizers = script.names("model"), script.names("optimizer")
    optimizer, name = optimizers[0], re.escape(optimizers[0])
    _without(script, UNSCALE, BEFORE, UPDATE, GUARD, SCHEDULE, DIVIDE)
    script.lines = [line.replace("torch.bfloat16", "torch.float16") for line in script.lines]
    script.replace(BACKWARD, r"\S+\.backward\(\)", "accelerator.backward(loss)")
    pattern = rf"\S+\.step\(({name})?\)$"
    script.lines = [
        re.sub(pattern, f"{optimizer}.step()", x) if re.search(STEP, x) else x for x in script.lines
    ]
    script.replace(CLIP, r"(torch\.)?nn\.utils", "accelerator")
    script.wrap(CLIP, CLIP, "if accelerator.sync_gradients:")
    call = next((mark for mark in CALLS if script.has(mark)), "")
    update = next((mark for mark in UPDATES if script.has(mark)), "")
    script.wrap(call or AUTOCAST, update or ZERO, f"with accelerator.accumulate({models[0]}):")
    prepared = f"{models[0]}, {optimizer}"
    script.after(OPTIMIZER, f"{prepared} = accelerator.prepare({prepared})")
    _without_scaler(script)
    steps = 4 if windowed else 1
    script.on_top(
        "from accelerate import Accelerator",
        "",
        f'accelerator = Accelerator(gradient_accumulation_steps={steps}, mixed_precision="fp16")',
    )


UPDATES = (r"^\s+update\(model", r"self\.update\(\)$", r"^\s+take_step\(\)$")
"""Where a loop calls a function of its own that steps."""


def windowed(script: Script) -> bool:
    """Whether it has windows of more than one micro-batch."""
    return script.has(BOUNDARY) or script.has(r"for _ in range\(gradient")


def _without(script: Script, *marks: str) -> None:
    for mark in marks:
        if script.has(mark):
            script.drop(mark)


def _without_flush(script: Script) -> None:
    if script.has(r"if pending:$"):
        start = script.places(r"if pending:$")[0]
        del script.lines[start : script.block(start).stop]


def _without_ddp(script: Script) -> None:
    if script.has(r"DistributedDataParallel\("):
        if script.has(r"\.no_sync\(\)"):
            script.unwrap(r"\.no_sync\(\)")
        script.replace(r"= DistributedDataParallel\(", r"DistributedDataParallel\((\w+\.cuda\(\)).*\)", r"\1")
        script.drop(r"import DistributedDataParallel")


def _without_scaler(script: Script) -> None:
    _without(script, SCALER, r"torch\.optim\.lr_scheduler\.\w+\(")
    pattern = r"\b(scaler|scheduler)(: [\w.]+)?, |, (scaler|scheduler)\b(: [\w.]+)?"
    script.lines = [re.sub(pattern, "", line) for line in script.lines]
    script.lines = [line for line in script.lines if not re.match(r"\s+(scaler|scheduler): [\w.]+,$", line)]
