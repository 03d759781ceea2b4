"""AMP605 recompute-outside-autocast."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Autocast, Recompute
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import once_per_site, story


class RecomputeOutsideAutocast(Rule):
    """A hand-rolled checkpoint recomputes its forward outside the forward's autocast.

    ## What it does
    Finds an `autograd.Function` whose backward calls a function kept in its context under `enable_grad`, without
    `custom_bwd` and without an autocast of its own.

    ## Why is this bad
    Autocast is not in force in the backward. The forward ran in float16 or bfloat16, the recompute runs in float32: it
    takes twice the memory that it was to save, and its gradients belong to other activations than those
    of the forward.

    ## Example
    ```python
    class Checkpoint(torch.autograd.Function):
        @staticmethod
        def backward(ctx, *grads):
            with torch.enable_grad():
                outputs = ctx.run(*ctx.inputs)
            return (None, *torch.autograd.grad(outputs, ctx.inputs, grads))
    ```

    ## Use instead
    ```python
    outputs = torch.utils.checkpoint.checkpoint(run, *inputs, use_reentrant=False)
    ```

    ## Known problems
    The finding is certain where the function is applied under an autocast that can be seen; elsewhere in a file that
    uses autocast it is *possible* only, and in other files nothing is said: a model that is cast as a whole needs no
    autocast.

    ## References
    - https://docs.pytorch.org/docs/stable/checkpoint.html: it restores the autocast of the forward.
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html: `custom_fwd` and `custom_bwd`.
    """

    code = "AMP605"
    name = "recompute-outside-autocast"
    severity = "warning"
    oracle = ("dtype",)
    hint = "use torch.utils.checkpoint, or decorate with custom_fwd and custom_bwd"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the recomputes that leave autocast."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, recompute in trace.of(Recompute):
            certain = recompute.autocast in ("float16", "bfloat16")
            forward = (
                f"the forward ran in {recompute.autocast}"
                if certain
                else "the forward may run in another dtype"
            )
            casts = (r.index for r, _ in trace.of(Autocast) if r.index < record.index)
            yield Violation(
                record.index,
                f"the backward of `{recompute.function}` recomputes without autocast, in float32: {forward}",
                story(trace, max(casts, default=None)),
                certain=certain,
            )
