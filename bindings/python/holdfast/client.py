# SPDX-License-Identifier: Apache-2.0
"""Clients, and what they offer besides locks: semaphores, counters, elections, inspecting."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import dataclasses
import enum
import math
import multiprocessing.util
import os
import threading
import time
import weakref
from typing import (TYPE_CHECKING, AsyncIterator, Dict, Iterable, Iterator, List, NamedTuple,
                    Optional, TypedDict, cast)

from . import _holdfast
from .aio import AsyncLock, AsyncLockAll, Notes, Reply, Verb
from .errors import Busy, Closed, Unreachable
from .locks import (Hold, Lock, LockAll, Mode, Name, Request, milliseconds, name_bytes, number,
                    take)

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Type

CLOSED = 11
TOKEN_MOST = 2**62


class Kind(enum.IntEnum):
    """What a name is."""
    FREE = 0
    MUTEX = 1
    FAIR = 2
    RW = 3
    SEMAPHORE = 4
    COUNTER = 5
    LATCH = 6
    RATE = 7


class Role(enum.IntEnum):
    """What an entry of inspect() describes."""
    OBJECT = 0
    HOLDER = 1
    WAITER = 2


class Entry(NamedTuple):
    """One line of inspect(); see hf_entry in holdfast.h."""
    name: str
    kind: Kind
    role: Role
    total: int
    value: int
    token: int
    mode: Mode
    permits: int
    rank: int
    owner_key: str
    owner_text: str
    host: str
    pid: int
    since: Optional[float]
    lease_left: Optional[float]
    unmarked: bool


class Stats(TypedDict):
    """What Client.stats() returns; see hf_stats in holdfast.h."""
    granted: int
    nested: int
    busy: int
    timed_out: int
    unreachable: int
    canceled: int
    failed: int
    lost_ended: int
    lost_not_renewed: int
    lost_taken: int
    renewals: int
    renewal_late_ms: int
    requests: int
    unanswered: int
    reconnects: int
    outages: int
    silent: int
    held: int
    waiting: int
    wait_us: int
    hold_us: int
    waits: List[int]
    holds: List[int]


def _entry(raw: tuple) -> Entry:  # type: ignore[type-arg]
    name, kind, role, total, value, token, mode, *rest, since, left, unmarked = raw
    return Entry(name, Kind(kind), Role(role), total, value, token,  # type: ignore[call-arg]
                 Mode(mode), *rest,
                 None if since < 0 else since / 1000, None if left < 0 else left / 1000, unmarked)


class Client:
    """One store. Open one for a process, and share it among threads and tasks.

    `url` is such as "local:" or "redis://host"; None means $HOLDFAST_URL, or "local:". `lease` and
    `request_timeout` are in seconds. In a forked child it opens itself anew at its first use.
    """

    def __init__(self, url: Optional[str] = None, *, lease: Optional[float] = None,
                 request_timeout: Optional[float] = None, owner_text: Optional[str] = None,
                 existing_only: bool = False, token_floor: int = 0) -> None:
        if not 0 <= token_floor <= TOKEN_MOST:
            raise ValueError(f"token_floor must be between 0 and {TOKEN_MOST}, not {token_floor}")
        self._options = (url, milliseconds(lease, 0), milliseconds(request_timeout, 0), owner_text,
                         existing_only, token_floor)
        self._core: Optional[_holdfast.Client] = _holdfast.Client(*self._options)
        self._closed = False
        self._opening = threading.Lock()
        self._loops: Dict[asyncio.AbstractEventLoop, Notes] = {}
        _clients.add(self)

    def _live(self) -> _holdfast.Client:
        return self._core or self._reopen()

    def _reopen(self) -> _holdfast.Client:
        with self._opening:
            if self._closed:
                raise Closed(CLOSED, "the client is closed")
            if self._core is None:
                self._core = _holdfast.Client(*self._options)
            return self._core

    def _after_fork_in_child(self) -> None:
        # The parent's event loop shares its descriptor with the child's copy: it is left alone.
        self._opening = threading.Lock()
        self._loops = {}
        if not self._closed:
            self._core = None

    def _notes(self) -> Notes:
        if self._closed:
            raise Closed(CLOSED, "the client is closed")
        loop = asyncio.get_running_loop()
        notes = self._loops.get(loop)
        if notes is None:
            core = self._live()
            with self._opening:
                for old in [old for old in self._loops if old.is_closed()]:
                    del self._loops[old]
                notes = self._loops[loop] = Notes(loop, core)
        return notes

    def close(self) -> None:
        """Releases every hold, ends every wait with Closed, and frees the client."""
        self._closed = True
        core = self._core
        if core is not None:
            core.close()
        for notes in list(self._loops.values()):
            notes.close()
        self._loops.clear()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._closed or self._core is None:
            return "<holdfast client, closed>" if self._closed else "<holdfast client>"
        return f"<holdfast client of {self._core.url}>"

    @property
    def url(self) -> str:
        """The client's URL, password removed."""
        return self._live().url

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closed

    # ---- locks ----

    def lock(self, name: Name, *, wait: Optional[float] = None, mode: Mode = Mode.MUTEX,
             permits: int = 1, limit: int = 0, lease: Optional[float] = None,
             deadlock: Optional[float] = None) -> Lock:
        """A lock for `with`. It waits up to `wait` seconds, then raises Busy; None: for ever.

        With a `lease` it ends by itself after that many seconds. With `deadlock` the thread is the
        owner: one of the threads that wait for each other in a circle gets Deadlock, and so does a
        thread that holds the name. Circles over several clients are looked for after that many
        seconds of waiting; 0 is the library's own choice.
        """
        return Lock(Request(self, name, wait, mode, permits, limit, lease, deadlock))

    def alock(self, name: Name, *, wait: Optional[float] = None, mode: Mode = Mode.MUTEX,
              permits: int = 1, limit: int = 0, lease: Optional[float] = None) -> AsyncLock:
        """The same for `async with`."""
        return AsyncLock(Request(self, name, wait, mode, permits, limit, lease))

    def try_lock(self, name: Name, *, mode: Mode = Mode.MUTEX, permits: int = 1, limit: int = 0,
                 lease: Optional[float] = None) -> Optional[Hold]:
        """Makes one attempt. None: another owner holds it. Release the hold by release()."""
        request = Request(self, name, 0, mode, permits, limit, lease)
        try:
            return take(request, 0)
        except Busy:
            return None

    def lock_all(self, names: Iterable[Name], *, wait: Optional[float] = None,
                 mode: Mode = Mode.MUTEX, lease: Optional[float] = None) -> LockAll:
        """All these locks or none, within one `wait`, in the same order in every program."""
        requests = [Request(self, name, wait, mode, 1, 0, lease) for name in names]
        return LockAll(requests, milliseconds(wait))

    def alock_all(self, names: Iterable[Name], *, wait: Optional[float] = None,
                  mode: Mode = Mode.MUTEX, lease: Optional[float] = None) -> AsyncLockAll:
        """The same for `async with`."""
        requests = [Request(self, name, wait, mode, 1, 0, lease) for name in names]
        return AsyncLockAll(requests, milliseconds(wait))

    def attach(self, name: Name, owner_key: str) -> Hold:
        """Takes over a lock that detach() has left."""
        hold = Hold(name_bytes(name))
        hold._raw = self._live().attach(hold._name, owner_key)
        return hold

    # ---- other objects ----

    def semaphore(self, name: Name) -> Semaphore:
        """A semaphore, whose permits come back when their owner dies."""
        return Semaphore(self, name)

    def counter(self, name: Name) -> Counter:
        """A number that any client may add to and take from."""
        return Counter(self, name)

    def latch(self, name: Name) -> Latch:
        """A latch, which is set to a count, counted down, and opens at zero."""
        return Latch(self, name)

    def election(self, name: Name) -> Election:
        """An election: of all candidates for the name, one leads."""
        return Election(self, name)

    def rate(self, name: Name, permits: int, period: float, *, burst: int = 0) -> Rate:
        """A rate limiter: `permits` in each `period` seconds, of which `burst` may go at once.

        Without a `burst`, all of them may. Give the same rate wherever the name is used."""
        return Rate(self, name, permits, period, burst)

    # ---- inspecting ----

    def inspect(self, name: Optional[Name] = None) -> List[Entry]:
        """Each name in use, or this one: the object, its holders, and its waiters in order."""
        wanted = None if name is None else name_bytes(name)
        return [_entry(raw) for raw in self._live().inspect(wanted)]

    async def ainspect(self, name: Optional[Name] = None) -> List[Entry]:
        """The same for tasks."""
        raws = await self._ask(Verb.INSPECT, None if name is None else name_bytes(name))
        return [_entry(raw) for raw in cast(List[tuple], raws)]  # type: ignore[type-arg]

    async def _ask(self, verb: Verb, name: Optional[bytes], value: int = 0) -> object:
        ask = self._live().ask
        reply = Reply(self._notes(), lambda queue, key: ask(verb, name, value, queue, key))
        return await reply.result()

    def stats(self) -> Stats:
        """What the client has counted since it was opened. It asks no server.

        "granted", "busy" and so on say how requests have ended, "held" and "waiting" what is the
        case now. "waits" and "holds" are histograms: the first count is of less than 1 µs, number i
        of less than 2**i µs. In a forked child all begins at 0."""
        return self._live().stats()

    def break_(self, name: Name, owner_key: Optional[str] = None) -> int:
        """Takes a name by force from one holder, or from all. Returns how many there were."""
        return self._live().break_(name_bytes(name), owner_key)

    def forget(self, name: Name) -> None:
        """Removes what the store keeps of a name that is free."""
        self._live().forget(name_bytes(name))


class _Object:
    """A named object at a store."""
    __slots__ = ("_client", "_name")

    def __init__(self, client: Client, name: Name) -> None:
        self._client = client
        self._name = name_bytes(name)

    def _take(self, mode: Mode, amount: int, wait: Optional[float]) -> None:
        request = Request(self._client, self._name, wait, mode, amount, 0, None, holds=False)
        self._client._live().acquire(request.name, request.wait_ms, *request.arguments)

    async def _atake(self, mode: Mode, amount: int, wait: Optional[float]) -> None:
        request = Request(self._client, self._name, wait, mode, amount, 0, None, holds=False)
        await self._client._notes().acquire(request, request.wait_ms)

    async def _aask(self, verb: Verb, amount: int = 0, what: str = "") -> int:
        return cast(int, await self._client._ask(verb, self._name, number(amount, what)))


class Semaphore(_Object):
    """Made by Client.semaphore()."""
    __slots__ = ()

    def set(self, permits: int) -> None:
        """Sets the total number of permits; 0 removes the semaphore."""
        self._client._live().semaphore_set(self._name, number(permits, "permits"))

    def permit(self, permits: int = 1, *, limit: int = 0, wait: Optional[float] = None,
               lease: Optional[float] = None) -> Lock:
        """So many permits, for `with`. A semaphore that does not exist is made with `limit`."""
        return self._client.lock(self._name, wait=wait, mode=Mode.PERMIT, permits=permits,
                                 limit=limit, lease=lease)

    def apermit(self, permits: int = 1, *, limit: int = 0, wait: Optional[float] = None,
                lease: Optional[float] = None) -> AsyncLock:
        """The same for `async with`."""
        return self._client.alock(self._name, wait=wait, mode=Mode.PERMIT, permits=permits,
                                  limit=limit, lease=lease)


class Counter(_Object):
    """Made by Client.counter()."""
    __slots__ = ()

    def set(self, value: int) -> None:
        """Makes the counter, or overwrites its value."""
        self._client._live().counter_set(self._name, number(value, "value"))

    def add(self, amount: int = 1) -> None:
        """Adds to it; a counter that does not exist begins at 0."""
        self._client._live().counter_add(self._name, number(amount, "amount"))

    def take(self, amount: int = 1, *, wait: Optional[float] = None) -> None:
        """Takes from it, and waits for that; Busy: the value is too small."""
        self._take(Mode.COUNTER, amount, wait)

    async def atake(self, amount: int = 1, *, wait: Optional[float] = None) -> None:
        """The same for tasks."""
        await self._atake(Mode.COUNTER, amount, wait)

    def get(self) -> int:
        """Its value; 0 if it does not exist."""
        return self._client._live().counter_get(self._name)

    def remove(self) -> None:
        """Removes it; its waiters go on waiting."""
        self._client._live().counter_remove(self._name)

    async def aset(self, value: int) -> None:
        """set() for tasks."""
        await self._aask(Verb.COUNTER_SET, value, "value")

    async def aadd(self, amount: int = 1) -> None:
        """add() for tasks."""
        await self._aask(Verb.COUNTER_ADD, amount, "amount")

    async def aget(self) -> int:
        """get() for tasks."""
        return await self._aask(Verb.COUNTER_GET)

    async def aremove(self) -> None:
        """remove() for tasks."""
        await self._aask(Verb.COUNTER_REMOVE)


class Latch(_Object):
    """Made by Client.latch()."""
    __slots__ = ()

    def set(self, count: int) -> None:
        """Sets it; Busy: it is above zero."""
        self._client._live().latch_set(self._name, number(count, "count"))

    def down(self, amount: int = 1) -> int:
        """Counts it down. Returns what is left."""
        return self._client._live().latch_down(self._name, number(amount, "amount"))

    def get(self) -> int:
        """What is left."""
        return self._client._live().latch_get(self._name)

    async def aset(self, count: int) -> None:
        """set() for tasks."""
        await self._aask(Verb.LATCH_SET, count, "count")

    async def adown(self, amount: int = 1) -> int:
        """down() for tasks."""
        return await self._aask(Verb.LATCH_DOWN, amount, "amount")

    async def aget(self) -> int:
        """get() for tasks."""
        return await self._aask(Verb.LATCH_GET)

    def wait(self, wait: Optional[float] = None) -> None:
        """Waits until it is open; Busy: it is above zero."""
        self._take(Mode.LATCH, 1, wait)

    async def await_open(self, wait: Optional[float] = None) -> None:
        """The same for tasks."""
        await self._atake(Mode.LATCH, 1, wait)


class Campaign(Lock):
    """A candidacy for `with`, which leads inside. Its hold's `token` is the term."""
    __slots__ = ()

    def resign(self) -> None:
        """Ends what acquire() has begun. Raises Lost if it was deposed before."""
        self.release()


class AsyncCampaign(AsyncLock):
    """A candidacy for `async with`."""
    __slots__ = ()

    async def resign(self) -> None:
        """Ends what acquire() has begun. Raises Lost if it was deposed before."""
        await self.arelease()


@dataclasses.dataclass(frozen=True)
class Leader:
    """The leader of an election, as the store shows it. It may be out of date: see hf_leader."""
    text: str
    """Its own description, such as an address; "" where there is none."""
    owner_key: str
    """What Client.break_() takes."""
    token: int
    """Its term; 0 at stores without tokens."""
    since: Optional[float]
    """For how many seconds it has led; None: not known."""
    candidates: int
    """How many wait behind it, where the store shows waiters."""


def _is_same(now: Optional[Leader], told: Optional[Leader]) -> bool:
    if now is None or told is None:
        return now is told
    # A text that is not known for a while is no change.
    return ((now.token, now.owner_key) == (told.token, told.owner_key)
            and now.text in ("", told.text))


class Election(_Object):
    """Made by Client.election(). Each campaign is a candidate of its own."""
    __slots__ = ()

    def campaign(self, *, wait: Optional[float] = None, text: Optional[str] = None,
                 lease: Optional[float] = None) -> Campaign:
        """For `with`, which waits to lead, and at its end resigns. Observers see the `text`."""
        return Campaign(self._candidacy(wait, text, lease))

    def acampaign(self, *, wait: Optional[float] = None, text: Optional[str] = None,
                  lease: Optional[float] = None) -> AsyncCampaign:
        """The same for `async with`."""
        return AsyncCampaign(self._candidacy(wait, text, lease))

    def _candidacy(self, wait: Optional[float], text: Optional[str],
                   lease: Optional[float]) -> Request:
        return Request(self._client, self._name, wait, Mode.LEADER, 1, 0, lease, None, text)

    def leader(self) -> Optional[Leader]:
        """Asks which candidate leads. None: there is no leader."""
        raw = self._client._live().election_leader(self._name)
        if raw is None:
            return None
        text, owner_key, token, since, candidates = raw
        return Leader(text, owner_key, token, None if since < 0 else since / 1000, candidates)

    async def aleader(self) -> Optional[Leader]:
        """The same for tasks."""
        return await asyncio.to_thread(self.leader)

    def watch(self, every: float = 1.0) -> Iterator[Optional[Leader]]:
        """Yields the present leader, and then each other one; None: there is no leader.

        It asks in such intervals, in seconds, and so leaves out what came and went in between.
        While the store does not reply, nothing is a change."""
        now = told = self.leader()
        yield now
        while True:
            time.sleep(every)
            with contextlib.suppress(Unreachable):
                now = self.leader()
            if not _is_same(now, told):
                told = now
                yield now

    async def awatch(self, every: float = 1.0) -> AsyncIterator[Optional[Leader]]:
        """The same for `async for`."""
        now = told = await self.aleader()
        yield now
        while True:
            await asyncio.sleep(every)
            with contextlib.suppress(Unreachable):
                now = await self.aleader()
            if not _is_same(now, told):
                told = now
                yield now


class Rate(_Object):
    """Made by Client.rate(). The store's clock counts, for all clients together."""
    __slots__ = ("_rate",)

    def __init__(self, client: Client, name: Name, permits: int, period: float,
                 burst: int) -> None:
        super().__init__(client, name)
        self._rate = (number(permits, "permits"), milliseconds(period), number(burst, "burst"))

    def take(self, n: int = 1, *, wait: Optional[float] = None) -> None:
        """Takes permits, and waits for them in the order of arrival.

        Busy: not within `wait` seconds, and nothing was taken; its `retry` says after how many they
        could have been had. A wait that ends early has used its permits."""
        self._client._live().rate_take(self._name, *self._rate, number(n, "n"),
                                       milliseconds(wait))

    async def atake(self, n: int = 1, *, wait: Optional[float] = None) -> None:
        """The same for tasks, in no order: it asks again when the permits may be there."""
        end = math.inf if wait is None else time.monotonic() + wait
        while True:
            try:
                return await asyncio.to_thread(self.take, n, wait=0)
            except Busy as busy:
                retry = busy.retry or 0.001
                if time.monotonic() + retry > end:
                    raise
            await asyncio.sleep(retry)


_clients: weakref.WeakSet[Client] = weakref.WeakSet()


def _close_all() -> None:
    """Else what is held stays held until its lease ends."""
    for client in list(_clients):
        client.close()


def _after_fork_in_child() -> None:
    for client in list(_clients):
        client._after_fork_in_child()


def _close_at_exit(_: object = None) -> None:
    """Of a child of multiprocessing, which ends by os._exit() and without atexit."""
    multiprocessing.util.Finalize(None, _close_all, exitpriority=-100)


atexit.register(_close_all)
_close_at_exit()
multiprocessing.util.register_after_fork(_clients, _close_at_exit)
os.register_at_fork(after_in_child=_after_fork_in_child)
