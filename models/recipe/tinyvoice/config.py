"""The one configuration file, as typed values."""

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class TeacherConfig:
    """How speech is made."""

    voices: tuple[str, ...]
    """Voice files of the teacher, one per speaker."""
    speakers: tuple[str, ...]
    """Names of the speakers in the finished checkpoint."""
    gains: tuple[float, ...]
    batch: int
    """Passes made at once."""
    pass_frames: int
    """Length of a pass in teacher frames of 25 ms."""
    longest_frames: int
    """Longest utterance kept, in codec frames."""


@dataclass(frozen=True)
class CodecShape:
    """Sizes of the codec (names as in the official decoder_config)."""

    codebook_size: int
    codebook_dim: int
    latent_dim: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    head_dim: int
    intermediate_size: int
    sliding_window: int
    decoder_dim: int
    upsample_rates: tuple[int, ...]
    upsampling_ratios: tuple[int, ...]
    num_quantizers: int
    front_latent: int
    """Width of the front end's latent (training and tokenising only); the official class wants `codebook_dim`."""
    front_width: int


@dataclass(frozen=True)
class CodecTraining:
    """Stages A (tokens), B (decoder) and C (adversarial)."""

    token_batch: int
    token_frames: int
    token_rate: float
    level_dropout: float
    """Share of rows that keep a random number of books only."""
    phone_weight: float
    wave_batch: int
    wave_context: int
    """Frames of latent context in a decoder crop."""
    wave_scored: int
    wave_margin: int
    cold_rows: int
    """Rows that start at an utterance's first frame, so that the decoder learns to start from nothing."""
    wave_rate: float
    gan_rate: float
    discriminator_every: int
    gan_spectral_weight: float
    """Stage C: weight of the spectral loss; the adversarial loss has 1, the distance of features 2."""
    gan_readout_weight: float
    keep_seconds: float
    """Stages B and C save and measure that often."""


@dataclass(frozen=True)
class StackShape:
    """Sizes of a transformer stack."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rope_theta: float


@dataclass(frozen=True)
class TalkerTraining:
    """Joint training of talker and code predictor."""

    row_length: int
    """Positions in a packed row."""
    rows: int
    predictor_frames: int
    """Frames per step that the predictor is trained on."""
    rate: float
    rate_end: float
    """Final learning rate as a share of `rate`."""
    weight_decay: float
    dropout: float
    code_noise: float
    """Chance that one code of the input is replaced at random."""
    frame_noise: float
    """Chance that all codes of an input frame are dropped."""
    streaming_share: float
    end_weight: float
    """Weight of the end of speech among the code-0 targets."""
    phone_weight: float
    attention_weight: float
    predictor_weight: float
    label_smoothing: float
    attention_layers: tuple[int, ...]
    """Layers whose first head is taught to look at the text being spoken."""
    bpe_dropout: float
    average: float
    """Decay of the weight average."""


@dataclass(frozen=True)
class Config:
    """Everything."""

    seed: int
    sentences: int
    text_vocab_size: int
    teacher: TeacherConfig
    codec: CodecShape
    codec_training: CodecTraining
    talker: StackShape
    predictor: StackShape
    talker_training: TalkerTraining


def _build(kind: type[T], values: dict[str, Any], where: str) -> T:
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    unknown, missing = set(values) - set(fields), set(fields) - set(values)
    if unknown or missing:
        raise ValueError(f"{where}: unknown keys {sorted(unknown)}, missing keys {sorted(missing)}")
    built = {}
    for name, value in values.items():
        if isinstance(value, dict):
            kinds = {
                c.__name__: c for c in (TeacherConfig, CodecShape, CodecTraining, StackShape, TalkerTraining)
            }
            annotation = fields[name].type
            built[name] = _build(
                kinds[getattr(annotation, "__name__", str(annotation))], value, f"{where}.{name}"
            )
        else:
            built[name] = tuple(value) if isinstance(value, list) else value
    return kind(**built)


def load(path: Path, overrides: dict[str, Any] | None = None) -> Config:
    """Read a TOML file; `overrides` maps dotted keys ("codec.decoder_dim") to values."""
    values: dict[str, Any] = tomllib.loads(path.read_text("utf8"))
    for dotted, value in (overrides or {}).items():
        *folders, last = dotted.split(".")
        table = values
        for name in folders:
            table = table[name]
        if last not in table:
            raise ValueError(f"no key {dotted} in {path}")
        table[last] = value
    return _build(Config, values, path.name)
