"""Functions of the project are run where they are called."""

from __future__ import annotations

import pytest

from ampcheck.events import Backward, Clip, Step
from tests.running.derived import derive, loop, micros, only, story, units


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
