"""What all tests in Python share; see ranks.py."""

from __future__ import annotations

from typing import Iterator

import pytest

from ranks import Job


@pytest.fixture(scope="session")
def job(request: pytest.FixtureRequest) -> Iterator[Job]:
    """The job that an ``on_ranks`` test runs on."""
    job = Job(request.param)
    yield job
    job.stop()
