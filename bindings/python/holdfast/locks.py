# SPDX-License-Identifier: Apache-2.0
"""Locks for threads: Lock, and the Hold that its `with` gives."""

from __future__ import annotations

import contextlib
import enum
import math
import threading
import time
from typing import TYPE_CHECKING, Generic, Iterable, List, Optional, TypeVar, Union

from . import _holdfast
from .errors import LOST, Busy, Error, Lost, make

if TYPE_CHECKING:
    from .client import Client

Name = Union[str, bytes]
MOST = 2**32 - 1
FOREVER = -1


class Mode(enum.IntEnum):
    """How a name is locked."""
    MUTEX = 0
    """Exclusive. A newcomer may overtake waiters for a short while, which is fastest."""
    FAIR = 1
    """Exclusive; first come, first served."""
    READ = 2
    """Read-write lock, shared by any number of readers."""
    UPGRADE = 3
    """Shared with readers, but with no other UPGRADE; it can become WRITE."""
    WRITE = 4
    """Read-write lock, exclusive."""
    PERMIT = 5
    """Permits of a semaphore."""
    COUNTER = 6
    LATCH = 7
    LEADER = 8
    """The leadership of an election; `hold.mode` then says FAIR, or MUTEX."""


def name_bytes(name: Name) -> bytes:
    """A name as the store has it."""
    if isinstance(name, str):
        return name.encode("utf-8", "surrogateescape")
    if isinstance(name, bytes):
        return name
    raise TypeError(f"a name must be str or bytes, not {type(name).__name__}")


def milliseconds(seconds: Optional[float], none: int = FOREVER) -> int:
    """Rounded up: 0.0003 s must not become "one attempt"."""
    if seconds is None:
        return none
    if not seconds >= 0:
        raise ValueError(f"a time must be None or not negative, not {seconds!r}")
    return FOREVER if seconds > 1e15 else math.ceil(seconds * 1000)


def number(value: int, what: str) -> int:
    """One that the store can keep."""
    if not 0 <= value <= MOST:
        raise ValueError(f"{what} must be between 0 and {MOST}, not {value}")
    return value


class Request:
    """What a lock asks the store for."""
    __slots__ = ("client", "name", "wait_ms", "arguments")

    def __init__(self, client: Client, name: Name, wait: Optional[float], mode: Mode, permits: int,
                 limit: int, lease: Optional[float], deadlock: Optional[float] = None,
                 text: Optional[str] = None, holds: bool = True) -> None:
        if holds and mode in (Mode.COUNTER, Mode.LATCH):
            raise ValueError("a counter and a latch have no hold: use counter() and latch()")
        self.client = client
        self.name = name_bytes(name)
        self.wait_ms = FOREVER if wait is None else milliseconds(wait)
        self.arguments = (int(mode), number(permits, "permits"), number(limit, "limit"),
                          milliseconds(lease, 0), milliseconds(deadlock), text)


class LossEvent:
    """Tells when a lock is lost, as a threading.Event does."""
    __slots__ = ("_raw",)

    def __init__(self, raw: _holdfast.Hold) -> None:
        self._raw = raw

    def is_set(self) -> bool:
        """Whether the loss is known."""
        return self._raw.lost

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until the lock is lost; False: it was not lost within `timeout` seconds."""
        return self._raw.wait_lost(milliseconds(timeout))


class BaseHold:
    """A lock that was granted. Any thread may use it."""
    __slots__ = ("_raw", "_name", "__weakref__")

    def __init__(self, raw: _holdfast.Hold, name: bytes) -> None:
        self._raw = raw
        self._name = name

    @property
    def name(self) -> str:
        """The name that was locked."""
        return self._name.decode("utf-8", "surrogateescape")

    @property
    def token(self) -> int:
        """The fencing token; 0 once it was released, and at stores without tokens."""
        return self._raw.token

    @property
    def held(self) -> bool:
        """True only while no other owner can exist. Once false, it stays false."""
        return self._raw.held

    @property
    def remaining(self) -> Optional[float]:
        """For how many seconds `held` stays true without a renewal. None: no lease limits it."""
        ms = self._raw.remaining_ms
        return None if ms is None else ms / 1000

    @property
    def mode(self) -> Mode:
        """The present mode; upgrade() and downgrade() change it."""
        return Mode(self._raw.mode)

    def renew(self, lease: float) -> None:
        """Renews a lease of the lock's own: it ends `lease` seconds from now."""
        self._raw.renew(milliseconds(lease))

    def upgrade(self, wait: Optional[float] = None) -> None:
        """Turns UPGRADE into WRITE, once the readers have left."""
        self._raw.upgrade(milliseconds(wait))

    def downgrade(self, mode: Mode) -> None:
        """Turns WRITE or UPGRADE into the weaker `mode`, and lets no other owner in between."""
        self._raw.downgrade(mode)

    def detach(self) -> str:
        """Leaves a lock with a lease of its own to the store; returns the key for attach()."""
        return self._raw.detach()

    def guard(self) -> str:
        """What a transaction of your own at the same store compares (etcd)."""
        return self._raw.guard().decode("utf-8", "surrogateescape")

    def release(self) -> None:
        """Releases it. Raises Lost if it was lost before."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<holdfast hold of {self.name!r}, {'held' if self.held else 'not held'}>"


class Hold(BaseHold):
    """A lock that a thread was granted."""
    __slots__ = ("_thread", "_lost")

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._thread = threading.get_ident()
        self._lost: Optional[LossEvent] = None

    @property
    def lost(self) -> LossEvent:
        """Tells when the lock is lost."""
        if self._lost is None:
            self._lost = LossEvent(self._raw)
        return self._lost

    def release(self) -> None:
        """Releases it, and waits for the store's reply. Raises Lost if it was lost before."""
        self._raw.release()

    def _give_back(self) -> None:
        self._raw.release_nowait()


def take(request: Request, wait_ms: int) -> Hold:
    """Acquires. The grant comes last: what a signal's handler raises meanwhile has a traceback,
    and no variable in it keeps the grant."""
    hold = Hold(request.name)
    hold._raw = request.client._live().acquire(request.name, wait_ms, *request.arguments)
    return hold


AnyHold = TypeVar("AnyHold", bound=BaseHold)
Taken = TypeVar("Taken", "Hold", "HoldSet")


class BaseHoldSet(Generic[AnyHold]):
    """What sets of holds of threads and of tasks have in common."""
    __slots__ = ("_holds",)

    def __init__(self, holds: List[AnyHold]) -> None:
        self._holds = holds

    @property
    def held(self) -> bool:
        """True only while all of them are held."""
        return all(hold.held for hold in self._holds)

    def __getitem__(self, name: Name) -> AnyHold:
        wanted = name_bytes(name)
        for hold in self._holds:
            if hold._name == wanted:
                return hold
        raise KeyError(name)

    def __len__(self) -> int:
        return len(self._holds)

    def release(self) -> None:
        """Releases all, the last one first. Raises what the first failure was."""
        failure: Optional[Exception] = None
        while self._holds:
            hold = self._holds.pop()
            try:
                hold.release()
            except Exception as error:  # released by hand, too: the others are still held
                failure = failure or error
            except BaseException:
                self._holds.append(hold)
                self._give_back()
                raise
        if failure:
            raise failure

    def _give_back(self) -> None:
        """Releases all, and waits for no reply."""
        while self._holds:
            with contextlib.suppress(RuntimeError, Error):
                self._holds.pop()._raw.release_nowait()


class Guard(_holdfast.Guard, Generic[Taken]):
    """A `with` whose locks no Ctrl-C leaves behind, from 3.10 on; its methods are in guard.c."""
    __slots__ = ("_holds",)

    def __init__(self) -> None:
        self._holds: List[Taken] = []

    if TYPE_CHECKING:
        def __enter__(self) -> Taken: ...

    def _end(self, taken: Taken, error: Optional[BaseException]) -> None:
        try:
            taken.release()
        except Error as failure:
            tell(failure, error)


def tell(failure: Error, error: Optional[BaseException]) -> None:
    """The release at the end of a `with` has failed. The exception that ends its body says so,
    too; without one, the failure is raised."""
    if error is None:
        raise failure
    if hasattr(error, "add_note"):
        error.add_note(f"holdfast: {failure}")


def to_release_for_others(holds: List[AnyHold]) -> AnyHold:
    """After a loss, the old owner and the next one have a hold of the same lock: the old one ends,
    also where the loss is not known yet."""
    return next((hold for hold in holds if not hold.held), holds[0])


class Lock(Guard["Hold"]):
    """A lock at the store, for `with`, and with the methods of threading.Lock.

    Threads may share one. Each acquisition is an owner of its own: a second one of the same thread
    waits for the first, as with threading.Lock.
    """
    __slots__ = ("_request",)

    def __init__(self, request: Request) -> None:
        super().__init__()
        self._request = request

    def _take_one(self) -> Hold:
        return take(self._request, self._request.wait_ms)

    def _taken(self) -> Hold:
        """The newest hold of this thread, or one of another thread, which is no longer kept."""
        me = threading.get_ident()
        while True:
            holds = list(self._holds)
            if not holds:
                raise RuntimeError("release of a lock that is not held")
            own = [hold for hold in holds if hold._thread == me]
            hold = own[-1] if own else to_release_for_others(holds)
            with contextlib.suppress(ValueError):  # another thread was faster
                self._holds.remove(hold)
                return hold

    release = _holdfast.Guard._release

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As that of threading.Lock. Without arguments the lock's own `wait` counts.

        Returns False where another owner holds it; other failures raise.
        """
        wait_ms = self._request.wait_ms
        if not blocking:
            if timeout != -1:
                raise ValueError("can't specify a timeout for a non-blocking call")
            wait_ms = 0
        elif timeout != -1:
            wait_ms = milliseconds(timeout)
        try:
            self._holds += [take(self._request, wait_ms)]
        except Busy:
            return False
        return True

    def locked(self) -> bool:
        """Whether this object holds it."""
        return any(hold.held for hold in list(self._holds))


class HoldSet(BaseHoldSet[Hold]):
    """Several locks that were granted together."""
    __slots__ = ()


class LockAll(Guard[HoldSet]):
    """Several locks, all or nothing, in the same order in every program."""
    __slots__ = ("_requests", "_wait_ms")

    def __init__(self, requests: Iterable[Request], wait_ms: int) -> None:
        super().__init__()
        # The order of hf_lock_all; a name that is there twice is taken once.
        self._requests = [request for _, request in
                          sorted({request.name: request for request in requests}.items())]
        self._wait_ms = wait_ms

    def acquire(self) -> HoldSet:
        """Acquires all within one wait. Each is checked once more at the end."""
        end = None if self._wait_ms < 0 else time.monotonic() + self._wait_ms / 1000
        taken = HoldSet([])
        try:
            for request in self._requests:
                left = FOREVER if end is None else milliseconds(max(0, end - time.monotonic()))
                taken._holds += [take(request, left)]
                check_all(taken._holds)
        except BaseException:
            taken._give_back()
            raise
        return taken

    def _take_one(self) -> HoldSet:
        if self._holds:
            raise RuntimeError("this object is in use: make one for each `with`")
        return self.acquire()

    def _taken(self) -> HoldSet:
        return self._holds.pop()


def check_all(holds: Iterable[BaseHold]) -> None:
    """Raises Lost if one was lost while others were being acquired."""
    for hold in holds:
        if not hold.held:
            raise lost(hold.name)


def lost(name: str) -> Lost:
    """The exception for a loss that no call of the library has reported."""
    error = make(LOST, f'the lock "{name}" was lost: another owner may have held it since')
    assert isinstance(error, Lost)
    return error


