# SPDX-License-Identifier: Apache-2.0
"""Fetches libraries from registries, and builds what is made of them. A registry that failed is not
asked again for ten minutes."""

import contextlib
import fcntl
import os
import pathlib
import subprocess
import tempfile
import time

from sides import Skip, need

# Tests run side by side, and a registry that cannot be reached costs its time-out only once.
KEPT = pathlib.Path(os.environ.get("HOLDFAST_REGISTRIES") or tempfile.gettempdir())
FAILURE_LASTS_S = 600
GO_FETCH_PATIENCE = 240
# Of a compiler with an empty cache, on a machine that does much else.
GO_BUILD_PATIENCE = 900


@contextlib.contextmanager
def alone(registry):
    with open(KEPT / f"{registry}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def has_failed(mark):
    try:
        return time.time() - mark.stat().st_mtime < FAILURE_LASTS_S
    except OSError:
        return False


def fetch(registry, commands, seconds, has_it=lambda: False):
    """Runs the commands in turn, unless `has_it` says that another test has fetched it meanwhile.
    Raises Skip, with the same words for every library, if the registry does not give it."""
    mark = KEPT / f"{registry}.unreachable"
    with alone(registry):
        if has_it():
            return
        if has_failed(mark):
            raise Skip(f"{registry} cannot be reached, or lacks the version")
        for command in commands:
            try:
                subprocess.run(command, timeout=seconds, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            except (subprocess.SubprocessError, OSError):
                mark.touch()
                raise Skip(f"{registry} cannot be reached, or lacks the version") from None
        mark.unlink(missing_ok=True)


def build_with_go(source, program):
    """Without what makes a program fast, and slow to build. One build at a time: Go's cache then
    has the standard library for the others."""
    need("go")
    download = ["env", "GOTOOLCHAIN=local", "go", "mod", "download", "-C", source]
    fetch("Go's module proxy", [download], GO_FETCH_PATIENCE)
    with alone("go"):
        subprocess.run(["env", "GOTOOLCHAIN=local", "CGO_ENABLED=0", "go", "build", "-C", source,
                        "-gcflags=all=-N -l", "-buildvcs=false", "-o", str(program), "."],
                       timeout=GO_BUILD_PATIENCE, check=True)
