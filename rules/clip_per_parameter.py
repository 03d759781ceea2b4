"""AMP204 clip-per-parameter."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Clip
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import once_per_site


class ClipPerParameter(Rule):
    """Each parameter is clipped on its own with the whole threshold.

    ## What it does
    Finds a norm clip in a loop over parameters or layers.

    ## Why is this bad
    n parameters at the threshold M have a total norm of √n · M: the update is not bounded by M, and large and small
    parameters lose their proportions. Two unit gradients end at √2.

    ## Example
    ```python
    for parameter in model.parameters():
        clip_grad_norm_(parameter, 1.0)
    ```

    ## Use instead
    ```python
    clip_grad_norm_(model.parameters(), 1.0)
    ```

    ## Known problems
    Clipping by layer is sometimes meant, and some fused optimizers allow nothing else; leave the rule out there.

    ## References
    - [clip_grad_norm_](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html): the norm is
      taken over all gradients together, as if they were one vector
    """

    code = "AMP204"
    name = "clip-per-parameter"
    severity = "warning"
    oracle = ("gradient", "clip-norm")
    hint = "clip all parameters in one call"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield each norm clip that a loop applies to one parameter after the other."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, clip in trace.of(Clip):
            if clip.per_parameter and clip.style == "norm":
                limit = (
                    "the whole threshold"
                    if clip.threshold is None
                    else f"the whole threshold {clip.threshold:g}"
                )
                yield Violation(
                    record.index, f"each parameter is clipped on its own norm with {limit}", predicts="√n · M"
                )
