"""Same text, voice and seed: the same samples, whatever the chunks, the ring, the consumer and the neighbours."""

from __future__ import annotations

import asyncio
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtts import StreamConfig, Tts
from rtts.stream.dispatch import sentence_seed
from rtts.testing import FakeEngine
from rtts_engine.request import MAX_SEED

from .helpers import FRAME, TEXT, check_spans, in_loop, offline, speak

SEED = 77


async def reference() -> np.ndarray:
    async with Tts(FakeEngine()) as tts, tts.session(seed=SEED) as session:
        return (await speak(session, TEXT)).samples


@in_loop
async def test_it_is_the_sentences_with_gaps() -> None:
    engine = FakeEngine()
    async with Tts(engine) as tts, tts.session(seed=SEED) as session:
        spoken = await speak(session, TEXT)
    assert len(spoken.sentences) == 4
    assert "".join(each.text for each in spoken.sentences) == TEXT
    assert [each.seed for each in spoken.sentences] == [sentence_seed(SEED, i) for i in range(4)]
    assert spoken.sentences[0].seed == SEED
    np.testing.assert_array_equal(spoken.samples, offline(engine, spoken))
    assert len(spoken.samples) == FRAME * len(TEXT) + 3 * round(0.12 * 24000)


@pytest.mark.parametrize("ramp", ["adaptive", "fixed"])
@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 25])
@in_loop
async def test_chunk_sizes(ramp: str, chunk: int) -> None:
    config = StreamConfig(ramp=ramp, chunk_frames=chunk, first_chunk_frames=min(chunk, 3))  # type: ignore[arg-type]
    async with Tts(FakeEngine()) as tts, tts.session(seed=SEED, config=config) as session:
        spoken = await speak(session, TEXT)
    np.testing.assert_array_equal(spoken.samples, await reference())
    check_spans(spoken, TEXT)
    if ramp == "fixed":
        assert len(spoken.chunks[0].samples) == FRAME * min(chunk, 3)
        assert max(len(each.samples) for each in spoken.chunks) <= FRAME * chunk + 2880


@pytest.mark.parametrize("ring", [1, 2, 5, 64])
@pytest.mark.parametrize("buffered_s", [0.2, 30.0])
@in_loop
async def test_ring_and_buffer_sizes(ring: int, buffered_s: float) -> None:
    config = StreamConfig(ring_frames=ring, max_buffered_s=buffered_s)
    async with Tts(FakeEngine()) as tts, tts.session(seed=SEED, config=config) as session:
        spoken = await speak(session, TEXT)
    np.testing.assert_array_equal(spoken.samples, await reference())


@pytest.mark.parametrize(
    "engine",
    [FakeEngine(ar_ms=1.5), FakeEngine(codec_ms=1.5), FakeEngine(ar_ms=100)],
    ids=["ar", "codec", "slow"],
)
@in_loop
async def test_engine_speed(engine: FakeEngine) -> None:
    text = TEXT if engine.ar_ms < 50 else TEXT[:24]
    async with Tts(engine) as tts, tts.session(seed=SEED) as session:
        spoken = await speak(session, text)
        np.testing.assert_array_equal(spoken.samples, offline(engine, spoken))


@pytest.mark.parametrize("pause_s", [0, 0.002, 0.02])
@in_loop
async def test_consumer_speed(pause_s: float) -> None:
    config = StreamConfig(max_buffered_s=0.5, ring_frames=3)
    async with Tts(FakeEngine()) as tts, tts.session(seed=SEED, config=config) as session:
        spoken = await speak(session, TEXT, lambda: asyncio.sleep(pause_s))
    np.testing.assert_array_equal(spoken.samples, await reference())


@in_loop
async def test_neighbours() -> None:
    want = await reference()
    async with Tts(FakeEngine(ar_ms=0.1)) as tts:
        sessions = [tts.session(seed=SEED + i // 4) for i in range(8)]
        got = await asyncio.gather(*(speak(session, TEXT) for session in sessions))
        for session in sessions:
            await session.aclose()
    for i, spoken in enumerate(got):
        assert np.array_equal(spoken.samples, want) == (i < 4)
        np.testing.assert_array_equal(spoken.samples, got[i - i % 4].samples)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_any_configuration(data: st.DataObject) -> None:
    config = StreamConfig(
        first_chunk_frames=data.draw(st.integers(1, 9)),
        chunk_frames=data.draw(st.integers(1, 30)),
        ramp=data.draw(st.sampled_from(["adaptive", "fixed"])),
        ring_frames=data.draw(st.integers(1, 70)),
        max_buffered_s=data.draw(st.sampled_from([0.2, 1.0, 30.0])),
        prefetch_sentences=data.draw(st.integers(0, 3)),
    )
    text = "".join(
        data.draw(st.lists(st.sampled_from(["One. ", "Two and two, ", "- ", "Three! ", "... "]), max_size=6))
    )
    parts = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))

    async def main() -> None:
        engine = FakeEngine()
        pieces, at = [], 0
        while at < len(text):
            step = parts[len(pieces) % len(parts)]
            pieces.append(text[at : at + step])
            at += step
        async with Tts(engine) as tts, tts.session(seed=5, config=config) as session:
            spoken = await speak(session, pieces)
        np.testing.assert_array_equal(spoken.samples, offline(engine, spoken))
        if spoken.chunks:
            check_spans(spoken, text)

    in_loop(main)()


@in_loop
async def test_turns_of_a_session_are_alike() -> None:
    want = await reference()
    async with Tts(FakeEngine()) as tts, tts.session(seed=SEED) as session:
        start = 0
        for _ in range(3):
            spoken = await speak(session, TEXT)
            np.testing.assert_array_equal(spoken.samples, want)
            check_spans(spoken, TEXT, start)
            start += len(TEXT)
        assert session.made_s == pytest.approx(3 * len(want) / 24000)


@pytest.mark.parametrize("gap_s", [0.0, 0.5])
@in_loop
async def test_gap(gap_s: float) -> None:
    engine = FakeEngine()
    config = StreamConfig(sentence_gap_s=gap_s)
    async with Tts(engine) as tts, tts.session(seed=SEED, config=config) as session:
        spoken = await speak(session, TEXT)
    np.testing.assert_array_equal(spoken.samples, offline(engine, spoken, gap_s))


@in_loop
async def test_seeds() -> None:
    async with Tts(FakeEngine()) as tts:
        async with tts.session() as one, tts.session() as two:
            assert one.seed != two.seed  # drawn, and told
            a, b = await speak(one, TEXT), await speak(two, TEXT)
            assert not np.array_equal(a.samples, b.samples)
        async with tts.session(seed=one.seed) as again:
            np.testing.assert_array_equal((await speak(again, TEXT)).samples, a.samples)
        async with tts.session("bob", seed=one.seed) as other:
            assert not np.array_equal((await speak(other, TEXT)).samples, a.samples)


def test_sentence_seeds_stay_in_range_and_apart() -> None:
    rng = random.Random(0)
    for seed in [0, MAX_SEED, *(rng.randrange(MAX_SEED) for _ in range(20))]:
        seeds = [sentence_seed(seed, i) for i in range(1000)]
        assert len(set(seeds)) == 1000
        assert seeds[0] == seed
        assert all(0 <= each <= MAX_SEED for each in seeds)
