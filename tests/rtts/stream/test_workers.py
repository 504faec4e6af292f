"""The two threads and their scheduler, with a listener that writes down what it is given."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from rtts import StreamConfig
from rtts.errors import RequestError
from rtts.stream.company import Ahead
from rtts.stream.engine import Utterance
from rtts.stream.job import Job, Stream
from rtts.stream.ring import FrameRing
from rtts.stream.workers import Workers
from rtts.testing import FakeEngine
from rtts_engine.prompt import Manner
from rtts_engine.request import Settings

from .helpers import MANNER, TIMEOUT_S, threads


class Notes:
    """A listener; ``log`` is shared by all of a test."""

    def __init__(self, log: list[tuple[str, object]], name: str = "") -> None:
        self.log = log
        self.name = name
        self.open = True
        self.lead = 0.0
        self.sounds: list[np.ndarray] = []
        self.cause: BaseException | None = None
        self.over = threading.Semaphore(0)
        self.sounded = threading.Semaphore(0)

    def room(self) -> bool:
        return self.open

    def lead_s(self) -> float:
        return self.lead

    def sound(self, job: Job, samples: np.ndarray) -> None:
        self.sounds.append(samples)
        self.log.append((f"{self.name}sound", job.text))
        self.sounded.release()

    def paused(self, job: Job) -> None:
        self.log.append((f"{self.name}paused", None))

    def ended(self, job: Job) -> None:
        self.log.append((f"{self.name}ended", job.stop_reason))
        self.over.release()

    def failed(self, job: Job, cause: BaseException) -> None:
        self.cause = cause
        self.log.append((f"{self.name}failed", str(cause)))
        self.over.release()

    def wait(self, jobs: int = 1) -> None:
        for _ in range(jobs):
            assert self.over.acquire(timeout=TIMEOUT_S)

    def wait_for_sound(self, count: int) -> None:
        for _ in range(count):
            assert self.sounded.acquire(timeout=TIMEOUT_S)


def job(text: str | None, seed: int = 1, **config: int) -> Job:
    return Job(text, MANNER, Settings(seed=seed), StreamConfig(**config))  # type: ignore[arg-type]


Start = Callable[..., Workers]


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[Workers] = []

    def make(engine: FakeEngine, max_streams: int = 8) -> Workers:
        running.append(Workers(engine, max_streams=max_streams))
        return running[-1]

    yield make
    for workers in running:
        workers.close()
    assert threads() == []


def test_jobs_of_a_stream_are_spoken_in_order(start: Start) -> None:
    engine, log = FakeEngine(), list[tuple[str, object]]()
    workers, notes = start(engine), Notes(log)
    stream = workers.open(notes)
    for text in ("ab", "c"):
        workers.submit(stream, job(text))
    notes.wait(2)
    assert log == [("sound", "ab"), ("sound", "ab"), ("ended", "eos"), ("sound", "c"), ("ended", "eos")]
    expected = [engine.offline(text, MANNER, Settings(seed=1)) for text in ("ab", "c")]
    np.testing.assert_array_equal(np.concatenate(notes.sounds), np.concatenate(expected))
    assert stream.jobs == []


@pytest.mark.parametrize("ring", [1, 2, 64])
def test_a_full_ring_stops_the_talker_and_room_starts_it(start: Start, ring: int) -> None:
    engine = CountingEngine()
    workers, notes = start(engine), Notes([])
    notes.open = False
    stream = workers.open(notes)
    one = job("x" * 100, ring_frames=ring)
    workers.submit(stream, one)
    assert engine.reached(ring)
    workers.wake()  # without room nothing happens
    assert one.frames == ring
    assert notes.sounds == []
    notes.open = True
    workers.wake()
    notes.wait()
    assert one.frames == len(notes.sounds) == 100


class CountingEngine(FakeEngine):
    """Tells when the talker has nothing more to do."""

    def __init__(self) -> None:
        super().__init__()
        self.frames = threading.Semaphore(0)

    def utterance(self, text: str | None, manner: Manner, settings: Settings) -> object:  # type: ignore[override]
        inner, frames = super().utterance(text, manner, settings), self.frames

        class Counted:
            def __getattr__(self, name: str) -> object:
                return getattr(inner, name)

            def next_frame(self) -> object:
                frame = inner.next_frame()
                frames.release()
                return frame

        return Counted()

    def reached(self, count: int) -> bool:
        reached = all(self.frames.acquire(timeout=TIMEOUT_S) for _ in range(count))
        return reached and not self.frames.acquire(timeout=0.05)


def test_the_one_closest_to_silence_is_served_first(start: Start) -> None:
    log: list[tuple[str, object]] = []
    engine = FakeEngine(ar_ms=1)
    engine.max_rows = 1
    workers = start(engine)
    rich, poor = Notes(log, "rich "), Notes(log, "poor ")
    rich.lead, poor.lead = 10.0, 0.5
    rich.open = poor.open = True
    streams = [workers.open(rich), workers.open(poor)]
    with workers._lock:  # both are there before the talker looks
        for stream, text in zip(streams, ("r" * 20, "p" * 20), strict=True):
            stream.jobs.append(job(text))
        workers._ar_work.notify()
    rich.wait()
    poor.wait()
    assert [what for what, _ in log].index("poor ended") < [what for what, _ in log].index("rich sound") + 3


class Company(FakeEngine):
    """Writes down which texts' frames were computed together."""

    def __init__(self, fail: str = "") -> None:
        super().__init__(ar_ms=0.2)
        self.batches: list[list[str]] = []
        self.fail = fail

    def next_frames(self, utterances):  # type: ignore[no-untyped-def]
        self.batches.append([each._text for each in utterances])
        return [
            RuntimeError("this row is broken") if each._text == self.fail else each.next_frame()
            for each in utterances
        ]


def together(workers: Workers, streams: list[Stream], jobs: list[list[Job]]) -> None:
    """Submit everything before the talker looks."""
    with workers._lock:
        for stream, own in zip(streams, jobs, strict=True):
            stream.jobs += own
        workers._ar_work.notify()


def test_streams_are_computed_together_behind_their_first_frames(start: Start) -> None:
    engine = Company()
    workers = start(engine)
    notes = [Notes([]) for _ in range(6)]
    streams = [workers.open(each) for each in notes]
    texts = [letter * 20 for letter in "abcdef"]
    together(workers, streams, [[job(text, seed=i)] for i, text in enumerate(texts)])
    for each in notes:
        each.wait()
    assert max(map(len, engine.batches)) == engine.max_rows == 4
    # Until the last one had its first frame, nobody had company.
    assert all(len(batch) > 1 for batch in engine.batches)
    assert sum(map(len, engine.batches)) <= 6 * 20 - 6 + 6
    for i, (text, each) in enumerate(zip(texts, notes, strict=True)):
        np.testing.assert_array_equal(
            np.concatenate(each.sounds), engine.offline(text, MANNER, Settings(seed=i))
        )


@pytest.mark.parametrize("lead_s", [0.0, 5.0])
def test_the_next_sentence_comes_along_when_there_is_time(start: Start, lead_s: float) -> None:
    engine = Company()
    workers, notes = start(engine), Notes([])
    notes.lead = lead_s
    stream = workers.open(notes)
    together(workers, [stream], [[job("a" * 5), job("b" * 5)]])
    notes.wait(2)
    mixed = [batch for batch in engine.batches if batch == ["a" * 5, "b" * 5]]
    # Without a lead it has to come from the ring first: five frames are less than that.
    assert bool(mixed) == (lead_s > 0)
    expected = [engine.offline(text, MANNER, Settings(seed=1)) for text in ("a" * 5, "b" * 5)]
    np.testing.assert_array_equal(np.concatenate(notes.sounds), np.concatenate(expected))


def test_the_cost_of_a_frame_is_that_of_a_pass_and_not_of_its_rows(start: Start) -> None:
    engine = Company()
    engine.ar_ms = 2.0  # this engine takes its rows one after the other
    workers = start(engine)
    notes = [Notes([]) for _ in range(4)]
    streams = [workers.open(each) for each in notes]
    together(workers, streams, [[job(letter * 30)] for letter in "abcd"])
    for each in notes:
        each.wait()
    seconds = workers.pass_cost.seconds(4)
    assert seconds is not None
    assert seconds > 1.5 * 0.002


def test_a_row_that_fails_is_alone_in_it(start: Start) -> None:
    engine = Company(fail="b" * 9)
    workers = start(engine)
    good, bad = Notes([]), Notes([])
    together(workers, [workers.open(good), workers.open(bad)], [[job("a" * 9)], [job("b" * 9)]])
    good.wait()
    bad.wait()
    assert str(bad.cause) == "this row is broken"
    assert good.cause is None
    np.testing.assert_array_equal(
        np.concatenate(good.sounds), engine.offline("a" * 9, MANNER, Settings(seed=1))
    )


@pytest.mark.parametrize("fault", ["a row too few", "exit"])
def test_a_broken_engine_does_not_end_the_thread(start: Start, fault: str) -> None:
    class Broken(FakeEngine):
        def next_frames(self, utterances: Sequence[Utterance]) -> list[np.ndarray | Exception | None]:
            if fault == "exit":
                raise SystemExit(3)
            return super().next_frames(utterances)[1:]

    workers = start(Broken())
    listeners = [Notes([]), Notes([])]
    streams = [workers.open(listener) for listener in listeners]
    for _ in range(2):
        for stream in streams:
            workers.submit(stream, job("A longer text, so that both are under way."))
        for listener in listeners:
            listener.wait()
    assert any(listener.cause is not None for listener in listeners)


def test_equally_needy_streams_take_turns(start: Start) -> None:
    log: list[tuple[str, object]] = []
    workers = start(FakeEngine(ar_ms=1, codec_ms=0.1))
    notes = [Notes(log, name) for name in "abc"]
    streams = [workers.open(each) for each in notes]
    with workers._lock:
        for stream in streams:
            stream.jobs.append(job("x" * 30))
        workers._ar_work.notify()
    for each in notes:
        each.wait()
    order = [what[0] for what, _ in log if what.endswith("sound")]
    for at in range(3, 90):
        counts = [order[:at].count(name) for name in "abc"]
        assert max(counts) - min(counts) <= 3, (at, order)


@pytest.mark.parametrize("where", ["talker", "codec"])
def test_a_failure_ends_its_own_stream_only(start: Start, where: str) -> None:
    engine = PartlyFailing("bad", where)
    log: list[tuple[str, object]] = []
    workers, bad, good = start(engine), Notes(log, "bad "), Notes(log, "good ")
    broken, sound = workers.open(bad), workers.open(good)
    workers.submit(sound, job("fine" * 20))
    for text in ("bad one", "next of it"):
        workers.submit(broken, job(text))
    bad.wait()
    good.wait()
    assert isinstance(bad.cause, RuntimeError)
    assert f"the fake {where} was told to fail" in str(bad.cause)
    assert ("good ended", "eos") in log
    assert len(good.sounds) == 80
    assert not [what for what in log if what[0] == "bad ended"]
    assert broken.jobs == []
    workers.submit(broken, job("again"))  # the stream goes on
    bad.wait()
    assert log[-1] == ("bad ended", "eos")


class PartlyFailing(FakeEngine):
    """Fails at frame 3 of texts that begin with ``word``."""

    def __init__(self, word: str, where: str) -> None:
        super().__init__()
        self._word = word
        self._failing = FakeEngine(fail_at_frame=3, fail_in=where)

    def utterance(self, text: str | None, manner: Manner, settings: Settings) -> object:  # type: ignore[override]
        self._bad = text is not None and text.startswith(self._word)
        engine = self._failing if self._bad and self._failing.fail_in == "talker" else super()
        frames = engine.utterance(text, manner, settings)
        if self._bad and self._failing.fail_in == "codec":
            # The codec sees frames, not texts: mark them.
            inner = frames.next_frame

            def marked() -> np.ndarray | None:
                frame = inner()
                return None if frame is None else np.where(np.arange(16) == 15, 999, frame).astype(np.int32)

            frames.next_frame = marked  # type: ignore[method-assign]
        return frames

    def decoder(self, manner: Manner) -> object:  # type: ignore[override]
        good, bad = super().decoder(manner), self._failing.decoder(manner)

        class Either:
            def decode(self, codes: np.ndarray) -> np.ndarray:
                return (bad if codes[0, 15] == 999 else good).decode(codes)

        return Either()


def test_a_dropped_job_that_fails_does_not_hurt_the_next(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: the next turn's jobs were thrown away together with the failed one's."""
    entered, go_on = threading.Event(), threading.Event()

    class Late(FakeEngine):
        def decoder(self, manner: Manner) -> object:  # type: ignore[override]
            if not entered.is_set():
                entered.set()
                assert go_on.wait(TIMEOUT_S)
                raise RuntimeError("too late to matter")
            return super().decoder(manner)

    log: list[tuple[str, object]] = []
    workers, notes = start(Late()), Notes(log)
    stream = workers.open(notes)
    workers.submit(stream, job("old"))
    assert entered.wait(TIMEOUT_S)
    workers.cancel(stream)
    workers.submit(stream, job("new"))
    with caplog.at_level(logging.WARNING):
        go_on.set()
        notes.wait()
    assert log == [("sound", "new")] * 3 + [("ended", "eos")]
    assert "too late to matter" in caplog.text


def test_frames_that_come_while_the_codec_looks_are_not_lost(start: Start) -> None:
    """Regression: the ring looked empty, the last frames came and the job ended, and it was taken for spoken."""

    class Ring(FrameRing):
        """The first time that the codec finds it empty, without the lock, the rest comes in between."""

        def __len__(self) -> int:
            count = super().__len__()
            codec = threading.current_thread().name == "rtts-codec" and not workers._lock.locked()
            if codec and not count and not late.is_set():
                late.set()
                for text in ("cde", None):
                    workers.push_text(open_job, text)
                while not open_job.generated:
                    time.sleep(0.001)
            return count

    late = threading.Event()
    workers, notes = start(FakeEngine()), Notes([])
    stream, open_job = workers.open(notes), job(None)
    open_job.ring = Ring(64)
    workers.submit(stream, open_job)
    workers.push_text(open_job, "ab")
    notes.wait()
    assert late.is_set()
    assert open_job.frames == len(notes.sounds) == 5


def test_a_job_that_fails_twice_does_not_hurt_the_next(start: Start) -> None:
    """Regression: behind a failure of the codec, the talker's took the next turn's jobs with it, without a word."""
    computing, go_on = threading.Event(), threading.Event()

    class Broken(FakeEngine):
        def utterance(self, text: str | None, manner: Manner, settings: Settings) -> object:  # type: ignore[override]
            inner = super().utterance(text, manner, settings)
            if text == "old":
                step, frames = inner.next_frame, [0]

                def next_frame() -> object:
                    frames[0] += 1
                    if frames[0] == 2:
                        computing.set()
                        assert go_on.wait(TIMEOUT_S)
                        raise RuntimeError("the talker fails, too")
                    return step()

                inner.next_frame = next_frame  # type: ignore[method-assign,assignment]
            return inner

        def decoder(self, manner: Manner) -> object:  # type: ignore[override]
            if not go_on.is_set():
                assert computing.wait(TIMEOUT_S)
                raise RuntimeError("the codec fails")
            return super().decoder(manner)

    log: list[tuple[str, object]] = []
    workers, notes = start(Broken()), Notes(log)
    stream = workers.open(notes)
    workers.submit(stream, job("old"))
    notes.wait()
    workers.submit(stream, job("new"))
    go_on.set()
    notes.wait()
    assert log == [("failed", "the codec fails"), *[("sound", "new")] * 3, ("ended", "eos")]


def test_nothing_of_a_cancelled_job_comes_later(start: Start) -> None:
    log: list[tuple[str, object]] = []
    workers, notes = start(FakeEngine()), Notes(log)
    stream = workers.open(notes)
    for _ in range(200):
        workers.submit(stream, job("old" * 50))
        workers.cancel(stream)
        workers.submit(stream, job("n"))
        notes.wait()
        workers.cancel(stream)
    assert [entry for entry in log if entry[0] == "ended"] == [("ended", "eos")] * 200
    assert stream.jobs == []


def test_open_text_is_waited_for_without_holding_up_others(start: Start) -> None:
    log: list[tuple[str, object]] = []
    workers, slow, other = start(FakeEngine()), Notes(log, "slow "), Notes(log, "other ")
    waiting, stream = workers.open(slow), workers.open(other)
    open_job = job(None)
    workers.submit(waiting, open_job)
    for text in ("ab", "c"):
        workers.push_text(open_job, text)
    slow.wait_for_sound(3)
    workers.submit(stream, job("x" * 10))
    other.wait()
    assert len(slow.sounds) == 3  # it waits
    workers.push_text(open_job, "d")
    workers.push_text(open_job, None)
    slow.wait()
    assert len(slow.sounds) == 4
    assert not waiting.busy


def test_a_dead_utterance_that_waits_for_text_is_ended(start: Start) -> None:
    """Regression: the talker slept on text that nobody would give to a job the watchdog had ended."""

    class Silent(FakeEngine):
        def decoder(self, manner: Manner) -> object:  # type: ignore[override]
            class Nothing:
                def decode(self, codes: np.ndarray) -> np.ndarray:
                    return np.zeros(1920 * len(codes), np.float32)

            return Nothing()

    log: list[tuple[str, object]] = []
    workers, notes = start(Silent()), Notes(log)
    stream = workers.open(notes)
    open_job = Job(None, MANNER, Settings(seed=1), StreamConfig(silence_timeout_s=0.8, ring_frames=4))
    workers.submit(stream, open_job)
    workers.push_text(open_job, "x" * 10)
    notes.wait()
    assert [entry for entry in log if entry[0] != "paused"] == [("sound", None)] * 10 + [("ended", "silence")]


def test_seats(start: Start) -> None:
    workers = start(FakeEngine(), max_streams=2)
    first = workers.open(Notes([]))
    workers.open(Notes([]))
    with pytest.raises(RequestError, match=r"2 sessions are open on this model already.*max_sessions"):
        workers.open(Notes([]))
    workers.close_stream(first)
    workers.close_stream(first)  # giving it back twice gives one seat
    workers.open(Notes([]))
    with pytest.raises(RequestError):
        workers.open(Notes([]))


@pytest.mark.parametrize("engine", [FakeEngine(), FakeEngine(ar_ms=2), FakeEngine(codec_ms=2)], ids=str)
def test_close_with_work_in_flight(engine: FakeEngine) -> None:
    workers = Workers(engine, max_streams=4)
    streams: list[Stream] = []
    for _ in range(4):
        streams.append(workers.open(Notes([])))
        for _ in range(3):
            workers.submit(streams[-1], job("x" * 500))
    workers.push_text(streams[0].jobs[0], None)
    workers.close()
    workers.close()
    assert threads() == []
    assert all(not stream.jobs for stream in streams)
    with pytest.raises(RequestError, match="the model is closed"):
        workers.open(Notes([]))


def test_prompts_do_not_count_as_frame_cost(start: Start) -> None:
    """A long prefill would make a fast machine look slow, and delay the next first chunk."""
    workers, notes = start(FakeEngine()), Notes([])
    stream = workers.open(notes)
    for _ in range(5):
        workers.submit(stream, job("x"))
        notes.wait()
    assert workers.pass_cost.seconds(1) is None
    assert workers.supply(job("xxx")) is None
    workers.submit(stream, last := job("xxx"))
    notes.wait()
    assert workers.pass_cost.seconds(1) is not None
    assert workers.supply(last) is not None


def test_a_slow_talker_takes_sentences_together(start: Start) -> None:
    """Alone, it would never keep up: its sentences come in a pass of their own, and sound the same."""
    batches: list[int] = []
    prompts: list[int] = []

    class Counted(FakeEngine):
        def next_frames(self, utterances: Sequence[Utterance]) -> list[np.ndarray | Exception | None]:
            batches.append(len(utterances))
            prompts.append(sum(each.prefilled_s is None for each in utterances))
            return super().next_frames(utterances)

    engine = Counted(ar_ms=300, row_ms=2)
    workers, notes = start(engine), Notes([])
    texts = [letter * 7 for letter in "abcd"]
    together(workers, [workers.open(notes)], [[job(text) for text in texts]])
    notes.wait(4)
    assert max(batches) == 4
    assert max(prompts) == 1  # everybody in a pass waits for the prompts in it
    assert workers.sentences_ahead() == engine.max_rows - 1
    expected = [engine.offline(text, MANNER, Settings(seed=1)) for text in texts]
    np.testing.assert_array_equal(np.concatenate(notes.sounds), np.concatenate(expected))


def test_a_fast_talker_has_one_sentence_ahead(start: Start) -> None:
    workers, notes = start(FakeEngine()), Notes([])
    assert workers.sentences_ahead() == 1
    workers.submit(workers.open(notes), job("x" * 20))
    notes.wait()
    assert workers.sentences_ahead() == 1


def test_a_job_that_outlives_its_guess_is_expected_to_go_on() -> None:
    one = job("abc")
    one.expected_frames, one.frames = 40, 10
    assert one.missing() == 30
    assert one.missing(100) == 90
    one.frames = 60
    assert one.missing() == 7
    one.generated = True
    assert one.missing() == one.missing(100) == 0


def test_company_is_shared_fairly(start: Start) -> None:
    """Two slow listeners, and room for four: nobody's third sentence goes before the other one's second."""
    batches: list[list[str]] = []

    class Counted(FakeEngine):
        def next_frames(self, utterances: Sequence[Utterance]) -> list[np.ndarray | Exception | None]:
            batches.append([each._text for each in utterances])  # type: ignore[attr-defined]
            return super().next_frames(utterances)

    engine = Counted(ar_ms=200, row_ms=2)
    workers, notes = start(engine), [Notes([]), Notes([])]
    jobs = [[job(f"{name}{i}" * 4) for i in range(4)] for name in "ab"]
    together(workers, [workers.open(each) for each in notes], jobs)
    for each in notes:
        each.wait(4)
    full = [batch for batch in batches if len(batch) == 4]
    assert full
    for batch in full:
        assert sum(text.startswith("a") for text in batch) in (1, 2, 3)
    assert [text[0] for text in full[0]].count("a") == 2


def test_the_plan_knows_what_is_played_in_between(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence that is generated and not played gives those behind it time."""
    plans: list[list[Ahead]] = []

    def note(sentences: Sequence[Ahead], lead_s: float, *_: object, **__: object) -> int:
        plans.append(list(sentences))
        return 1

    monkeypatch.setattr("rtts.stream.workers.rows_together", note)
    workers = start(FakeEngine())
    stream = Stream(Notes([]))
    first, done, full, last = (job(letter * 40, ring_frames=20) for letter in "abcd")
    for each, frames in ((first, 10), (done, 15), (full, 20)):
        each.frames, each.expected_frames = frames, 40
        for _ in range(frames):
            each.ring.push(np.zeros(16, np.int32))
    done.generated = True
    stream.jobs += [first, done, full, last]
    workers.pass_cost.add(1, 0.2)
    assert workers._ready_ar(stream) == [first]
    # Between the first and the last: 15 frames that wait, 20 that wait and 20 that will come in between.
    assert plans == [[Ahead(10, 0, 30), Ahead(0, 55, 40)]]
