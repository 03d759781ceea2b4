"""What a pure expression came to is remembered; one that does something, or reads something new, is run again."""

from __future__ import annotations

from ampcheck.events import Backward, Clip, Step
from tests.running.derived import derive, loop, micros, only, story, training, units


def test_each_micro_batch_has_a_loss_of_its_own() -> None:
    body = (
        "out = model(x)\nloss = out.mean() / k\nloss.backward()\nif (i + 1) % k == 0:\n"
        "    optimizer.step()\n    optimizer.zero_grad()"
    )
    trace = only(derive(loop(body)))
    assert units(trace) == ["1 / K"]
    assert [b.micro for _, b in trace.of(Backward)] == list(range(7))


def test_a_function_with_events_is_called_every_time() -> None:
    source = """
        def step_and_norm(model, optimizer):
            norm = clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return norm

        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x, y in loader:
                model(x).mean().backward()
                norm = step_and_norm(model, optimizer)
                optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert len(micros(trace, Clip)) == len(micros(trace, Step)) == 3


def test_the_value_follows_the_counter() -> None:
    body = """
        rest = (i + 1) % k
        (model(x).mean() / k).backward()
        if rest == 0:
            optimizer.step()
            optimizer.zero_grad()
    """
    assert micros(only(derive(loop(body))), Step) == [2, 5]


def test_a_name_that_is_bound_anew_is_looked_at_anew() -> None:
    body = """
        scale = 1.0
        loss = model(x).mean() * scale
        loss.backward()
        scale = 1.0 / k
        loss = model(x).mean() * scale
        loss.backward()
        if (i + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad()
    """
    assert units(only(derive(loop(body)))) == ["1", "1 / K"]


def test_the_same_expression_inside_and_outside_no_grad() -> None:
    source = """
        def train(model, loader, evaluate):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x, y in loader:
                for grad in (True, False):
                    if grad:
                        out = loss_of(model, x)
                    else:
                        with torch.no_grad():
                            out = loss_of(model, x)
                    out.backward()
                optimizer.step()
                optimizer.zero_grad()

        def loss_of(model, x):
            out = model(x)
            return out.mean()
    """
    trace = only(derive(source))
    # Nothing can be differentiated that was computed without gradients.
    assert len(micros(trace, Backward)) == len(micros(trace, Step)) > 1


def test_forwards_inside_and_outside_no_sync_differ() -> None:
    body = """
        if (i + 1) % k == 0:
            loss = forward(x)
        else:
            with model.no_sync():
                loss = forward(x)
        (loss / k).backward()
        if (i + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad()
    """
    before = "model = DDP(model)\nforward = lambda x: model(x).mean()"
    trace = only(derive(loop(body, before=before)))
    synced = [f.synced for _, b in trace.of(Backward) for f in b.loss.forwards]
    assert synced == [False, False, True, False, False, True, False]


def test_readings_of_the_scale_are_all_made() -> None:
    body = """
        before = scaler.get_scale()
        scaler.scale(model(x).mean()).backward()
        scaler.step(optimizer)
        scaler.update()
        after = scaler.get_scale()
        if after >= before:
            optimizer.zero_grad()
    """
    trace = derive(training(body)).traces[0]
    assert story(trace, 0) == story(trace, 1) == "read-scale backward step update read-scale zero"
