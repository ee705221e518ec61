"""terminal.py COMMAND...: a terminal that becomes narrower while a job draws its bar; then Ctrl-C.

No bar is as wide as the terminal, and none of it remains beside the launcher's last line.
"""

import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios

WIDE, NARROW = 60, 30
BARS = 3  # to be seen at each width
BAR = re.compile(r"\x1b\[\?7l([^\r\x1b]*)\x1b\[J\x1b\[\?7h\r")


def set_width(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def start(command):
    """The process, and our end of its terminal."""
    ours, theirs = pty.openpty()
    set_width(ours, WIDE)
    process = os.fork()
    if process == 0:
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
        for descriptor in range(3):
            os.dup2(theirs, descriptor)
        os.execvp(command[0], command)
    os.close(theirs)
    return process, ours


def read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


def main(command):
    process, terminal = start(command)
    text, narrowed, interrupted = b"", 0, False
    while data := read(terminal):
        text += data
        bars = BAR.findall(text.decode(errors="ignore"))
        if narrowed == 0 and len(bars) >= BARS:
            narrowed = len(bars) + 1  # one may be under way with the old width
            set_width(terminal, NARROW)
        elif narrowed > 0 and len(bars) >= narrowed + BARS and not interrupted:
            interrupted = True
            os.kill(process, signal.SIGINT)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    widths = [len(bar) for bar in BAR.findall(text.decode())]
    last = text.decode().split("\r\n")[-2]
    print(widths, repr(last), code)
    assert max(widths[:BARS]) in range(NARROW, WIDE)
    assert max(widths[narrowed:]) < NARROW
    assert last.endswith("rueda run: ended by SIGINT")
    assert re.search(r"\x1b\[[JK][^█·%]*$", last), "something of the bar remains"
    assert code == 128 + signal.SIGINT


main(sys.argv[1:])
