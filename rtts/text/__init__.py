"""Text on its way to speech: LLM output becomes speakable text, and a stream of text becomes segments.

Pure and synchronous: time is an argument, nothing here waits.
"""

from __future__ import annotations

from rtts.text.clean import Cleaner
from rtts.text.segment import Segment, Segmenter, SegmenterConfig
from rtts.text.source_map import CleanText, SourceMap
from rtts.text.verbalise import Verbaliser, verbalise

__all__ = [
    "CleanText",
    "Cleaner",
    "Segment",
    "Segmenter",
    "SegmenterConfig",
    "SourceMap",
    "Verbaliser",
    "verbalise",
]
