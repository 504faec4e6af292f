"""One turn of a session: the text that was fed, its sentences, and where in the sound each word is. No I/O."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass

from rtts.stream.config import StreamConfig
from rtts.stream.events import Done, Heard, PcmChunk
from rtts.stream.job import Job
from rtts.text.chars import SENTENCE_END, is_cjk, joins_cluster
from rtts.text.clean import Cleaner
from rtts.text.lexicon import LANGUAGES
from rtts.text.running import RunningText
from rtts.text.segment import FIRST_MAX_CHARS, Segment, Segmenter, SegmenterConfig
from rtts.text.source_map import CleanText, SourceMap
from rtts.text.verbalise import Verbaliser
from rtts_engine.config import FRAME_SAMPLES, SAMPLE_RATE_HZ, full_name

_CJK_PAUSES = "，、；：。！？"


@dataclass(slots=True, eq=False)
class Sentence:
    """A piece of spoken text on its way to sound."""

    text: str
    start: int
    """Position in the turn's spoken (cleaned) text."""
    job: Job
    samples: int = 0
    """Sound handed out so far, without the gap before it."""
    ended: bool = False
    """No sound of it follows."""

    @property
    def end(self) -> int:
        """Behind its text."""
        return self.start + len(self.text)

    def spoken_chars(self) -> int:
        """How much of the text is spoken by the sound so far: an estimate from the expected length, in whole words."""
        expected = max(1, self.job.expected_frames) * FRAME_SAMPLES
        position = int(len(self.text) * min(1.0, self.samples / expected))
        return whole_words(self.text, position)


def whole_words(text: str, position: int) -> int:
    """``position`` moved back to the end of the last word that is complete there. A CJK character is a word."""
    if position >= len(text):
        return len(text)
    while position > 0 and not _ends_word(text, position):
        position -= 1
    return max(0, position)


def _ends_word(text: str, position: int) -> bool:
    before, after = text[position - 1], text[position]
    if joins_cluster(text[:position], after):
        return False
    # Whitespace and closing marks go with the word before them.
    return not after.isspace() and (
        before.isspace() or (is_cjk(after) and (is_cjk(before) or before in _CJK_PAUSES))
    )


class Turn:
    """Text in, sentences out, and the way back from a position in the sound to the text."""

    def __init__(
        self, config: StreamConfig, language: str, generation: int, *, base: int, sample: int, now_s: float
    ) -> None:
        """
        Args:
            config: the session's.
            language: for the segmenter's tables.
            generation: the session's, when the turn started.
            base: characters fed to the session before this turn.
            sample: where the turn's sound starts in the session's sound.
            now_s: monotonic time.
        """
        self.generation = generation
        self.started_s = self.fed_s = now_s
        self.first_chunk_s: float | None = None
        self.end_sample = self._first_sample = sample
        self.sentences: list[Sentence] = []
        self.waiting: deque[Segment] = deque()
        """Segments that no job speaks yet."""
        self.preroll_s = 0.0
        self.ready: deque[PcmChunk] = deque()
        """Chunks that the consumer has not taken."""
        self.done: Done | None = None
        """Set when no chunk follows those in ``ready``."""
        self.error: BaseException | None = None
        """Why it failed, until the consumer was told."""
        self.stalled = False
        """Its text stays away for so long that what there is is spoken to its end."""
        self.closed = False
        """No more text follows."""
        self.closed_s: float | None = None
        self.open_job: Job | None = None
        """``token`` mode: the job that text goes to."""
        self._base = self._span_end = base
        self._fed_chars = 0
        self._source: list[str] = []
        self._map = SourceMap()
        self._cleaner = Cleaner() if config.clean_text else None
        self._verbaliser = Verbaliser() if config.verbalise is True else None
        known = (
            language if full_name(language) in LANGUAGES else "auto"
        )  # a model may speak more, such as dialects
        longest = config.max_utterance_chars
        self._waits = SegmenterConfig(
            language=known, first_max_chars=min(longest, FIRST_MAX_CHARS), max_chars=longest
        )
        self._segmenter: Segmenter | None = None
        self._running: RunningText | None = None
        if config.text_mode == "token":
            self._running = RunningText(known, longest)
        else:
            self._segmenter = Segmenter(self._waits)
        # (end of a chunk in the session's sound, characters of the spoken text that are spoken by then)
        self._marks: list[tuple[int, int]] = [(sample, 0)]

    @property
    def unspoken_chars(self) -> int:
        """Length of the spoken text whose sound is not complete."""
        under_way = sum(len(sentence.text) for sentence in self.sentences if not sentence.ended)
        return under_way + sum(len(segment.text) for segment in self.waiting)

    @property
    def deadline_s(self) -> float | None:
        """When ``poll`` has something to release if no text comes."""
        if self.closed:
            return None
        release = self._segmenter.deadline if self._segmenter is not None else None
        return min((at for at in (release, self._word_deadline_s) if at is not None), default=None)

    @property
    def _word_deadline_s(self) -> float | None:
        """When a number or abbreviation at the end of the text is taken for complete."""
        held = self._verbaliser.held if self._verbaliser is not None else ""
        if not held.strip():
            return None
        ended = held.rstrip()[-1] in SENTENCE_END and not held.rstrip()[-2:-1].isdigit()
        wait_s = self._waits.wait_s if ended else self._waits.stall_s
        return None if wait_s is None else self.fed_s + wait_s

    def feed(self, text: str, now_s: float) -> None:
        """More text; ``waiting`` holds what can be spoken of it."""
        start = self._fed_chars
        self._source.append(text)
        self._fed_chars += len(text)
        self.fed_s = now_s
        self.stalled = False
        whole = [CleanText(text, start, start + len(text))]
        self._add(self._cleaner.feed(text) if self._cleaner is not None else whole, now_s)

    def poll(self, now_s: float) -> None:
        """Release what has waited long enough for what may follow it."""
        if self.closed:
            return
        due_s = self._word_deadline_s
        if self._verbaliser is not None and due_s is not None and due_s <= now_s:
            self._speak(self._verbaliser.flush(), self.fed_s)
        if self._segmenter is not None:
            self.waiting += self._segmenter.poll(now_s)

    def stall(self, now_s: float) -> None:
        """Text stays away: release everything. If none comes until that is spoken, the turn is over."""
        if self._cleaner is not None:
            self._add(self._cleaner.flush(), now_s)
        if self._verbaliser is not None:
            self._speak(self._verbaliser.flush(), now_s)
        if self._segmenter is not None:
            self.waiting += self._segmenter.flush()
        if self._running is not None:
            self._running.cut()
        self.stalled = True

    def close(self, now_s: float) -> None:
        """No more text follows: the rest can be spoken."""
        if self._cleaner is not None:
            self._add(self._cleaner.close(), now_s)
        if self._verbaliser is not None:
            self._speak(self._verbaliser.close(), now_s)
        if self._segmenter is not None:
            self.waiting += self._segmenter.close()
        self.closed = True
        self.closed_s = now_s

    def _add(self, pieces: list[CleanText], now_s: float) -> None:
        self._speak(pieces if self._verbaliser is None else self._verbaliser.feed(pieces), now_s)

    def _speak(self, pieces: list[CleanText], now_s: float) -> None:
        self._map.add(pieces)
        text = "".join(piece.text for piece in pieces)
        if self._segmenter is not None:
            self.waiting += self._segmenter.feed(text, now_s)
            self.waiting += self._segmenter.poll(now_s)
        elif self._running is not None:
            self.waiting += self._running.feed(text)

    def source_span(self, start: int, end: int) -> tuple[int, int]:
        """Place in the session's text of ``[start, end)`` of the turn's spoken text."""
        first, last = self._map.source_span(start, end)
        return self._base + first, self._base + last

    def handed_out(self, sentence: Sentence, gap: int, samples: int, *, last: bool) -> tuple[int, int]:
        """Count a chunk: ``gap`` samples of silence and ``samples`` of a sentence. Returns the text it speaks."""
        before = self._marks[-1][1]
        sentence.samples += samples
        spoken = sentence.start + sentence.spoken_chars()
        if last or spoken == sentence.end:
            spoken = self._behind(sentence)
        if gap:
            self._marks.append((self.end_sample + gap, max(before, sentence.start)))
        self.end_sample += gap + samples
        self._marks.append((self.end_sample, max(before, spoken)))
        start = self._span_end
        return start, self.close_span()

    def close_span(self) -> int:
        """Where the text of the next chunk starts: behind what the sound handed out so far speaks."""
        self._span_end = max(self._span_end, self._base + self._map.source_end(self._marks[-1][1]))
        return self._span_end

    def complete(self, sentence: Sentence) -> None:
        """All sound of a sentence was handed out, so all of its text is spoken by it."""
        sentence.ended = True
        if all(before.ended for before in self.sentences[: self.sentences.index(sentence)]):
            sample, spoken = self._marks[-1]
            self._marks[-1] = (sample, max(spoken, self._behind(sentence)))

    def _behind(self, sentence: Sentence) -> int:
        """End of a sentence's text, and of what follows it and has no sound."""
        index = self.sentences.index(sentence) + 1
        while index < len(self.sentences) and self.sentences[index].ended:
            sentence = self.sentences[index]
            index += 1
        return sentence.end

    def heard(self, sample: int) -> Heard:
        """What a listener has heard who has played the session's sound up to ``sample``."""
        index = bisect_right(self._marks, sample, key=lambda mark: mark[0])
        position = self._marks[index - 1][1] if index else 0
        if 0 < index < len(self._marks):
            (start, first), (end, last) = self._marks[index - 1], self._marks[index]
            spoken = "".join(sentence.text for sentence in self.sentences)
            reached = first + int((last - first) * (sample - start) / (end - start))
            position = max(first, whole_words(spoken, reached))
        seconds = max(0, min(sample, self.end_sample) - self._first_sample) / SAMPLE_RATE_HZ
        return Heard("".join(self._source)[: self._map.source_end(position)], seconds)
