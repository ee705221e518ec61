"""What a loader of batches is, and one that loads ahead on a thread."""

from __future__ import annotations

import queue
import threading
from typing import Any, Iterator

__all__ = ["AsyncDataLoaderMixin", "BaseDataLoader"]

_LOOK_SECONDS = 0.1  # how often a thread that has no room looks whether it should end


class BaseDataLoader:
    """A subclass says how many batches there are and yields them; ``_process_batch`` may change each."""

    def __len__(self) -> int:
        raise NotImplementedError

    def _iterate(self) -> Iterator[Any]:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        for batch in self._iterate():
            yield self._process_batch(batch)

    def _process_batch(self, batch: Any) -> Any:
        return batch


class _Failure:
    """What the thread ended with, on its way to the one who iterates."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


_END = object()


class _Ahead:
    """A thread that fills a queue with the batches of one epoch."""

    def __init__(self, batches: Iterator[Any], size: int) -> None:
        self._batches = batches
        self._queue: "queue.Queue[Any]" = queue.Queue(size)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._fill, daemon=True)
        self._thread.start()

    def _put(self, item: Any) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=_LOOK_SECONDS)
                return True
            except queue.Full:
                continue
        return False

    def _fill(self) -> None:
        try:
            for batch in self._batches:
                if not self._put(batch):
                    return
            self._put(_END)
        except BaseException as error:  # whatever it is, it belongs to the one who iterates
            self._put(_Failure(error))

    def __iter__(self) -> Iterator[Any]:
        while not self._stopped.is_set():
            try:
                item = self._queue.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue
            if item is _END:
                return
            if isinstance(item, _Failure):
                raise item.error
            yield item

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


class AsyncDataLoaderMixin:
    """Before a loader's class, it loads up to ``async_loader_queue_size`` batches ahead on a thread; 0 loads
    none ahead. Every iteration has a thread of its own, which ends with it."""

    _ahead: Any = None

    def __init__(self, async_loader_queue_size: int = 5, *args: Any, **kwargs: Any) -> None:
        self.async_loader_queue_size = async_loader_queue_size
        super().__init__(*args, **kwargs)

    def close_async_loader(self) -> None:
        """Ends the thread, also in the middle of an epoch."""
        if self._ahead is not None:
            self._ahead.stop()
            self._ahead = None

    def __iter__(self) -> Iterator[Any]:
        if self.async_loader_queue_size <= 0:
            yield from super().__iter__()  # type: ignore[misc]
            return
        self.close_async_loader()
        ahead = self._ahead = _Ahead(self._iterate(), self.async_loader_queue_size)  # type: ignore[attr-defined]
        try:
            for batch in ahead:
                yield self._process_batch(batch)  # type: ignore[attr-defined]
        finally:
            ahead.stop()
