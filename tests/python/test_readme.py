"""README's lines for PyTorch do what it says, as they are, with and without GPUs; and docs name no index."""

from __future__ import annotations

import re
from pathlib import Path

import rueda.torch as hvd
import torch
from ranks import on_ranks
from training import assert_alike

TREE = Path(__file__).resolve().parent.parent.parent
ROWS = 12


def lines_for_torch() -> str:
    found = re.search(r"```python\n(import rueda\.torch.*?)```", (TREE / "README.md").read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


@on_ranks(2)
def test_the_lines_for_torch_train_one_model_on_parts_of_the_data() -> None:
    torch.manual_seed(hvd.rank())
    dataset = torch.utils.data.TensorDataset(torch.arange(float(ROWS)).view(-1, 1))
    model = torch.nn.Linear(1, 1)
    script = {"torch": torch, "dataset": dataset, "model": model}
    script["optimizer"] = torch.optim.SGD(model.parameters(), lr=0.001)
    exec(lines_for_torch(), script)
    seen = []
    for (x,) in torch.utils.data.DataLoader(dataset, batch_size=2, sampler=script["sampler"]):
        script["optimizer"].zero_grad()
        model(x).square().sum().backward()
        script["optimizer"].step()
        seen += x.flatten().tolist()
    assert len(seen) == ROWS // hvd.size()
    assert sorted(sum(hvd.allgather_object(seen), [])) == list(range(ROWS))
    assert_alike(model)


def test_no_text_names_a_package_index_that_has_it_not() -> None:
    """Until there is one, `pip install rueda` would fetch whatever a stranger puts there."""
    texts = [*TREE.glob("*.md"), *TREE.glob("docs/**/*.md"), *TREE.glob("examples/**/*.*"), *TREE.glob("python/**/*.py")]
    wrong = [text for text in texts if re.search(r"pip install (-\S+ )*rueda\b", text.read_text(errors="replace"))]
    assert texts and not wrong, wrong
