"""A Trainer of one's own: its loss, and a step that divides by the window, as the Trainer's own does."""

from torch import Tensor, nn
from transformers import Trainer


class Classifier(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(inputs["pixels"])
        loss = nn.functional.cross_entropy(outputs, inputs["labels"])
        return (loss, outputs) if return_outputs else loss

    def training_step(self, model: nn.Module, inputs: dict[str, Tensor], num_items_in_batch=None) -> Tensor:
        model.train()
        loss = self.compute_loss(model, inputs, num_items_in_batch=num_items_in_batch)
        loss = loss / self.args.gradient_accumulation_steps
        self.accelerator.backward(loss)
        return loss.detach()
