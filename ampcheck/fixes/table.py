"""Which strategies a rule's findings are mended by, in the order in which they are tried."""

from __future__ import annotations

from ampcheck.fixes import (
    dividing,
    gating,
    relocating,
    renaming,
    scaling,
    scheduling,
    syncing,
    unscaling,
    updating,
)
from ampcheck.fixes.case import Strategy

__all__ = ["STRATEGIES"]

STRATEGIES: dict[str, tuple[Strategy, ...]] = {
    "AMP101": (unscaling.move_unscale, unscaling.insert_unscale),
    "AMP105": (unscaling.delete_early_unscale, unscaling.move_early_unscale),
    "AMP109": (updating.delete_idle_update, updating.move_idle_update),
    "AMP112": (updating.move_rare_update, updating.insert_update),
    "AMP113": (scaling.step_through_scaler,),
    "AMP114": (scaling.differentiate_scaled, scaling.scale_loss),
    "AMP203": (relocating.clip_when_synchronised, relocating.clip_at_boundary, relocating.guard_clip),
    "AMP301": (gating.step_under_gate, gating.step_after_window, gating.step_under_new_gate),
    "AMP302": (relocating.delete_early_zero, relocating.zero_before_window, relocating.zero_after_step),
    "AMP306": (dividing.divide_once,),
    "AMP401": (syncing.accumulate_each, syncing.without_sync),
    "AMP501": (relocating.schedule_when_synchronised, relocating.schedule_at_boundary),
    "AMP503": (scheduling.advance_unless_skipped,),
    "AMP604": (renaming.rename,),
}
