"""A script without functions; its micro-batches are counted across epochs."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATE = 4
data = TensorDataset(torch.randn(1024, 32), torch.randint(10, (1024,)))
loader = DataLoader(data, batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.999)
scaler = torch.amp.GradScaler("cuda")
micro_step = 0
for epoch in range(10):
    for inputs, labels in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(inputs.cuda()), labels.cuda())
        loss = loss / ACCUMULATE
        scaler.scale(loss).backward()
        micro_step += 1
        if micro_step % ACCUMULATE == 0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            before = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            if before <= scaler.get_scale():
                scheduler.step()
