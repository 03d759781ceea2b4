"""Functions of the project are run where they are called: helpers, methods, closures, generators, hooks, contexts."""

from __future__ import annotations

import pytest

from ampcheck.events import Autocast, Backward, Clip, Edit, Step
from tests.running.derived import derive, holding, loop, micros, only, story, training, units, usual


def test_a_helper_runs_where_it_is_called() -> None:
    source = """
        def finish(scaler, optimizer, model):
            scaler.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            scaler = GradScaler("cuda")
            for x, y in loader:
                scaler.scale(model(x).mean()).backward()
                finish(scaler, optimizer, model)
    """
    trace = only(derive(source))
    assert trace.root == "train"
    assert story(trace, 0) == "backward unscale clip step update zero"
    (record, *_) = (r for r, _ in trace.of(Clip))
    assert [site.line for site in record.calls] == [9, 14]
    assert record.event.site.line == 4


ONE_STEP = "{model}(x).mean().backward()\n{optimizer}.step()\n{optimizer}.zero_grad()"
HELPERS = {
    "positional": ("def go(net, opt, x):", "go(model, optimizer, x)"),
    "keywords": ("def go(x, *, opt, net):", "go(x, net=model, opt=optimizer)"),
    "star args": ("def go(*args):\n    net, opt, x = args", "go(model, optimizer, x)"),
    "star at the call": ("def go(net, opt, x):", "go(*[model, optimizer], x)"),
    "star star at the call": ("def go(net, opt, x):", "go(**{'net': model, 'opt': optimizer, 'x': x})"),
    "star star": ("def go(x, **kw):\n    net, opt = kw['net'], kw['opt']", "go(x, net=model, opt=optimizer)"),
    "partial": ("def go(net, opt, x):", "functools.partial(go, model, optimizer)(x)"),
    "keywords of partial": ("def go(x, net, opt):", "functools.partial(go, opt=optimizer)(x, model)"),
    "a decorator": ("@functools.wraps(print)\ndef go(net, opt, x):", "go(model, optimizer, x)"),
    "no_grad is no step": ("@torch.compile\ndef go(net, opt, x):", "go(model, optimizer, x)"),
    "async": ("async def go(net, opt, x):", "await go(model, optimizer, x)"),
}


@pytest.mark.parametrize(("head", "call"), HELPERS.values(), ids=HELPERS)
def test_arguments_are_bound_as_python_binds_them(head: str, call: str) -> None:
    body = ONE_STEP.format(model="net", optimizer="opt").replace("\n", "\n    ")
    source = f"{head}\n    {body}\n\n" + loop(call)
    if "await" in call:
        source = source.replace("def train", "async def train")
    trace = only(derive(source))
    assert story(trace, 0) == "backward step zero"
    assert [b.reaches for _, b in trace.of(Backward)] == [("optimizer",)] * 3


def test_a_closure_sees_the_names_around_it() -> None:
    source = """
        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)

            def one(x):
                model(x).mean().backward()
                finish()

            def finish():
                optimizer.step()
                optimizer.zero_grad()

            for x, y in loader:
                one(x)
    """
    assert story(only(derive(source)), 0) == "backward step zero"


def test_a_closure_given_to_the_optimizer_runs_in_its_step() -> None:
    body = """
        def closure():
            optimizer.zero_grad()
            loss = model(x).mean()
            loss.backward()
            return loss
        optimizer.step(closure)
    """
    trace = only(derive(loop(body)))
    assert story(trace, 0) == "zero backward step"
    assert all(event.closure for _, event in trace.of(Step))


def test_a_lambda() -> None:
    body = "model(x).mean().backward()\nfinish = lambda: optimizer.step()\nfinish()\noptimizer.zero_grad()"
    assert story(only(derive(loop(body))), 0) == "backward step zero"


def test_the_value_of_a_function_keeps_its_unit() -> None:
    source = """
        def loss_of(model, x, k):
            return model(x).mean() / k

        def train(model, loader, k):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for i, (x, y) in enumerate(loader):
                loss_of(model, x, k).backward()
                if (i + 1) % k == 0:
                    optimizer.step()
                    optimizer.zero_grad()
    """
    assert units(only(derive(source))) == ["1 / K"]


def test_a_functions_tuple_is_taken_apart() -> None:
    source = """
        def build(model):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            return optimizer, GradScaler("cuda")

        def train(model, loader):
            optimizer, scaler = build(model)
            for x, y in loader:
                scaler.scale(model(x).mean()).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert story(trace, 0) == "backward step update zero"
    assert trace.roles_of("optimizer")[0].known


def test_an_early_return_ends_the_helper_alone() -> None:
    source = """
        def maybe_step(optimizer, ready):
            if not ready:
                return
            optimizer.step()
            optimizer.zero_grad()

        def train(model, loader, k):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for i, (x, y) in enumerate(loader):
                (model(x).mean() / k).backward()
                maybe_step(optimizer, (i + 1) % k == 0)
    """
    trace = only(derive(source))
    assert micros(trace, Step) == [2, 5]
    assert micros(trace, Backward) == list(range(7))


def test_recursion_ends() -> None:
    source = """
        def descend(model, x, depth):
            model(x).mean().backward()
            return descend(model, x, depth - 1)

        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x, y in loader:
                descend(model, x, 100)
                optimizer.step()
    """
    explored = derive(source)
    assert any(micros(trace, Step) for trace in explored.traces)


def test_mutual_recursion_ends() -> None:
    source = "def a(m, x):\n    m(x).mean().backward()\n    b(m, x)\n\ndef b(m, x):\n    a(m, x)\n\n" + loop(
        "a(model, x)"
    )
    assert derive(source).traces


def test_a_callable_object() -> None:
    source = """
        class NativeScaler:
            def __init__(self):
                self._scaler = GradScaler("cuda")

            def __call__(self, loss, optimizer, clip_grad=None, parameters=None):
                self._scaler.scale(loss).backward()
                if clip_grad is not None:
                    self._scaler.unscale_(optimizer)
                    clip_grad_norm_(parameters, clip_grad)
                self._scaler.step(optimizer)
                self._scaler.update()

        def main(model, loader, args):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            loss_scaler = NativeScaler()
            for x, y in loader:
                optimizer.zero_grad()
                loss_scaler(model(x).mean(), optimizer, clip_grad=args.clip, parameters=model.parameters())
    """
    stories = {story(trace, 0) for trace in derive(source).traces if trace.root == "main"}
    assert stories == {"zero backward unscale clip step update", "zero backward step update"}


def test_static_and_class_methods() -> None:
    source = """
        class Trainer:
            def __init__(self, model):
                self.model = model
                self.optimizer = torch.optim.SGD(model.parameters(), 0.1)

            @staticmethod
            def step(optimizer):
                optimizer.step()

            @classmethod
            def zero(cls, optimizer):
                optimizer.zero_grad()

            def fit(self, loader):
                for x, y in loader:
                    self.model(x).mean().backward()
                    self.step(self.optimizer)
                    self.zero(self.optimizer)
    """
    assert story(only(derive(source)), 0) == "backward step zero"


def test_a_method_of_the_projects_own_module() -> None:
    source = """
        class Net(nn.Module):
            def loss(self, x):
                return self(x).mean()

        def train(loader):
            net = Net()
            optimizer = torch.optim.SGD(net.parameters(), 0.1)
            for x, y in loader:
                net.loss(x).backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert story(trace, 0) == "backward step zero"
    assert {b.reaches for _, b in trace.of(Backward)} == {("optimizer",)}


# --- generators and iterables -----------------------------------------------------------------------------------


def test_a_generator_of_micro_batches() -> None:
    source = """
        def micro_batches(loader):
            for x, y in loader:
                yield x

        def train(model, loader, k):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for i, x in enumerate(micro_batches(loader)):
                (model(x).mean() / k).backward()
                if (i + 1) % k == 0:
                    optimizer.step()
                    optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert micros(trace, Backward) == list(range(7))
    assert micros(trace, Step) == [2, 5]


def test_a_generator_that_never_ends() -> None:
    source = """
        def forever(loader):
            while True:
                for x, y in loader:
                    yield x

        def train(model, loader, k):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for i, x in enumerate(forever(loader)):
                (model(x).mean() / k).backward()
                if (i + 1) % k == 0:
                    optimizer.step()
                    optimizer.zero_grad()
    """
    assert micros(only(derive(source)), Step) == [2, 5]


def test_yield_from() -> None:
    source = """
        def pairs(a, b):
            yield from [a, b]

        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x, y in loader:
                for one in pairs(x, y):
                    model(one).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    assert story(only(derive(source)), 0).startswith("backward")


ITERABLES = {
    "zip": "for (x, y), z in zip(loader, other):",
    "cycle": "for (x, y), z in zip(loader, itertools.cycle(other)):",
    "tqdm": "for x, y in tqdm(loader):",
    "enumerate of tqdm": "for i, (x, y) in enumerate(tqdm(loader, desc='train')):",
    "islice": "for x, y in itertools.islice(loader, 10):",
    "chain": "for x, y in itertools.chain(loader, other):",
    "range": "for i in range(len(loader)):\n    x, y = next(it)",
    "an attribute": "for x, y in data.train:",
    "a call": "for x, y in get_loader():",
    "an item": "for x, y in loaders['train']:",
    "batch": "for batch in loader:\n    x = batch['x'].cuda()",
    "while True": "while True:\n    x, y = next(it)",
}


@pytest.mark.parametrize("head", ITERABLES.values(), ids=ITERABLES)
def test_loops_over_data(head: str) -> None:
    source = (
        "from tqdm import tqdm\n\ndef train(model, loader, other, it, data, get_loader, loaders):\n"
        "    optimizer = torch.optim.SGD(model.parameters(), 0.1)\n    "
        + head.replace("\n", "\n    ")
        + "\n        model(x).mean().backward()\n        optimizer.step()\n        optimizer.zero_grad()\n"
    )
    trace = only(derive(source))
    assert micros(trace, Step) == [0, 1, 2]
    assert len({record.iteration for record, _ in trace.of(Step)}) == 3


# --- contexts ---------------------------------------------------------------------------------------------------


SYNCED = """
    def train(model, loader, k):
        model = DDP(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for i, (x, y) in enumerate(loader):
            last = (i + 1) % k == 0
{block}
            if last:
                optimizer.step()
                optimizer.zero_grad()
"""
FORWARD_BACKWARD = "(model(x).mean() / k).backward()"
CONTEXTS = {
    "a conditional expression": f"with nullcontext() if last else model.no_sync():\n    {FORWARD_BACKWARD}",
    "the other way round": f"with model.no_sync() if not last else nullcontext():\n    {FORWARD_BACKWARD}",
    "a variable": f"context = model.no_sync if not last else nullcontext\nwith context():\n    {FORWARD_BACKWARD}",
    "an if": f"if last:\n    {FORWARD_BACKWARD}\nelse:\n    with model.no_sync():\n        {FORWARD_BACKWARD}",
    "an ExitStack": (
        "with ExitStack() as stack:\n    if not last:\n        stack.enter_context(model.no_sync())\n    "
        + FORWARD_BACKWARD
    ),
    "a switch": f"model.require_backward_grad_sync = last\n{FORWARD_BACKWARD}",
    "FSDP2's switch": f"model.set_requires_gradient_sync(last)\n{FORWARD_BACKWARD}",
    "two contexts": (
        'with autocast("cuda"), (nullcontext() if last else model.no_sync()):\n    ' + FORWARD_BACKWARD
    ),
}


@pytest.mark.parametrize("block", CONTEXTS.values(), ids=CONTEXTS)
def test_all_but_the_last_backward_unsynchronised(block: str) -> None:
    indented = "\n".join(" " * 12 + line for line in block.split("\n"))
    trace = only(derive(SYNCED.format(block=indented)))
    assert micros(trace, Step) == [2, 5]
    synced = {b.micro: b.synced for _, b in trace.of(Backward)}
    assert synced == {0: False, 1: False, 2: True, 3: False, 4: False, 5: True, 6: False}
    assert all(f.wrapper == "ddp" for _, b in trace.of(Backward) for f in b.loss.forwards)
    assert trace.window is not None


def test_no_sync_around_the_backward_alone_leaves_the_forward_synchronised() -> None:
    body = """
        loss = model(x).mean()
        with model.no_sync():
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    """
    trace = only(derive(loop(body, before="model = DDP(model)")))
    for _, event in trace.of(Backward):
        assert not event.synced
        assert [f.synced for f in event.loss.forwards] == [True]


def test_no_sync_ends_with_its_block() -> None:
    body = """
        with model.no_sync():
            model(x).mean().backward()
        model(y).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    """
    trace = only(derive(loop(body, before="model = DDP(model)")))
    assert [b.synced for _, b in trace.of(Backward)][:2] == [False, True]


@pytest.mark.parametrize(
    ("context", "dtypes"),
    [
        ('autocast("cuda")', ["float16"]),
        ("torch.cuda.amp.autocast()", ["float16"]),
        ('autocast("cuda", dtype=torch.bfloat16)', ["bfloat16"]),
        ('torch.autocast("cuda", torch.half)', ["float16"]),
        ('autocast("cuda", enabled=False)', []),
        ("nullcontext()", []),
    ],
)
def test_autocast_regions(context: str, dtypes: list[str]) -> None:
    body = f"with {context}:\n    loss = model(x).mean()\nloss.backward()\noptimizer.step()\noptimizer.zero_grad()"
    trace = only(derive(loop(body)))
    assert list(dict.fromkeys(event.dtype for _, event in trace.of(Autocast))) == dtypes


def test_an_unknown_precision_is_no_precision() -> None:
    body = (
        'with autocast("cuda", dtype=dtype):\n    loss = model(x).mean()\nloss.backward()\noptimizer.step()'
    )
    trace = usual(derive(loop(body, arguments="dtype")))
    assert {event.dtype for _, event in trace.of(Autocast)} == {""}


def test_a_context_manager_of_the_project_is_entered() -> None:
    source = """
        class Accumulate:
            def __enter__(self):
                return self
            def __exit__(self, *args):
                pass

        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x, y in loader:
                with Accumulate() as a, torch.enable_grad():
                    model(x).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    assert story(only(derive(source)), 0) == "backward step zero"


# --- hooks ------------------------------------------------------------------------------------------------------


def test_a_tensor_hook_runs_with_each_backward() -> None:
    before = "for p in model.parameters():\n    p.register_hook(lambda grad: grad.clamp(-1, 1))"
    body = "scaler.scale(model(x).mean()).backward()\nscaler.step(optimizer)\nscaler.update()\noptimizer.zero_grad()"
    trace = only(derive(training(body, before=before)))
    assert story(trace, 0) == "backward clip step update zero"
    clip = next(event for _, event in trace.of(Clip))
    assert (clip.style, clip.by, clip.owners) == ("value", "hook", ("optimizer",))


def test_a_named_hook() -> None:
    source = """
        def noise(grad):
            return grad + 0.1

        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for p in model.parameters():
                p.register_hook(noise)
            for x, y in loader:
                model(x).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert story(trace, 0) == "backward edit step zero"
    assert {event.effect for _, event in trace.of(Edit)} == {"shift"}


def test_an_optimizer_in_a_post_accumulate_hook_steps_with_each_backward() -> None:
    source = """
        def train(model, loader):
            optimizers = {p: torch.optim.SGD([p], 0.1) for p in model.parameters()}

            def hook(parameter):
                optimizers[parameter].step()
                optimizers[parameter].zero_grad()

            for p in model.parameters():
                p.register_post_accumulate_grad_hook(hook)
            for x, y in loader:
                model(x).mean().backward()
    """
    assert story(only(derive(source)), 0) == "backward step zero"


# --- roots ------------------------------------------------------------------------------------------------------


def test_module_code_is_a_root() -> None:
    source = """
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for epoch in range(10):
            for x, y in loader:
                model(x).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert trace.root == "the module"
    assert micros(trace, Step) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("guard", ['if __name__ == "__main__":', "if True:"])
def test_main_guards_are_entered(guard: str) -> None:
    source = f"""
        def main(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x, y in loader:
                model(x).mean().backward()
                optimizer.step()
                optimizer.zero_grad()

        {guard}
            main(nn.Linear(2, 1), [])
    """
    explored = derive(source)
    assert explored.traces
    assert story(explored.traces[-1]).startswith("backward") or explored.traces[0].root == "the module"


def test_a_step_function_without_a_loop_is_called_once_a_micro_batch() -> None:
    source = """
        def training_step(model, optimizer, scaler, x):
            scaler.scale(model(x).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    """
    trace = usual(derive(source))
    assert len(set(micros(trace, Backward))) == len(micros(trace, Step)) > 2
    assert trace.complete


def test_the_tail_of_a_step_finds_gradients_as_its_scaler_would_have_left_them() -> None:
    source = """
        def update(scaler, optimizer, model):
            clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    """
    trace = usual(derive(source))
    assert not trace.complete
    record, _ = next(trace.of(Clip))
    assert record.before.buffer("optimizer").is_scaled


def test_nothing_is_said_of_a_method_that_another_library_calls() -> None:
    source = """
        import lightning as L

        class Module(L.LightningModule):
            def training_step(self, batch):
                opt = self.optimizers()
                self.manual_backward(self(batch).mean())
                opt.step()
                opt.zero_grad()
    """
    assert not [t for t in derive(source).traces if any(t.of(Step))]


def test_one_root_for_each_function_that_nobody_calls() -> None:
    one = ONE_STEP.format(model="model", optimizer="optimizer")
    source = loop(one) + "\n\n" + loop(one).replace("def train", "def finetune")
    assert [trace.root for trace in derive(source).traces] == ["train", "finetune"]


def test_the_choices_of_a_helper_are_those_of_its_caller() -> None:
    source = """
        def helper(optimizer, model, clip):
            if clip:
                clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

        def train(model, loader, args):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x, y in loader:
                model(x).mean().backward()
                helper(optimizer, model, args.clip)
    """
    explored = derive(source)
    assert [story(t, 0) for t in holding(explored, args_clip=True)] == ["backward clip step zero"]
    assert [story(t, 0) for t in holding(explored, args_clip=False)] == ["backward step zero"]
