"""Every way that people write "after each k-th micro-batch" is computed, and none of them is a choice.

A window of unknown length is run as three micro-batches and an epoch as seven: a correct boundary steps with the
micro-batches 2 and 5, and says nothing of the seventh, which is left over.
"""

from __future__ import annotations

import pytest

from ampcheck.events import Backward, Step, ZeroGrad
from tests.running.derived import derive, loop, micros, only, training

# What stands in the loop: a loss divided by k, and a step under the boundary test of each spelling.
SPELLINGS = {
    "i plus one": "if (i + 1) % k == 0:",
    "i alone, k minus one": "if i % k == k - 1:",
    "not modulo": "if not (i + 1) % k:",
    "negated": "if not ((i + 1) % k != 0):",
    "yoda": "if 0 == (i + 1) % k:",
    "less than one": "if (i + 1) % k < 1:",
    "of a local": "n = i + 1\nif n % k == 0:",
    "of a flag": "is_last = (i + 1) % k == 0\nif is_last:",
    "of a walrus": "if (is_last := (i + 1) % k == 0):",
    "of bool()": "if bool((i + 1) % k == 0):",
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_a_boundary_is_computed(spelling: str) -> None:
    body = (
        f"loss = model(x).mean() / k\nloss.backward()\n{spelling}\n    optimizer.step()\n"
        "    optimizer.zero_grad()"
    )
    trace = only(derive(loop(body)))
    assert micros(trace, Backward) == [0, 1, 2, 3, 4, 5, 6]
    assert micros(trace, Step) == micros(trace, ZeroGrad) == [2, 5]
    assert trace.window is not None
    assert (trace.window.length, trace.window.text, trace.window.literal) == (3, "k", False)
    assert {"division", "step", "zero"} <= trace.window.declared


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_it_is_a_guard_all_the_same(spelling: str) -> None:
    body = (
        f"loss = model(x).mean() / k\nloss.backward()\n{spelling}\n    optimizer.step()\n"
        "    optimizer.zero_grad()"
    )
    trace = only(derive(loop(body)))
    for record, _ in trace.of(Step):
        assert record.guards
        assert all(guard.boundary for guard in record.guards)


def test_a_step_counter_from_zero_completes_a_first_window_of_one() -> None:
    body = """
        (model(x).mean() / k).backward()
        if i % k == 0:
            optimizer.step()
            optimizer.zero_grad()
    """
    assert micros(only(derive(loop(body))), Step) == [0, 3, 6]


def test_enumerate_from_one_needs_no_plus_one() -> None:
    source = """
        def train(model, loader, k):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for i, (x, y) in enumerate(loader, start=1):
                (model(x).mean() / k).backward()
                if i % k == 0:
                    optimizer.step()
                    optimizer.zero_grad()
    """
    assert micros(only(derive(source)), Step) == [2, 5]


def test_the_last_batch_of_an_epoch_is_a_boundary_where_the_code_says_so() -> None:
    body = """
        (model(x).mean() / k).backward()
        if (i + 1) % k == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    """
    assert micros(only(derive(loop(body))), Step) == [2, 5, 6]


@pytest.mark.parametrize("last", ["i == len(loader) - 1", "(i + 1) == len(loader)", "i + 1 >= len(loader)"])
def test_other_spellings_of_the_last_batch(last: str) -> None:
    body = f"""
        (model(x).mean() / k).backward()
        if (i + 1) % k == 0 or {last}:
            optimizer.step()
            optimizer.zero_grad()
    """
    assert micros(only(derive(loop(body))), Step) == [2, 5, 6]


def test_a_counter_that_is_counted_up_before_the_test() -> None:
    body = """
        (model(x).mean() / k).backward()
        count += 1
        if count % k == 0:
            optimizer.step()
            optimizer.zero_grad()
    """
    assert micros(only(derive(loop(body, before="count = 0"))), Step) == [2, 5]


def test_a_counter_that_is_counted_up_after_the_test() -> None:
    body = """
        (model(x).mean() / k).backward()
        if count % k == 0:
            optimizer.step()
            optimizer.zero_grad()
        count += 1
    """
    assert micros(only(derive(loop(body, before="count = 0"))), Step) == [0, 3, 6]


def test_a_counter_that_is_set_back() -> None:
    body = """
        (model(x).mean() / k).backward()
        count += 1
        if count == k:
            optimizer.step()
            optimizer.zero_grad()
            count = 0
    """
    assert micros(only(derive(loop(body, before="count = 0"))), Step) == [2, 5]


def test_a_counter_that_counts_down() -> None:
    body = """
        (model(x).mean() / accum).backward()
        left -= 1
        if left == 0:
            optimizer.step()
            optimizer.zero_grad()
            left = accum
    """
    assert micros(only(derive(loop(body, before="left = accum", arguments="accum"))), Step) == [2, 5]


def test_the_distance_from_the_last_step() -> None:
    """``ni - last_opt_step >= accumulate``, as YOLO writes it: over epochs, from a counter of all batches."""
    source = """
        def train(model, loader, accumulate, epochs):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            last_opt_step = -1
            for epoch in range(epochs):
                for i, (x, y) in enumerate(loader):
                    ni = i + len(loader) * epoch
                    (model(x).mean() / accumulate).backward()
                    if ni - last_opt_step >= accumulate:
                        optimizer.step()
                        optimizer.zero_grad()
                        last_opt_step = ni
    """
    assert micros(only(derive(source)), Step) == [2, 5, 8, 11]


def test_a_counter_attribute() -> None:
    source = """
        class Trainer:
            def __init__(self, model, k):
                self.model = model
                self.k = k
                self.optimizer = torch.optim.SGD(model.parameters(), 0.1)
                self.count = 0

            def fit(self, loader):
                for x, y in loader:
                    self.training_step(x)

            def training_step(self, x):
                (self.model(x).mean() / self.k).backward()
                self.count += 1
                if self.count % self.k == 0:
                    self.optimizer.step()
                    self.optimizer.zero_grad()
    """
    assert micros(only(derive(source)), Step) == [2, 5]


def test_a_flag_passed_to_a_callable_wrapper() -> None:
    """``need_update=``, as timm's NativeScaler takes it."""
    source = """
        class Scaler:
            def __init__(self):
                self._scaler = GradScaler("cuda")

            def __call__(self, loss, optimizer, need_update=True):
                self._scaler.scale(loss).backward()
                if need_update:
                    self._scaler.step(optimizer)
                    self._scaler.update()

        def train(model, loader, k):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            loss_scaler = Scaler()
            for i, (x, y) in enumerate(loader):
                loss_scaler(model(x).mean() / k, optimizer, need_update=(i + 1) % k == 0)
                if (i + 1) % k == 0:
                    optimizer.zero_grad()
    """
    assert micros(only(derive(source)), Step)[:2] == [2, 5]


def test_a_boundary_through_a_functions_return() -> None:
    source = """
        def is_boundary(i, k):
            return (i + 1) % k == 0

        def train(model, loader, k):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for i, (x, y) in enumerate(loader):
                (model(x).mean() / k).backward()
                if is_boundary(i, k):
                    optimizer.step()
                    optimizer.zero_grad()
    """
    assert micros(only(derive(source)), Step) == [2, 5]


def test_a_boundary_by_continue() -> None:
    body = """
        (model(x).mean() / k).backward()
        if (i + 1) % k != 0:
            continue
        optimizer.step()
        optimizer.zero_grad()
    """
    trace = only(derive(loop(body)))
    assert micros(trace, Step) == [2, 5]
    assert all(record.guards for record, _ in trace.of(Step))


def test_an_inner_loop_over_the_window() -> None:
    source = """
        def train(model, batches, k, steps):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for step in range(steps):
                for _ in range(k):
                    x = next(batches)
                    (model(x).mean() / k).backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert micros(trace, Backward) == [0, 1, 2, 3, 4, 5]
    assert micros(trace, Step) == [2, 5]
    assert trace.window is not None
    assert trace.window.length == 3
    assert {"division", "loop"} <= trace.window.declared


def test_a_boundary_inside_the_inner_loop() -> None:
    source = """
        def train(model, batches, k, steps):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for step in range(steps):
                for j in range(k):
                    (model(next(batches)).mean() / k).backward()
                    if j == k - 1:
                        optimizer.step()
                        optimizer.zero_grad()
    """
    assert micros(only(derive(source)), Step) == [2, 5]


def test_zeroing_at_the_start_of_the_window() -> None:
    body = """
        if i % k == 0:
            optimizer.zero_grad()
        (model(x).mean() / k).backward()
        if (i + 1) % k == 0:
            optimizer.step()
    """
    trace = only(derive(loop(body)))
    assert micros(trace, Step) == [2, 5]
    # Each comes before the backward of micro-batch 0, 3 and 6.
    assert [len(r.before.buffer("optimizer").contributions) for r, _ in trace.of(ZeroGrad)] == [0, 3, 3]


def test_a_scalers_update_tells_a_window_too() -> None:
    body = """
        scaler.scale(model(x).mean()).backward()
        if (i + 1) % k == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    """
    trace = only(derive(training(body)))
    assert micros(trace, Step) == [2, 5]
    assert trace.window is not None
    assert {"step", "update"} & trace.window.declared


FLAGS = {
    "a conditional expression": "is_last = True if (i + 1) % accum == 0 else False\nif is_last:",
    "a number": "rest = 1 if (i + 1) % accum == 0 else 0\nif rest == 1:",
    "an if of its own": "is_last = False\nif (i + 1) % accum == 0:\n    is_last = True\nif is_last:",
    "integer division": "if (i + 1) - (i + 1) // accum * accum == 0:",
    "a match": "match (i + 1) % accum:\n  case 0:",
}


@pytest.mark.parametrize("flag", FLAGS.values(), ids=FLAGS)
def test_a_boundary_by_way_of(flag: str) -> None:
    """A divisor that is called like a window's length is one, wherever its boundary is computed."""
    body = f"(model(x).mean() / accum).backward()\n{flag}\n    optimizer.step()\n    optimizer.zero_grad()"
    assert micros(only(derive(loop(body, arguments="accum"))), Step) == [2, 5]


def test_two_epochs_count_on() -> None:
    source = """
        def train(model, loader, k, epochs):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for epoch in range(epochs):
                for i, (x, y) in enumerate(loader):
                    (model(x).mean() / k).backward()
                    if (i + 1) % k == 0:
                        optimizer.step()
                        optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert micros(trace, Step) == [2, 5, 9, 12]
    assert [record.epoch for record, _ in trace.of(Step)] == [0, 0, 1, 1]
    assert [record.iteration for record, _ in trace.of(Step)] == [(0, 2), (0, 5), (1, 2), (1, 5)]


def test_the_epochs_of_a_method_called_in_a_loop() -> None:
    source = """
        def one_epoch(model, optimizer, loader, k):
            for i, (x, y) in enumerate(loader):
                (model(x).mean() / k).backward()
                if (i + 1) % k == 0:
                    optimizer.step()
                    optimizer.zero_grad()

        def main(model, loader, k):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for epoch in range(100):
                one_epoch(model, optimizer, loader, k)
    """
    trace = only(derive(source))
    assert trace.root == "main"
    assert micros(trace, Step) == [2, 5, 9, 12]
    assert [record.epoch for record, _ in trace.of(Step)] == [0, 0, 1, 1]


def test_boundaries_that_disagree_are_both_computed() -> None:
    body = """
        (model(x).mean() / k).backward()
        if (i + 1) % k == 0:
            optimizer.step()
        if i % k == 0:
            optimizer.zero_grad()
    """
    trace = only(derive(loop(body)))
    assert micros(trace, Step) == [2, 5]
    assert micros(trace, ZeroGrad) == [0, 3, 6]


def test_a_while_loop_with_a_counter() -> None:
    source = """
        def train(model, batches, k, total):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            step = 0
            while step < total:
                (model(next(batches)).mean() / k).backward()
                step += 1
                if step % k == 0:
                    optimizer.step()
                    optimizer.zero_grad()
    """
    trace = derive(source).traces[0]
    assert micros(trace, Step) == [2, 5]
