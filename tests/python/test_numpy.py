"""rueda.numpy against NumPy alone, on 1 to 4 ranks."""

import pytest

pytest.importorskip("numpy")

from jobs import check_on_ranks, run_ranks

DOCTESTS = """
import doctest, importlib, sys
import rueda
names = ("rueda._basics", "rueda._process_sets", "rueda.numpy._ops")
failed = sum(doctest.testmod(importlib.import_module(name)).failed for name in names)
rueda.init()
sys.exit(failed)
"""


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_operations_agree_with_numpy(ranks):
    check_on_ranks(ranks, "check_numpy.py")


@pytest.mark.parametrize("ranks", [1, 2])
def test_examples_of_the_docstrings_hold(ranks):
    run_ranks(ranks, "-c", DOCTESTS)
