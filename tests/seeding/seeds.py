"""One small edit for each rule: what somebody forgets, doubles or misplaces in a loop that was right."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.seeding import dressings as dress
from tests.seeding.script import (
    AUTOCAST,
    BACKWARD,
    BEFORE,
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
    Edit,
    Impossible,
    Script,
)

__all__ = ["LOOPS", "SEEDS", "UNSEEDED", "Seed", "dressed", "seeded"]

LOOPS: tuple[Path, ...] = tuple(sorted((Path(__file__).parent / "loops").glob("*.py")))

UNSEEDED = {
    "AMP318": "it is about the data, not about the loop",
    "AMP410": "it is never certain: whether ranks see different data is not in the code",
    "AMP606": "it lies in configurations, which contradict each other with any loop",
    "AMP701": "it lies in the hooks of a trainer, which has no loop of the user's own",
    "AMP900": "it is about files",
    "AMP901": "it is about comments",
    "AMP902": "it is about the analysis",
    "AMP903": "it is about the analysis",
}
"""Rules whose fault is not one of a loop."""


@dataclass(frozen=True)
class Seed:
    """How a rule's fault is put into a loop, which is dressed for it first."""

    code: str
    edit: Edit
    wearing: tuple[Edit, ...] = ()


SEEDS: dict[str, Seed] = {}


def fault(code: str, *wearing: Edit) -> Callable[[Edit], Edit]:
    """Make an edit the seed of a rule."""

    def register(edit: Edit) -> Edit:
        SEEDS[code] = Seed(code, edit, wearing)
        return edit

    return register


def dressed(loop: Path, seed: Seed) -> Script:
    """A correct loop in what the fault needs; raises `Impossible`."""
    script = Script(loop.read_text(encoding="utf-8"))
    for dressing in seed.wearing:
        dressing(script)
    return script


def seeded(loop: Path, seed: Seed) -> str:
    """The faulty source; raises `Impossible`."""
    script = dressed(loop, seed)
    before = script.source
    seed.edit(script)
    script.fill()
    if script.source == before:
        raise AssertionError(f"the seed of {seed.code} changes nothing in {loop.stem}")
    return script.source


# --- the loss scale ---


def _look(script: Script) -> str:
    return f"for parameter in {script.name('model')}.parameters():"


@fault("AMP101")
def _(s: Script) -> None:
    s.drop(UNSCALE)


@fault("AMP102")
def _(s: Script) -> None:
    norms = f"[p.grad.norm() for p in {s.name('model')}.parameters()]"
    s.before(UNSCALE, f"print(torch.stack({norms}).norm())")
    _once(s, r"print\(torch\.stack")


def _once(s: Script, mark: str) -> None:
    """Of lines that were put before each of several statements in a row, only the first."""
    places = s.places(mark)
    for i in reversed(places[1:]):
        if i - places[0] < 4:
            del s.lines[i]


@fault("AMP103")
def _(s: Script) -> None:
    noise = f"{_look(s)} parameter.grad.add_(torch.randn_like(parameter.grad))"
    s.before(UNSCALE, noise)
    _once(s, r"randn_like")


@fault("AMP104")
def _(s: Script) -> None:
    for optimizer in s.names("optimizer"):
        s.after(rf"{re.escape(optimizer)}\.zero_grad", f"{s.name('scaler')}.unscale_({optimizer})")


@fault("AMP105")
def _(s: Script) -> None:
    if not s.has(DIVIDE):
        raise Impossible("it has no window")
    calls = next((mark for mark in dress.CALLS if s.has(mark)), BACKWARD)
    s.move_after(UNSCALE, calls)


@fault("AMP106")
def _(s: Script) -> None:
    s.double(UNSCALE)


@fault("AMP107")
def _(s: Script) -> None:
    s.after(STEP, *dict.fromkeys(s.texts(UNSCALE)))
    if len(s.names("optimizer")) > 1:
        del s.lines[s.places(STEP)[0] + 1 : s.places(STEP)[0] + 3]


@fault("AMP108")
def _(s: Script) -> None:
    _scaled(s)
    s.double(STEP)


def _scaled(s: Script) -> None:
    """Only where there is a scaler."""
    s.places(SCALER)


@fault("AMP109")
def _(s: Script) -> None:
    if not s.has(DIVIDE):
        raise Impossible("it has no window")
    s.move_after(UPDATE, BACKWARD)


@fault("AMP110", dress.two_optimizers)
def _(s: Script) -> None:
    first = s.places(STEP)[0]
    s.lines.insert(first + 1, s.indent(first) + s.texts(UPDATE)[0])


@fault("AMP111")
def _(s: Script) -> None:
    s.double(UPDATE)


@fault("AMP112")
def _(s: Script) -> None:
    s.drop(UPDATE)


@fault("AMP113")
def _(s: Script) -> None:
    s.replace(STEP, r"[\w.]+\.step\(([\w.]+)\)", r"\1.step()")
    for mark in (UNSCALE, CLIP, UPDATE):
        s.drop(mark)


@fault("AMP114")
def _(s: Script) -> None:
    _scaled(s)
    s.replace(BACKWARD, r"[\w.]+\.scale\(loss\)", "loss")


@fault("AMP115")
def _(s: Script) -> None:
    _scaled(s)
    s.replace(BACKWARD, r"([\w.]+)\.scale\(loss\)", r"\1.scale(\1.scale(loss))")


@fault("AMP116")
def _(s: Script) -> None:
    _scaled(s)
    s.replace(BACKWARD, r"[\w.]+\.scale\(loss\)", "other.scale(loss)")
    s.on_top("", 'other = torch.amp.GradScaler("cuda", init_scale=1024.0)')


@fault("AMP117")
def _(s: Script) -> None:
    scaled, model = s.name("scaler"), s.name("model")
    s.before(
        DIVIDE if s.has(DIVIDE) else BACKWARD,
        f"grads = torch.autograd.grad({scaled}.scale(loss), {model}.parameters(), create_graph=True)",
        "loss = loss + (torch.cat([g.flatten() for g in grads]).norm() - 1) ** 2",
    )


@fault("AMP118")
def _(s: Script) -> None:
    s.before(UNSCALE, f"{_look(s)} parameter.grad.nan_to_num_()")
    _once(s, r"nan_to_num_")


@fault("AMP119")
def _(s: Script) -> None:
    built = f'{s.name("scaler")} = torch.amp.GradScaler("cuda")'
    if s.has(r"def learn\("):
        s.before(r"total = 0\.0$", built)
    else:
        s.after(EPOCHS, built, deeper=1)


@fault("AMP120")
def _(s: Script) -> None:
    _scaled(s)
    s.replace(STEP, r"\)$", ", closure=lambda: None)")


@fault("AMP121")
def _(s: Script) -> None:
    _scaled(s)
    s.replace(STEP, r"\S+\.step\(.*\)$", r"if \g<0> is None: print('skipped')")


@fault("AMP122")
def _(s: Script) -> None:
    s.after(UPDATE, f"print({s.name('scaler')}._growth_tracker)")


@fault("AMP123")
def _(s: Script) -> None:
    s.places(UNSCALE)
    s.replace(STEP, r"[\w.]+\.step\(([\w.]+)\)", r"\1.step()")


# --- clipping ---


@fault("AMP201", dress.single, dress.plain)
def _(s: Script) -> None:
    clip = _anywhere(s.texts(CLIP)[0])
    s.drop(CLIP)
    s.before(BACKWARD, clip)


def _anywhere(clip: str) -> str:
    """A clip whose threshold is in scope everywhere."""
    return re.sub(r", max_norm\)", ", 1.0)", clip)


@fault("AMP202")
def _(s: Script) -> None:
    s.move_after(CLIP, STEP)
    if len(s.names("optimizer")) > 1:
        s.drop(CLIP, 1)


@fault("AMP203", dress.plain)
def _(s: Script) -> None:
    s.places(DIVIDE)
    clip = _anywhere(s.texts(CLIP)[0])
    s.drop(CLIP)
    s.after(BACKWARD, clip)


@fault("AMP204")
def _(s: Script) -> None:
    pattern = r"(\S*clip_grad_norm_)\((\[.*\]|[^,]+), (.*)\)$"
    s.replace(CLIP, pattern, r"for parameter in \2: \1([parameter], \3)")


@fault("AMP205", dress.two_optimizers)
def _(s: Script) -> None:
    places = s.places(UNSCALE)
    del s.lines[places[1]]
    if len(places) > 2:
        del s.lines[places[3] - 1]


@fault("AMP206")
def _(s: Script) -> None:
    s.replace(CLIP, r"\((\[.*\]|[^,]+), ", "(parameters, ")
    s.before(
        CLIP,
        f"parameters = filter(lambda p: p.requires_grad, {s.name('model')}.parameters())",
        "print(torch.stack([p.grad.norm() for p in parameters]).norm())",
    )


@fault("AMP207", dress.sharded)
def _(s: Script) -> None:
    s.replace(
        CLIP, r"([\w.]+)\.clip_grad_norm_\((.*)\)$", r"torch.nn.utils.clip_grad_norm_(\1.parameters(), \2)"
    )


@fault("AMP208")
def _(s: Script) -> None:
    _scaled(s)
    s.replace(CLIP, r"\)$", ", error_if_nonfinite=True)")


@fault("AMP209", dress.engined)
def _(s: Script) -> None:
    model = s.name("model")
    s.before(rf"{re.escape(model)}\.step\(\)", f"torch.nn.utils.clip_grad_norm_({model}.parameters(), 1.0)")


# --- windows ---


@fault("AMP301")
def _(s: Script) -> None:
    s.places(DIVIDE)
    steps = s.texts(STEP)[: len(s.names("optimizer"))] + (s.texts(UPDATE)[:1] if s.has(UPDATE) else [])
    for mark in (UNSCALE, CLIP, BEFORE, STEP, UPDATE):
        if s.has(mark):
            s.drop(mark)
    if s.has(GUARD):
        s.unwrap(GUARD)
    s.after(dress.CALLS[0] if s.has(dress.CALLS[0]) else BACKWARD, *steps)


@fault("AMP302")
def _(s: Script) -> None:
    s.places(DIVIDE)
    s.before(AUTOCAST, *(f"{o}.zero_grad()" for o in _in_scope(s)))


def _in_scope(s: Script) -> list[str]:
    """What zeroes where the forward is: a function that is handed the model alone zeroes that."""
    return [s.name("model")] if s.has(r"def accumulate") else s.names("optimizer")


@fault("AMP303")
def _(s: Script) -> None:
    texts = s.texts(ZERO)[: len(s.names("optimizer"))]
    s.drop(ZERO)
    mark = BEFORE if s.has(BEFORE) else STEP
    s.before(mark, *texts)
    if len(texts) > 1:
        places = s.places(ZERO)
        del s.lines[places[2] : places[3] + 1]


@fault("AMP304")
def _(s: Script) -> None:
    s.drop(ZERO)


@fault("AMP305")
def _(s: Script) -> None:
    s.drop(DIVIDE)


@fault("AMP306")
def _(s: Script) -> None:
    s.double(DIVIDE)


@fault("AMP307")
def _(s: Script) -> None:
    s.places(DIVIDE)
    if s.has(r"if pending:$"):
        start = s.places(r"if pending:$")[0]
        del s.lines[start : s.block(start).stop]
        return
    tail = r"% [\w.]+ == (0|\w+ - 1) or .*len\(.*?\)( - 1)?"
    if not s.has(tail):
        raise Impossible("its windows do not end with epochs")
    s.replace(tail, r" or .*len\([\w.]+\)( - 1)?", "")


@fault("AMP308")
def _(s: Script) -> None:
    s.places(DIVIDE)
    if s.has(r"start=1"):
        s.replace(r"start=1", r", start=1", "")
    elif s.has(r"(count|micro_step) \+= 1"):
        count = s.texts(r"(count|micro_step) \+= 1")[0]
        s.drop(r"(count|micro_step) \+= 1")
        loop = s.places(r"for .* in loader:")[0]
        s.lines.insert(s.block(loop).stop, f"{s.indent(loop)}    {count}")
    elif s.has(r"== window - 1"):
        s.replace(r"== window - 1", r"== window - 1", "== 0")
    elif s.has(r"\(?\w+ \+ 1\)? % "):
        s.replace(r"\(?\w+ \+ 1\)? % ", r"\((\w+) \+ 1\) %", r"\1 %")
    else:
        raise Impossible("its boundary is no remainder")


@fault("AMP310")
def _(s: Script) -> None:
    s.places(DIVIDE)
    if s.has(r"nn\.CrossEntropyLoss\(\)"):
        s.replace(r"nn\.CrossEntropyLoss\(\)", r"Loss\(\)", 'Loss(reduction="sum")')
    elif s.has(r"\.square\(\)\.mean\(\)"):
        s.replace(LOSS, r"\.mean\(\)", ".sum()")
    else:
        s.replace(LOSS, r"\)$", ', reduction="sum")')


@fault("AMP311")
def _(s: Script) -> None:
    nested = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
    forward = re.search(rf"(?:self\.)?(?:model|net|decoder){nested}", s.texts(LOSS)[0])
    assert forward
    s.after(DIVIDE, f"loss = loss + 1e-4 * {forward[0]}.square().mean()")


@fault("AMP312")
def _(s: Script) -> None:
    window = s.name("window")
    if s.has(r"pending = 0$"):
        s.after(r"for images, labels in loader", "pending = 0", deeper=1)
        start = s.places(r"if pending:$")[0]
        del s.lines[start : s.block(start).stop]
    elif s.has(r"if number \+ 1 == self"):
        s.replace(r"if number \+ 1 == self", r"number \+ 1", "number")
    elif s.has(r"% window == window - 1"):
        s.replace(r"== window - 1", r"== window - 1( or .*?len\(loader\) - 1)?", "== window")
    elif s.has(r"% [\w.]+ == 0"):
        pattern = rf"% {re.escape(window)} == 0( or .*?len\([\w.]+\)( - 1)?)?"
        s.replace(r"% [\w.]+ == 0", pattern, f"% {window} == {window}")
    else:
        raise Impossible("it has no boundary test")


@fault("AMP313")
def _(s: Script) -> None:
    s.places(BEFORE)
    zero = s.texts(ZERO)[0]
    s.drop(ZERO)
    s.after(SCHEDULE, zero)


@fault("AMP314", dress.engined)
def _(s: Script) -> None:
    if not dress.windowed(s):
        raise Impossible("it has no window")
    model = s.name("model")
    s.drop(rf"^\s+{re.escape(model)}\.step\(\)$")
    s.replace(r"pass  # boundary", r"pass  # boundary", f"{model}.step()")


@fault("AMP315", dress.accelerated)
def _(s: Script) -> None:
    if not s.has(r"steps=4"):
        raise Impossible("it has no window")
    i = s.places(r"accelerator\.accumulate\(")[0]
    inside = s.block(i)
    for j in inside:
        s.lines[j] = "    " + s.lines[j]
    s.lines.insert(i + 1, "    " + s.lines[i])


@fault("AMP316")
def _(s: Script) -> None:
    s.places(DIVIDE)
    if s.has(r"for _ in range\(gradient"):
        raise Impossible("its window has no boundary test")
    if s.has(r"(pending|micro_step) \+= 1"):
        raise Impossible("it counts only micro-batches that have a backward")
    call = next((mark for mark in dress.CALLS if s.has(mark)), "")
    names = ("images", "samples", "x")
    batch = next((name for name in names if s.has(rf"for .*\b{name}\b.* in ")), "batch[0]")
    if s.has(r'batch\["tokens"\]'):
        batch = 'batch["tokens"]'
    s.before(call or AUTOCAST, f"if {batch}.isnan().any(): continue")


@fault("AMP317", dress.two_losses)
def _(s: Script) -> None:
    s.move_after(r"critic_optimizer\.zero_grad", r"critic_optimizer\.step")


# --- ranks ---


@fault("AMP401", dress.synchronised)
def _(s: Script) -> None:
    s.places(DIVIDE)
    s.unwrap(r"with .*no_sync\(\)")


@fault("AMP402", dress.synchronised)
def _(s: Script) -> None:
    s.places(DIVIDE)
    s.replace(r"with .*no_sync\(\)", r"\(?nullcontext\(\) if [^,]*? else ([\w.]+\.no_sync\(\))\)?", r"\1")


@fault("AMP403", dress.synchronised)
def _(s: Script) -> None:
    s.places(DIVIDE)
    s.unwrap(r"with .*no_sync\(\)")
    models = ", ".join(f"{model}.no_sync()" for model in s.names("model"))
    s.wrap(BACKWARD, BACKWARD, f"with {models}:")


@fault("AMP404", dress.synchronised)
def _(s: Script) -> None:
    s.before(BACKWARD, "loss = loss / torch.distributed.get_world_size()")


@fault("AMP405", dress.synchronised)
def _(s: Script) -> None:
    s.replace(LOSS, r"\b(model|net|decoder|encoder)\(", r"\1.module(")


@fault("AMP406", dress.sharded)
def _(s: Script) -> None:
    s.replace(r"= ShardedGradScaler", "ShardedGradScaler", "torch.amp.GradScaler")


@fault("AMP407", dress.engined)
def _(s: Script) -> None:
    call = next((mark for mark in dress.CALLS if s.has(mark)), "")
    model = s.name("model")
    s.wrap(call or AUTOCAST, call or rf"{re.escape(model)}\.backward\(loss\)", f"with {model}.no_sync():")


@fault("AMP408", dress.reduced)
def _(s: Script) -> None:
    s.move_after(r"^\s+average\(", CLIP)


@fault("AMP409", dress.fsdp2)
def _(s: Script) -> None:
    for model in s.names("model"):
        s.move_after(
            rf"fully_shard\({re.escape(model)}\)", rf"= torch\.optim\.\w+\({re.escape(model)}\.parameters"
        )


# --- schedules, averages ---


@fault("AMP501")
def _(s: Script) -> None:
    s.places(DIVIDE)
    if s.has(r"def accumulate"):
        schedule = "scheduler.step()"
        s.drop(SCHEDULE)
        s.after(r"total \+= accumulate\(", schedule)
    else:
        s.move_after(SCHEDULE, BACKWARD)
    if s.has(GUARD):
        s.drop(GUARD)


@fault("AMP502")
def _(s: Script) -> None:
    s.move_before(SCHEDULE, BEFORE if s.has(BEFORE) else STEP)
    if s.has(GUARD):
        s.drop(GUARD)


@fault("AMP503")
def _(s: Script) -> None:
    s.unwrap(GUARD)


@fault("AMP504")
def _(s: Script) -> None:
    s.replace(GUARD, "<=", "==")


@fault("AMP505", dress.averaged)
def _(s: Script) -> None:
    s.places(DIVIDE)
    s.move_after(r"averaged\.update_parameters", BACKWARD)


@fault("AMP506")
def _(s: Script) -> None:
    s.double(SCHEDULE)


# --- precision, resuming ---


@fault("AMP601")
def _(s: Script) -> None:
    _scaled(s)
    s.replace(AUTOCAST, "float16", "bfloat16")


@fault("AMP602")
def _(s: Script) -> None:
    _scaled(s)
    s.before(OPTIMIZER, f"{s.name('model')}.half()")


@fault("AMP603")
def _(s: Script) -> None:
    for i in range(s.places(LOSS)[0] + 1, s.places(BACKWARD)[0] + 1):
        s.lines[i] = "    " + s.lines[i]


@fault("AMP604")
def _(s: Script) -> None:
    s.replace(AUTOCAST, r"torch\.autocast\(\"cuda\", ", "torch.cuda.amp.autocast(")


RECOMPUTE = """

class Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, x):
        ctx.function = function
        ctx.save_for_backward(x)
        with torch.no_grad():
            return function(x)

    @staticmethod
    def backward(ctx, grad):
        x = ctx.saved_tensors[0].detach().requires_grad_(True)
        with torch.enable_grad():
            output = ctx.function(x)
        torch.autograd.backward(output, grad)
        return None, x.grad
"""


@fault("AMP605")
def _(s: Script) -> None:
    s.replace(LOSS, r"\b((?:self\.)?(?:model|net|encoder))\(", r"Recompute.apply(\1, ")
    s.on_top(*RECOMPUTE.splitlines())


@fault("AMP607", dress.plain)
def _(s: Script) -> None:
    s.replace(AUTOCAST, "bfloat16", "float16")


@fault("AMP702", dress.accelerated)
def _(s: Script) -> None:
    s.replace(r"accelerator\.backward", r"accelerator\.backward\(loss\)", "loss.backward()")


@fault("AMP801", dress.saved)
def _(s: Script) -> None:
    s.replace(r"torch\.save", r', "scaler": [\w.]+\(\)', "")


@fault("AMP802")
def _(s: Script) -> None:
    s.before(UPDATE, f"torch.save({s.name('scaler')}.state_dict(), 'scaler.pt')")
