"""Makes the Python environment of a job, once, and keeps it in the cache.

The program carries this text and lets the job's own interpreter run it (python.c), so it must run on any Python
3.6 or later and needs nothing but the standard library:

    INTERPRETER -I -c TEXT find PACKAGE VERSION
        prints the folder that the environment has or would have
    INTERPRETER -I -c TEXT make INTERPRETER PROGRAM FOLDER REQUIREMENT...
        makes it unless it is whole, and tells on stderr what it does

A folder is whole when the file DONE is in it; anything else is what a killed job has left, and is made anew. A
lock beside it lets one job at a time make it. Exit code: 0, or 1 after a line that says why; 3: no place to keep it.
"""
import collections
import fcntl
import glob
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time

DONE = "rueda-complete"
TAIL_LINES = 5  # last lines of pip that are shown when it fails
SHOWN_BYTES = 70  # of its newest line, on a terminal
EXIT_NOWHERE = 3
EXIT_SIGNAL = 128
PR_SET_PDEATHSIG = 1


class Interrupted(BaseException):
    """A signal that would end us: what was begun is removed first."""


class StepFailed(Exception):
    """What a step was, how it ended and what it said last."""


def say(text):
    print("rueda run: " + text, file=sys.stderr, flush=True)


# ---- Where it is --------------------------------------------------------------------------------------


def cache_folder():
    """None: there is neither a cache nor a home."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    if given.startswith("/"):
        return given
    home = os.environ.get("HOME", "")
    if not home.startswith("/"):
        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return None
    return os.path.join(home, ".cache")


def find(package, version):
    cache = cache_folder()
    if cache is None:
        return EXIT_NOWHERE
    name = "%s-%s-py%d.%d" % (package, version, sys.version_info[0], sys.version_info[1])
    folder = os.path.join(cache, "rueda", "envs", name)
    sys.stdout.buffer.write(os.fsencode(folder) + b"\n")  # whatever the locale can show
    return 0


# ---- Making it ----------------------------------------------------------------------------------------


try:
    import ctypes

    prctl = ctypes.CDLL(None).prctl
except (ImportError, OSError, AttributeError):  # a Python without it
    prctl = None


def die_with_us():
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def read_lines(output):
    """Lines without their ends; what a progress bar writes over is a line, too."""
    rest = b""
    while True:
        some = output.read1(65536)
        parts = re.split(b"[\r\n]", rest + some)
        rest = parts.pop() if some else b""
        for line in parts:
            if line:
                yield line.decode("utf-8", "replace")
        if not some:
            return


def step(what, command):
    """Runs a command; on a terminal its newest line is shown while it works."""
    live = sys.stderr.isatty()
    last = collections.deque(maxlen=TAIL_LINES)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, preexec_fn=die_with_us)
    try:
        for line in read_lines(child.stdout):
            last.append(line)
            if live:
                sys.stderr.write("\r\033[K  " + line[:SHOWN_BYTES])
                sys.stderr.flush()
        code = child.wait()
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        if live and last:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
    if code != 0:
        raise StepFailed(what, code if code > 0 else EXIT_SIGNAL - code, last)


def make_locked(interpreter, folder, requirements):
    say("preparing %s with %s in %s (once)" % (requirements[0], interpreter, folder))
    start = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)  # what a killed job has left
    try:
        step("python -m venv", [interpreter, "-m", "venv", folder])
        step("pip install", [os.path.join(folder, "bin", "python"), "-m", "pip", "install",
                             "--disable-pip-version-check", "--no-input"] + requirements)
        open(os.path.join(folder, DONE), "w").close()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    say("%s is ready after %d s" % (requirements[0], time.monotonic() - start))


def make_once(interpreter, folder, requirements):
    def is_whole():
        return os.path.exists(os.path.join(folder, DONE))

    if is_whole():
        return
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(folder + ".lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another job is preparing %s; waiting for it" % requirements[0])
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_whole():
            make_locked(interpreter, folder, requirements)


# ---- Our own package in it ----------------------------------------------------------------------------

# Where an installer puts packages, seen from the folder of programs; the last is for a program that lies in
# the package itself.
PLACES = ("../lib/python3*/site-packages/rueda", "../lib/python3*/dist-packages/rueda", "..")


def own_package(program):
    """The package that was installed with the program; None: it was installed alone."""
    for place in PLACES:
        pattern = os.path.join(glob.escape(os.path.dirname(program)), place, "__init__.py")
        for found in sorted(glob.glob(pattern)):
            return os.path.realpath(os.path.dirname(found))
    return None


def link_package(program, folder):
    """Every job has the package of its launcher, also where an older one has made the environment; but what
    somebody has installed there stays. Two jobs may do this at the same time: the link is made under a name of
    our own, then put in place."""
    package = own_package(program)
    homes = sorted(glob.glob(os.path.join(glob.escape(folder), "lib/python3*/site-packages")))
    if package is None or not homes:
        return
    place = os.path.join(homes[0], "rueda")
    if os.path.lexists(place) and not os.path.islink(place):
        return
    if os.path.islink(place) and os.readlink(place) == package:
        return
    other = "%s.%d" % (place, os.getpid())
    os.symlink(package, other)
    try:
        os.rename(other, place)
    except OSError:
        os.unlink(other)
        raise


def make(interpreter, program, folder, *requirements):
    try:
        make_once(interpreter, folder, list(requirements))
    except StepFailed as failure:
        what, code, last = failure.args
        say("cannot prepare %s: %s ended with %d; it said:" % (requirements[0], what, code))
        for line in last:
            print("  " + line, file=sys.stderr)
        return 1
    except OSError as error:
        say("cannot make %s: %s" % (folder, error.strerror))
        return 1
    try:
        link_package(program, folder)
    except OSError as error:
        say("going on without the package rueda in %s: %s" % (folder, error.strerror))
    return 0


def interrupt(number, frame):
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)  # once is enough: we are cleaning up
    raise Interrupted(number)


def main(words):
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, interrupt)
    try:
        return {"find": find, "make": make}[words[0]](*words[1:])
    except Interrupted as reason:
        return EXIT_SIGNAL + reason.args[0]


sys.exit(main(sys.argv[1:]))
