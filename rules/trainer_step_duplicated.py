"""AMP701 trainer-step-duplicated."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.engines import DOUBLED, WIPED, engine_of, in_hooks
from ampcheck.events import Backward, Event, Step
from ampcheck.rule import Measured, Rule, Violation
from ampcheck.trace import Record, Trace
from ampcheck.windows import are_known, names, once_per_site


class TrainerStepDuplicated(Rule):
    """A hook does what its trainer does anyway: it calls backward or steps the trainer's own optimizer.

    ## What it does
    Finds backwards and optimizer steps in hooks of a Trainer, a callback or an automatically optimised LightningModule
    that concern an optimizer which the trainer owns.

    ## Why is this bad
    The trainer scales, differentiates, accumulates, clips, steps and zeroes around the hook. A second backward raises
    (the graph is gone) or is wiped; a second step uses gradients of another micro-batch, once more.

    ## Example
    ```python
    class Net(LightningModule):
        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()
            loss = self.loss(batch)
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
    ```

    ## Use instead
    ```python
    class Net(LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False
    ```

    ## Known problems
    Optimizers that the trainer does not own (an inner loop's, a probe's) are left alone, and so is zeroing.

    ## References
    - https://lightning.ai/docs/pytorch/stable/model/manual_optimization.html
    - Lightning 2.6: `manual_backward` under automatic optimisation raises; a step of `self.optimizers()` is one more.
    """

    code = "AMP701"
    name = "trainer-step-duplicated"
    severity = "error"
    measured = (
        Measured(
            "lightning",
            "a step in a hook makes 2 optimizer steps per batch, expected 1; a backward in one raises",
            "Lightning 2.6.6, tests/models/test_lightning.py",
        ),
        Measured(
            "trainer",
            "a step in a hook makes 2 optimizer steps per window, expected 1; "
            "a backward in `compute_loss` makes the gradient K + 1 times as large",
            "Transformers 5.24, tests/models/test_trainer.py",
        ),
    )
    hint = "leave it to the trainer, or switch its automatic optimisation off"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield what hooks do to optimizers that their trainer owns."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, hook in in_hooks(trace):
            owners = tuple(o for o in _concerned(record.event) if engine_of(trace, o))
            if isinstance(record.event, Step) and _has_nothing_left(trace, record, owners):
                continue
            if not owners or (isinstance(record.event, Backward) and hook not in WIPED | DOUBLED):
                continue
            done = "steps" if isinstance(record.event, Step) else "calls backward into"
            yield Violation(
                record.index,
                f"`{hook}` {done} {names(trace, owners)}, which the trainer does itself around this hook",
                certain=are_known(trace, *owners),
            )


def _has_nothing_left(trace: Trace, record: Record, owners: tuple[str, ...]) -> bool:
    """Whether the Hugging Face Trainer has zeroed already, as before `on_step_end`: then a step does nothing."""
    return all(engine_of(trace, o) == "trainer" and record.before.buffer(o).is_empty for o in owners)


def _concerned(event: Event) -> tuple[str, ...]:
    """The optimizers that a backward certainly reaches, or a step's own."""
    match event:
        case Backward(reaches=reaches, assumed=assumed):
            return tuple(o for o in reaches if o not in assumed)
        case Step(optimizer=optimizer):
            return (optimizer,)
        case _:
            return ()
