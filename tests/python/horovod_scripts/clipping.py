"""Gradients are clipped between synchronize() and step(); equal to one process on all data."""

import torch

import horovod.torch as hvd

hvd.init()
torch.set_num_threads(1)
ROWS, STEPS, CLIP = 8, 5, 0.1


def batch(step, rank):
    source = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(ROWS, 4, generator=source), torch.randn(ROWS, 2, generator=source)


def make():
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    return model, torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)


model, optimizer = make()
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
for step in range(STEPS):
    data, target = batch(step, hvd.rank())
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(data), target).backward()
    optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    with optimizer.skip_synchronize():
        optimizer.step()

reference, alone = make()
for step in range(STEPS):
    parts = [batch(step, rank) for rank in range(hvd.size())]
    data, target = (torch.cat(column) for column in zip(*parts))
    alone.zero_grad()
    torch.nn.functional.mse_loss(reference(data), target).backward()
    torch.nn.utils.clip_grad_norm_(reference.parameters(), CLIP)
    alone.step()

for ours, theirs in zip(model.parameters(), reference.parameters()):
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
print("done")
