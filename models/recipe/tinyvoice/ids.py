"""Codec-side ids of a checkpoint, and the two prompt layouts of the official package (custom voice)."""

from collections.abc import Sequence
from dataclasses import dataclass

from .tokenizer import TextIds


@dataclass(frozen=True)
class CodecIds:
    """Control ids behind the codes, at the offsets of the released models; vocabulary = codes + 1024.

    The official sampler suppresses the last 1024 ids except end-of-speech, hence the size.
    """

    codes: int

    @property
    def vocab(self) -> int:
        """Rows of the talker's codec table."""
        return self.codes + 1024

    @property
    def english(self) -> int:
        """Language id."""
        return self.codes + 2

    @property
    def pad(self) -> int:
        """`codec_pad_id`."""
        return self.codes + 100

    @property
    def bos(self) -> int:
        """`codec_bos_id`."""
        return self.codes + 101

    @property
    def eos(self) -> int:
        """`codec_eos_token_id`: end of speech."""
        return self.codes + 102

    @property
    def think(self) -> int:
        """`codec_think_id`: a language follows."""
        return self.codes + 106

    @property
    def nothink(self) -> int:
        """`codec_nothink_id`: no language given."""
        return self.codes + 107

    @property
    def think_bos(self) -> int:
        """`codec_think_bos_id`."""
        return self.codes + 108

    @property
    def think_eos(self) -> int:
        """`codec_think_eos_id`."""
        return self.codes + 109

    def speaker(self, index: int) -> int:
        """Id of a built-in speaker."""
        return self.codes + 1010 + index


@dataclass(frozen=True)
class Prompt:
    """Ids of both tracks up to and including the row that predicts frame 0; -1 on the codec track is no row."""

    text: tuple[int, ...]
    codec: tuple[int, ...]
    trailing: tuple[int, ...]
    """Text ids added to frames 0, 1, ...; afterwards the pad id."""
    first_text: int
    """Position of the first spoken id."""


def prompt(
    codec: CodecIds, ids: TextIds, spoken: Sequence[int], speaker: int, english: bool, streaming: bool
) -> Prompt:
    """Streaming: one spoken id per row, frames beside the text. Otherwise all text first, then the frames."""
    language = [codec.think, codec.think_bos, codec.english, codec.think_eos]
    head = language if english else [codec.nothink, codec.think_bos, codec.think_eos]
    head = [*head, codec.speaker(speaker)]
    text = [*ids.role, *[ids.pad] * len(head), ids.bos]
    track = [-1] * 3 + head + [codec.pad]
    first = len(text)
    if streaming:
        return Prompt((*text, spoken[0]), (*track, codec.bos), (*spoken[1:], ids.eos), first)
    text += [*spoken, ids.eos, ids.pad]
    track += [codec.pad] * (len(spoken) + 1) + [codec.bos]
    return Prompt(tuple(text), tuple(track), (), first)
