"""What is done between batches and epochs."""

from horovod.keras.callbacks import *  # noqa: F401,F403
