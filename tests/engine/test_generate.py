"""The generation loop: reasons to stop, seeds, streams side by side, open text. Parity: tests/goldens."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from rtts_engine.errors import RequestError, TextError
from rtts_engine.model import Model
from rtts_engine.prompt import Manner
from rtts_engine.request import Settings, SpeechRequest
from rtts_engine.sampling import Sampling

from .conftest import Models

TEXT = "hello world, this is a small test of streaming speech."
DESIGN = Manner(instruct="a warm and gentle voice")


@pytest.fixture(scope="module")
def model(models: Models) -> Model:
    return models.get("tiny", "voice_design")


def codes_of(model: Model, text: str = TEXT, manner: Manner = DESIGN, **settings: object) -> np.ndarray:
    request = SpeechRequest(text, manner, Settings(**settings))  # type: ignore[arg-type]
    return np.array(list(model.frames(request)))


def test_cap_and_reason(model: Model) -> None:
    stream = model.frames(SpeechRequest(TEXT, DESIGN, Settings(sampling=Sampling().greedy(), max_frames=5)))
    assert stream.stop_reason is None
    assert len(list(stream)) == 5
    assert stream.stop_reason == "length_cap"
    assert next(stream, None) is None


def test_default_cap_follows_the_text(model: Model) -> None:
    short = model.frames(SpeechRequest("hi", DESIGN)).max_frames
    long = model.frames(SpeechRequest(TEXT * 3, DESIGN)).max_frames
    assert short < long < model.manifest.config.generation.max_new_tokens


def test_cancel_ends_before_the_next_frame(model: Model) -> None:
    stream = model.frames(SpeechRequest(TEXT, DESIGN, Settings(seed=1)))
    next(stream)
    stream.cancel()
    assert list(stream) == []
    assert stream.stop_reason == "cancelled"
    assert stream.frames == 1


def test_cancel_before_the_first_frame_computes_nothing(model: Model) -> None:
    stream = model.frames(SpeechRequest(TEXT, DESIGN))
    stream.cancel()
    assert list(stream) == []
    assert stream.frames == 0


def test_seed_decides_everything(model: Model) -> None:
    first = codes_of(model, seed=11, max_frames=12)
    np.testing.assert_array_equal(codes_of(model, seed=11, max_frames=12), first)
    # A longer run starts with the same frames: draws are keyed by frame, not by what was drawn before.
    np.testing.assert_array_equal(codes_of(model, seed=11, max_frames=20)[: len(first)], first)
    assert not np.array_equal(codes_of(model, seed=12, max_frames=12), first)


def test_a_drawn_seed_is_told_and_repeats(model: Model) -> None:
    stream = model.frames(SpeechRequest(TEXT, DESIGN, Settings(max_frames=6)))
    codes = np.array(list(stream))
    np.testing.assert_array_equal(codes_of(model, seed=stream.seed, max_frames=6), codes)


def test_streams_do_not_disturb_each_other(model: Model) -> None:
    texts = [TEXT, "one two three four five", "good morning"]
    alone = [codes_of(model, text, seed=5, max_frames=10) for text in texts]
    streams = [model.frames(SpeechRequest(t, DESIGN, Settings(seed=5, max_frames=10))) for t in texts]
    together: list[list[np.ndarray]] = [[] for _ in texts]
    for _ in range(10):
        for stream, out in zip(streams, together, strict=True):
            if (frame := next(stream, None)) is not None:
                out.append(frame)
    for want, got in zip(alone, together, strict=True):
        np.testing.assert_array_equal(np.array(got), want)


def test_streams_in_threads_share_one_model(model: Model) -> None:
    want = [codes_of(model, seed=seed, max_frames=8) for seed in range(4)]
    got: dict[int, np.ndarray] = {}

    def speak(seed: int) -> None:
        got[seed] = codes_of(model, seed=seed, max_frames=8)

    threads = [threading.Thread(target=speak, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(4):
        np.testing.assert_array_equal(got[seed], want[seed])


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_text_in_pieces_gives_the_codes_of_the_whole(model: Model, size: int) -> None:
    settings = Settings("streaming", Sampling().greedy(), max_frames=25)
    whole = np.array(list(model.frames(SpeechRequest(TEXT, DESIGN, settings))))
    text = model.incremental_text()
    pieces = [TEXT[i : i + size] for i in range(0, len(TEXT), size)]
    ids: list[int] = []
    while pieces and not ids:
        ids = text.feed(pieces.pop(0))
    closed = not pieces
    if closed:
        ids += text.close()
    prompt = model.prompts.open(ids, DESIGN)
    if closed:
        prompt.feed.close()
    stream = model.stream(prompt, settings)
    frames = []
    while stream.stop_reason is None:
        if stream.needs_text:
            if pieces:
                prompt.feed.push(text.feed(pieces.pop(0)))
            else:
                prompt.feed.push(text.close())
                prompt.feed.close()
            continue
        if (frame := next(stream, None)) is not None:
            frames.append(frame)
    np.testing.assert_array_equal(np.array(frames), whole)


def test_a_frame_without_its_text_is_refused(model: Model) -> None:
    ids = model.incremental_text().feed("hello there ")
    stream = model.stream(model.prompts.open(ids[:1], DESIGN), Settings(seed=1))
    next(stream)
    assert stream.needs_text
    with pytest.raises(RequestError, match="needs text that has not arrived"):
        next(stream)


def test_waiting_stream_can_be_cancelled(model: Model) -> None:
    ids = model.incremental_text().feed("hello there ")
    stream = model.stream(model.prompts.open(ids[:1], DESIGN), Settings(seed=1))
    next(stream)
    stream.cancel()
    assert not stream.needs_text
    assert list(stream) == []
    assert stream.stop_reason == "cancelled"


def test_a_cap_does_not_wait_for_text_that_it_would_throw_away(model: Model) -> None:
    ids = model.incremental_text().feed("hello there ")
    stream = model.stream(model.prompts.open(ids[:1], DESIGN), Settings(seed=1, max_frames=1))
    next(stream)
    assert not stream.needs_text
    assert list(stream) == []
    assert stream.stop_reason == "length_cap"


def test_a_failed_frame_ends_the_stream(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """The talker has moved on by then: another frame would come from a state that no utterance has."""
    stream = model.frames(SpeechRequest(TEXT, DESIGN, Settings(seed=1)))
    next(stream)
    with monkeypatch.context() as patch:
        patch.setattr(model.predictor, "frames", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            next(stream)
    assert list(stream) == []
    assert (stream.frames, stream.stop_reason) == (1, "error")


def test_an_explicit_cap_goes_before_the_models_own_limit(model: Model) -> None:
    limit = model.manifest.config.generation.max_new_tokens
    stream = model.frames(SpeechRequest(TEXT, DESIGN, Settings(max_frames=limit + 5)))
    assert stream.max_frames == limit + 5


def test_a_long_stream_outgrows_the_reserved_cache(models: Models) -> None:
    """The cache is reserved for 256 frames; past that it grows, and the codes stay those of a fresh prefill."""
    model = models.get("tiny", "base")
    talker = model.talker
    rng = np.random.default_rng(0)
    rows = rng.normal(0, 0.3, (420, model.tables.hidden_size)).astype(np.float32)
    state, output = talker.prefill(rows[:10])
    for row in rows[10:]:
        output = talker.step(state, row)
    _, whole = talker.prefill(rows)
    np.testing.assert_allclose(output.hidden, whole.hidden, atol=2e-4)
    np.testing.assert_allclose(output.logits, whole.logits, atol=2e-4)


@pytest.mark.parametrize("text", ["", "   \n"])
def test_text_with_nothing_to_say(model: Model, text: str) -> None:
    with pytest.raises(TextError, match="no text to speak"):
        codes_of(model, text)


def test_invisible_characters_are_text(model: Model) -> None:
    assert codes_of(model, "\u200b", max_frames=2, seed=0).shape == (2, 16)


@pytest.mark.parametrize(
    ("field", "value"), [("seed", -1), ("seed", 2**64), ("max_frames", 0), ("frames_per_text_id", 0)]
)
def test_settings_out_of_range(field: str, value: int) -> None:
    with pytest.raises(RequestError, match=f"{field} is {value}"):
        Settings(**{field: value})  # type: ignore[arg-type]


def test_a_long_prompt_goes_in_block_by_block(models: Models) -> None:
    """More rows than one block: the same state as row by row, and memory that does not grow with the square."""
    talker = models.get("tiny", "base").talker
    rows = np.random.default_rng(3).normal(0, 0.3, (1300, 64)).astype(np.float32)
    _, whole = talker.prefill(rows)
    state, output = talker.prefill(rows[:1])
    for row in rows[1:]:
        output = talker.step(state, row)
    np.testing.assert_allclose(output.hidden, whole.hidden, atol=5e-4)


def test_text_that_no_utterance_can_hold(model: Model) -> None:
    limit = model.manifest.config.generation.max_new_tokens
    with pytest.raises(TextError, match=rf"at most {limit} fit into one utterance"):
        model.frames(SpeechRequest("a b " * limit, DESIGN))
    with pytest.raises(TextError, match="the instruction has"):
        model.frames(SpeechRequest("hi", Manner(instruct="a b " * limit)))


def test_two_threads_in_one_stream_are_refused(model: Model) -> None:
    """One of them computes; the others are told, and nothing crashes."""
    stream = model.frames(SpeechRequest("word " * 40, DESIGN, Settings(seed=1, max_frames=60)))
    frames, errors = [], []

    def drain() -> None:
        try:
            frames.extend(stream)
        except RequestError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=drain) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors
    assert set(errors) == {
        "another thread is computing this stream's next frame; give each thread its own stream"
    }
    np.testing.assert_array_equal(np.array(frames), codes_of(model, "word " * 40, seed=1, max_frames=60))
