"""AMP122 scaler-internals-used."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Internal
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import are_known, once_per_site

INSTEAD = {
    "_scale": "use get_scale(), or update(new_scale) to set it",
    "_growth_tracker": "keep a count of your own, or use state_dict()",
}


class ScalerInternalsUsed(Rule):
    """A private attribute of a GradScaler is read or written.

    ## What it does
    Finds `_scale`, `_growth_tracker`, `_per_optimizer_states` and `_found_inf_per_device` of a scaler, read
    or written, outside the classes that define them.

    ## Why is this bad
    `_scale` and `_growth_tracker` are None until the first `scale()`, and a disabled scaler has none of these
    attributes: the line raises AttributeError as soon as somebody trains without AMP. What was found in the
    gradients is emptied by `update()`, so that it says nothing afterwards. A write bypasses the checks of
    `update`. Every version of torch may rename them.

    ## Example
    ```python
    grad_scale = scaler._scale.item()
    found_inf = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
    ```

    ## Use instead
    ```python
    grad_scale = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    skipped = scaler.get_scale() < grad_scale
    ```

    ## Known problems
    A scaler that is known by its name only, in a file that imports none from torch, is reported as possible
    where the attribute is `_scale`: other classes have one too. Classes derived from GradScaler may use what
    they inherit.

    ## References
    - https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling: `get_scale`, `update(new_scale)`,
      `state_dict`.
    - Measured in torch 2.13: `_scale` is None before the first `scale()`, `_found_inf_per_device(optimizer)`
      is empty after `update()`, and all of them are missing with `enabled=False`.
    """

    code = "AMP122"
    name = "scaler-internals-used"
    severity = "warning"
    oracle = ("exception",)
    hint = "use get_scale(), update(new_scale) and state_dict()"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield each use of a private attribute."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, use in trace.of(Internal):
            what = "written" if use.written else "read"
            instead = INSTEAD.get(use.name, "compare get_scale() before and after update()")
            yield Violation(
                record.index,
                f"`{use.scaler}.{use.name}` is private and is {what} here: {instead}",
                certain=are_known(trace, use.scaler),
            )
