# SPDX-License-Identifier: Apache-2.0
"""Typed programs that use the package: tools/wheel-test checks them by mypy --strict."""

from __future__ import annotations

import asyncio
import threading
from typing import List, Optional, Tuple

import holdfast
from holdfast import Mode


def write_order(number: int, token: int) -> None:
    print(number, token)


def change_order(client: holdfast.Client, number: int) -> bool:
    try:
        with client.lock(f"orders/{number}", wait=5) as hold:
            write_order(number, token=hold.token)
            left: Optional[float] = hold.remaining
            return hold.held and not hold.lost.is_set() and left is None
    except holdfast.Busy as error:
        again: Optional[float] = error.retry
        return again is not None
    except (holdfast.Lost, holdfast.Unreachable) as error:
        code: Tuple[int, str] = (error.code, error.code_name)
        return bool(code)


async def handle(client: holdfast.Client, number: int) -> int:
    try:
        async with client.alock(f"orders/{number}", wait=5, mode=Mode.WRITE) as hold:
            ended: asyncio.Event = hold.lost
            await asyncio.to_thread(write_order, number, hold.token)
            return 500 if ended.is_set() else 200
    except holdfast.Busy:
        return 409


def use_as_a_lock_of_threading(client: holdfast.Client) -> bool:
    lock = client.lock("name", mode=Mode.FAIR)
    taken: bool = lock.acquire(blocking=True, timeout=1.0)
    if taken:
        lock.release()
    with lock, threading.Lock():
        return lock.locked()


def use_all_else(client: holdfast.Client) -> List[str]:
    tried: Optional[holdfast.Hold] = client.try_lock(b"name", mode=Mode.READ)
    if tried:
        tried.release()
    with client.lock_all(["a", "b"], wait=5) as holds:
        tokens: List[int] = [holds["a"].token, holds["b"].token]
    client.semaphore("pool").set(3)
    with client.semaphore("pool").permit(2, wait=5):
        client.counter("stock").add(len(tokens))
    client.latch("start").set(1)
    left: int = client.latch("start").down()
    client.rate("mail", 100, 60).take(wait=5)
    with client.election("boss").campaign(text="10.0.0.7:8080", wait=5) as leadership:
        leader: Optional[holdfast.Leader] = client.election("boss").leader()
        assert leader and leader.token == leadership.token + left
    stats: holdfast.Stats = client.stats()
    waits: List[int] = stats["waits"]
    assert sum(waits) >= stats["granted"]
    return [entry.owner_text for entry in client.inspect("name")]


async def use_all_else_in_tasks(client: holdfast.Client) -> int:
    async with client.alock_all(["a", "b"]) as holds, client.semaphore("pool").apermit():
        await client.counter("stock").atake(wait=5)
        await client.rate("mail", 100, 60).atake()
        async for leader in client.election("boss").awatch(every=0.5):
            if leader is None:
                break
        return holds["a"].token
