"""What all tests in Python share; see ranks.py."""

from __future__ import annotations

import signal
from typing import Iterator

import pytest

from ranks import Job, Server

# A shell's background jobs ignore it, and what they start would, too: tests of Ctrl-C need it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """``long`` marks what proves once more, elsewhere, what another test proves; ``-m long`` runs it."""
    config.addinivalue_line("markers", "long: only in the long tier; see docs/testing.md")
    config.option.markexpr = config.option.markexpr or "not long"


def pytest_sessionfinish() -> None:
    """The last job has ended."""
    Server.stop_all()


@pytest.fixture(scope="session")
def job(request: pytest.FixtureRequest) -> Iterator[Job]:
    """The job that an ``on_ranks`` test runs on."""
    job = Job(request.param)
    yield job
    job.stop()
