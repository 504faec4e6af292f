"""What is spoken in parity runs: every prompt mode of every kind of model, in both text layouts.

No torch here: goldens store these cases, and the ordinary tests read them back.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from tests.checkpoints import Kind

Layout = Literal["streaming", "full"]
Clone = Literal["xvector", "icl"]
LAYOUTS: tuple[Layout, ...] = ("streaming", "full")

TEXT = "hello world, this is a small test of streaming speech. 你好，世界。"
SHORT_TEXT = "hi"
NEWLINE_TEXT = "\nhello, how are you?"
"""Its first newline merges with the one of the role header (semantics 2.2)."""
REF_TEXT = "one two three four"

_METHODS: dict[Kind, str] = {
    "base": "generate_voice_clone",
    "custom_voice": "generate_custom_voice",
    "voice_design": "generate_voice_design",
}


@dataclass(frozen=True)
class Case:
    """One utterance, in the component's own terms."""

    name: str
    kind: Kind
    text: str
    language: str
    layout: Layout
    frames: int
    """Limit; the official package needs ``max_new_tokens`` one higher."""
    clone: Clone | None = None
    speaker: str | None = None
    instruct: str | None = None
    ref_text: str | None = None

    @property
    def official_method(self) -> str:
        return _METHODS[self.kind]

    def official_arguments(self, voice: Any) -> dict[str, Any]:
        """This utterance's share of the official call's lists. ``voice`` is a clone prompt item (Base only)."""
        arguments: dict[str, Any] = {"text": self.text, "language": self.language}
        if self.kind == "base":
            if voice is None:
                raise ValueError(f"{self.name}: a Base model needs a voice")
            as_icl = self.clone == "icl"
            item = type(voice)(
                ref_code=voice.ref_code if as_icl else None,
                ref_spk_embedding=voice.ref_spk_embedding,
                x_vector_only_mode=not as_icl,
                icl_mode=as_icl,
                ref_text=self.ref_text if as_icl else None,
            )
            return arguments | {"voice_clone_prompt": item}
        arguments["instruct"] = self.instruct
        return arguments | {"speaker": self.speaker} if self.kind == "custom_voice" else arguments

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _base(frames: int) -> list[Case]:
    blank = Case("", "base", TEXT, "english", "streaming", frames)
    return [
        replace(blank, name="xvector_english", clone="xvector"),
        replace(blank, name="xvector_auto", clone="xvector", language="auto"),
        replace(blank, name="xvector_newline", clone="xvector", text=NEWLINE_TEXT),
        replace(blank, name="icl_short", clone="icl", text=SHORT_TEXT, language="chinese", ref_text=REF_TEXT),
        replace(blank, name="icl_long", clone="icl", text=TEXT * 3, language="auto", ref_text=REF_TEXT),
    ]


def _custom_voice(frames: int) -> list[Case]:
    blank = Case("", "custom_voice", TEXT, "english", "streaming", frames)
    return [
        replace(blank, name="ryan_english", speaker="ryan"),
        replace(blank, name="eric_auto_instruct", speaker="eric", language="auto", instruct="a sad voice"),
        replace(blank, name="dylan_chinese", speaker="dylan", language="chinese"),
        replace(blank, name="eric_english", speaker="Eric"),
        replace(blank, name="vivian_newline", speaker="vivian", language="auto", text=NEWLINE_TEXT),
    ]


def _voice_design(frames: int) -> list[Case]:
    blank = Case("", "voice_design", TEXT, "auto", "streaming", frames)
    return [
        replace(blank, name="instruct", instruct="a warm and gentle voice"),
        replace(blank, name="plain", instruct="", language="japanese"),
        replace(blank, name="newline", instruct="slowly", text=NEWLINE_TEXT),
    ]


def cases_of(kind: Kind, frames: int) -> list[Case]:
    """Every prompt mode of a kind, in both layouts."""
    modes = {"base": _base, "custom_voice": _custom_voice, "voice_design": _voice_design}[kind](frames)
    return [
        replace(case, name=f"{case.name}_{layout}", layout=layout) for case in modes for layout in LAYOUTS
    ]
