"""AMP802 scaler-saved-mid-step."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import StateDict, Step
from ampcheck.gradients import STEPPED
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace
from ampcheck.windows import are_known, name, next_update, once_per_site, story


class ScalerSavedMidStep(Rule):
    """The loss scaler's state is saved between `scaler.step` and `scaler.update`.

    ## What it does
    Finds `scaler.state_dict()` after a step of the scaler whose update is still to come.

    ## Why is this bad
    The weights in the checkpoint are those after the step, the scale and the count of good updates those before it.
    Where the step was skipped the resumed run repeats the scale that has just overflowed; where the scale was about
    to grow it does so one update late.

    ## Example
    ```python
    scaler.step(optimizer)
    torch.save({"model": model.state_dict(), "scaler": scaler.state_dict()}, path)
    scaler.update()
    ```

    ## Use instead
    ```python
    scaler.step(optimizer)
    scaler.update()
    torch.save({"model": model.state_dict(), "scaler": scaler.state_dict()}, path)
    ```

    ## Known problems
    Pickling the scaler itself at this point raises in torch, and is not reported here.

    ## References
    - [torch.amp.GradScaler.state_dict](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.state_dict)
    """

    code = "AMP802"
    name = "scaler-saved-mid-step"
    severity = "warning"
    oracle = ("saved-scale",)
    hint = "take `scaler.state_dict()` after `scaler.update()`"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield each state that is taken while a step waits for its update."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, saving in trace.of(StateDict):
            step = _open_step(trace, record, saving.scaler)
            update = next_update(trace, record.index, saving.scaler)
            if step is None or update is None:  # an update that never comes is another mistake
                continue
            yield Violation(
                record.index,
                f"the state of {name(trace, saving.scaler)} is taken after its step and before its update: the saved "
                "scale does not know of this step's overflow",
                story(trace, step, update),
                certain=are_known(trace, saving.scaler),
            )


def _open_step(trace: Trace, record: Record, scaler: str) -> Record | None:
    """The last step through a scaler that no update has followed yet."""
    stepped = {o for (s, o), phase in record.before.phases.items() if s == scaler and phase == STEPPED}
    steps = [r for r, e in trace.of(Step) if r.index < record.index and e.optimizer in stepped]
    return steps[-1] if steps else None
