"""Gives the workers a turn's text: sentence by sentence, or piece by piece into the running talker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rtts.stream.config import StreamConfig
from rtts.stream.events import Event, SentenceStarted
from rtts.stream.job import Job, Stream
from rtts.stream.turn import Sentence, Turn
from rtts.stream.workers import Workers
from rtts.text.segment import Boundary, Segment
from rtts_engine.manner import Manner
from rtts_engine.request import MAX_SEED, Settings

_SEED_STEP = 0x9E3779B97F4A7C15


def sentence_seed(seed: int, index: int) -> int:
    """The seed of a turn's sentence number ``index``; the first one has the session's own."""
    return (seed + index * _SEED_STEP) & MAX_SEED


def speakable(text: str) -> bool:
    """Whether there is anything to hear in a text."""
    return any(character.isalnum() for character in text)


class Dispatch:
    """Makes a session's jobs. ``Turn.waiting`` is where it takes text from."""

    def __init__(
        self,
        workers: Workers,
        stream: Stream,
        manner: Manner,
        settings: Settings,
        config: StreamConfig,
        emit: Callable[[Event], None],
    ) -> None:
        """
        Args:
            workers: who speaks.
            stream: the session's seat there.
            manner: how, for every sentence.
            settings: the same; each sentence has its own seed (``sentence_seed``).
            config: the session's.
            emit: is told of every sentence that was begun.
        """
        assert settings.seed is not None
        self._workers = workers
        self._stream = stream
        self._manner = manner
        self._settings = replace(settings, frames_per_text_id=config.max_frames_per_token)
        self._seed = settings.seed
        self._config = config
        self._emit = emit

    def more(self, turn: Turn) -> None:
        """Hand over what can be spoken now of the turn's text."""
        if self._config.text_mode == "token":
            self._push(turn)
        else:
            self._submit(turn)

    def _submit(self, turn: Turn) -> None:
        """The next sentences, as far ahead as the config allows."""
        most = self._config.prefetch_sentences
        while turn.waiting:
            ahead = len(self._stream.jobs)
            allowed = self._workers.sentences_ahead() if most == "auto" else most
            if ahead > allowed and speakable(turn.waiting[0].text):
                break
            segment = turn.waiting.popleft()
            self._start(turn, segment.text, segment.start, whole=True)

    def _push(self, turn: Turn) -> None:
        """All text into the open utterance, and into the next one where that is cut."""
        self.take_back(turn)
        complete = turn.closed or turn.stalled
        while turn.waiting:
            segment = turn.waiting.popleft()
            if turn.open_job is not None:
                turn.sentences[-1].text += segment.text
                self._workers.push_text(turn.open_job, segment.text)
            elif segment.open and not complete and not speakable(segment.text):
                if not turn.waiting:  # part of what follows, whatever that is
                    turn.waiting.append(segment)
                    return
                turn.waiting[0] = segment.joined(turn.waiting[0])
                continue
            elif segment.text:
                self._start(turn, segment.text, segment.start, whole=False)
            if not segment.open:
                self._close(turn)
        if complete:
            self._close(turn)

    def take_back(self, turn: Turn) -> None:
        """Text that came too late for the newest utterance, which had ended by itself, is for the next one."""
        sentence = turn.sentences[-1] if turn.sentences else None
        rest = self._workers.unread(sentence.job) if sentence is not None else None
        if sentence is None or rest is None:
            return
        if sentence.job is turn.open_job:
            turn.open_job = None
        text = "".join(piece for piece in rest if piece is not None)
        if text:
            sentence.text = sentence.text.removesuffix(text)
            boundary: Boundary = "sentence" if None in rest else "open"
            turn.waiting.appendleft(Segment(text, sentence.end, sentence.end + len(text), boundary))

    def _close(self, turn: Turn) -> None:
        if turn.open_job is not None:
            self._workers.push_text(turn.open_job, None)
            turn.open_job = None

    def _start(self, turn: Turn, text: str, start: int, *, whole: bool) -> None:
        index = len(turn.sentences)
        seed = sentence_seed(self._seed, index)
        job = Job(
            text if whole else None,
            self._manner,
            replace(self._settings, seed=seed),
            self._config,
            index=index,
            generation=turn.generation,
        )
        sentence = Sentence(text, start, job)
        turn.sentences.append(sentence)
        if not speakable(text):
            job.stop_reason = "eos"  # only punctuation: there is nothing to hear
            turn.complete(sentence)
            return
        self._emit(SentenceStarted(index, text, turn.source_span(start, start + len(text)), seed))
        self._workers.submit(self._stream, job)
        if not whole:
            turn.open_job = job
            self._workers.push_text(job, text)
