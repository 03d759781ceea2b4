"""AMP801 scaler-not-checkpointed."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Checkpoint, Step
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace
from ampcheck.windows import are_known, name, story


class ScalerNotCheckpointed(Rule):
    """A checkpoint holds the model's and the optimizer's state, but not the loss scaler's.

    ## What it does
    Finds a checkpoint of a model and an optimizer that is stepped through an enabled GradScaler, in a program that
    saves the scaler's state nowhere.

    ## Why is this bad
    Whoever saves an optimizer's state means to resume. The resumed run starts with the initial scale of 65536 again,
    and the first updates overflow and are skipped until the scale is small enough: with gradients that need a scale
    of 2048 these are five updates at every restart. The count of good updates until the next growth is lost as well.

    ## Example
    ```python
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    ```

    ## Use instead
    ```python
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, path
    )
    ```

    ## Known problems
    A scaler's state that is written by another file than the one that is checked is not seen, unless it is handed over
    from here. Nothing is said where weights are saved without an optimizer's state: nobody resumes from them.

    ## References
    - [Automatic mixed precision recipe: saving and
    resuming](https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html#saving-resuming)"""

    code = "AMP801"
    name = "scaler-not-checkpointed"
    severity = "warning"
    oracle = ("steps",)
    hint = 'save `scaler.state_dict()` with the rest, and load it again: "scaler": scaler.state_dict()'

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the first checkpoint of each scaler's optimizers, best one that is sure."""
        reported: set[str] = set()
        for record, checkpoint in sorted(trace.of(Checkpoint), key=lambda pair: not pair[1].sure):
            stepped = _scaled_step(trace, checkpoint)
            if stepped is None or stepped[1] in reported:
                continue
            step, scaler = stepped
            reported.add(scaler)
            optimizers = " and ".join(name(trace, o) for o in checkpoint.optimizers)
            role = trace.roles.get(scaler)
            built_here = role is None or role.site is not None
            yield Violation(
                record.index,
                f"the checkpoint holds the state of {optimizers} but not that of {name(trace, scaler)}: a resumed run "
                "starts with the initial loss scale and skips updates until it has come down again",
                story(trace, step),
                certain=checkpoint.sure and built_here and are_known(trace, scaler) and trace.complete,
            )


def _scaled_step(trace: Trace, checkpoint: Checkpoint) -> tuple[Record, str] | None:
    """The first step of a checkpoint's optimizers through a scaler."""
    for record, step in trace.of(Step):
        if step.scaler is not None and step.optimizer in checkpoint.optimizers:
            return record, step.scaler
    return None
