"""One point from begin to end: get to know the server, warm it up, send, gather, sum up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from apps.capacity.errors import TargetDown, WorkloadInvalid
from apps.capacity.load.answers import Answer
from apps.capacity.load.checking import Checked, cross_check
from apps.capacity.load.counters import Counters, Watch, grown
from apps.capacity.load.figures import Circumstances, client_of, figures_of
from apps.capacity.load.lag import Gauge
from apps.capacity.load.measures import CrossCheck, Figures, Record
from apps.capacity.load.prompts import Calibration, Prompt, Prompts
from apps.capacity.load.recording import record_of
from apps.capacity.load.schedule import Wanted, offered_per_s, open_loop, wanted_lengths
from apps.capacity.load.targets import Address, acquaint
from apps.capacity.load.types import Job
from apps.capacity.load.wire import Dial, Server

MOST_IN_FLIGHT = 2000  # of an open loop; what comes on top is not sent, and has failed
MOST_LATE_S = 1.0  # what would be sent later than this would no longer be the load intended
MOST_PIECES = 2_000_000  # times kept over all requests: 64 MB
PIECES_EACH = 200_000
AFTER_FAILURE_S = 0.1  # a closed loop against a server that refuses would be a flood
WARMING_AT_ONCE = 2
# How a server refuses a system turn that its model's template does not know.
_NO_SYSTEM = {"http_400", "http_422", "http_500", "in_band_rejected"}
# Words of the two prompts that show how the server counts them.
_CALIBRATING = (32, 160)

Tell = Callable[[dict[str, float | bool]], None]


@dataclass
class Point:
    """The state of one point. `stop()` ends it early."""

    job: Job
    dial: Dial
    address: Address
    key: str = field(default="", repr=False)
    tell: Tell = lambda _: None
    salt: str = ""  # "": prompts that no run had before
    records: list[Record] = field(default_factory=list)
    checked: list[Checked] = field(default_factory=list)
    _under_way: set[asyncio.Task[None]] = field(default_factory=set)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _cut: str = "drain"  # the code of requests that are cancelled
    _sent: int = 0
    _failed: int = 0
    _in_flight: int = 0
    _pieces: int = 0
    _warming_up: bool = True
    _began: float = 0.0
    _grown: dict[str, float] = field(default_factory=dict)
    _cross_check: CrossCheck | None = None

    def stop(self) -> None:
        """No more requests; those under way are dropped."""
        self._cut = "stopped"
        self._stopping.set()

    async def run(self) -> Figures:
        """Measure; raises TargetDown, TargetRefused or WorkloadInvalid where that cannot be."""
        self._loop = asyncio.get_running_loop()
        self._server = Server(self.dial)
        self._began = self._loop.time()
        teller = asyncio.create_task(self._tell_each_second())
        try:
            times = self._times()
            await self._or_stopped(self._prepare())
            return await self._measured(times)
        finally:
            teller.cancel()
            await self._drop()
            self._server.close()

    def _times(self) -> list[float] | None:
        if self.job.arrivals.kind == "closed":
            return None
        times = open_loop(self.job)
        if not times:
            raise WorkloadInvalid(
                "No request is due within the duration. Ask for a longer time or a higher load."
            )
        return times

    # --- before ---

    async def _prepare(self) -> None:
        self._api = await acquaint(self.job, self.address, self._server, self.key)
        await self._warm_up()

    async def _warm_up(self) -> None:
        """Other prompts, counted in nothing; the first two show how the server counts words."""
        self._prompts = Prompts(self.job.workload, Calibration(), salt=self.salt)
        answers = [await self._asked_words(words) for words in _CALIBRATING]
        if all(code in _NO_SYSTEM for _, code in answers):
            self._api = replace(self._api, takes_system=False)
            answers = [await self._asked_words(words) for words in _CALIBRATING]
        codes = [code for _, code in answers]
        counts = [answer.prompt_tokens for answer, code in answers if not code]
        if len(counts) == 2 and counts[0] and counts[1]:
            short, long = zip(_CALIBRATING, counts, strict=True)
            calibration = Calibration.of((short[0], short[1] or 0), (long[0], long[1] or 0))
            self._prompts = Prompts(self.job.workload, calibration, salt=self.salt)
        lengths = wanted_lengths(self.job.workload, self.job.seed ^ 0x5EED)
        left = [next(lengths) for _ in range(self.job.bounds.warmup_requests)]
        while left:
            batch, left = left[:WARMING_AT_ONCE], left[WARMING_AT_ONCE:]
            codes += await asyncio.gather(*(self._asked(each) for each in batch))
        if all(codes):
            raise TargetDown(
                f"Every request of the warm-up failed, the last with {codes[-1]!r}. "
                "Check the model's name, the key, and that the lengths fit into its context."
            )

    async def _asked_words(self, words: int) -> tuple[Answer, str]:
        answer = Answer(most_pieces=0)
        code = await self._answered(self._prompts.of_words(words), 1, answer)
        return answer, code

    async def _asked(self, wanted: Wanted) -> str:
        prompt = self._prompts.of_tokens(wanted.prompt_tokens)
        return await self._answered(prompt, wanted.output_tokens, Answer(most_pieces=0))

    async def _answered(self, prompt: Prompt, output_tokens: int, answer: Answer) -> str:
        until = self._loop.time() + self.job.bounds.request_timeout_s
        request = self._api.ask_chat(prompt, output_tokens)
        return await self._server.ask(request, answer, until=until) or answer.fault_of_reply()

    # --- the point ---

    async def _measured(self, times: list[float] | None) -> Figures:
        gauge = Gauge()
        if not self._stopping.is_set():
            watch = Watch(self._api)
            before = await watch.read()
            self._warming_up, self._began = False, self._loop.time()
            with gauge:
                await self._send_all(times)
            await self._or_stopped(self._ask_afterwards(watch, before))
            watch.close()
        self.records.sort(key=lambda each: each.number)
        is_null = self.job.target.kind == "null"
        return figures_of(
            self.records,
            Circumstances(
                self._offered_per_s(times),
                client_of(gauge, self.records, is_open=times is not None, is_null=is_null),
                self.job.promises,
                self._grown,
                self._cross_check,
                stopped=self._stopping.is_set(),
            ),
        )

    async def _ask_afterwards(self, watch: Watch, before: Counters) -> None:
        self._grown = grown(before, await watch.read())
        self._cross_check = await cross_check(self._api, self._server, self.checked)

    async def _send_all(self, times: list[float] | None) -> None:
        lengths = wanted_lengths(self.job.workload, self.job.seed)
        if times is None:
            await self._or_stopped(self._closed_loop(lengths))
        else:
            await self._or_stopped(self._open_loop(times, lengths))
        if self._under_way and not self._stopping.is_set():
            await self._or_stopped(self._drain())
        await self._drop()

    async def _open_loop(self, times: list[float], lengths: Iterator[Wanted]) -> None:
        """Never waits for a request: only for the next one's time."""
        for number, (at, wanted) in enumerate(zip(times, lengths, strict=False)):
            due = self._began + at
            is_ahead = due > self._loop.time()
            if is_ahead:
                await asyncio.sleep(due - self._loop.time())
            if self._loop.time() > due + MOST_LATE_S:
                self._unsent(number, at, wanted, "late")
            elif len(self._under_way) >= MOST_IN_FLIGHT:
                self._unsent(number, at, wanted, "crowded")
            else:
                self._start(self._one(number, at, wanted))
                if not is_ahead:
                    await asyncio.sleep(0)  # what has come meanwhile is read first

    async def _closed_loop(self, lengths: Iterator[Wanted]) -> None:
        numbers = iter(range(self.job.bounds.requests))
        wide = min(int(self.job.arrivals.load), MOST_IN_FLIGHT)
        for _ in range(wide):
            self._start(self._one_after_another(numbers, lengths))
        deadline = self._began + self.job.bounds.duration_s
        await asyncio.wait(set(self._under_way), timeout=deadline - self._loop.time())

    async def _one_after_another(self, numbers: Iterator[int], lengths: Iterator[Wanted]) -> None:
        end = self._began + self.job.bounds.duration_s
        while (now := self._loop.time()) < end:
            number = next(numbers, None)
            if number is None:
                return
            if await self._one(number, now - self._began, next(lengths)) != "complete":
                await asyncio.sleep(AFTER_FAILURE_S)

    async def _one(self, number: int, intended_s: float, wanted: Wanted) -> str:
        """Send one request and write down how it went."""
        is_checked = number < self.job.cross_check
        room = PIECES_EACH if self._pieces < MOST_PIECES else 0
        answer = Answer(most_pieces=room, keeps_text=is_checked)
        prompt = self._prompts.of_tokens(wanted.prompt_tokens)
        self._sent += 1
        self._in_flight += 1
        cancelled = False
        try:
            code = await self._answered(prompt, wanted.output_tokens, answer)
        except asyncio.CancelledError:
            code, cancelled = self._cut, True
            answer.end_s = self._loop.time()
        self._in_flight -= 1
        code = code or self._fault_of_length(answer, wanted)
        record = record_of(number, intended_s, wanted, answer, code, self._began)
        self.records.append(record)
        self._pieces += len(record.pieces_s)
        self._failed += record.outcome != "complete"
        if is_checked and record.outcome == "complete":
            self.checked.append(Checked(prompt.text, "".join(answer.text), record))
        if cancelled:
            raise asyncio.CancelledError
        return record.outcome

    def _fault_of_length(self, answer: Answer, wanted: Wanted) -> str:
        """Where the server holds to a length, another one is not the work that was asked for."""
        told = answer.output_tokens
        if told is None or not self._api.holds_to_length:
            return ""
        return "wrong_length" if abs(told - wanted.output_tokens) > 1 else ""

    def _unsent(self, number: int, intended_s: float, wanted: Wanted, code: str) -> None:
        self.records.append(record_of(number, intended_s, wanted, None, code, self._began))
        self._failed += 1

    def _offered_per_s(self, times: list[float] | None) -> float:
        if times is not None:
            return offered_per_s(times, self.job.bounds)
        last = max((each.intended_s for each in self.records), default=0.0)
        return len(self.records) / last if last else 0.0

    # --- tasks ---

    def _start(self, work: Coroutine[None, None, object]) -> None:
        task: asyncio.Task[None] = asyncio.create_task(_quietly(work))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _drain(self) -> None:
        await asyncio.wait(set(self._under_way), timeout=self.job.bounds.drain_s)

    async def _drop(self) -> None:
        for task in list(self._under_way):
            task.cancel()
        if self._under_way:
            await asyncio.wait(set(self._under_way))

    async def _or_stopped(self, work: Coroutine[None, None, None]) -> None:
        """`work`, or as much of it as there is until it is to stop."""
        task, stop = asyncio.create_task(work), asyncio.create_task(self._stopping.wait())
        await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            return
        await task

    async def _tell_each_second(self) -> None:
        while True:
            self.tell(self.progress())
            await asyncio.sleep(1.0)

    def progress(self) -> dict[str, float | bool]:
        """How far it is; `of_s` is when the sending ends."""
        return {
            "sent": self._sent,
            "ended": len(self.records),
            "failed": self._failed,
            "in_flight": self._in_flight,
            "elapsed_s": round(self._loop.time() - self._began, 3),
            "of_s": self.job.bounds.duration_s,
            "warming_up": self._warming_up,
        }


async def _quietly(work: Coroutine[None, None, object]) -> None:
    with suppress(asyncio.CancelledError):
        await work
