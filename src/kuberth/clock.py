"""Time as the core sees it: injected, in whole nanoseconds.

In: nothing. Out: a `Clock` for everything that measures or waits; `SystemClock` for real runs,
`LoopClock` for code on an event loop with virtual time (`VirtualTimeLoop`), so that tests and
simulations run the same code and never sleep.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from typing import Any, Final, Protocol, TypeVar

from kuberth.errors import KuberthError

NANOSECONDS = 1_000_000_000

T = TypeVar("T")

_LOOK_EVERY: Final = 64
"""How many turns a loop without I/O makes before it polls its files once."""
MAX_TURNS: Final = 1_000_000
"""How often a loop on virtual time may turn at one point in time."""
_SAMPLED_TURNS: Final = 100


class Clock(Protocol):
    """A source of time that never goes backwards."""

    def now_ns(self) -> int:
        """Nanoseconds since the Unix epoch, or since a virtual clock's start."""
        ...


class SystemClock:
    """Wall-clock time, read once and advanced by the monotonic clock: clock changes have no effect."""

    def __init__(self) -> None:
        self._anchor_ns = time.time_ns() - time.monotonic_ns()

    def now_ns(self) -> int:
        return self._anchor_ns + time.monotonic_ns()


class LoopClock:
    """The time of an asyncio event loop, virtual or real."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, epoch_ns: int = 0) -> None:
        self._loop = loop
        self._epoch_ns = epoch_ns

    def now_ns(self) -> int:
        return self._epoch_ns + round(self._loop.time() * NANOSECONDS)


class _JumpingSelector(selectors.SelectSelector):
    """Advances the loop's clock to the next timer instead of sleeping."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.turns = 0
        """The number of turns since the clock last advanced."""
        self.stalls: Callable[[], None] = lambda: None
        """Called at every turn beyond the limit."""
        self._calls = 0
        self._watches = 0
        """The number of polled files."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = super().register(fileobj, events, data)
        self._watches = len(self.get_map())
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = super().unregister(fileobj)
        self._watches = len(self.get_map())
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._calls += 1
        if timeout is None or timeout > 0:
            self.turns = 0
        else:
            self.turns += 1
            if self.turns > MAX_TURNS:
                self.stalls()
        if timeout is not None and self._watches == 1 and self._calls % _LOOK_EVERY:
            # Only the loop's own pipe is watched, and the loop already has the calls that it announces.
            if timeout > 0:
                self.now += timeout
            return []
        ready = super().select(0)
        if ready or timeout is None or timeout <= 0:
            # With no timer at all the loop waits for I/O from outside, which must really block.
            return super().select(timeout) if timeout is None and not ready else ready
        self.now += timeout
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An asyncio loop on which waiting takes no time: its clock jumps to the next timer.

    KuberthError if it turns a million times without a timer: some task keeps it busy.
    """

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        self._jumping.stalls = self._stalls
        self._busy: Counter[str] = Counter()
        self._finest_at = -1.0
        super().__init__(self._jumping)

    def time(self) -> float:
        """Seconds of virtual time since the loop started."""
        now = self._jumping.now
        if now != self._finest_at:
            # asyncio runs timers that are due within its clock's resolution. One that ran early, looked at
            # the clock and set itself again would do so for ever, as no time passes here: the resolution is
            # the smallest step that a float of this size can make, whatever the size.
            self._finest_at = now
            self._clock_resolution = math.ulp(now)
        return now

    def _stalls(self) -> None:
        """Find the tasks that keep the loop busy, for a few more turns, then give up."""
        if self._jumping.turns <= MAX_TURNS + _SAMPLED_TURNS:
            self.call_soon = self._count_and_call_soon  # type: ignore[assignment,method-assign]  # only from now on
            return
        names = ", ".join(f"{name!r}" for name, _ in self._busy.most_common(3))
        raise KuberthError(
            f"virtual time stands at {self._jumping.now:g} s: the event loop turned {MAX_TURNS:,} times "
            f"without waiting for a timer; busy: {names}"
        )

    def _count_and_call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        owner = getattr(callback, "__self__", None)
        name = owner.get_name() if isinstance(owner, asyncio.Task) else getattr(callback, "__qualname__", "")
        self._busy[name or repr(callback)] += 1
        return super().call_soon(callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]  # asyncio types its own as returning a subclass
        self, _executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run it at once in this thread: another thread takes real time, while virtual time would advance."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except BaseException as exc:
            future.set_exception(exc)
        return future


def run_in_virtual_time(
    main: Callable[[], Coroutine[Any, Any, T]], *, limit_seconds: float = 24 * 3600.0
) -> T:
    """Run `main` on a new `VirtualTimeLoop`.

    TimeoutError after `limit_seconds` of virtual time: with periodic work, waiting for something that never
    happens would otherwise not end. If the caller runs in an event loop, as the cells of a notebook do, it is
    blocked, and the new loop has its own thread, because a thread runs only one loop at a time.
    """
    loops: list[asyncio.AbstractEventLoop] = []

    async def limited() -> T:
        loops.append(asyncio.get_running_loop())
        async with asyncio.timeout(limit_seconds):
            return await main()

    def run() -> T:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            return runner.run(limited())

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        is_in_loop = False
    else:
        is_in_loop = True
    if not is_in_loop:  # outside of the handler, so that exceptions are not chained to its own
        return run()
    with ThreadPoolExecutor(1) as threads:
        try:
            return threads.submit(run).result()
        except KeyboardInterrupt:
            for loop in loops:
                loop.call_soon_threadsafe(loop.stop)
            raise


def run_on_fastest_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run on uvloop's event loop if it is installed, otherwise on Python's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)
