"""Speaking in Python: sound, reproducibility, chunks, figures."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rtts
from rtts import speech as speech_module
from rtts.audio import SAMPLE_RATE_HZ
from rtts.errors import RequestError, StoreError, TextError
from rtts.notices import warn_once
from rtts.speech import Speech, count_underruns, manner
from rtts.stream.dispatch import sentence_seed
from rtts_engine.model import Model, Threads
from rtts_engine.prompt import CloneVoice
from rtts_engine.request import Settings, SpeechRequest

SAMPLES_PER_FRAME = 1920


def request(text: str = "Hello there.", **settings: int) -> SpeechRequest:
    return SpeechRequest(text, settings=Settings(**{"seed": 1, "max_frames": 20} | settings))  # type: ignore[arg-type]


def test_say_makes_sound() -> None:
    audio = rtts.say("Hello there.", seed=1)
    assert audio.sample_rate_hz == SAMPLE_RATE_HZ
    assert audio.samples.dtype == np.float32
    assert 0.4 < audio.duration_s < 10
    assert 0.005 < float(np.sqrt(np.mean(audio.samples**2))) < 0.5


def test_a_loaded_model_speaks_the_same(shipped: Model) -> None:
    first = rtts.say("Hello there.", model=shipped, seed=3, max_frames=5)
    again = rtts.say("Hello there.", model=shipped, seed=3, max_frames=5)
    other = rtts.say("Hello there.", model=shipped, seed=4, max_frames=5)
    np.testing.assert_array_equal(first.samples, again.samples)
    assert not np.array_equal(first.samples, other.samples)


def test_chunk_sizes_do_not_change_the_sound(shipped: Model) -> None:
    whole = Speech(shipped, request(), first_chunk_frames=1000)
    (samples,) = whole
    for first, later in [(1, 1), (1, 12), (3, 4), (7, 2)]:
        speech = Speech(shipped, request(), first_chunk_frames=first, chunk_frames=later)
        chunks = list(speech)
        sizes = [len(chunk) // SAMPLES_PER_FRAME for chunk in chunks]
        assert sizes[0] == first
        assert set(sizes[1:-1]) <= {later}
        np.testing.assert_array_equal(speech.codes, whole.codes)
        np.testing.assert_allclose(np.concatenate(chunks), samples, atol=1e-4)


def test_figures_of_an_utterance(shipped: Model) -> None:
    speech = Speech(shipped, request(max_frames=6))
    chunks = list(speech)
    metrics = speech.metrics()
    assert (metrics.frames, metrics.stop_reason) == (6, "length_cap")
    assert speech.codes.shape == (6, 16)
    assert speech.codes.dtype == np.int32
    assert metrics.audio_s == pytest.approx(sum(map(len, chunks)) / SAMPLE_RATE_HZ) == pytest.approx(0.48)
    assert metrics.ttfa_ms is not None
    assert 0 < metrics.ttfa_ms < metrics.wall_s * 1e3
    assert metrics.rtf is not None
    assert metrics.rtf > 0
    assert metrics.ms_per_frame == pytest.approx(metrics.rtf * 80)
    loud = int(np.flatnonzero(np.abs(np.concatenate(chunks)) >= 0.01)[0])
    assert metrics.audible_ms == pytest.approx(metrics.ttfa_ms + loud / 24)


@pytest.mark.parametrize("frames", [6, 7], ids=["last chunk is short", "last chunk is whole"])
def test_a_slow_consumer_is_not_our_time(
    shipped: Model, frames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0  # a clock that only the consumer moves
    monkeypatch.setattr(speech_module, "time", SimpleNamespace(perf_counter=lambda: now_s))
    speech = Speech(shipped, request(max_frames=frames), first_chunk_frames=1, chunk_frames=3)
    seen = 0
    for _ in speech:
        seen += 1
        now_s += 0.4
    assert seen == 3
    metrics = speech.metrics()
    assert metrics.rtf == pytest.approx(0.0, abs=1e-9)  # none of the three pauses
    assert metrics.wall_s == pytest.approx(0.8)  # the first two, which came before the last chunk
    assert metrics.stop_reason == "length_cap"


def test_leaving_at_the_last_chunk_of_an_ended_utterance(shipped: Model) -> None:
    speech = Speech(shipped, request(max_frames=2), first_chunk_frames=5)
    chunks = iter(speech)
    next(chunks)
    chunks.close()  # type: ignore[attr-defined]
    assert speech.metrics().stop_reason == "length_cap"


def test_leaving_early_counts_as_cancelled(shipped: Model) -> None:
    speech = Speech(shipped, request())
    chunks = iter(speech)
    next(chunks)
    chunks.close()  # type: ignore[attr-defined]
    assert speech.metrics().stop_reason == "cancelled"
    assert speech.metrics().frames == 1


def test_a_chunk_needs_a_frame(shipped: Model) -> None:
    for sizes in [(0, 1), (1, 0), (-1, 5)]:
        with pytest.raises(rtts.RequestError, match="at least 1"):
            Speech(shipped, request(), first_chunk_frames=sizes[0], chunk_frames=sizes[1])


def test_a_text_that_one_utterance_cannot_hold(shipped: Model) -> None:
    with pytest.raises(rtts.TextError, match=r"the text has \d+ tokens, at most \d+ fit into one utterance"):
        rtts.say("word " * 20_000, model=shipped, max_frames=3)  # one utterance was asked for


def test_long_text_is_spoken_by_sentences(shipped: Model) -> None:
    sentences = [
        "The ferry leaves at noon. ",
        "It takes about an hour. ",
        "Bring a warm coat and some bread. ",
    ]
    text = "".join(sentences * 4)
    long = rtts.say(text, model=shipped, seed=4).samples
    parts = []
    for index, sentence in enumerate(sentences * 4):
        own = Settings(seed=sentence_seed(4, index))
        parts += [*Speech(shipped, SpeechRequest(sentence, settings=own)), np.zeros(2880, np.float32)]
    np.testing.assert_array_equal(long, np.concatenate(parts[:-1]))


def test_underruns_are_counted_as_a_listener_hears_them() -> None:
    second = SAMPLE_RATE_HZ
    assert count_underruns([]) == 0
    assert count_underruns([(5.0, second)]) == 0
    assert count_underruns([(5.0, second), (5.9, second), (6.9, second)]) == 0
    assert (
        count_underruns([(5.0, second), (6.1, second), (7.0, second)]) == 1
    )  # late, then played a second longer
    assert count_underruns([(5.0, second), (6.1, second), (7.2, second)]) == 2


def test_voices_by_name_and_by_file(tmp_path: Path) -> None:
    assert manner("tiny").speaker == "tiny"
    assert manner(None, "english", "slowly").language == "english"
    with pytest.raises(rtts.VoiceError, match="no such voice file"):
        manner(str(tmp_path / "gone.safetensors"))
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(rtts.VoiceError, match=r"bad\.safetensors"):
        manner(tmp_path / "bad.safetensors")


def test_unknown_speakers_and_languages(shipped: Model) -> None:
    with pytest.raises(rtts.VoiceError, match="nobody"):
        rtts.say("Hello.", model=shipped, voice="nobody")
    with pytest.raises(rtts.RequestError, match="klingon"):
        rtts.say("Hello.", model=shipped, language="klingon")


def test_the_shipped_voice_reads_words(shipped: Model) -> None:
    assert shipped.manifest.config.text_normalization == "english"
    written, words = "Dr. Lee has 25 & 3.", "Doctor Lee has twenty-five and three."
    options = {"model": shipped, "seed": 1, "max_frames": 12, "sampling": None}
    plain = rtts.say(words, **options, verbalise=False)  # type: ignore[arg-type]
    np.testing.assert_array_equal(rtts.say(written, **options).samples, plain.samples)  # type: ignore[arg-type]
    raw = rtts.say(written, **options, verbalise=False)  # type: ignore[arg-type]
    assert not np.array_equal(raw.samples, plain.samples)


def test_a_code_is_the_language(shipped: Model) -> None:
    name, code = (
        rtts.say("Hello.", model=shipped, seed=1, max_frames=5, language=language)
        for language in ("english", "en")
    )
    np.testing.assert_array_equal(name.samples, code.samples)


def test_a_text_in_another_script_is_reported_once(shipped: Model, caplog: pytest.LogCaptureFixture) -> None:
    warn_once.cache_clear()
    for _ in range(2):
        rtts.say("Привет, как дела?", model=shipped, max_frames=1)
    assert [record.message for record in caplog.records] == [
        "most of the text is Cyrillic script; this model speaks english, so expect nonsense"
    ]


def test_an_instruction_that_the_model_does_not_know_is_reported_once(
    shipped: Model, caplog: pytest.LogCaptureFixture
) -> None:
    warn_once.cache_clear()
    for instruct in ("Whisper.", "Shout.", None, " "):
        rtts.say("Hello.", model=shipped, instruct=instruct, max_frames=1)
    assert caplog.messages == [
        "instruct: this model was not trained with instructions and is likely to ignore it"
    ]


def test_an_utterance_is_spoken_once(shipped: Model) -> None:
    speech = Speech(shipped, request(max_frames=2))
    list(speech)
    with pytest.raises(RequestError, match="spoken already"):
        list(speech)
    assert speech.frames == 2


def test_figures_before_the_end_are_of_what_there_is(shipped: Model) -> None:
    speech = Speech(shipped, request(max_frames=6), chunk_frames=1)
    assert speech.metrics().wall_s == 0
    chunks = iter(speech)
    next(chunks)
    metrics = speech.metrics()
    assert (metrics.frames, metrics.stop_reason) == (1, "cancelled")
    assert 0 < metrics.wall_s < 60


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"text": b"Hi."}, TextError, "text is bytes"),
        ({"text": None}, TextError, "text is NoneType"),
        ({"voice": 5}, RequestError, "speaker is 5"),
        ({"voice": CloneVoice(np.zeros(4, np.float32))}, RequestError, "speaker is CloneVoice"),
        ({"language": 5}, RequestError, "language is 5"),
        ({"instruct": ["slowly"]}, RequestError, "instruct is"),
        ({"text_layout": 5}, RequestError, "text_layout is 5"),
        ({"sampling": 5}, RequestError, "sampling is 5"),
        ({"seed": "1"}, RequestError, "seed is '1'"),
        ({"seed": 1.5}, RequestError, "seed is 1.5"),
        ({"verbalise": 1}, RequestError, "verbalise is 1"),
        ({"verbalise": "yes"}, RequestError, "verbalise is 'yes'"),
        ({"max_frames": float("nan")}, RequestError, "max_frames is nan"),
        ({"model": 5}, StoreError, "model is int"),
        ({"model": b"pilot"}, StoreError, "model is bytes"),
        ({"model": "x" * 5000}, StoreError, "not a model name"),
    ],
)
def test_arguments_of_a_wrong_type(
    shipped: Model, arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        rtts.say(**{"text": "Hi.", "model": shipped} | arguments)


def test_threads_of_a_wrong_type() -> None:
    with pytest.raises(RequestError, match=r"threads is \(1, 1\), expected Threads"):
        rtts.load(threads=(1, 1))  # type: ignore[arg-type]
    with pytest.raises(RequestError, match=r"1\.5 AR threads"):
        Threads(ar=1.5)  # type: ignore[arg-type]
