"""Calls into a runtime on a thread of their own, so that the caller's thread can be interrupted
(Ctrl-C) and runs all of the caller's callbacks."""

from __future__ import annotations

import _thread
import collections
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

LOG, PROGRESS = "log", "progress"
PENDING = object()  # no event yet


class Event:
    """What the library reported during a call: a line of the log, or a report of progress."""

    __slots__ = ("kind", "value", "answered", "taken")

    def __init__(self, kind: str, value: Any) -> None:
        self.kind, self.value, self.taken = kind, value, False
        self.answered = _thread.allocate_lock()
        self.answered.acquire()


class Call:
    """One call. Events come from the worker thread in order; the caller takes them."""

    def __init__(self, job: Callable[[], Any], waits: bool) -> None:
        """waits: whether the library waits until the caller has handled a report of progress."""
        self._job, self._waits = job, waits
        self._events: collections.deque[Event] = collections.deque()
        self._wake = _thread.allocate_lock()  # a binary semaphore: unlike threading's, its functions
        self._wake.acquire()  # are atomic when a signal handler raises an exception
        self.abandoned = False
        self.finished = False
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self._job()
        except BaseException as error:  # goes to the caller
            self.error = error
        self.finished = True
        self._signal()

    def post(self, event: Event) -> None:
        """Adds an event. Called by the worker thread."""
        self._events.append(event)
        self._signal()
        if self._waits and event.kind == PROGRESS and not self.abandoned:
            event.answered.acquire()

    def _signal(self) -> None:
        try:
            self._wake.release()
        except RuntimeError:  # it is released
            pass

    def take(self, timeout: float) -> Any:
        """The next event, PENDING if none comes in time, or None at the call's end."""
        if not self._events and not self.finished:
            self._wake.acquire(timeout=timeout)
        if self._events:
            return self._events[0]
        if not self.finished:
            return PENDING
        return self._events[0] if self._events else None

    def done(self, event: Event) -> None:
        """Removes the event that `take` returned."""
        if self._events and self._events[0] is event:
            self._events.popleft()
        if event.answered.locked():
            event.answered.release()

    def abandon(self) -> None:
        """Nobody takes events any more: the worker thread must not wait for an answer."""
        self.abandoned = True
        for event in list(self._events):
            if event.answered.locked():
                event.answered.release()


class Worker:
    """The thread on which a runtime lives, from its creation to its end."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue = SimpleQueue()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="moonring", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (call := self._jobs.get()) is not None:
            call.run()

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the one that has the thread."""
        return os.getpid() != self._pid

    def start(self, job: Callable[[], Any], waits: bool = False) -> Call:
        call = Call(job, waits)
        self.resume(call)
        return call

    def resume(self, call: Call) -> None:
        self._jobs.put(call)

    def end(self) -> None:
        """Ends the thread after the calls that were started."""
        self._jobs.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()


def drive(
    call: Call, handle: Callable[[Event], None], interrupt: Callable[[int], None], most: int
) -> int:
    """Handles a call's events until it ends.

    A KeyboardInterrupt, also one that `handle` raises, does not end this function: it calls
    interrupt(number of interrupts so far), repeatedly until the call ends. The interrupt after
    `most` gives up waiting and raises KeyboardInterrupt.

    Returns the number of interrupts.
    """
    interrupts = 0
    while True:
        try:
            if interrupts:
                interrupt(interrupts)
            event = call.take(0.05 if interrupts else 1.0)
            if event is None:
                return interrupts
            if event is PENDING:
                continue
            if not event.taken:
                event.taken = True  # first: an event whose handling is interrupted is not repeated
                handle(event)
            call.done(event)
        except KeyboardInterrupt:
            interrupts += 1
            if interrupts > most:
                call.abandon()
                raise
