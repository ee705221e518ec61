"""Images of digits, each rank its own share of the data; as the first example of Horovod's documentation."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.data.distributed

import horovod.torch as hvd

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--lr", type=float, default=0.02)
parser.add_argument("--momentum", type=float, default=0.5)
parser.add_argument("--fp16-allreduce", action="store_true")
parser.add_argument("--use-adasum", action="store_true")
parser.add_argument("--gradient-predivide-factor", type=float, default=1.0)
args = parser.parse_args()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, kernel_size=3)
        self.dropout = nn.Dropout(0.1)
        self.fc1 = nn.Linear(6 * 13 * 13, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv(x), 2))
        x = self.dropout(F.relu(self.fc1(x.flatten(1))))
        return F.log_softmax(self.fc2(x), dim=1)


def digits(count, seed):
    """Ten patterns with noise stand for the digits."""
    patterns = torch.randn(10, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    source = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (count,), generator=source)
    return torch.utils.data.TensorDataset(
        patterns[labels] + 0.5 * torch.randn(count, 1, 28, 28, generator=source), labels
    )


def metric_average(value, name):
    return hvd.allreduce(torch.tensor(value), name=name).item()


def train(epoch):
    model.train()
    train_sampler.set_epoch(epoch)
    for data, target in train_loader:
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
    return metric_average(loss.item(), "avg_loss")


def test():
    model.eval()
    correct = 0
    with torch.no_grad():
        for data, target in test_loader:
            correct += model(data).argmax(1).eq(target).sum().item()
    return metric_average(correct / len(test_sampler), "avg_accuracy")


hvd.init()
torch.manual_seed(hvd.rank())  # different on purpose: the broadcast below must make models equal
torch.set_num_threads(1)

train_dataset, test_dataset = digits(640, seed=2), digits(200, seed=3)
train_sampler = torch.utils.data.distributed.DistributedSampler(
    train_dataset, num_replicas=hvd.size(), rank=hvd.rank()
)
train_loader = torch.utils.data.DataLoader(train_dataset, batch_size=args.batch_size, sampler=train_sampler)
test_sampler = torch.utils.data.distributed.DistributedSampler(
    test_dataset, num_replicas=hvd.size(), rank=hvd.rank()
)
test_loader = torch.utils.data.DataLoader(test_dataset, batch_size=100, sampler=test_sampler)

model = Net()
lr_scaler = hvd.size() if not args.use_adasum else 1
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * lr_scaler, momentum=args.momentum)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
optimizer = hvd.DistributedOptimizer(
    optimizer,
    named_parameters=model.named_parameters(),
    compression=compression,
    op=hvd.Adasum if args.use_adasum else hvd.Average,
    gradient_predivide_factor=args.gradient_predivide_factor,
)

for epoch in range(1, args.epochs + 1):
    loss = train(epoch)
    accuracy = test()
    if hvd.rank() == 0:
        print(f"epoch {epoch}: loss {loss:.4f}, accuracy {100 * accuracy:.1f}%")

assert accuracy > 0.9, accuracy
weights = torch.cat([p.detach().flatten() for p in model.parameters()])
everyones = hvd.allgather(weights.unsqueeze(0), name="weights")
assert all(torch.equal(each, weights) for each in everyones)
print("done")
