"""The runtime: one embedded Moonring, with its Lua state."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from ctypes import POINTER, c_char_p, c_size_t, c_void_p
from typing import Any

from moonring import _calls, _native, _tensors, errors
from moonring._configuration import words_of

_log = logging.getLogger("moonring")

Path = str | os.PathLike[str]


def version() -> str:
    """Moonring's version, such as "0.1.0"."""
    return _native.library().moonring_version().decode()


def count_memory() -> None:
    """Permanently installs a counting allocator for LibTorch's CPU tensors in this process.

    Required for Runtime(memory=...) and for the key memory_report. Call it before other threads
    create tensors.
    """
    _native.library().moonring_count_memory()


def text_bytes(value: Any, name: str) -> bytes:
    """A word for the C API: str or a path."""
    if isinstance(value, bytes):
        encoded = value
    else:
        try:
            encoded = os.fsencode(value)
        except TypeError:
            raise TypeError(
                f"{name}: expected a str or a path, got {type(value).__name__}"
            ) from None
    if b"\0" in encoded:
        raise ValueError(f"{name}: expected no NUL character, got {value!r}")
    return encoded


def _array(words: Sequence[Any], name: str) -> Any:
    encoded = [text_bytes(word, f"{name}[{i}]") for i, word in enumerate(words)]
    return (c_char_p * len(encoded))(*encoded)


def to_json(value: Any) -> bytes:
    """JSON of a value, with numpy's and torch's scalars as numbers and paths as strings."""

    def plain(other: Any) -> Any:
        if hasattr(other, "__fspath__"):
            return os.fspath(other)
        if hasattr(other, "tolist"):  # numpy's scalars and arrays, tensors
            return other.tolist()
        raise TypeError(f"expected a value that JSON has, got {type(other).__name__}")

    return json.dumps(value, default=plain, allow_nan=False).encode()


class _State:
    """What outlives a Runtime object until the runtime is destroyed. It holds no reference to the
    Runtime, so that the garbage collector can end that."""

    def __init__(self) -> None:
        self.native = _native.library()
        self.handle = c_void_p()
        self.worker = _calls.Worker()
        self.calls: dict[int, _calls.Call] = {}  # by thread: the last call that it waited for
        # ctypes frees a callback with its object, so they are kept here.
        self.log = _native.LogCallback(self._on_log)
        self.progress = _native.ProgressCallback(self._on_progress)

    def _on_log(self, _: Any, kind: int, line: bytes) -> None:
        call = self.worker.current
        if call is not None:
            call.post(_calls.Event(_calls.LOG, (kind, line.decode(errors="replace"))))

    def _on_progress(self, _: Any, text: bytes) -> None:
        call = self.worker.current
        if call is not None:
            call.post(_calls.Event(_calls.PROGRESS, text))

    def create(self, options: _native.Options) -> tuple[int, str]:
        why = ctypes.create_string_buffer(4096)
        code = self.native.moonring_create(
            ctypes.byref(options), ctypes.byref(self.handle), why, len(why)
        )
        return code, why.value.decode(errors="replace")

    def destroy(self) -> None:
        self.native.moonring_destroy(self.worker.locked(self._take_handle))

    def _take_handle(self) -> c_void_p:
        handle, self.handle = self.handle, c_void_p()
        return handle

    def cancel(self, save: bool) -> None:
        """Cancels the runtime, unless it is closed. destroy() waits for the end of this."""

        def action() -> None:
            if self.handle:
                self.native.moonring_cancel(self.handle, int(save))

        self.worker.locked(action)

    def outcome(self, code: int) -> None:
        """Raises the error of a call. Runs on the worker thread, before the next call."""
        if code != _native.OK:
            text = self.native.moonring_last_error(self.handle).decode(errors="replace")
            raise errors.of(code, text)

    def check(self) -> None:
        """Refuses a call that cannot be made."""
        if self.worker.forked:
            raise errors.InvalidArgument(
                "this runtime belongs to the parent of this process: a fork has no copy of its "
                "threads. Create another one after the fork"
            )
        mine = self.calls.get(threading.get_ident())
        if mine is not None and not mine.finished and not mine.dropped:
            if mine.abandoned:
                raise errors.InvalidArgument(
                    "the call that Ctrl-C interrupted has not ended yet: try again later"
                )
            raise errors.InvalidArgument(
                "a call of this runtime is not finished: a callback cannot call it"
            )
        if self.worker.ended or not self.handle:
            raise errors.InvalidArgument("this runtime is closed")


def _close(state: _State, pid: int) -> None:
    """Ends a runtime. A call that nobody waits for any more is cancelled."""
    if os.getpid() != pid:
        return
    call = state.worker.current
    if call is not None and not call.finished:
        call.abandon()
        state.native.moonring_cancel(state.handle, 0)
    state.worker.start(_calls.Call(state.destroy, waits=False))
    state.worker.end()


class Runtime:
    """One embedded Moonring: a Lua state with its own globals, models and limits.

    A process may have any number of them. A runtime makes one call at a time: a call from a second
    thread waits for the first one. Calls run on a thread of the runtime, callbacks on the thread of
    the call. Ctrl-C in the main thread ends the running call and raises KeyboardInterrupt; the
    runtime can be used again.

    roots: folders below which files may be read and written. None: no confinement, scripts have all
        of Lua and the files of this process. []: no files.
    device: "cpu", "cuda"; None: a GPU if there is one.
    threads: LibTorch's threads inside an operation; 0: those of this process
        (torch.get_num_threads).
    memory: limit in bytes on Lua's heap and tensors; 0: none. Requires moonring.count_memory().
    instructions: limit on Lua instructions in a call; 0: none.
    on_log: called with each line that scripts print and that Moonring logs; None: they go to the
        logger "moonring" (warnings of LibTorch as WARNING, the rest as INFO).
    on_progress: called with each report of a script or command (a dict, from the JSON of
        moonring_progress_callback in lua/embed.h); the script waits until it returns.

    An exception in a callback ends the call and is raised by it.

    Errors: InvalidArgument, NotFound; LoadError if the library cannot be loaded.
    """

    def __init__(
        self,
        *,
        roots: Sequence[Path] | None = None,
        device: str | None = None,
        threads: int = 0,
        memory: int = 0,
        instructions: int = 0,
        on_log: Callable[[str], Any] | None = None,
        on_progress: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        if isinstance(roots, (str, bytes, os.PathLike)):
            raise TypeError(f"roots: expected a list of folders, got {roots!r}")
        for name, limit in (
            ("threads", threads),
            ("memory", memory),
            ("instructions", instructions),
        ):
            if limit < 0:
                raise errors.InvalidArgument(f"{name}: expected 0 or more, got {limit}")
        self._on_log, self._on_progress = on_log, on_progress
        self._state = state = _State()
        words = _array(list(roots or []), "roots")
        options = _native.Options(
            size=ctypes.sizeof(_native.Options),
            assets=text_bytes(_native.assets(), "assets"),
            roots=ctypes.cast(words, POINTER(c_char_p)),
            root_count=len(words),
            unconfined=roots is None,
            instructions=instructions,
            memory=memory,
            threads=threads,
            device=None if device is None else text_bytes(device, "device"),
            log=state.log,
            progress=state.progress,
        )
        self._finish = weakref.finalize(self, _close, state, os.getpid())
        call = _calls.Call(lambda: state.create(options), waits=False)
        interrupts = _calls.drive(
            state.worker, call, lambda event: None, lambda count: None, most=2**31
        )
        if interrupts:
            raise KeyboardInterrupt
        if call.error is not None:
            raise call.error
        code, why = call.result
        if code != _native.OK:
            raise errors.of(code, why)

    # Calls -------------------------------------------------------------------------------------

    def run_string(self, text: str, *words: str, name: str = "script") -> None:
        """Runs a Lua program; `words`: its arguments; `name`: what error messages call it."""
        arguments = _array(words, "words")
        encoded, called = text_bytes(text, "text"), text_bytes(name, "name")
        self._call("moonring_run_string", encoded, called, len(arguments), arguments)

    def run_file(self, path: Path, *words: str) -> None:
        """Runs a Lua file, which may be outside of the roots."""
        arguments = _array(words, "words")
        self._call("moonring_run_file", text_bytes(path, "path"), len(arguments), arguments)

    def run_command(self, command: str, *words: str) -> None:
        """Runs a command of Moonring, as `moonring COMMAND WORDS...` does."""
        arguments = _array(words, "words")
        self._call(
            "moonring_run_command", text_bytes(command, "command"), len(arguments), arguments
        )

    def call(self, function: str, value: Any = None) -> Any:
        """Calls a global function that a script defined, and returns its first result.

        value: its argument, anything that JSON has; None: nil. Errors: those of the script, and
        NotFound if there is no such function.
        """
        return self.call_tensors(function, value)[0]

    def call_tensors(
        self, function: str, value: Any = None, *inputs: Any
    ) -> tuple[Any, list[_tensors.Tensor]]:
        """Calls function(value, input 1, input 2, ...) with tensors, which are not copied.

        inputs: tensors or arrays with __dlpack__ (torch, numpy, ...). The function sees the
        caller's memory and may write into it. Returns the function's first result and the tensors
        after it; these share their memory with the runtime's tensors.
        """
        call, _arguments = self._prepare(function, value, inputs, self._on_progress is not None)
        return self._finish_call(call)

    def cancel(self, save: bool = False) -> None:
        """Cancels this runtime for good, from any thread: the running call and later ones raise
        Cancelled. With `save`, a training first saves a checkpoint at the end of its step."""
        if not self._state.worker.forked:  # a fork's copy of the lock may never be released
            self._state.cancel(save)

    def close(self) -> None:
        """Frees the runtime with its models; waits for a running call. Later calls are errors."""
        state = self._state
        if state.worker.forked or not self._finish.alive:
            return
        mine = state.calls.get(threading.get_ident())
        if mine is not None and not mine.finished and not mine.dropped:
            if mine.abandoned:
                return  # the runtime is closed when the interpreter ends
            state.check()
        waiting = _calls.Call(lambda: None, waits=False)  # after the calls of other threads
        _calls.drive(state.worker, waiting, lambda event: None, lambda count: None)
        self._finish()

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # Inside the package ------------------------------------------------------------------------

    def _emit(self, event: _calls.Event) -> None:
        """Passes an event to the callbacks."""
        if event.kind == _calls.PROGRESS:
            if self._on_progress is not None:
                self._on_progress(json.loads(event.value))
            return
        kind, line = event.value
        if self._on_log is not None:
            self._on_log(line)
        else:
            _log.log(logging.WARNING if kind == _native.WARNING else logging.INFO, "%s", line)

    def _interrupt(self, call: _calls.Call, count: int) -> None:
        state = self._state
        state.worker.interrupt(call, lambda: state.native.moonring_interrupt(state.handle))

    def _fail(self, call: _calls.Call) -> None:
        """A callback failed: ends the running call."""
        self._interrupt(call, 1)

    def _call(self, function: str, *arguments: Any) -> None:
        state = self._state
        native = getattr(state.native, function)
        state.check()

        def job() -> None:
            state.outcome(native(state.handle, *arguments))

        self._finish_call(_calls.Call(job, waits=self._on_progress is not None))

    def _prepare(
        self, function: str, value: Any, inputs: Sequence[Any], waits: bool
    ) -> tuple[_calls.Call, Any]:
        """Makes a call of a function with tensors. Returns it and what keeps its arguments."""
        state = self._state
        state.check()
        named = text_bytes(function, "function")
        text = None if value is None else to_json(value)
        taken: list[int] = []

        def release() -> None:
            for address in taken:
                _tensors.release(address)

        try:
            for i, each in enumerate(inputs):
                if not _tensors.is_tensor(each):
                    raise TypeError(
                        f"inputs[{i}]: expected a tensor with __dlpack__, got {type(each).__name__}"
                    )
                taken.append(_tensors.take(each))
        except BaseException:
            release()
            raise
        array = (c_void_p * len(taken))(*taken)

        def job() -> tuple[Any, list[_tensors.Tensor]]:
            result, outputs, count = c_void_p(), POINTER(c_void_p)(), c_size_t()
            code = state.native.moonring_call_tensors(
                state.handle,
                named,
                text,
                array,
                len(array),
                ctypes.byref(result),
                ctypes.byref(outputs),
                ctypes.byref(count),
            )
            state.outcome(code)
            made = [_tensors.Tensor(outputs[i]) for i in range(count.value)]
            state.native.moonring_free(outputs)
            decoded = json.loads(ctypes.string_at(result))
            state.native.moonring_free(result)
            return decoded, made

        return _calls.Call(job, waits, release), (inputs, array)

    def _finish_call(self, call: _calls.Call) -> Any:
        """Makes a call and handles its events; returns its result."""
        failure: list[BaseException] = []

        def handle(event: _calls.Event) -> None:
            if failure:
                return
            try:
                self._emit(event)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                failure.append(error)
                self._fail(call)

        calls, mine = self._state.calls, threading.get_ident()
        try:
            calls[mine] = call
            interrupts = _calls.drive(
                self._state.worker, call, handle, lambda count: self._interrupt(call, count)
            )
        except BaseException:  # nobody waits for it any more; if it has not started, it will not
            call.abandon()
            self._state.worker.interrupt(call, lambda: None)
            raise
        calls.pop(mine, None)
        if interrupts:
            raise KeyboardInterrupt
        if failure:
            raise failure[0]
        if not call.finished:
            raise errors.InvalidArgument("this runtime was closed by another thread")
        if call.error is not None:
            raise call.error
        return call.result

    def _stream(self, function: str, value: Any, item: str) -> Iterator[Any]:
        """Calls a function and yields field `item` of its reports while it runs. Closing the
        iterator ends the call."""
        call, _arguments = self._prepare(function, value, [], waits=False)
        worker = self._state.worker
        worker.start(call)
        try:
            while (event := call.take(1.0)) is not None:
                if event is _calls.PENDING:
                    if worker.ended:
                        raise errors.InvalidArgument("this runtime was closed by another thread")
                    continue
                call.done(event)
                if event.kind == _calls.PROGRESS:
                    yield json.loads(event.value)[item]
                else:
                    self._emit(event)
        finally:
            while not call.finished and not call.dropped and not worker.ended:
                self._interrupt(call, 1)
                call.wait(0.05)
        if call.error is not None:
            raise call.error


def run(
    command: str,
    *words: Path,
    roots: Sequence[Path] | None = None,
    device: str | None = None,
    threads: int = 0,
    on_log: Callable[[str], Any] | None = None,
    **keys: Any,
) -> str:
    """Runs a command of Moonring (export, preprocess, plan, inspect, evaluate, ...; `moonring help`
    lists them) in this process, and returns what it writes to stdout.

    words: its words, as on the command line: "config.yaml", "key=value".
    keys: further words key=value, from Python values.
    roots, device, threads: as in Runtime. on_log: called with each line of the log; None: the
        logger "moonring".

    Errors: as Runtime. A command that needs several ranks is refused; start it with
    `moonring -n RANKS COMMAND`.
    """
    lines: list[str] = []
    log = on_log or (lambda line: _log.info("%s", line))

    class _Output(Runtime):
        def _emit(self, event: _calls.Event) -> None:
            if event.kind == _calls.LOG and event.value[0] == _native.OUTPUT:
                lines.append(event.value[1])
            elif event.kind == _calls.LOG:
                log(event.value[1])

    with _Output(roots=roots, device=device, threads=threads) as runtime:
        runtime.run_command(command, *[os.fsdecode(word) for word in words], *words_of(keys))
    return "".join(line + "\n" for line in lines)
