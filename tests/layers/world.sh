#!/bin/sh
# world.sh SRC: fails where the library reads a clock, sleeps, yields, starts a thread, takes a lock or asks a
# socket other than by src/world: there the simulated world could not decide what happens.
set -eu
src=$1
calls='clock_gettime|gettimeofday|time|nanosleep|clock_nanosleep|usleep|sleep|sched_yield|sched_getcpu|poll|ppoll|select'
calls="$calls|epoll_[a-z0-9]+|eventfd|timerfd_[a-z]+|futex|socket|socketpair|bind|listen|accept4?|connect|send|sendto|sendmsg"
calls="$calls|recv|recvfrom|recvmsg|shutdown|[gs]etsockopt|getsockname|getpeername|ioctl|getpid|raise|kill"
calls="$calls|randombytes_buf|getrandom|pthread_(create|join|mutex_[a-z]+|cond_[a-z]+|rwlock_[a-z]+)|memfd_poll|syscall"
found=$(find "$src" -name '*.[ch]' ! -name '*_test.c' ! -name '*testing.h' |
    grep -vE "^$src/(world|cli|sim)/|/plugin/" | sort |
    xargs awk -v calls="(^|[^A-Za-z0-9_>.*])($calls)\\\\(" '
        { line = $0; gsub(/"[^"]*"/, "", line); sub(/\/\*.*/, "", line) }
        line ~ /^ \*/ { next }
        line ~ /^static / { next } # a function of that name of its own
        line ~ calls { printf "%s:%d: %s\n", FILENAME, FNR, $0 }' || true)
[ -z "$found" ] && exit 0
echo "$found"
echo "these belong into src/world: see src/world/world.h and sockets.h"
exit 1
