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
    """One call. Events come from the worker thread in order; the caller takes them.

    A signal handler may raise an exception between any two bytecodes of the caller's thread, so
    each change of the state is one assignment or one call of a C function.
    """

    def __init__(
        self, job: Callable[[], Any], waits: bool, drop: Callable[[], Any] | None = None
    ) -> None:
        """waits: whether the library waits until the caller has handled a report of progress.
        drop: called in place of the job if the call is interrupted before it starts."""
        self._job, self._waits, self._drop = job, waits, drop
        self._events: collections.deque[Event] = collections.deque()
        self._wake = _thread.allocate_lock()  # a semaphore
        self._wake.acquire()
        self.abandoned = False
        self.dropped = False  # it must not start
        self.finished = False
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        if self.finished:  # it was started twice
            return
        try:
            if not self.dropped:
                self.result = self._job()
            elif self._drop is not None:
                self._drop()
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
        if not self._events:
            self.wait(timeout)
        if self._events:
            return self._events[0]
        if not self.finished:
            return PENDING
        return self._events[0] if self._events else None

    def wait(self, timeout: float) -> None:
        """Waits until something happens, at most this many seconds."""
        if not self.finished:
            self._wake.acquire(timeout=timeout)

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
    """The thread on which a runtime lives, from its creation to its end. It makes the calls of all
    threads one after another."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue = SimpleQueue()
        self._pid = os.getpid()
        # Reentrant: a signal handler may call Runtime.cancel while its thread holds the lock.
        self._switch = threading.RLock()
        self.current: Call | None = None  # the last call that started
        self._thread = threading.Thread(target=self._run, name="moonring", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (call := self._jobs.get()) is not None:
            with self._switch:
                self.current = call
            call.run()

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the one that has the thread."""
        return os.getpid() != self._pid

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def start(self, call: Call) -> None:
        """Makes a call after those that were started before."""
        self._jobs.put(call)

    def locked(self, action: Callable[[], Any]) -> Any:
        """Runs a short action while no call starts, and no other thread is in interrupt()."""
        with self._switch:
            return action()

    def interrupt(self, call: Call, interrupt: Callable[[], None]) -> None:
        """Calls interrupt() if `call` is running. If it has not started, it will not."""
        with self._switch:
            if self.current is not call:
                call.dropped = True
            elif not call.finished:
                interrupt()

    def end(self) -> None:
        """Ends the thread after the calls that were started."""
        self._jobs.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()


def drive(
    worker: Worker,
    call: Call,
    handle: Callable[[Event], None],
    interrupt: Callable[[int], None],
    most: int = 2,
) -> int:
    """Starts a call and handles its events until it ends.

    A KeyboardInterrupt, also one that `handle` raises, does not end this function: it calls
    interrupt(number of interrupts so far), repeatedly until the call ends, or until it is dropped
    because it has not started. The interrupt after `most` gives up waiting and raises
    KeyboardInterrupt.

    Returns the number of interrupts.
    """
    interrupts = 0
    started = False
    while True:
        try:
            if not started:
                worker.start(call)  # twice, if an exception comes between these lines
                started = True
            if interrupts:
                interrupt(interrupts)
            if call.dropped:  # it has not started: it waits for the call of another thread
                return interrupts
            event = call.take(0.05 if interrupts else 1.0)
            if event is None:
                return interrupts
            if event is PENDING:
                if worker.ended:  # by close() in another thread
                    return interrupts
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
