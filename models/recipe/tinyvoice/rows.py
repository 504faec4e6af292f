"""Training rows: utterances with their prompts, packed into rows of one length."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .corpus import Line
from .ids import CodecIds, prompt
from .speech import Array
from .tokenizer import TextIds, VoiceTokenizer

Ints = npt.NDArray[np.int64]
FIELDS = ("text", "codec", "frame", "target", "segment", "position", "low", "high")
TOKEN_FIELDS = ("codes", "phones", "places", "lines", "speakers", "frames")
Packed = dict[str, npt.NDArray[np.int32]]
"""One array (rows, L) for each field of `talker.Rows`."""


@dataclass(frozen=True)
class TokenSet:
    """Tokenised speech with its labels; what later stages need instead of the teacher."""

    codes: npt.NDArray[np.uint8]
    """(NF, 16)"""
    phones: npt.NDArray[np.uint8]
    """(NF, 4)"""
    places: npt.NDArray[np.uint8]
    """(NF,)"""
    lines: Array
    speakers: Array
    frames: Array

    def save(self, folder: Path, limit: int = 16_000_000) -> list[Path]:
        """Files `tokens0.npz`, ... of at most about `limit` bytes, cut at utterances."""
        ends = np.cumsum(self.frames)
        bytes_per_frame = self.codes.shape[1] + 1.6
        files: list[Path] = []
        first = 0
        while first < len(self.frames):
            base = int(ends[first - 1]) if first else 0
            last = int(np.searchsorted(ends, base + limit / bytes_per_frame, side="right"))
            last = min(max(last, first + 1), len(self.frames))
            span = slice(base, int(ends[last - 1]))
            path = folder / f"tokens{len(files)}.npz"
            np.savez_compressed(
                path, codes=self.codes[span], phones=self.phones[span], places=self.places[span],
                lines=self.lines[first:last].astype(np.int32), speakers=self.speakers[first:last].astype(np.uint8),
                frames=self.frames[first:last].astype(np.uint8),
            )  # fmt: skip
            files.append(path)
            first = last
        return files

    def joined(self, later: "TokenSet") -> "TokenSet":
        """These utterances, then those of `later` that are not held-out."""
        keep = later.lines >= 0
        frames = np.repeat(keep, later.frames)
        return TokenSet(
            *(
                np.concatenate([getattr(self, k), getattr(later, k)[frames]])
                for k in ("codes", "phones", "places")
            ),
            *(
                np.concatenate([getattr(self, k), getattr(later, k)[keep]])
                for k in ("lines", "speakers", "frames")
            ),
        )

    @classmethod
    def load(cls, folder: Path) -> "TokenSet":
        """All `tokens*.npz` of a folder."""
        files = sorted(folder.glob("tokens*.npz"), key=lambda p: int(p.stem[6:]))
        if not files:
            raise FileNotFoundError(f"no tokens*.npz in {folder}")
        parts = [np.load(f) for f in files]
        codes, phones, places, *wide = (np.concatenate([p[k] for p in parts]) for k in TOKEN_FIELDS)
        lines, speakers, frames = (column.astype(np.int64) for column in wide)
        return cls(codes, phones, places, lines, speakers, frames)


@dataclass(frozen=True)
class _Variant:
    """One way to write all lines, flat."""

    ids: Ints
    starts: Ints
    """(lines + 1,) into ids."""
    token_of: Ints
    """Token of each character, flat."""
    char_starts: Ints


def _variant(
    tokenizer: VoiceTokenizer, texts: Sequence[str], lengths: Sequence[int], dropout: float
) -> _Variant:
    ids: list[int] = []
    counts, token_of = [], []
    for (own, spans), length in zip(tokenizer.encode(texts, dropout), lengths, strict=True):
        ids += own
        counts.append(len(own))
        stops = np.array([end for _, end in spans])
        token_of.append(np.minimum(np.searchsorted(stops, np.arange(length), side="right"), len(own) - 1))
    return _Variant(
        np.array(ids), np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate(token_of), np.concatenate([[0], np.cumsum(lengths)]),
    )  # fmt: skip


def _plain(text: str) -> str:
    """As people type: no capitals, no final stop."""
    text = text.lower()
    return text[:-1] if text.endswith(".") else text


def spellings(lines: Sequence[Line], tokenizer: VoiceTokenizer, dropout: float) -> list[_Variant]:
    """All lines as written and as typed, with and without dropped merges; `SHARES` says how often each is used."""
    texts = [line.text for line in lines]
    lengths = [len(t) for t in texts]
    plain = [_plain(t) for t in texts]
    kinds = ((texts, 0.0), (texts, dropout), (texts, 3 * dropout), (plain, 0.0), (plain, dropout))
    return [_variant(tokenizer, written, lengths, p) for written, p in kinds]


SHARES = np.array([0.55, 0.18, 0.07, 0.15, 0.05])


class RowBuilder:
    """Draws the rows of one epoch: every utterance once, in a random layout and spelling."""

    def __init__(
        self, tokens: TokenSet, variants: list[_Variant], ids: TextIds, codes: int, length: int
    ) -> None:
        self.tokens, self.length, self.variants = tokens, length, variants
        self.codec, self.ids = CodecIds(codes), ids
        count = len(variants[0].starts) - 1
        self.frame_starts = np.concatenate([[0], np.cumsum(tokens.frames)])
        known = (tokens.lines >= 0) & (tokens.lines < count)
        check = tokens.lines % 67 == 0
        self.train, self.check = np.flatnonzero(known & ~check), np.flatnonzero(known & check)

    def epoch(self, seed: int, streaming_share: float) -> Packed:
        """Rows of all training utterances."""
        rnd = np.random.default_rng(seed)
        chosen = rnd.permutation(self.train)
        n = len(chosen)
        return self.rows(
            chosen,
            rnd.choice(len(self.variants), n, p=SHARES),
            rnd.random(n) < streaming_share,
            rnd.random(n) < 0.5,
        )

    def rows(
        self,
        utterances: Ints,
        variant: Ints,
        streaming: npt.NDArray[np.bool_],
        english: npt.NDArray[np.bool_],
    ) -> Packed:
        """Rows of the given utterances; those that do not fit a row are left out."""
        lines = self.tokens.lines[utterances]
        count = np.zeros(len(utterances), np.int64)
        for v, table in enumerate(self.variants):
            count = np.where(variant == v, table.starts[lines + 1] - table.starts[lines], count)
        frames = self.tokens.frames[utterances]
        head = np.where(english, 9, 8)
        total = head + np.where(streaming, 1, count + 2) + frames
        where = _pack(total, self.length)
        keep = where >= 0
        size = int(where.max()) // self.length + 1
        flat = {name: np.full(size * self.length, -1, np.int32) for name in FIELDS}
        flat["text"][:] = self.ids.pad
        flat["position"][:] = 0
        order = np.flatnonzero(keep)
        segment = _running_number(where[order] // self.length)
        for v, table in enumerate(self.variants):
            for stream in (False, True):
                for speaks_english in (False, True):
                    pick = (variant == v) & (streaming == stream) & (english == speaks_english) & keep
                    for speaker in range(int(self.tokens.speakers.max()) + 1):
                        group = np.flatnonzero(pick & (self.tokens.speakers[utterances] == speaker))
                        if len(group):
                            self._fill(
                                flat,
                                table,
                                utterances[group],
                                where[group],
                                count[group],
                                stream,
                                speaks_english,
                                speaker,
                            )
        _spread(flat["segment"], where[order], total[order], segment)
        spans = np.repeat(where[order], total[order])
        inside = _ranges(total[order])
        flat["position"][spans + inside] = inside
        return {name: values.reshape(size, self.length) for name, values in flat.items()}

    def _fill(
        self, flat: dict[str, npt.NDArray[np.int32]], table: _Variant, utterances: Ints, where: Ints, count: Ints,
        streaming: bool, english: bool, speaker: int,
    ) -> None:  # fmt: skip
        form = prompt(self.codec, self.ids, [0], speaker, english, streaming)
        first = form.first_text
        flat["text"][where[:, None] + np.arange(first)] = form.text[:first]
        flat["codec"][where[:, None] + np.arange(first)] = form.codec[:first]
        frames = self.tokens.frames[utterances]
        lines = self.tokens.lines[utterances]
        # the spoken ids, then the end-of-text id; in the streaming layout only as many as there are rows
        rows = np.minimum(count + 1, frames + 1) if streaming else count + 1
        inside = _ranges(rows)
        owner = np.repeat(np.arange(len(rows)), rows)
        source = np.minimum(table.starts[lines][owner] + inside, len(table.ids) - 1)
        flat["text"][where[owner] + first + inside] = np.where(
            inside < count[owner], table.ids[source], self.ids.eos
        )
        if streaming:
            begin = where + first
        else:
            flat["codec"][where[owner] + first + inside] = self.codec.pad
            begin = where + first + count + 1
        flat["codec"][begin] = self.codec.bos
        inside = _ranges(frames)
        owner = np.repeat(np.arange(len(frames)), frames)
        number = self.frame_starts[utterances][owner] + inside
        flat["frame"][begin[owner] + 1 + inside] = number
        flat["target"][begin[owner] + inside] = number
        flat["target"][begin + frames] = -2
        place = self.tokens.places[number].astype(np.int64)
        last = table.char_starts[lines + 1][owner] - 1
        origin = table.char_starts[lines][owner]
        low = table.token_of[np.maximum(origin, origin + place - 1)]
        high = table.token_of[np.minimum(last, origin + place + 2)]
        text_at = (where + first)[owner] % self.length
        flat["low"][begin[owner] + inside] = text_at + low
        flat["high"][begin[owner] + inside] = text_at + high


def _ranges(lengths: Ints) -> Ints:
    """0..n0-1, 0..n1-1, ..."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)


def _spread(target: npt.NDArray[np.int32], where: Ints, lengths: Ints, values: Ints) -> None:
    target[np.repeat(where, lengths) + _ranges(lengths)] = np.repeat(values, lengths)


def _running_number(groups: Ints) -> Ints:
    """For each element, how many earlier elements have the same group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    begin = np.maximum.accumulate(np.where(new, np.arange(len(groups)), 0))
    out = np.empty(len(groups), np.int64)
    out[order] = np.arange(len(groups)) - begin
    return out


def _pack(lengths: Ints, room: int, open_rows: int = 12) -> Ints:
    """Flat start of each item in rows of `room`, first fit into a few open rows; -1 if it is too long."""
    out = np.full(len(lengths), -1, np.int64)
    rows: list[list[int]] = []  # [row number, used]
    made = 0
    for i, size in enumerate(lengths.tolist()):
        if size > room:
            continue
        for row in rows:
            if row[1] + size <= room:
                out[i] = row[0] * room + row[1]
                row[1] += size
                break
        else:
            if len(rows) == open_rows:
                rows.remove(max(rows, key=lambda r: r[1]))
            out[i] = made * room
            rows.append([made, size])
            made += 1
    return out
