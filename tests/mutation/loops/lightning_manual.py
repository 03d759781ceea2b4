"""Lightning's manual optimisation: the module divides and steps, the clip comes where Lightning has unscaled."""

import lightning
import torch
from torch import Tensor, nn

WINDOW = 3


class Classifier(lightning.LightningModule):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.network = network

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.network.parameters(), lr=0.1)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        self.clip_gradients(optimizer, gradient_clip_val=1.0, gradient_clip_algorithm="norm")

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        optimizer = self.optimizers()
        loss = nn.functional.cross_entropy(self.network(batch[0]), batch[1])
        loss = loss / WINDOW
        self.manual_backward(loss)
        if (batch_idx + 1) % WINDOW == 0 or self.trainer.is_last_batch:
            optimizer.step()
            optimizer.zero_grad()


def main(network: nn.Module) -> None:
    trainer = lightning.Trainer(precision="16-mixed", max_epochs=2)
    trainer.fit(Classifier(network))
