# SPDX-License-Identifier: Apache-2.0
"""holdfast: distributed locks over many stores.

    with holdfast.Client("redis://127.0.0.1") as client:
        with client.lock("orders/42", wait=5) as hold:
            write_order(42, token=hold.token)

    async with client.alock("orders/42", wait=5) as hold: ...
"""

from . import _holdfast
from .aio import AsyncHold, AsyncHoldSet, AsyncLock, AsyncLockAll
from .client import (AsyncCampaign, Campaign, Client, Counter, Election, Entry, Kind, Latch, Leader,
                     Rate, Role, Semaphore, Stats)
from .errors import (Busy, Canceled, Closed, Corrupt, Deadlock, Denied, Error, Forked, Internal,
                     Invalid, Limit, Lost, NotSupported, OutOfMemory, Unreachable, WrongKind)
from .locks import Hold, HoldSet, Lock, LockAll, LossEvent, Mode

__version__ = _holdfast.version()
"""The version of the C library in use."""


def engines() -> str:
    """For each engine a line: its schemes, and where it is or why it cannot load."""
    return _holdfast.engines()


__all__ = [
    "AsyncCampaign", "AsyncHold", "AsyncHoldSet", "AsyncLock", "AsyncLockAll", "Busy", "Campaign",
    "Canceled", "Client", "Closed", "Corrupt", "Counter", "Deadlock", "Denied", "Election", "Entry",
    "Error", "Forked", "Hold", "HoldSet", "Internal", "Invalid", "Kind", "Latch", "Leader", "Limit",
    "Lock", "LockAll", "Lost", "LossEvent", "Mode", "NotSupported", "OutOfMemory", "Rate", "Role",
    "Semaphore", "Stats", "Unreachable", "WrongKind", "engines",
]
