"""In the place of ``python SCRIPT ARGUMENTS``: asks a server to fork for it; see fork_server.py.

    python -I -S fork_client.py SOCKET SCRIPT ARGUMENTS...

Passes on the signals by which a launcher ends a rank, and ends as the script does.
"""

import json
import os
import signal
import socket
import sys

server = socket.socket(socket.AF_UNIX)
server.connect(sys.argv[1])
request = {
    "arguments": sys.argv[2:],
    "variables": dict(os.environ),
    "folder": os.getcwd(),
    "processors": list(os.sched_getaffinity(0)),
}
PASSED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
signal.pthread_sigmask(signal.SIG_BLOCK, PASSED)  # until there is somebody to pass them on to
socket.send_fds(server, [json.dumps(request).encode() + b"\0"], [0, 1, 2])
answers = server.makefile("r")
child = int(answers.readline())
for number in PASSED:
    signal.signal(number, lambda number, frame: os.kill(child, number))
signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED)
code = int(answers.readline() or -signal.SIGKILL)  # without an answer the server has died, and the child with it
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
    os.kill(os.getpid(), -code)
os._exit(code)
