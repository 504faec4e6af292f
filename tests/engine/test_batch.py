"""Streams computed together: their codes are those of each alone, whoever joins or leaves."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rtts_engine.convert import convert
from rtts_engine.errors import ModelError, RequestError
from rtts_engine.generate import FrameStream, next_frames
from rtts_engine.graph.writer import Precision
from rtts_engine.model import Model
from rtts_engine.prompt import Manner
from rtts_engine.request import Settings, SpeechRequest
from rtts_engine.sampling import Sampling
from rtts_engine.stack import rows_computed
from rtts_engine.talker import Choose

from .conftest import Models

DESIGN = Manner(instruct="a warm and gentle voice")
TEXTS = ["hello world, this is a small test", "one two three", "good morning to you all", "a", "so long"]


@pytest.fixture(scope="module")
def model(models: Models) -> Model:
    return models.get("tiny", "voice_design")


def stream_of(model: Model, index: int, frames: int = 12, greedy: bool = False) -> FrameStream:
    """One of a family of streams that differ in text, seed and length."""
    sampling = Sampling().greedy() if greedy else None
    settings = Settings(sampling=sampling, seed=100 + index, max_frames=frames)
    return model.frames(SpeechRequest(TEXTS[index % len(TEXTS)], DESIGN, settings))


def alone(model: Model, index: int, frames: int = 12, greedy: bool = False) -> np.ndarray:
    return np.array(list(stream_of(model, index, frames, greedy)))


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 8, 9])
def test_together_as_alone(model: Model, count: int, greedy: bool) -> None:
    streams = [stream_of(model, i, 8, greedy) for i in range(count)]
    got = [next_frames(streams) for _ in range(8)]
    for i in range(count):
        np.testing.assert_array_equal(np.array([row[i] for row in got]), alone(model, i, 8, greedy))
    assert next_frames(streams) == [None] * count
    assert {stream.stop_reason for stream in streams} <= {"length_cap", "eos"}


@pytest.mark.parametrize("seed", range(6))
def test_joining_and_leaving_at_any_frame(model: Model, seed: int) -> None:
    """Whatever company a stream has from frame to frame, alone included, its codes stay."""
    source = random.Random(seed)
    waiting = [stream_of(model, i, source.randint(1, 14), greedy=i % 2 == 0) for i in range(10)]
    names = {id(stream): i for i, stream in enumerate(waiting)}
    lengths = [stream.max_frames for stream in waiting]
    got: dict[int, list[np.ndarray]] = {i: [] for i in range(10)}
    cancelled = set()
    present: list[FrameStream] = []
    while present or waiting:
        while waiting and (not present or source.random() < 0.4):
            present.append(waiting.pop())
        group = source.sample(present, source.randint(1, len(present)))
        if source.random() < 0.1:
            cancelled.add(names[id(group[0])])
            group[0].cancel()
        if source.random() < 0.3:
            group = group[:1]
            frames = [next(group[0], None)]
        else:
            frames = next_frames(group)
        for stream, frame in zip(group, frames, strict=True):
            if frame is None:
                assert stream.stop_reason is not None
                present.remove(stream)
            else:
                got[names[id(stream)]].append(frame)
    for i, length in enumerate(lengths):
        want = alone(model, i, length, greedy=i % 2 == 0)
        if i not in cancelled:
            assert len(got[i]) == len(want)
        np.testing.assert_array_equal(np.array(got[i]).reshape(-1, 16), want[: len(got[i])])


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_sixteen_bits_run_together(models: Models, tmp_path: Path, precision: Precision) -> None:
    """Products of more rows round differently there: the first frames agree, all are frames."""
    model = Model.load(convert(models.checkpoint("tiny", "voice_design"), tmp_path / "m", precision))
    want = np.array([alone(model, i, 4, greedy=True) for i in range(4)])
    streams = [stream_of(model, i, 4, greedy=True) for i in range(4)]
    got = np.array([next_frames(streams) for _ in range(4)]).transpose(1, 0, 2)
    assert got.shape == want.shape
    assert (got == want).mean() > 0.5


def test_int8_is_the_same_to_the_last_bit(models: Models, tmp_path: Path) -> None:
    """A difference in the last bit would tip roundings, and codes would depend on the company."""
    model = Model.load(convert(models.checkpoint("tiny17", "base"), tmp_path / "m", "int8"))
    rng = np.random.default_rng(2)
    width = model.tables.hidden_size
    for count in (2, 5, 8):
        prompts = [rng.normal(0, 0.3, (3 + 5 * i, width)).astype(np.float32) for i in range(count)]
        rows = rng.normal(0, 0.3, (count, width)).astype(np.float32)
        apart = [model.talker.prefill(prompt)[0] for prompt in prompts]
        joint = [model.talker.prefill(prompt)[0] for prompt in prompts]
        outputs = model.talker.step_together(joint, rows)
        for output, state, row in zip(outputs, apart, rows, strict=True):
            want = model.talker.step(state, row)
            np.testing.assert_array_equal(output.hidden, want.hidden)
            np.testing.assert_array_equal(output.logits, want.logits)
        heard: dict[str, list[np.ndarray]] = {"apart": [], "joint": []}

        def choose(who: str, heard: dict[str, list[np.ndarray]] = heard) -> Choose:
            return lambda _, logits: (heard[who].append(logits.copy()), int(np.argmax(logits)))[1]

        hidden = np.stack([output.hidden for output in outputs])
        codes = model.predictor.frames(hidden, [1] * count, [choose("joint")] * count)
        want_codes = [model.predictor.frame(row, 1, choose("apart")) for row in hidden]
        np.testing.assert_array_equal(codes, want_codes)
        # Together they come codebook by codebook, apart stream by stream.
        np.testing.assert_array_equal(
            np.array(heard["joint"]).reshape(15, count, -1).transpose(1, 0, 2),
            np.array(heard["apart"]).reshape(count, 15, -1),
        )


def test_a_failure_ends_one_stream(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = [stream_of(model, i) for i in range(3)]
    next_frames(streams)
    monkeypatch.setattr(streams[1], "_choose", lambda *_: 1 / 0)
    frames = next_frames(streams)
    assert frames[1] is None
    assert streams[1].stop_reason == "error"
    assert isinstance(streams[1].error, ZeroDivisionError)
    for i in (0, 2):
        np.testing.assert_array_equal(frames[i], alone(model, i)[1])
        assert streams[i].error is None


def test_a_row_that_is_not_finite_ends_its_stream(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = [stream_of(model, i) for i in range(3)]
    next_frames(streams)
    width = model.tables.hidden_size
    monkeypatch.setattr(streams[2], "_input", lambda: np.full(width, np.nan, np.float32))
    frames = next_frames(streams)
    assert frames[2] is None
    assert isinstance(streams[2].error, ModelError)
    assert "not finite" in str(streams[2].error)
    for i in (0, 1):
        np.testing.assert_array_equal(frames[i], alone(model, i)[1])


def test_open_text_may_join(model: Model) -> None:
    ids = model.incremental_text().feed("hello there ")
    prompt = model.prompts.open(ids[:1], DESIGN)
    waits = model.stream(prompt, Settings(seed=1, max_frames=3))
    other = stream_of(model, 0)
    assert all(frame is not None for frame in next_frames([waits, other]))
    with pytest.raises(RequestError, match="needs text that has not arrived"):
        next_frames([waits, other])
    np.testing.assert_array_equal(next_frames([other])[0], alone(model, 0)[1])
    prompt.feed.close()
    assert all(frame is not None for frame in next_frames([waits, other]))


def test_one_stream_twice_and_two_models(model: Model, models: Models) -> None:
    stream = stream_of(model, 0)
    with pytest.raises(RequestError, match="another thread"):
        next_frames([stream, stream])
    foreign = models.get("tiny", "custom_voice").frames(SpeechRequest("hi", Manner(speaker="eric")))
    with pytest.raises(RequestError, match="different models"):
        next_frames([stream, foreign])
    np.testing.assert_array_equal(next_frames([stream])[0], alone(model, 0)[0])
    assert next_frames([]) == []


def test_groups_in_threads(model: Model) -> None:
    """Two groups at a time over one model."""
    results: dict[int, list[list[np.ndarray | None]]] = {}

    def speak(group: int) -> None:
        streams = [stream_of(model, 4 * group + i, 6) for i in range(4)]
        results[group] = [next_frames(streams) for _ in range(6)]

    threads = [threading.Thread(target=speak, args=(group,)) for group in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for group in range(2):
        for i in range(4):
            got = np.array([row[i] for row in results[group]])
            np.testing.assert_array_equal(got, alone(model, 4 * group + i, 6))


def test_requests_take_the_rows_that_become_free(model: Model) -> None:
    lengths = [3, 9, 1, 5, 2, 7, 4]
    taken = []

    def requests() -> Iterator[SpeechRequest]:
        for i, length in enumerate(lengths):
            taken.append(i)
            settings = Settings(seed=100 + i, max_frames=length)
            yield SpeechRequest(TEXTS[i % len(TEXTS)], DESIGN, settings)

    got: dict[int, list[np.ndarray]] = {}
    ended: list[int] = []
    for event in model.batch(requests(), size=3):
        assert event.row not in ended
        assert max(taken) - len(ended) < 3 + 1
        if event.codes is None:
            assert event.stop_reason in ("eos", "length_cap")
            ended.append(event.row)
        else:
            got.setdefault(event.row, []).append(event.codes)
    assert sorted(ended) == list(range(len(lengths)))
    for i, length in enumerate(lengths):
        np.testing.assert_array_equal(np.array(got[i]), alone(model, i, length))


def test_a_request_that_cannot_be_spoken_does_not_stop_the_rest(model: Model) -> None:
    settings = Settings(seed=100, max_frames=2)
    requests = [SpeechRequest(text, DESIGN, settings) for text in ("", TEXTS[0], " ", TEXTS[0])]
    events = list(model.batch(requests, size=2))
    errors = {event.row: str(event.error) for event in events if event.error is not None}
    assert sorted(errors) == [0, 2]
    assert "no text to speak" in errors[0]
    for row in (1, 3):
        codes = np.array([event.codes for event in events if event.row == row and event.codes is not None])
        np.testing.assert_array_equal(codes, alone(model, 0, 2))


@pytest.mark.parametrize("size", [0, 65, 1.5])
def test_batch_size_out_of_range(model: Model, size: int) -> None:
    with pytest.raises(RequestError, match="batch size is"):
        model.batch([], size)


@pytest.mark.parametrize(
    ("rows", "computed"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (8, 8), (9, 16), (17, 24)]
)
def test_a_pass_computes_as_many_rows_as_the_products_take_at_a_time(rows: int, computed: int) -> None:
    assert rows_computed(rows) == computed
