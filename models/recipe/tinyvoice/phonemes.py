"""English text to the teacher's phones, with the character that each phone comes from.

espeak-ng makes IPA, which is mapped to the alphabet that Kokoro was trained on. The character positions are an estimate
(proportional within a word); they only tell the talker where in the text it is, through a training loss.
"""

import ctypes
import re
from functools import lru_cache

_IPA_MODE = 0x02 | 0x80 | (ord("^") << 8)
_TO_TEACHER = sorted(
    {
        "ʔˌn\u0329": "tn", "ʔn\u0329": "tn", "ʔn": "tn", "ʔ": "t", "a^ɪ": "I", "a^ʊ": "W", "d^ʒ": "ʤ", "e^ɪ": "A",
        "e": "A", "t^ʃ": "ʧ", "ɔ^ɪ": "Y", "ə^l": "ᵊl", "ʲo": "jo", "ʲə": "jə", "ʲ": "", "ɚ": "əɹ",
        "r": "ɹ", "x": "k", "ç": "k", "ɐ": "ə", "ɬ": "l", "\u0303": "",
    }.items(),
    key=lambda pair: -len(pair[0]),
)  # fmt: skip


def _teacher_alphabet(ipa: str) -> str:
    for source, target in _TO_TEACHER:
        ipa = ipa.replace(source, target)
    ipa = re.sub(r"(\S)\u0329", r"ᵊ\1", ipa).replace("\u0329", "")
    for source, target in (
        ("o^ʊ", "O"),
        ("ɜːɹ", "ɜɹ"),
        ("ɜː", "ɜɹ"),
        ("ɪə", "iə"),
        ("ː", ""),
        ("ɾ", "T"),
        ("^", ""),
    ):
        ipa = ipa.replace(source, target)
    return re.sub(r"\s+", " ", ipa).strip()


class Phonemizer:
    """espeak-ng (US English) through its C interface. One instance per process."""

    def __init__(self, vocabulary: dict[str, int], library: str = "libespeak-ng.so.1") -> None:
        self.vocabulary = vocabulary
        self._espeak = ctypes.cdll.LoadLibrary(library)
        if self._espeak.espeak_Initialize(2, 0, None, 0) < 0:
            raise RuntimeError("espeak-ng did not start: is espeak-ng-data installed?")
        self._espeak.espeak_SetVoiceByName(b"en-us")
        self._espeak.espeak_TextToPhonemes.restype = ctypes.c_char_p
        self._word_length = lru_cache(1 << 17)(self._count)

    def _ipa(self, text: str) -> str:
        buffer = ctypes.create_string_buffer(text.encode())
        cursor = ctypes.c_char_p(ctypes.addressof(buffer))
        parts = []
        while cursor.value:
            part = self._espeak.espeak_TextToPhonemes(ctypes.byref(cursor), 1, _IPA_MODE)
            if part:
                parts.append(part.decode())
        return _teacher_alphabet(" ".join(parts))

    def _count(self, word: str) -> int:
        return max(1, sum(c in self.vocabulary and c != " " for c in self._ipa(word)))

    def __call__(self, text: str) -> tuple[list[int], list[int]]:
        """(phone ids, character position of each) of one utterance."""
        phones: list[int] = []
        places: list[int] = []
        for match in re.finditer(r"[^,.;:!?]+|[,.;:!?]+", text):
            piece, start = match.group(), match.start()
            if re.fullmatch(r"[,.;:!?]+", piece):
                if phones and phones[-1] == self.vocabulary[" "]:
                    phones.pop(), places.pop()
                phones.append(self.vocabulary[piece[0]])
                places.append(start)
                continue
            symbols = [c for c in self._ipa(piece.replace("-", " ").strip()) if c in self.vocabulary]
            if not symbols:
                continue
            if phones:
                phones.append(self.vocabulary[" "])
                places.append(start)
            phones += [self.vocabulary[c] for c in symbols]
            places += self._places(piece, start, symbols)
        return phones, places

    def _places(self, piece: str, start: int, symbols: list[str]) -> list[int]:
        """Characters of `symbols`: words laid out by their own phone counts, letters evenly within a word."""
        words = [(m.start(), m.group()) for m in re.finditer(r"[^\s-]+", piece)]
        lengths = [self._word_length(w) for _, w in words]
        solid = sum(c != " " for c in symbols)
        scale = sum(lengths) / max(solid, 1)
        out: list[int] = []
        done = 0
        for symbol in symbols:
            at = min((done + 0.5) * scale, sum(lengths) - 1e-3)
            if symbol == " ":
                at = min(done * scale, sum(lengths) - 1e-3)
            else:
                done += 1
            for (offset, word), length in zip(words, lengths, strict=True):
                if at < length:
                    out.append(start + offset + min(len(word) - 1, int(at / length * len(word))))
                    break
                at -= length
        return out
