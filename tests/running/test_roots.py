"""Where a run begins, and what a function is taken to find that holds only part of a step."""

from __future__ import annotations

import pytest

from ampcheck.events import Backward, Clip, Step
from tests.running.derived import derive, holding, loop, micros, only, story, usual

ONE_STEP = "{model}(x).mean().backward()\n{optimizer}.step()\n{optimizer}.zero_grad()"


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
            main(nn.Linear(2, 1), get_loader())
    """
    trace = only(derive(source))
    assert trace.root == "the module"
    assert micros(trace, Step) == [0, 1, 2]


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
