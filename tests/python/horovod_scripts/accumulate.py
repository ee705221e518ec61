"""Several backward passes for one step; the sums are not divided."""

import torch

import horovod.torch as hvd

hvd.init()
PASSES = 4
weight = torch.nn.Parameter(torch.zeros(3))
optimizer = torch.optim.SGD([weight], lr=1.0)
optimizer = hvd.DistributedOptimizer(
    optimizer, named_parameters=[("weight", weight)], backward_passes_per_step=PASSES
)
for step in range(3):
    before = weight.detach().clone()
    optimizer.zero_grad()
    for each in range(PASSES):
        (weight * (hvd.rank() + 1.0)).sum().backward()
    optimizer.step()
    mean = sum(range(1, hvd.size() + 1)) / hvd.size()
    torch.testing.assert_close(before - weight.detach(), torch.full((3,), PASSES * mean))
optimizer.set_backward_passes_per_step(1)
before = weight.detach().clone()
optimizer.zero_grad()
(weight * 2.0).sum().backward()
optimizer.step()
torch.testing.assert_close(before - weight.detach(), torch.full((3,), 2.0))
try:
    (weight * 2.0).sum().backward()
    (weight * 2.0).sum().backward()
except AssertionError as error:
    assert "backward_passes_per_step" in str(error)
print("done")
