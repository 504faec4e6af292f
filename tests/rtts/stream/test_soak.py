"""Interruptions by the thousand, and many sessions at once: nothing stale, nothing lost, nothing left."""

from __future__ import annotations

import asyncio
import gc
import os
import random
from pathlib import Path

import numpy as np
import pytest

from rtts import StreamConfig, Tts
from rtts.stream.events import Done, PcmChunk
from rtts.stream.playback import FADE_SAMPLES, PlaybackBuffer
from rtts.stream.session import Session
from rtts.testing import FakeEngine
from rtts_engine.prompt import Manner

from .helpers import FRAME, TEXT, in_loop, offline, speak, threads

INTERRUPTS = 2000


def open_files() -> int:
    """Of this process; 0 where the system does not tell."""
    folder = Path("/dev/fd")
    return len(os.listdir(folder)) if folder.exists() else 0


def memory_bytes() -> int:
    """Resident memory of this process; 0 where the system does not tell."""
    file = Path("/proc/self/statm")
    return int(file.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if file.exists() else 0


class Labelled(FakeEngine):
    """Speaks every turn as a constant that its first character stands for: whose sound it is, any sample tells."""

    def decoder(self, manner: Manner) -> object:  # type: ignore[override]
        class Constant:
            def decode(self, codes: np.ndarray) -> np.ndarray:
                return np.repeat(codes[:, 0] / 32767, FRAME).astype(np.float32)

        return Constant()

    def utterance(self, text, manner, settings):  # type: ignore[no-untyped-def]
        inner = super().utterance(text, manner, settings)
        step = inner.next_frame

        def next_frame() -> np.ndarray | None:
            frame = step()
            return None if frame is None else np.full(16, ord(inner._text.strip()[0]), np.int32)

        inner.next_frame = next_frame  # type: ignore[method-assign]
        return inner


class Sink:
    """Takes everything at once and plays it when told; checks that nothing stale comes out."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.buffer = PlaybackBuffer()
        session.attach(self.buffer)
        self.task = asyncio.create_task(self.run())
        self.label = 0
        self.fading = 0

    async def run(self) -> None:
        while not self.session.closed:
            async for chunk in self.session:
                self.push(chunk)
            self.buffer.finish()

    def push(self, chunk: PcmChunk) -> None:
        assert self.buffer.push(chunk)  # the loop's thread: nothing can have come between
        assert set(np.unique(chunk.samples)) <= {0, self.label}, "stale sound was handed out"

    def play(self, count: int) -> None:
        out = self.buffer.pull(count)
        fade, self.fading = min(count, self.fading), max(0, self.fading - count)
        assert set(np.unique(out[fade:])) <= {0, self.label}, "stale sound was played"


@pytest.mark.parametrize("mode", ["sentence", "token"])
@in_loop
async def test_interrupts_at_random_moments(mode: str) -> None:
    rng = random.Random(7)
    config = StreamConfig(text_mode=mode, ring_frames=4)  # type: ignore[arg-type]
    figures: list[tuple[int, int, int]] = []
    async with Tts(Labelled(ar_ms=0.02)) as tts, tts.session(seed=1, config=config) as session:
        sink, events, generation = Sink(session), session.events(), 0
        for turn in range(INTERRUPTS):
            letter = chr(ord("A") + turn % 26)
            sink.label = ord(letter)
            text = " ".join(
                f"{letter}{'bcd' * rng.randint(1, 4)}{rng.choice([',', '.', ''])}"
                for _ in range(rng.randint(1, 9))
            )
            for piece in text.split(" "):
                session.feed(piece + " ")
                if rng.random() < 0.2:
                    await asyncio.sleep(0)
            if rng.random() < 0.5:
                session.end()
            for _ in range(rng.choice([0, 0, 1, 2, 5])):
                await asyncio.sleep(rng.choice([0, 0, 0, 0.001]))
                sink.play(rng.choice([20, 480, 4000]))
            heard = await session.interrupt()
            sink.fading = FADE_SAMPLES
            assert text.startswith(heard.text.rstrip())
            generation += 1
            assert session._generation == sink.buffer._generation == generation
            assert not session.pending
            if rng.random() < 0.1:
                assert (await session.interrupt()).text == ""  # twice in a row
                generation += 1
            if turn % 200 == 199:
                gc.collect()
                figures.append((len(threads()), open_files(), memory_bytes()))
        dones = []
        while len(dones) < INTERRUPTS:
            event = await anext(events)
            if isinstance(event, Done):
                dones.append(event.stop_reason)
        # Short turns whose sound was complete have ended by themselves; every turn has ended once.
        assert set(dones) <= {"cancelled", "eos"}
        assert dones.count("cancelled") > INTERRUPTS / 10
        await session.aclose()
        await sink.task
        assert [event async for event in events] == []
    counts = {(n_threads, n_files) for n_threads, n_files, _ in figures}
    assert counts == {(2, figures[0][1])}
    grown = figures[-1][2] - figures[2][2]
    print(f"{mode}: memory of turns 600 to 2000 grew by {grown / 1e6:.2f} MB")
    assert grown < 16e6  # a leak of one second of sound a turn would be 67 MB


@in_loop
async def test_sessions_that_interrupt_beside_one_that_speaks() -> None:
    engine = FakeEngine(ar_ms=0.05)
    stop = asyncio.Event()

    async def restless(session: Session) -> None:
        rng = random.Random(session.seed)
        while not stop.is_set():
            session.feed(TEXT)
            await asyncio.sleep(rng.choice([0, 0.001, 0.004]))
            await session.interrupt()

    async with Tts(engine) as tts, tts.session(seed=1) as calm:
        others = [tts.session(seed=i) for i in range(3)]
        tasks = [asyncio.create_task(restless(session)) for session in others]
        for _ in range(2):  # those who have nothing to play come first, so that this one runs in real time
            spoken = await speak(calm, "Hello there.")
            np.testing.assert_array_equal(spoken.samples, offline(engine, spoken))
        stop.set()
        await asyncio.gather(*tasks)
        for session in others:
            await session.aclose()


@in_loop
async def test_models_come_and_go() -> None:
    files = set[int]()
    for i in range(40):
        async with Tts(FakeEngine()) as tts, tts.session(seed=i) as session:
            session.feed(TEXT)
            if i % 2:
                await anext(aiter(session))
        files.add(open_files())
        assert threads() == []
    assert len(files) <= 2  # the first use of a worker thread opens none, but the executor may start one


@in_loop
async def test_three_sessions_share_a_slow_engine() -> None:
    """Each gets its share: none is ahead of another by more than the ring and a few chunks."""
    order: list[int] = []

    async def take(number: int, session: Session) -> None:
        async for chunk in session:
            order.extend([number] * (len(chunk.samples) // FRAME))

    config = StreamConfig(ramp="fixed", chunk_frames=1, prefetch_sentences=0)
    async with Tts(FakeEngine(ar_ms=2)) as tts:
        sessions = [tts.session(seed=i, config=config) for i in range(3)]
        for session in sessions:
            session.feed("x" * 60)
            session.end()
        await asyncio.gather(*(take(i, session) for i, session in enumerate(sessions)))
        for session in sessions:
            await session.aclose()
    assert len(order) == 180
    for at in range(10, 150):
        counts = [order[:at].count(i) for i in range(3)]
        assert max(counts) - min(counts) <= 12, (at, counts)


@in_loop
async def test_a_newcomer_is_served_before_those_who_are_ahead() -> None:
    async with Tts(FakeEngine(ar_ms=2)) as tts, tts.session() as ahead, tts.session() as newcomer:
        ahead.feed("x" * 400)
        ahead.end()
        chunks, taken = aiter(ahead), 0
        while taken < 60:  # 4.8 s of sound after some 120 ms
            taken += len((await anext(chunks)).samples) // FRAME
        made = ahead._stream.jobs[0].frames
        newcomer.feed("y" * 20)
        newcomer.end()
        async for _ in newcomer:
            pass
        # Served alternately, the other one would have gained as many frames as were spoken here.
        gained = ahead._stream.jobs[0].frames - made if ahead._stream.jobs else 340
        print(f"the one ahead gained {gained} frames beside 20")
        assert gained < 200
