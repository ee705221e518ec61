"""A Python that has imported a framework and forks for each script that is asked for: see ranks.py.

    python fork_server.py LISTENER MODULE...

``fork_client.py`` asks, in the place of a Python that begins anew, and stays until the script has ended. The child
has the client's variables, folder, descriptors and processors, and random numbers of its own. After a script that
has succeeded it runs what is registered with atexit, but does not take Python apart, which costs a second where
memory is shared with a parent. The server never has a thread beside its own when it forks, so no lock is held that
nobody opens; it imports nothing of rueda. It ends, and all children with it, when its standard input is closed.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import random
import runpy
import selectors
import signal
import socket
import sys
import threading
from typing import Any, Dict, List, Optional

PR_SET_PDEATHSIG = 1
REQUEST_BYTES = 1 << 20
STANDARD = (0, 1, 2)


class Request:
    """What a client wants run, and where."""

    def __init__(self, words: Dict[str, Any], descriptors: List[int]) -> None:
        self.arguments: List[str] = words["arguments"]
        self.variables: Dict[str, str] = words["variables"]
        self.folder: str = words["folder"]
        self.processors: List[int] = words["processors"]
        self.descriptors = descriptors


def receive(client: socket.socket) -> Optional[Request]:
    """The request of a client, which ends with a zero; None if it has gone."""
    text, descriptors, _, _ = socket.recv_fds(client, REQUEST_BYTES, len(STANDARD))
    while text and not text.endswith(b"\0"):
        more = client.recv(REQUEST_BYTES)
        text = text + more if more else b""
    return Request(json.loads(text[:-1]), descriptors) if text else None


def draw_seeds() -> None:
    """What each Python that begins anew draws by itself. TensorFlow does so when it is first used."""
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if "torch" in sys.modules:
        sys.modules["torch"].seed()


def become(request: Request, server: int) -> None:
    """Turns a child into what the client would have been."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(1)
    os.setsid()
    for place, descriptor in zip(STANDARD, request.descriptors):
        os.dup2(descriptor, place)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request.variables)
    os.chdir(request.folder)
    os.sched_setaffinity(0, request.processors)
    draw_seeds()
    sys.argv[:] = request.arguments
    sys.path[0] = os.path.dirname(os.path.abspath(request.arguments[0]))


class Server:
    """Waits for clients, for children that end, and for its own end."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._ready = selectors.DefaultSelector()
        self._ready.register(0, selectors.EVENT_READ, lambda: os._exit(0))  # children get a signal by that
        self._ready.register(listener, selectors.EVENT_READ, self._accept)
        self._request: Optional[Request] = None

    def serve(self) -> Request:
        """Returns in children only, with what to run."""
        while self._request is None:
            key, _ = self._ready.select()[0]  # one at a time: what it does may settle the others
            key.data()
        return self._request

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        request = receive(client)
        if request is None:
            return client.close()
        threads = len(os.listdir("/proc/self/task"))
        assert threads == 1, f"a fork would not be safe beside {threads - 1} other threads"
        server, child = os.getpid(), os.fork()
        if child == 0:
            self._leave(client)
            become(request, server)
            self._request = request
            return None
        for descriptor in request.descriptors:
            os.close(descriptor)
        client.sendall(f"{child}\n".encode())
        pidfd = os.pidfd_open(child)
        self._ready.register(client, selectors.EVENT_READ, lambda: self._gone(client, child))
        self._ready.register(pidfd, selectors.EVENT_READ, lambda: self._ended(client, child, pidfd))
        return None

    def _leave(self, client: socket.socket) -> None:
        """In a child: nothing of the server's stays open."""
        for key in list(self._ready.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
            elif key.fd not in STANDARD:
                os.close(key.fd)
        client.close()
        self._ready.close()

    def _gone(self, client: socket.socket, child: int) -> None:
        """The client was killed: so is the child; that it has ended is the next event."""
        self._ready.unregister(client)
        client.close()
        os.kill(child, signal.SIGKILL)

    def _ended(self, client: socket.socket, child: int, pidfd: int) -> None:
        _, status = os.waitpid(child, 0)
        self._ready.unregister(pidfd)
        os.close(pidfd)
        if client.fileno() < 0:
            return  # it has gone
        self._ready.unregister(client)
        try:
            client.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        except OSError:
            pass  # it goes just now
        client.close()


def end() -> None:
    """The end of a child that has succeeded."""
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def main() -> str:
    """Returns in children only: the script to run."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    for module in sys.argv[2:]:
        importlib.import_module(module)
    gc.freeze()  # a collection in a child would copy all of it
    return Server(listener).serve().arguments[0]


if __name__ == "__main__":
    runpy.run_path(main(), run_name="__main__")
    end()
