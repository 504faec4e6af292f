"""Early starts, long sentences, waiting, and what holds for any text."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtts.errors import RequestError, TextError
from rtts.text import Segment, Segmenter, SegmenterConfig

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
WORDS = [
    *(
        "The",
        "the",
        "a",
        "x",
        "Dr.",
        "3.5",
        "U.S.",
        "10 000",
        "1990.",
        "J.",
        "e.g.",
        "und",
        "usw.",
        "Müller.",
        "Wait!",
    ),
    *(
        "«",
        "»",
        '"',
        "“",
        "”",
        "(",
        ")",
        "「",
        "」",
        "你好",
        "。",
        "！",
        "안녕",
        "…",
        "...",
        ",",
        ";",
        ":",
        "—",
        ".",
        "?",
    ),
    *("\n", "\n\n", "é", "e\u0301", "👨\u200d👩\u200d👧", "🇩🇪🇫🇷", "http://a.b/c?d"),
]
SPEECH = st.builds(str.join, st.sampled_from(["", " ", "  "]), st.lists(st.sampled_from(WORDS), max_size=60))


def texts(segments: list[Segment]) -> list[str]:
    return [segment.text for segment in segments]


def cut(text: str, config: SegmenterConfig | None = None) -> list[Segment]:
    segmenter = Segmenter(config)
    return segmenter.feed(text, 0.0) + segmenter.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Well, I do think so, because it is late. Yes, I do, really.",
         ["Well, I do think so, ", "because it is late. ", "Yes, I do, really."]),
        ("Sure, no. Then we all go home, my friend.", ["Sure, no. ", "Then we all go home, my friend."]),
        ("There are 1,000 of them here; that is enough.", ["There are 1,000 of them here; ", "that is enough."]),
        ("The answer is clear — we go now.", ["The answer is clear — ", "we go now."]),
        ("The answer is clear—we go now.", ["The answer is clear—", "we go now."]),
        ("Here are the steps:\nFirst do it.", ["Here are the steps:\n", "First do it."]),
        ("我觉得今天的天气很好，我们走吧，好吗？", ["我觉得今天的天气很好，", "我们走吧，好吗？"]),
        ("今日はとても天気が良いので、散歩に行きます。", ["今日はとても天気が良いので、", "散歩に行きます。"]),
        ("The well-known e-mail, sent today.", ["The well-known e-mail, sent today."]),
    ],
)  # fmt: skip
def test_the_first_segment_may_end_at_a_clause(text: str, expected: list[str]) -> None:
    assert texts(cut(text)) == expected
    assert len(cut(text, SegmenterConfig(first_min_words=None))) <= len(expected)


def test_the_first_segment_without_clauses_is_cut_early_too() -> None:
    segments = cut("word " * 30 + "and " + "word " * 30)
    assert segments[0].boundary == "word"
    assert 50 <= len(segments[0].text) <= 100
    assert 100 < len(segments[1].text) <= 205


@pytest.mark.parametrize(
    ("text", "cut_behind"),
    [
        ("one two, three four five six; seven eight, nine ten eleven twelve thirteen", "six; "),
        ("one two three four five, six seven, eight nine ten eleven twelve thirteen", "seven, "),
        ("one two three four five six and seven eight nine ten eleven twelve", "six "),
        ("eins zwei drei vier fünf weil sechs sieben acht neun zehn elf zwölf", "fünf "),
        ("one two three four five six seven eight nine ten eleven twelve", "ten "),
        ("it costs about 10 000 000 000 000 000 000 000 000 000 dollars today", "about "),
        (
            "一二三四五六七八九十一二三四五六七八九十一二三四五六七八九十",
            "一二三四五六七八九十一二三四五六七八九十一二三四五",
        ),
    ],
)
def test_a_long_sentence_is_cut_at_the_best_place(text: str, cut_behind: str) -> None:
    config = SegmenterConfig(first_min_words=None, first_max_chars=50, max_chars=50)
    segments = cut(text, config)
    assert segments[0].text.endswith(cut_behind)
    assert segments[0].boundary == ("clause" if cut_behind.strip()[-1] in ",;" else "word")


@pytest.mark.parametrize("cluster", ["🇩🇪", "e\u0301\u0302", "👩\u200d🚀", "👍🏽", "각"])
def test_text_without_any_break_is_cut_between_clusters(cluster: str) -> None:
    for lead in ("", "x"):
        segments = cut(lead + cluster * 60, SegmenterConfig(max_chars=20, first_max_chars=20))
        assert len(segments) > 2
        assert all(len(segment.text) % len(cluster) == 0 for segment in segments[1:])


def test_a_short_sentence_joins_the_next_one_on_request() -> None:
    text = "Hi. Yes. That is all. Bye now, my friend."
    config = SegmenterConfig(first_min_words=None, min_chars=10)
    assert texts(cut(text, config)) == ["Hi. Yes. That is all. ", "Bye now, my friend."]


class TestTime:
    def test_a_cjk_stop_waits_for_no_time(self) -> None:
        segmenter = Segmenter()
        assert segmenter.feed("你好。", 5.0) == []
        assert segmenter.deadline == 5.0
        assert segmenter.poll(5.0) == [Segment("你好。", 0, 3, "sentence")]
        assert segmenter.deadline is None

    @pytest.mark.parametrize("text", ["「你好。", "他说：“走。", '我说："走。', "（好。"])
    def test_but_for_its_closing_mark(self, text: str) -> None:
        segmenter = Segmenter(SegmenterConfig(first_min_words=None))
        segmenter.feed(text, 5.0)
        assert segmenter.poll(5.0) == []
        assert segmenter.deadline == 5.3

    @pytest.mark.parametrize("text", ["Hello.", "Hello!", "Hello?” ", "It was 1990. ", "Ja. \n"])
    def test_a_stop_waits_for_what_follows(self, text: str) -> None:
        segmenter = Segmenter()
        segmenter.feed(text, 1.0)
        assert segmenter.deadline == 1.3
        assert segmenter.poll(1.29) == []
        assert texts(segmenter.poll(1.3)) == [text]

    @pytest.mark.parametrize(
        "text", ["Mr. ", "It is 3.", "See e.g. ", "Plan B. ", "1. ", "in the U.S. ", "Well..."]
    )
    def test_a_doubtful_stop_waits_for_text(self, text: str) -> None:
        segmenter = Segmenter(SegmenterConfig(stall_s=None))
        segmenter.feed(text, 0.0)
        assert segmenter.deadline is None
        assert segmenter.poll(1e9) == []

    def test_a_stalled_source_releases_whole_words(self) -> None:
        segmenter = Segmenter()
        segmenter.feed("I think that it costs 10", 0.0)
        assert segmenter.deadline == 1.5
        assert segmenter.poll(1.5) == [Segment("I think that it costs ", 0, 22, "word")]
        assert segmenter.deadline is None
        segmenter.feed(" ", 2.0)
        assert segmenter.poll(9.0) == []
        assert texts(segmenter.feed("000 euros. Good.", 10.0)) == ["10 000 euros. "]

    def test_every_deadline_releases_something(self) -> None:
        text = "Mr. Smith, e.g. he, has 3.5 cats! 你好。「好。」 And so on... “Yes.” In the U.S. Then"
        for i in range(1, len(text)):
            segmenter = Segmenter()
            segmenter.feed(text[:i], 0.0)
            if segmenter.deadline is not None:
                assert segmenter.poll(segmenter.deadline)

    def test_text_restarts_the_wait(self) -> None:
        segmenter = Segmenter()
        segmenter.feed("Hel", 0.0)
        segmenter.feed("lo.", 1.0)
        segmenter.feed("", 2.0)
        assert segmenter.deadline == 1.3

    def test_what_comes_after_a_release_starts_the_next_segment(self) -> None:
        segmenter = Segmenter()
        segmenter.feed("Hello.", 0.0)
        segmenter.poll(0.5)
        assert segmenter.feed(" Bye.", 1.0) == []
        assert segmenter.close() == [Segment(" Bye.", 6, 11, "end")]


@given(st.one_of(TEXT, SPEECH), st.data())
@settings(max_examples=150, deadline=None)
def test_segments_are_the_text_and_do_not_depend_on_how_it_arrives(text: str, data: st.DataObject) -> None:
    config = SegmenterConfig(max_chars=data.draw(st.sampled_from([20, 40, 200])), first_max_chars=20)
    whole = cut(text, config)
    assert "".join(texts(whole)) == text
    assert [segment.end - segment.start for segment in whole] == [len(segment.text) for segment in whole]
    assert all(segment.text for segment in whole)
    parts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    segmenter = Segmenter(config)
    segments = []
    for start, end in zip([0, *parts], [*parts, len(text)], strict=True):
        segments += segmenter.feed(text[start:end], 0.0)
        assert segmenter.held_chars <= 2 * config.max_chars
    assert segments + segmenter.close() == whole


@given(SPEECH)
@settings(max_examples=100, deadline=None)
def test_no_cut_is_within_a_cluster_a_number_or_whitespace(text: str) -> None:
    for segment in cut(text, SegmenterConfig(max_chars=20, first_max_chars=20))[1:]:
        before, after = text[segment.start - 1], text[segment.start]
        assert not unicodedata.category(after).startswith("M")
        assert "\u200d" not in (before, after)
        assert not (before.isdigit() and after.isdigit())
        assert not re.search(r"\d[ .,]$", text[: segment.start]) or not re.match(
            r"\d{3}", text[segment.start :]
        )
        assert not after.isspace()


@given(st.lists(st.one_of(TEXT, SPEECH, st.floats(0, 5), st.none()), max_size=12))
@settings(max_examples=100, deadline=None)
def test_nothing_is_lost_at_any_time(steps: list[str | float | None]) -> None:
    segmenter, now, segments = Segmenter(), 0.0, list[Segment]()
    for step in steps:
        if step is None:
            segments += segmenter.flush()
        elif isinstance(step, float):
            now += step
            segments += segmenter.poll(now)
        else:
            segments += segmenter.feed(step, now)
    segments += segmenter.close()
    assert "".join(texts(segments)) == "".join(step for step in steps if isinstance(step, str))


@pytest.mark.parametrize(
    "unit", ["Some words, and more of them. ", "a", " ", "9", "。", "e\u0301", "Mr. ", "\n", "「", '"a']
)
def test_time_is_linear_in_the_text(unit: str) -> None:
    def seconds(n: int) -> float:
        text = (unit * n)[:n]
        start = time.process_time()
        cut(text)
        return time.process_time() - start

    seconds(1000)
    small, large = min(seconds(10_000) for _ in range(2)), seconds(100_000)
    assert large < 30 * small + 0.5


def test_a_lone_surrogate_is_refused_and_changes_nothing() -> None:
    segmenter = Segmenter()
    segmenter.feed("Hello", 0.0)
    with pytest.raises(TextError, match="lone surrogate"):
        segmenter.feed(" \ud800", 0.0)
    assert texts(segmenter.close()) == ["Hello"]


def test_a_closed_segmenter_is_closed() -> None:
    segmenter = Segmenter()
    assert segmenter.close() == []
    calls: list[Callable[[], object]] = [
        lambda: segmenter.feed("x", 0.0),
        lambda: segmenter.poll(0.0),
        segmenter.flush,
        segmenter.close,
    ]
    for call in calls:
        with pytest.raises(RequestError, match="closed"):
            call()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("language", "germn", "did you mean 'german'"),
        ("language", "tlh", "use auto"),
        ("max_chars", 5, "from 20 up"),
        ("first_min_words", 0, "from 1 up"),
        ("wait_s", -1.0, "from 0 up"),
        ("stall_s", float("nan"), "from 0 up"),
        ("max_chars", 50.5, "must be a number"),
    ],
)
def test_a_wrong_option_is_named(option: str, value: object, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        SegmenterConfig(**{option: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("language", ["auto", "German", "de", "de-AT", "pt_BR", "chinese"])
def test_languages_by_name_and_code(language: str) -> None:
    assert SegmenterConfig(language=language).language == language
