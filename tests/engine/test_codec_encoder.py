"""The codec encoder: the official codes of a golden clip, lengths, pieces, ties and errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rtts_engine import codec_encoder
from rtts_engine.checkpoint import Checkpoint
from rtts_engine.clip import MAX_CLIP_SECONDS
from rtts_engine.codec_encoder import CodecEncoder, nearest
from rtts_engine.errors import AudioError, CheckpointError, ModelError
from rtts_engine.graph.codec_encoder import (
    codec_encoder_tables,
    context_samples,
    has_encoder,
    write_codec_encoder,
)
from rtts_engine.runtime import Net
from rtts_engine.tensors import TensorSource
from tests import goldens
from tests.oracle.audio import speech_like


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return Checkpoint.open(
        goldens.load("tiny-base").write_checkpoint(tmp_path_factory.mktemp("golden") / "c")
    )


@pytest.fixture(scope="module")
def encoder(source: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> CodecEncoder:
    stem = tmp_path_factory.mktemp("encoder") / "encoder"
    write_codec_encoder(source, stem)
    return CodecEncoder(Net(stem), source.config.codec, codec_encoder_tables(source))


def test_codes_are_the_official_ones(encoder: CodecEncoder) -> None:
    """The clip is no whole number of frames: the last frame depends on every layer's own padding."""
    clip = goldens.reference_clip()
    assert len(clip) % encoder.samples_per_frame
    codes = encoder.encode(clip)
    assert codes.dtype == np.int32
    assert np.array_equal(codes, goldens.load("tiny-base").ref_codes)


@pytest.mark.parametrize("columns", [4, 7, 51])
def test_pieces_do_not_change_the_codes(
    encoder: CodecEncoder, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    clip = speech_like(130_001, seed=1)
    monkeypatch.setattr(codec_encoder, "PIECE_COLUMNS", 10_000)
    whole = encoder.encode(clip)
    monkeypatch.setattr(codec_encoder, "PIECE_COLUMNS", columns)
    assert np.array_equal(encoder.encode(clip), whole)


@pytest.mark.parametrize("samples", [1, 100, 959, 960, 961, 1919, 1920, 1921, 7200, 48_000])
def test_a_clip_of_any_length_has_its_frames(encoder: CodecEncoder, samples: int) -> None:
    codes = encoder.encode(speech_like(samples, seed=2))
    assert codes.shape == (-(-samples // 1920), 16)
    assert codes.min() >= 0
    assert codes.max() < 64


def test_all_frames_but_the_last_ignore_what_follows(encoder: CodecEncoder) -> None:
    clip = speech_like(20_000, seed=3)
    assert np.array_equal(encoder.encode(clip[:10_000])[:-1], encoder.encode(clip)[:5])


def test_context_covers_the_convolutions(source: Checkpoint, encoder: CodecEncoder) -> None:
    """A change of one sample reaches columns as far as the context says and no farther."""
    context, hop = context_samples(source.config.codec.encoder), 960
    clip = speech_like(12 * hop, seed=4)
    other = clip.copy()
    other[5 * hop] += 0.5
    # Column t reads samples up to the end of its hop.
    last = 5 + -(-context // hop)
    changed = np.abs(encoder._convolve(clip, 0, 12) - encoder._convolve(other, 0, 12)).max(axis=1) > 0
    assert not changed[:5].any()
    assert changed[5]
    assert not changed[last + 1 :].any()


def test_silence_is_coded(encoder: CodecEncoder) -> None:
    assert encoder.encode(np.zeros(9600, np.float32)).shape == (5, 16)


def test_the_nearest_entry_is_found_exactly_and_the_first_wins_a_tie() -> None:
    rng = np.random.default_rng(0)
    book = rng.standard_normal((50, 8)).astype(np.float32)
    book[7] = 1e8  # an entry of usage 0
    book[30] = book[3]
    vectors = (book[rng.integers(0, 50, 200)] + 0.3 * rng.standard_normal((200, 8))).astype(np.float32)
    distances = ((vectors[:, None].astype(np.float64) - book[None]) ** 2).sum(axis=2)
    found = nearest(vectors, book)
    assert np.array_equal(found, distances.argmin(axis=1))
    assert nearest(book[30:31], book)[0] == 3


@pytest.mark.parametrize(
    ("clip", "message"),
    [
        (np.zeros(0, np.float32), "too short"),
        (np.zeros((100, 2), np.float32), "mono"),
        (np.zeros(100, np.int16), "int16"),
        (np.array([0.0, np.nan], np.float32), "nan"),
        (np.array([0.0, -np.inf], np.float32), "-inf"),
        (np.array([0.0, 1e300]), "inf"),
        (np.zeros(24000 * (MAX_CLIP_SECONDS + 1), np.float32), "too long"),
    ],
)
def test_unfit_clips_are_refused(encoder: CodecEncoder, clip: np.ndarray, message: str) -> None:
    with pytest.raises(AudioError, match=message):
        encoder.encode(clip)


def test_a_codec_without_encoder_is_recognised(source: Checkpoint) -> None:
    assert has_encoder(source)
    decoder_only = {
        name: source.codec.get(name, source.codec.extent(name)[0])
        for name in source.codec
        if name.startswith("decoder.")
    }
    bare = TensorSource(decoder_only, source.codec.path)
    assert not has_encoder(Checkpoint(source.path, source.config, source.main, bare))


def test_a_missing_tensor_is_named(source: Checkpoint, tmp_path: Path) -> None:
    name = "encoder.encoder_transformer.layers.1.mlp.fc2.weight"
    kept = {n: source.codec.get(n, source.codec.extent(n)[0]) for n in source.codec if "initialized" not in n}
    del kept[name]
    broken = Checkpoint(source.path, source.config, source.main, TensorSource(kept, source.codec.path))
    with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
        write_codec_encoder(broken, tmp_path / "e")


def test_missing_tables_are_refused(source: Checkpoint, encoder: CodecEncoder) -> None:
    with pytest.raises(ModelError, match=r"codec_encoder\.downsample"):
        CodecEncoder(encoder._net, source.config.codec, {})
