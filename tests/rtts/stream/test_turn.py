"""From a position in the sound back to the text: spans that tile, and what was heard."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtts import StreamConfig
from rtts.stream.dispatch import speakable
from rtts.stream.job import Job
from rtts.stream.turn import Sentence, Turn, whole_words
from rtts_engine.request import Settings

from .helpers import FRAME, MANNER

WORDS = ["Hello ", "there. ", "**Yes**, ", "it is! ", "你好，", "世界。", "\n\n", "- item\n", "... ", "3.5 "]
WORDS += ["`code` ", "🙂 "]


def make(config: StreamConfig, base: int = 0, sample: int = 0) -> Turn:
    return Turn(config, "auto", 0, base=base, sample=sample, now_s=0.0)


def begin(turn: Turn, config: StreamConfig, expected: int) -> Sentence | None:
    """What a session does with the next segment."""
    segment = turn.waiting.popleft()
    sentence = Sentence(segment.text, segment.start, Job(segment.text, MANNER, Settings(), config))
    sentence.job.expected_frames = expected
    turn.sentences.append(sentence)
    if speakable(segment.text):
        return sentence
    turn.complete(sentence)
    return None


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("one two", 0, ""),
        ("one two", 3, ""),
        ("one two", 4, "one "),
        ("one two", 6, "one "),
        ("one two", 7, "one two"),
        ("one\ntwo", 5, "one\n"),
        ("one  two", 4, ""),
        ("one  two", 5, "one  "),
        ("你好世界", 2, "你好"),
        ("你好，世界", 2, "你"),
        ("你好，世界", 3, "你好，"),
        ("が" + "か\u3099が", 2, "が"),
        ("", 0, ""),
    ],
)
def test_whole_words(text: str, position: int, words: str) -> None:
    assert text[: whole_words(text, position)] == words


@given(st.text(max_size=60), st.integers(0, 70))
def test_whole_words_never_go_past(text: str, position: int) -> None:
    at = whole_words(text, position)
    assert 0 <= at <= min(position, len(text))


@given(st.data())
def test_spans_tile_and_heard_text_is_a_growing_prefix_of_whole_words(data: st.DataObject) -> None:
    config = StreamConfig(
        clean_text=data.draw(st.booleans()), text_mode=data.draw(st.sampled_from(["sentence", "token"]))
    )
    base, first = data.draw(st.integers(0, 50)), data.draw(st.integers(0, 5000))
    turn = make(config, base, first)
    text = "".join(data.draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12)))
    at = 0
    while at < len(text):
        step = data.draw(st.integers(1, 8))
        turn.feed(text[at : at + step], 0.0)
        at += step
    turn.close(0.0)
    spans, ends, at = [], [(first, 0)], base
    while turn.waiting:
        sentence = begin(turn, config, data.draw(st.integers(0, 9)))
        if sentence is None:
            continue
        sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
        for i, frames in enumerate(sizes):
            gap = data.draw(st.sampled_from([0, 2880])) if i == 0 and spans else 0
            last = i == len(sizes) - 1 and data.draw(st.booleans())
            spans.append(turn.handed_out(sentence, gap, frames * FRAME, last=last))
            assert spans[-1][0] == at <= spans[-1][1]
            at = spans[-1][1]
        turn.complete(sentence)
        ends.append((turn.end_sample, turn.sentences[-1].end))
    at = turn.close_span() if spans else at
    spoken = "".join(sentence.text for sentence in turn.sentences)
    if spans:
        assert at == base + len(text)
    before = ""
    for sample in range(first, turn.end_sample + 3000, 700):
        heard = turn.heard(sample)
        assert text.startswith(heard.text)
        assert heard.text.startswith(before)
        before = heard.text
        assert heard.seconds == pytest.approx((min(sample, turn.end_sample) - first) / 24000)
    for sample, end in ends[1:]:
        assert turn.heard(sample).text == text[: turn.source_span(0, end)[1] - base] or end < len(spoken)
        assert len(turn.heard(sample).text) >= turn.source_span(0, end)[1] - base
    assert turn.heard(first - 100).text == ""
    if spans:
        assert turn.heard(turn.end_sample).text == text


def test_heard_ends_between_words() -> None:
    config = StreamConfig(clean_text=False)
    turn = make(config)
    text = "One two three four five."
    turn.feed(text, 0.0)
    turn.close(0.0)
    sentence = begin(turn, config, 10)
    assert sentence is not None
    turn.handed_out(sentence, 0, 10 * FRAME, last=True)
    turn.complete(sentence)
    heard = [turn.heard(sample).text for sample in range(0, 10 * FRAME + 1, 100)]
    assert list(dict.fromkeys(heard)) == [
        "",
        "One ",
        "One two ",
        "One two three ",
        "One two three four ",
        text,
    ]


def test_a_stalled_turn_releases_what_it_holds() -> None:
    turn = make(StreamConfig())
    turn.feed("Hello **the", 0.0)
    turn.stall(9.0)
    assert "".join(segment.text for segment in turn.waiting) == "Hello the"
    assert turn.stalled
    turn.feed("re**.", 10.0)
    assert not turn.stalled
    turn.close(10.0)
    assert "".join(segment.text for segment in turn.waiting).startswith("Hello there")
