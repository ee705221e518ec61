"""mnist_gradient.py FOLDER DATA PROGRAM: the C network's gradient against PyTorch's, which finds it by
itself from the forward pass. Exits with 77 and the reason where PyTorch is not installed."""

import subprocess
import sys
import tempfile

folder, data, program = sys.argv[1:]
sys.path.insert(0, folder)
try:
    import numpy
    import torch
except ImportError as error:
    print(f"skipped: {error}; install torch and numpy for {sys.executable}")
    sys.exit(77)
import network

IMAGES = 64
TOLERANCE = 2e-5  # of the largest element of a tensor: both sides add up in float

with tempfile.NamedTemporaryFile() as file:
    command = [program, data, str(IMAGES), file.name]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    flat = numpy.fromfile(file.name, dtype=numpy.float32)
assert flat.size == 2 * network.PARAMETERS, f"{flat.size} numbers"

torch.set_num_threads(1)
net = network.Network()
network.load_parameters(net, flat[: network.PARAMETERS])
images, labels = network.load_images(data, "train", IMAGES)
output = net(images)
loss = torch.nn.functional.cross_entropy(output, labels)
loss.backward()
right = int((output.argmax(1) == labels).sum())
print(f"loss {told[0]} and {loss.item():.8f}, right {told[1]} and {right}")
failed = abs(float(told[0]) - loss.item()) > 1e-5 or int(told[1]) != right
for name, gradient in network.split(flat[network.PARAMETERS :]).items():
    expected = dict(net.named_parameters())[name].grad.numpy()
    largest = float(numpy.abs(expected).max())
    worst = float(numpy.abs(expected - gradient).max()) / largest
    print(f"{name:14} largest element {largest:.2e}, largest difference {worst:.1e} of it")
    failed = failed or not worst < TOLERANCE
sys.exit(failed)
