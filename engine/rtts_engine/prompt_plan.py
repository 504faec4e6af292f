"""Prompts in symbols: which ids of text and codec meet on which row of the talker's input.

Source of the layout: ``Qwen3TTSForConditionalGeneration.generate`` and the prompt strings of the official ``qwen-tts``
0.1.1.

A row is the sum of a text track and a codec track. With ``n`` rows of language tag, speaker and codec pad::

    [instruction]  text only
    [role]         text only: <|im_start|> assistant newline
    [head]         language tag, speaker row, codec pad; with tts_pad, the last one with tts_bos
    [tail]         one of four, by text layout and by cloning with or without reference codes

The text layout "streaming" puts the first text id into the prompt and the others onto the generated frames, one each;
"full" puts all of them into the prompt (``non_streaming_mode`` of the official package).
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rtts_engine.config import CodecIds, ModelConfig, ModelKind, TextIds, full_name, spoken_languages
from rtts_engine.errors import CheckpointError, RequestError, TextError, UnfitVoiceError
from rtts_engine.manner import CloneVoice, Manner, TextLayout
from rtts_engine.tokenizer import WHITESPACE, Tokenizer

_log = logging.getLogger(__name__)

_ASSISTANT = "<|im_start|>assistant\n"
_USER = "<|im_start|>user\n"
_END = "<|im_end|>\n"
_MAX_TEXT_CHARS = 1_000_000
"""What is longer is not even counted in tokens: that alone would take minutes and gigabytes."""
_MAX_REFERENCE_FRAMES = 4096
"""More than the longest clip that is cloned (300 s, 12.5 frames a second)."""


@dataclass(frozen=True, slots=True)
class PromptSpec:
    """What prompts depend on, of a model."""

    kind: ModelKind
    instructable: bool
    """Whether an instruction reaches the model; not the 0.6B ``custom_voice`` ones."""
    codec_ids: CodecIds
    text_ids: TextIds
    languages: Mapping[str, int]
    """Lower-case name -> codec id, dialects included."""
    speakers: Mapping[str, int]
    """Lower-case name -> codec id."""
    dialects: Mapping[str, str]
    """Speaker name -> name in ``languages``, for speakers of a dialect."""
    code_groups: int
    """Codes per frame."""
    codebook_size: int
    max_text_ids: int
    """Longest text or instruction in ids: ``max_new_tokens``, since an utterance has no more frames than that."""

    @classmethod
    def of(cls, config: ModelConfig) -> PromptSpec:
        """That of a model."""
        talker = config.talker
        return cls(
            kind=config.kind,
            instructable=config.instructable,
            codec_ids=talker.ids,
            text_ids=config.text_ids,
            languages=talker.languages,
            speakers=talker.speakers,
            dialects=talker.dialects,
            code_groups=talker.num_code_groups,
            codebook_size=talker.predictor.vocab_size,
            max_text_ids=config.generation.max_new_tokens,
        )


@dataclass(frozen=True, slots=True)
class Row:
    """One prompt row: at most one entry of the text track plus at most one of the codec track."""

    text: int | None = None
    """Text id."""
    codec: int | None = None
    """Codec id."""
    frame: int | None = None
    """Index of a reference frame."""
    x_vector: bool = False


@dataclass(frozen=True, slots=True)
class PromptPlan:
    """A prompt in symbols."""

    rows: tuple[Row, ...]
    trailing: tuple[int, ...]
    """Text ids for the generated frames 0, 1, ...; tts_pad follows for ever."""
    n_text_ids: int
    """Ids of the spoken text, for the frame cap."""


class PromptPlanner:
    """Which ids meet on which row, for one model. Stateless after construction, so that streams may share one."""

    def __init__(self, spec: PromptSpec, tokenizer: Tokenizer, hidden_size: int) -> None:
        """
        Args:
            spec: of the model.
            tokenizer: the model's.
            hidden_size: talker width D, which an x-vector must have.

        Raises:
            CheckpointError: the tokenizer does not give the role strings the ids that prompts rely on.
        """
        self._spec = spec
        self._tokenizer = tokenizer
        self._hidden_size = hidden_size
        self._warned = False
        self._role = _control_ids(tokenizer, _ASSISTANT, 3, "im_start_token_id", spec.text_ids.im_start)
        self._end = _control_ids(tokenizer, _END, 2, "im_end_token_id", spec.text_ids.im_end)

    def plan(
        self, text: str, manner: Manner, *, layout: TextLayout | None = None, literal: bool = False
    ) -> PromptPlan:
        """The prompt of a complete text, in symbols.

        ``layout`` None is the official default: "streaming" for ``base``, "full" for the other kinds. ``literal``
        tokenises exactly as the official package does, added tokens and leading line breaks in text, transcript and
        instruction included; it is for parity tests and must not be used on text from outside.

        Raises:
            TextError: there is nothing to speak, or a lone surrogate.
            RequestError: a language or an argument that the model does not have.
            VoiceError: an unknown speaker or an unfit voice.
        """
        self._check_voice(manner)
        _check_chars("the text", text)
        if literal:
            whole = self._tokenizer.encode(f"{_ASSISTANT}{text}{_END}{_ASSISTANT}")
            role, ids = whole[:3], whole[3:-5]
        else:
            role, ids = self._role, self._tokenizer.encode_spoken(text)
        if not ids:
            raise TextError("there is no text to speak; give at least one word")
        self._check_length("the text", ids)
        head = self._head(role, manner, literal)
        if layout is None:
            layout = "streaming" if self._spec.kind == "base" else "full"
        elif layout not in ("streaming", "full"):
            raise RequestError(f"text layout is {layout!r}; expected 'streaming' or 'full'")
        if manner.voice is not None and manner.voice.ref_codes is not None:
            all_ids = self._ref_ids(manner.voice, literal) + ids
            tail, trailing = self._clone_tail(all_ids, len(manner.voice.ref_codes), layout)
        elif layout == "full":
            tail, trailing = self._full_tail(ids)
        else:
            tail, trailing = self._streaming_tail(ids)
            trailing.append(self._spec.text_ids.tts_eos)
        return PromptPlan(tuple(head + tail), tuple(trailing), len(ids))

    def plan_open(self, ids: Sequence[int], manner: Manner) -> PromptPlan:
        """The prompt of a text whose first ids are ``ids``; see ``PromptBuilder.open``."""
        self._check_voice(manner)
        if not ids:
            raise TextError("there is no text to speak; an utterance opens with at least one text id")
        if manner.voice is not None and manner.voice.ref_codes is not None:
            raise RequestError(
                "a voice with reference codes needs the complete text; "
                "use its x-vector alone for text that arrives in parts"
            )
        tail, trailing = self._streaming_tail(ids)
        return PromptPlan(tuple(self._head(self._role, manner, False) + tail), tuple(trailing), len(ids))

    def _head(self, role: Sequence[int], manner: Manner, literal: bool) -> list[Row]:
        c, t = self._spec.codec_ids, self._spec.text_ids
        language = self._language_id(manner)
        tag = [c.nothink, c.think_bos, c.think_eos]
        if language is not None:
            tag = [c.think, c.think_bos, language, c.think_eos]
        rows = [Row(text=i) for i in [*self._instruct_ids(manner.instruct, literal), *role]]
        rows += [Row(t.tts_pad, codec=i) for i in tag]
        if manner.voice is not None:
            rows.append(Row(t.tts_pad, x_vector=True))
        elif manner.speaker:
            rows.append(Row(t.tts_pad, codec=self._speaker_id(manner.speaker)))
        return [*rows, Row(t.tts_bos, codec=c.pad)]

    def _streaming_tail(self, ids: Sequence[int]) -> tuple[list[Row], list[int]]:
        return [Row(ids[0], codec=self._spec.codec_ids.bos)], list(ids[1:])

    def _full_tail(self, ids: Sequence[int]) -> tuple[list[Row], list[int]]:
        c, t = self._spec.codec_ids, self._spec.text_ids
        rows = [Row(i, codec=c.pad) for i in [*ids, t.tts_eos]]
        return [*rows, Row(t.tts_pad, codec=c.bos)], [t.tts_pad]

    def _clone_tail(
        self, ids: Sequence[int], n_frames: int, layout: TextLayout
    ) -> tuple[list[Row], list[int]]:
        """``ids`` are those of transcript and text. The official package aligns both tracks at their start."""
        c, t = self._spec.codec_ids, self._spec.text_ids
        text = [*ids, t.tts_eos]
        codes = [Row(t.tts_pad, codec=c.bos), *(Row(t.tts_pad, frame=k) for k in range(n_frames))]
        if layout == "full":
            return [*(Row(i, codec=c.pad) for i in text), *codes], [t.tts_pad]
        n = min(len(text), len(codes))
        rows = [replace(row, text=i) for row, i in zip(codes, text, strict=False)] + codes[n:]
        return rows, text[n:] or [t.tts_pad]

    def _ref_ids(self, voice: CloneVoice, literal: bool) -> list[int]:
        text = voice.ref_text or ""
        _check_chars("the voice's transcript", text)
        if literal:
            ids = self._tokenizer.encode(f"{_ASSISTANT}{text}{_END}")[3:-2]
        else:
            ids = self._tokenizer.encode_spoken(text)
        if not ids:
            raise UnfitVoiceError(
                "the voice has reference codes but no transcript; clone it with its text, or drop the codes"
            )
        if not literal:
            self._check_length("the voice's transcript", ids)
        return ids

    def _instruct_ids(self, instruct: str | None, literal: bool) -> list[int]:
        if not literal:
            instruct = (instruct or "").lstrip(WHITESPACE)
        if not instruct:
            return []
        _check_chars("the instruction", instruct)
        if self._spec.kind == "base":
            raise RequestError(
                "instruct: a base model takes no instruction; use a CustomVoice or VoiceDesign model"
            )
        if not self._spec.instructable:
            if not self._warned:
                self._warned = True
                _log.warning(
                    "instruct is ignored: the 0.6B CustomVoice models were not trained with instructions"
                )
            return []
        if literal:
            return self._tokenizer.encode(f"{_USER}{instruct}{_END}")
        ids = self._tokenizer.encode_spoken(instruct)
        self._check_length("the instruction", ids)
        return [*self._tokenizer.encode(_USER), *ids, *self._end]

    def _language_id(self, manner: Manner) -> int | None:
        """Codec id of the language tag; None is "auto"."""
        language = full_name("auto" if manner.language is None else manner.language)
        names = spoken_languages(self._spec.languages)
        if language not in names:
            raise RequestError(_unknown("language", manner.language or "", names))
        dialect = self._spec.dialects.get((manner.speaker or "").lower())
        if dialect is not None and language in ("auto", "chinese"):
            language = dialect
        return None if language == "auto" else self._spec.languages[language]

    def _speaker_id(self, speaker: str) -> int:
        if speaker.lower() not in self._spec.speakers:
            raise UnfitVoiceError(_unknown("speaker", speaker, sorted(self._spec.speakers)))
        return self._spec.speakers[speaker.lower()]

    def _check_voice(self, manner: Manner) -> None:
        """Who speaks must fit the kind of model, and a cloned voice its dimensions."""
        kind, voice = self._spec.kind, manner.voice
        if manner.speaker and kind != "custom_voice":
            raise UnfitVoiceError(
                f"speaker {manner.speaker!r}: a {kind} model has no speakers; use a CustomVoice model"
            )
        if kind != "base":
            if voice is not None:
                raise UnfitVoiceError(f"a {kind} model cannot speak with a cloned voice; use a Base model")
            return
        if voice is None:
            raise UnfitVoiceError("a base model needs a cloned voice; make one with `rtts clone`")
        width, groups = self._hidden_size, self._spec.code_groups
        if voice.x_vector.shape != (width,) or not np.isfinite(voice.x_vector).all():
            raise UnfitVoiceError(
                f"x-vector has shape {voice.x_vector.shape}, expected ({width},) of finite numbers; "
                "the voice was made for another model or is damaged, clone it again"
            )
        codes = voice.ref_codes
        if codes is None:
            return
        if codes.ndim != 2 or codes.shape[0] < 1 or codes.shape[1] != groups or codes.dtype.kind != "i":
            raise UnfitVoiceError(
                f"reference codes are {codes.dtype} {codes.shape}, expected integers (R, {groups}) with R >= 1; "
                "clone the voice again"
            )
        if len(codes) > _MAX_REFERENCE_FRAMES:
            raise UnfitVoiceError(
                f"the voice has {len(codes)} reference frames, at most {_MAX_REFERENCE_FRAMES} are taken; "
                "clone 3 to 20 s of speech"
            )
        if codes.min() < 0 or codes.max() >= self._spec.codebook_size:
            raise UnfitVoiceError(
                f"reference codes range from {codes.min()} to {codes.max()}, expected 0 to "
                f"{self._spec.codebook_size - 1}; the voice was made for another model or is damaged, clone it again"
            )

    def _check_length(self, what: str, ids: Sequence[int]) -> None:
        if len(ids) > self._spec.max_text_ids:
            raise TextError(
                f"{what} has {len(ids)} tokens, at most {self._spec.max_text_ids} fit into one utterance; "
                "speak it in parts"
            )


def _check_chars(what: str, text: str) -> None:
    if len(text) > _MAX_TEXT_CHARS:
        raise TextError(
            f"{what} has {len(text)} characters, at most {_MAX_TEXT_CHARS} are looked at; speak it in parts"
        )


def _control_ids(tokenizer: Tokenizer, string: str, n: int, field: str, first: int) -> list[int]:
    ids = tokenizer.encode(string)
    if len(ids) != n or ids[0] != first:
        raise CheckpointError(
            f"tokenizer: {string!r} has ids {ids}, expected {n} that start with {field} {first} of config.json; "
            "the tokenizer files belong to another model"
        )
    return ids


def _unknown(what: str, name: str, valid: Sequence[str]) -> str:
    """One line that lists the valid names, those most like ``name`` first."""
    near = difflib.get_close_matches(name.lower(), valid, n=3, cutoff=0.4)
    listed = [*near, *(other for other in valid if other not in near)]
    return f"{what} {name!r} is unknown; this model has {', '.join(listed) or 'none'}"
