# SPDX-License-Identifier: Apache-2.0
"""Locks for asyncio: AsyncLock, and the AsyncHold that its `async with` gives.

The library's callbacks run no Python: they write down what has happened, and make a descriptor
readable that the event loop watches.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import itertools
import time
import weakref
from typing import (TYPE_CHECKING, Awaitable, Callable, Dict, Iterable, List, Literal, Optional,
                    Set, Tuple, Union)

from . import _holdfast
from .errors import Busy, Error, Lost
from .locks import (FOREVER, BaseHold, BaseHoldSet, Request, check_all, lost, milliseconds, tell,
                    to_release_for_others)

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Type


class Verb(enum.IntEnum):
    """What Client.ask asks; answer.c has the same numbers."""
    COUNTER_SET = 0
    COUNTER_ADD = 1
    COUNTER_GET = 2
    COUNTER_REMOVE = 3
    LATCH_SET = 4
    LATCH_DOWN = 5
    LATCH_GET = 6
    INSPECT = 7


class AsyncHold(BaseHold):
    """A lock that a task was granted."""
    __slots__ = ("lost", "_notes")

    def __init__(self, raw: _holdfast.Hold, name: bytes, event: asyncio.Event,
                 notes: Notes) -> None:
        self._raw = raw
        self._name = name
        self._notes = notes
        self.lost = event
        """Set when the lock is lost, so that a task can wait for it."""

    def release(self) -> None:
        """Releases it, and does not wait for the store's reply. Raises Lost if it was lost."""
        if not self._raw.release_nowait():
            self.lost.set()
            raise lost(self.name)

    async def arelease(self) -> None:
        """Releases it, and waits for the store's reply: raises Lost, or Unreachable.

        The release has begun when this first waits, so a task that is canceled leaves no lock."""
        try:
            reply = self._begin_release()
            if reply is not None:
                await reply.result()
        except Lost:
            self.lost.set()
            raise

    def _begin_release(self) -> Optional[Reply]:
        """None: it is released. Where no server is asked, that takes less time than to wait."""
        if self._notes.local:
            self._raw.release()
            return None
        return Reply(self._notes, self._raw.release_async)


class Loss(asyncio.Event):
    """The loss of a lock."""

    def __init__(self, notes: Notes) -> None:
        super().__init__()
        self._notes = notes

    async def wait(self) -> Literal[True]:
        if not self.is_set():
            await self._notes.wait(super().wait())
        return True


class Pending:
    """A request that the store has not answered."""
    __slots__ = ("future", "lost", "__weakref__")

    def __init__(self, notes: Notes) -> None:
        self.future: asyncio.Future[None] = notes.loop.create_future()
        self.lost = Loss(notes)


class Reply:
    """The reply to a question that has begun."""
    __slots__ = ("_notes", "_pending", "_answer")

    def __init__(self, notes: Notes,
                 begin: Callable[[_holdfast.Queue, int], _holdfast.Answer]) -> None:
        key = next(notes.keys)
        self._notes = notes
        self._pending = notes.known[key] = Pending(notes)
        self._answer = begin(notes.queue, key)

    async def result(self) -> Union[None, int, List[Tuple[object, ...]]]:
        """What was asked for; raises what has failed."""
        if not self._answer.done():
            await self._notes.wait(self._pending.future)
        return self._answer.result()


class Notes:
    """What the library tells the tasks of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, core: _holdfast.Client) -> None:
        self.loop = loop
        self.local = core.local
        self.queue = _holdfast.Queue(core)
        self.keys = itertools.count(1)
        self.known: weakref.WeakValueDictionary[int, Pending] = weakref.WeakValueDictionary()
        self.holds: weakref.WeakValueDictionary[int, AsyncHold] = weakref.WeakValueDictionary()
        self.waiting: Set[Optional[asyncio.Task[object]]] = set()
        loop.add_reader(self.queue.fileno(), self.take)

    def take(self) -> None:
        """Passes on what has happened."""
        for key, is_loss in self.queue.take():
            target: Union[Pending, AsyncHold, None] = self.known.get(key) or self.holds.get(key)
            if is_loss and target is not None:
                target.lost.set()
            elif isinstance(target, Pending) and not target.future.done():
                target.future.set_result(None)

    async def wait(self, future: Awaitable[object]) -> None:
        """Waits, and keeps the task: an event loop has but a weak reference to one that waits."""
        task = asyncio.current_task()
        self.waiting.add(task)
        try:
            await future
        finally:
            self.waiting.discard(task)

    def close(self) -> None:
        """Passes on what the client's close has ended, and watches no more."""
        if self.loop.is_closed():
            return
        try:
            self.loop.call_soon_threadsafe(self._end)
        except RuntimeError:  # closed meanwhile
            pass

    def _end(self) -> None:
        self.loop.remove_reader(self.queue.fileno())
        self.take()

    async def acquire(self, request: Request, wait_ms: int) -> AsyncHold:
        """Acquires; a task that is canceled meanwhile leaves nothing behind."""
        key = next(self.keys)
        pending = self.known[key] = Pending(self)
        raw = request.client._live().begin(request.name, wait_ms, *request.arguments, self.queue,
                                           key)
        if not raw.done():
            await self._answer(raw, pending)
        raw.result()
        hold = self.holds[key] = AsyncHold(raw, request.name, pending.lost, self)
        return hold

    async def _answer(self, raw: _holdfast.Hold, pending: Pending) -> None:
        """Waits for the answer. Only that tells whether a canceled request was granted."""
        try:
            await self.wait(pending.future)
        except asyncio.CancelledError:
            raw.cancel()
            while not raw.done():
                pending.future = self.loop.create_future()  # the last one was canceled
                with contextlib.suppress(asyncio.CancelledError):
                    await self.wait(pending.future)
            # The exception keeps this frame alive, so that `raw` would not be freed soon.
            with contextlib.suppress(RuntimeError, Error):
                raw.release_nowait()
            raise


class AsyncLock:
    """A lock at the store for tasks. Each acquisition is an owner of its own."""
    __slots__ = ("_request", "_holds")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._holds: Dict[Optional[asyncio.Task[object]], List[AsyncHold]] = {}

    async def _take(self) -> AsyncHold:
        request = self._request
        hold = await request.client._notes().acquire(request, request.wait_ms)
        self._holds.setdefault(asyncio.current_task(), []).append(hold)
        return hold

    def _taken(self) -> AsyncHold:
        """The newest hold of this task, or one of another task, which is no longer kept."""
        task = asyncio.current_task()
        if task not in self._holds:
            if not self._holds:
                raise RuntimeError("release of a lock that is not held")
            newest = {holds[-1]: task for task, holds in self._holds.items()}
            task = newest[to_release_for_others(list(newest))]
        holds = self._holds[task]
        hold = holds.pop()
        if not holds:
            del self._holds[task]
        return hold

    async def acquire(self) -> bool:
        """False: another owner holds it, and the lock's `wait` has passed."""
        try:
            await self._take()
        except Busy:
            return False
        return True

    def release(self) -> None:
        """Releases what acquire() has acquired, and does not wait for the store's reply."""
        self._taken().release()

    async def arelease(self) -> None:
        """Releases what acquire() has acquired. Raises Lost, or Unreachable."""
        await self._taken().arelease()

    def locked(self) -> bool:
        """Whether this object holds it."""
        return any(hold.held for holds in self._holds.values() for hold in holds)

    async def __aenter__(self) -> AsyncHold:
        return await self._take()

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        try:
            await self.arelease()
        except Error as failure:
            tell(failure, error)


class AsyncHoldSet(BaseHoldSet[AsyncHold]):
    """Several locks that were granted together."""
    __slots__ = ()

    async def arelease(self) -> None:
        """Releases all, the last one first, and waits for the replies. Raises the first failure.

        All releases have begun when this first waits."""
        failure: Optional[Exception] = None
        replies: List[Reply] = []
        while self._holds:
            try:
                reply = self._holds.pop()._begin_release()
                if reply is not None:
                    replies.append(reply)
            except Exception as error:  # released by hand, too: the others are still held
                failure = failure or error
        for reply in replies:
            try:
                await reply.result()
            except Error as error:
                failure = failure or error
        if failure:
            raise failure


class AsyncLockAll:
    """Several locks, all or nothing, in the same order in every program."""
    __slots__ = ("_requests", "_wait_ms", "_set")

    def __init__(self, requests: Iterable[Request], wait_ms: int) -> None:
        self._requests = [request for _, request in
                          sorted({request.name: request for request in requests}.items())]
        self._wait_ms = wait_ms
        self._set: Optional[AsyncHoldSet] = None

    async def acquire(self) -> AsyncHoldSet:
        """Acquires all within one wait. Each is checked once more at the end."""
        end = None if self._wait_ms < 0 else time.monotonic() + self._wait_ms / 1000
        taken = AsyncHoldSet([])
        try:
            for request in self._requests:
                left = FOREVER if end is None else milliseconds(max(0, end - time.monotonic()))
                taken._holds.append(await request.client._notes().acquire(request, left))
                check_all(taken._holds)
        except BaseException:
            taken._give_back()
            raise
        return taken

    async def __aenter__(self) -> AsyncHoldSet:
        if self._set is not None:
            raise RuntimeError("this object is in use: make one for each `async with`")
        self._set = await self.acquire()
        return self._set

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        taken, self._set = self._set, None
        assert taken is not None
        try:
            await taken.arelease()
        except Error as failure:
            tell(failure, error)
