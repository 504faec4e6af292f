"""Sentences in ten languages, cut the same way however the text arrives."""

from __future__ import annotations

import pytest

from rtts.text import Segment, Segmenter, SegmenterConfig
from tests.rtts.text.sentences import SENTENCES

CASES = [
    pytest.param(language, case, id=f"{language}-{i}")
    for language, cases in SENTENCES.items()
    for i, case in enumerate(cases)
]


def cut(parts: list[str], config: SegmenterConfig) -> list[Segment]:
    segmenter = Segmenter(config)
    return [segment for part in parts for segment in segmenter.feed(part, 0.0)] + segmenter.close()


def test_the_table_is_large() -> None:
    assert len(CASES) >= 150
    assert len(SENTENCES) == 10


@pytest.mark.parametrize("knows_language", [True, False], ids=["own", "auto"])
@pytest.mark.parametrize(("language", "sentences"), CASES)
def test_sentences(language: str, sentences: tuple[str, ...], knows_language: bool) -> None:
    config = SegmenterConfig(language=language if knows_language else "auto", first_min_words=None)
    text = "".join(sentences)
    whole = cut([text], config)
    assert tuple(segment.text for segment in whole) == sentences
    assert [segment.start for segment in whole] == [0, *(segment.end for segment in whole[:-1])]
    assert cut(list(text), config) == whole
    for i in range(1, len(text)):
        assert cut([text[:i], text[i:]], config) == whole, i


@pytest.mark.parametrize(("language", "sentences"), CASES)
def test_sentences_with_an_early_start(language: str, sentences: tuple[str, ...]) -> None:
    """The default configuration cuts the first sentence further, and depends as little on how text arrives."""
    text = "".join(sentences)
    config = SegmenterConfig(language=language, first_min_words=1)
    whole = cut([text], config)
    assert "".join(segment.text for segment in whole) == text
    assert cut(list(text), config) == whole
    for i in range(1, len(text)):
        assert cut([text[:i], text[i:]], config) == whole, i
    ends = [segment.end for segment in whole]
    position = 0
    for sentence in sentences:
        position += len(sentence)
        assert position in ends
