"""Loss scaling with the old dance, and without it."""

import torch

import horovod.torch as hvd

hvd.init()
torch.manual_seed(3)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
for step in range(4):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.randn(8, 4)).float().pow(2).mean()
    scaler.scale(loss).backward()
    optimizer.synchronize()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    with optimizer.skip_synchronize():
        scaler.step(optimizer)
    scaler.update()
for step in range(2):
    optimizer.zero_grad()
    scaler.scale(model(torch.randn(8, 4)).pow(2).mean()).backward()
    scaler.step(optimizer)
    scaler.update()
everyones = hvd.allgather(model.weight.detach().unsqueeze(0))
assert all(torch.equal(each, everyones[0]) for each in everyones)
print("done")
