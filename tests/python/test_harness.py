"""The harness itself: what ranks.py reports."""

from __future__ import annotations

import time
from typing import Iterator

import pytest
import rueda
from ranks import Job, on_ranks


@on_ranks(1, 3)
@pytest.mark.parametrize("value", [1, "two"])
def test_runs_on_all_ranks(value: object) -> None:
    assert rueda.size() in (1, 3)
    assert value in (1, "two")


@on_ranks(2)
def fails_on_rank_1() -> None:
    assert rueda.rank() == 0, "what went wrong"


@on_ranks(2)
def hangs_on_rank_1() -> None:
    time.sleep(1000 * rueda.rank())


@pytest.fixture
def pair() -> Iterator[Job]:
    job = Job((2, ()))
    yield job
    job.stop(kill=True)


def test_the_failing_rank_is_shown(pair: Job) -> None:
    with pytest.raises(pytest.fail.Exception, match="rank 1 of 2(.|\n)*what went wrong"):
        pair.run(__name__, "fails_on_rank_1", {}, 30)


def test_a_hanging_rank_is_shown(pair: Job) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"had not ended: \[1\](.|\n)*in hangs_on_rank_1"):
        pair.run(__name__, "hangs_on_rank_1", {}, 2)
