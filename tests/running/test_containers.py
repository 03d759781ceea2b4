"""Roles are followed through aliases, containers, properties, attributes and arguments."""

from __future__ import annotations

import pytest

from ampcheck.events import (
    Step,
)
from ampcheck.trace import Role, Trace
from tests.running.derived import derive, only, story, training, units


def steps(trace: Trace) -> list[tuple[str | None, str]]:
    """Which scaler steps which optimizer, each pair once."""
    return list(dict.fromkeys((event.scaler, event.optimizer) for _, event in trace.of(Step)))


def role(trace: Trace, identifier: str) -> Role:
    return trace.roles[identifier]


STEPPED = (
    "scaler.scale(model(x).mean()).backward()\nscaler.step(optimizer)\nscaler.update()\noptimizer.zero_grad()"
)


ALIASES = {
    "an alias": ("s = scaler", "s.{call}"),
    "a tuple": ("pair = (scaler, 1)", "pair[0].{call}"),
    "unpacking": ("s, _ = scaler, 1", "s.{call}"),
    "a list": ("held = [scaler]", "held[0].{call}"),
    "the end of a list": ("held = [None, scaler]", "held[-1].{call}"),
    "a dict": ("held = {'s': scaler}", "held['s'].{call}"),
    "a dict that is filled later": ("held = {}\nheld['s'] = scaler", "held['s'].{call}"),
    "get": ("held = {'s': scaler}", "held.get('s').{call}"),
    "append": ("held = []\nheld.append(scaler)", "held[0].{call}"),
    "an attribute": ("state.s = scaler", "state.s.{call}"),
    "a bound method": ("{method} = scaler.{method}", "{call}"),
    "partial": ("{method} = functools.partial(scaler.{method})", "{call}"),
    "a lambda": ("the = lambda: scaler", "the().{call}"),
    "a conditional expression": ("s = scaler if scaler else None", "s.{call}"),
    "or": ("s = scaler or None", "s.{call}"),
}


@pytest.mark.parametrize(("definition", "use"), ALIASES.values(), ids=ALIASES)
def test_a_scaler_is_followed_through(definition: str, use: str) -> None:
    calls = [("scale", "scale(model(x).mean())"), ("step", "step(optimizer)"), ("update", "update()")]
    per_method = "{method}" in definition
    before = "\n".join(definition.format(method=m) for m, _ in calls) if per_method else definition
    scale, step, update = (use.format(call=call) for _, call in calls)
    body = f"{scale}.backward()\n{step}\n{update}\noptimizer.zero_grad()"
    trace = only(derive(training(body, before=before, arguments="state")))
    assert story(trace, 0) == "backward step update zero"
    assert steps(trace) == [("scaler", "optimizer")]
    assert units(trace) == ["S"]


def test_a_loop_over_a_list_of_optimizers() -> None:
    source = """
        def train(a, b, loader):
            optimizers = [torch.optim.SGD(a.parameters(), 0.1), torch.optim.SGD(b.parameters(), 0.1)]
            scaler = GradScaler("cuda")
            for x, y in loader:
                for opt in optimizers:
                    opt.zero_grad()
                scaler.scale((a(x) + b(x)).mean()).backward()
                for opt in optimizers:
                    scaler.step(opt)
                scaler.update()
    """
    trace = only(derive(source))
    assert story(trace, 0) == "zero zero backward step step update"
    assert len(steps(trace)) == 2
    assert [r.models for r in trace.roles_of("optimizer")] == [("a",), ("b",)]


def test_a_loop_over_a_dict_of_optimizers() -> None:
    source = """
        def train(a, b, loader):
            optimizers = {"a": torch.optim.SGD(a.parameters(), 0.1), "b": torch.optim.SGD(b.parameters(), 0.1)}
            for x, y in loader:
                (a(x) + b(x)).mean().backward()
                for name, opt in optimizers.items():
                    opt.step()
                for opt in optimizers.values():
                    opt.zero_grad()
                optimizers["a"].zero_grad()
    """
    trace = only(derive(source))
    assert story(trace, 0) == "backward step step zero zero zero"
    assert len(steps(trace)) == 2


def test_zip_of_optimizers_and_schedulers() -> None:
    source = """
        def train(a, b, loader):
            opts = [torch.optim.SGD(a.parameters(), 0.1), torch.optim.SGD(b.parameters(), 0.1)]
            scheds = [torch.optim.lr_scheduler.StepLR(o, 1) for o in opts]
            for x, y in loader:
                (a(x) + b(x)).mean().backward()
                for opt, sched in zip(opts, scheds):
                    opt.step()
                    sched.step()
                    opt.zero_grad()
    """
    trace = only(derive(source))
    assert story(trace, 0) == "backward step schedule zero step schedule zero"


def test_a_property_alias() -> None:
    source = """
        class Trainer:
            def __init__(self, model):
                self.model = model
                self._scaler = GradScaler("cuda")
                self.optimizer = torch.optim.SGD(model.parameters(), 0.1)

            @property
            def grad_scaler(self):
                return self._scaler

            def fit(self, loader):
                for x, y in loader:
                    self.grad_scaler.scale(self.model(x).mean()).backward()
                    self._scaler.step(self.optimizer)
                    self.grad_scaler.update()
                    self.optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert story(trace, 0) == "backward step update zero"
    assert steps(trace) == [("self._scaler", "self.optimizer")]


def test_an_attribute_that_another_method_sets() -> None:
    source = """
        class Trainer:
            def setup(self):
                self.scaler = GradScaler("cuda")
                self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

            def fit(self, loader):
                for x, y in loader:
                    self.scaler.scale(self.model(x).mean()).backward()
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
                    self.optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert story(trace, 0) == "backward step update zero"
    assert role(trace, "self.scaler").detail == "GradScaler"
    assert role(trace, "self.optimizer").known


def test_an_attribute_of_a_base_class() -> None:
    source = """
        class Base:
            def __init__(self, model):
                self.model = model
                self.optimizer = torch.optim.SGD(model.parameters(), 0.1)

        class Trainer(Base):
            def __init__(self, model):
                super().__init__(model)
                self.scaler = GradScaler("cuda")

            def fit(self, loader):
                for x, y in loader:
                    self.scaler.scale(self.model(x).mean()).backward()
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
                    self.optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert story(trace, 0) == "backward step update zero"
    assert role(trace, "self.optimizer").known


def test_a_global_scaler() -> None:
    source = """
        scaler = GradScaler("cuda")

        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x, y in loader:
                scaler.scale(model(x).mean()).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert steps(trace) == [("scaler", "optimizer")]
    assert role(trace, "scaler").detail == "GradScaler"


def test_arguments_at_the_call_tell_what_a_parameter_is() -> None:
    source = """
        def one_step(net, thing, gs, x):
            gs.scale(net(x).mean()).backward()
            gs.step(thing)
            gs.update()
            thing.zero_grad()

        def main(model, loader):
            opt = torch.optim.SGD(model.parameters(), 0.1)
            scaler = GradScaler("cuda")
            for x, y in loader:
                one_step(model, opt, gs=scaler, x=x)
    """
    trace = only(derive(source))
    assert trace.root == "main"
    assert steps(trace) == [("scaler", "opt")]
    assert role(trace, "opt").known


def test_two_objects_of_one_name_are_two_roles() -> None:
    source = """
        def train(model, other, loader):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x, y in loader:
                model(x).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            optimizer = torch.optim.SGD(other.parameters(), 0.1)
            for x, y in loader:
                other(x).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert len(trace.roles_of("optimizer")) == 2
    assert len({event.optimizer for _, event in trace.of(Step)}) == 2
