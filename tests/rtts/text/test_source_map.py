"""From what was heard back to what was written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from rtts.text import Cleaner, Segmenter, SegmenterConfig, SourceMap
from tests.rtts.text.test_clean import SOURCE

SOURCE_TEXT = "**Hi** [you](http://a.b). See https://x.org/y now! 🎉 Bye."


def mapped(source: str) -> tuple[str, SourceMap]:
    cleaner, mapping = Cleaner(), SourceMap()
    pieces = [piece for character in source for piece in cleaner.feed(character)] + cleaner.close()
    mapping.add(pieces)
    return "".join(piece.text for piece in pieces), mapping


@pytest.mark.parametrize(
    ("heard", "source"),
    [
        ("", ""),
        ("H", "**H"),
        ("Hi", "**Hi"),
        ("Hi ", "**Hi** ["),
        ("Hi yo", "**Hi** [yo"),
        ("Hi you.", "**Hi** [you](http://a.b)."),
        ("Hi you. See x.o", "**Hi** [you](http://a.b). See https://x.o"),
        ("Hi you. See x.org", "**Hi** [you](http://a.b). See https://x.org"),
        ("Hi you. See x.org now!", "**Hi** [you](http://a.b). See https://x.org/y now!"),
        ("Hi you. See x.org now! Bye.", SOURCE_TEXT),
    ],
)
def test_what_was_heard(heard: str, source: str) -> None:
    spoken, mapping = mapped(SOURCE_TEXT)
    assert spoken.startswith(heard)
    assert SOURCE_TEXT[: mapping.source_end(len(heard))] == source


def test_a_replaced_stretch_counts_when_it_is_spoken_whole() -> None:
    spoken, mapping = mapped("a\n\nb &amp; c")
    assert spoken == "a.\nb & c"
    assert [mapping.source_end(i) for i in range(len(spoken) + 1)] == [0, 1, 2, 3, 4, 5, 10, 11, 12]


def test_an_empty_map() -> None:
    assert SourceMap().source_span(0, 0) == (0, 0)
    assert SourceMap().length == 0


@given(SOURCE)
@settings(max_examples=150, deadline=None)
def test_the_segments_of_a_text_tile_its_source(source: str) -> None:
    spoken, mapping = mapped(source)
    segmenter = Segmenter(SegmenterConfig(max_chars=20, first_max_chars=20))
    segments = segmenter.feed(spoken, 0.0) + segmenter.close()
    assert "".join(segment.text for segment in segments) == spoken
    assert mapping.length == len(spoken)
    ends = [mapping.source_end(i) for i in range(len(spoken) + 1)]
    assert ends == sorted(ends)
    spans = [mapping.source_span(segment.start, segment.end) for segment in segments]
    assert [start for start, _ in spans] == [0, *(end for _, end in spans)][: len(spans)]
    if segments:
        assert spans[-1][1] == len(source)
