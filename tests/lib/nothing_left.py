# SPDX-License-Identifier: Apache-2.0
"""What lets a test or a tool end without a trace: processes that end with it, a place for files.
And children that stand still."""
import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1
TMPFS = "/dev/shm"
# Looked up beforehand: between fork and exec, the loader's locks may be held by another thread.
PRCTL = ctypes.CDLL(None).prctl
PARENT = os.getpid()


def die_with_parent():
    """To be run in the child, before it becomes something else."""
    PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL)
    # A parent that died before that is not announced any more.
    if os.getppid() != PARENT:
        os._exit(1)


def stop_child(pid):
    """Stops our child. On a busy machine its threads run on for a while after the signal: returns
    when none of them does."""
    os.kill(pid, signal.SIGSTOP)
    told = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert told.si_code == os.CLD_STOPPED, f"{pid} has ended instead of stopping"


def scratch_place():
    """Where files go that are not to last: where the caller of the test says, so that he can clear
    away what a test leaves that he kills; else on tmpfs. None is the system's own place."""
    return os.environ.get("HOLDFAST_TEST_DIR") or (TMPFS if os.access(TMPFS, os.W_OK) else None)
