"""The teacher (Kokoro-82M) in plain PyTorch, in batches.

The network classes are those of the `kokoro` package; here are the parts that make it fast: the text stage on padded
batches, every pass stretched to one fixed number of frames (one shape for all kernels), and a fused activation.
"""

import importlib
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import kernels
from .features import mel_error_db

FRAME = 600
"""Samples of one teacher frame (40 Hz at 24 kHz)."""
SPACE, STOP, MARKS = 16, 4, (4, 5, 6)
"""Phone ids of the space and the full stop; of `.`, `!` and `?`."""


class Albert(nn.Module):
    """The phone encoder: ALBERT with shared layers, names as in transformers' AlbertModel."""

    def __init__(
        self, symbols: int = 178, dim: int = 768, heads: int = 12, inner: int = 2048, depth: int = 12
    ) -> None:
        super().__init__()
        self.heads, self.depth = heads, depth
        self.embeddings = nn.Module()
        self.embeddings.word_embeddings = nn.Embedding(symbols, 128)
        self.embeddings.position_embeddings = nn.Embedding(512, 128)
        self.embeddings.token_type_embeddings = nn.Embedding(2, 128)
        self.embeddings.LayerNorm = nn.LayerNorm(128, eps=1e-12)
        layer = nn.Module()
        layer.full_layer_layer_norm = nn.LayerNorm(dim, eps=1e-12)
        attention = layer.attention = nn.Module()
        for name in ("query", "key", "value", "dense"):
            setattr(attention, name, nn.Linear(dim, dim))
        attention.LayerNorm = nn.LayerNorm(dim, eps=1e-12)
        layer.ffn, layer.ffn_output = nn.Linear(dim, inner), nn.Linear(inner, dim)
        group = nn.Module()
        group.albert_layers = nn.ModuleList([layer])
        self.encoder = nn.Module()
        self.encoder.embedding_hidden_mapping_in = nn.Linear(128, dim)
        self.encoder.albert_layer_groups = nn.ModuleList([group])

    def forward(self, ids: Tensor, keep: Tensor) -> Tensor:
        """ids (B, L), keep (B, L) bool -> (B, L, dim)."""
        e: Any = self.embeddings
        encoder: Any = self.encoder
        batch, length = ids.shape
        x = e.word_embeddings(ids) + e.position_embeddings.weight[:length] + e.token_type_embeddings.weight[0]
        x = encoder.embedding_hidden_mapping_in(e.LayerNorm(x))
        layer = encoder.albert_layer_groups[0].albert_layers[0]
        attention = layer.attention

        def split(z: Tensor) -> Tensor:
            return z.view(batch, length, self.heads, -1).transpose(1, 2)

        for _ in range(self.depth):
            q, k, v = (split(f(x)) for f in (attention.query, attention.key, attention.value))
            o = F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None, None])
            x = attention.LayerNorm(x + attention.dense(o.transpose(1, 2).reshape(batch, length, -1)))
            inner = F.gelu(layer.ffn(x), approximate="tanh")
            x = layer.full_layer_layer_norm(layer.ffn_output(inner) + x)
        out: Tensor = x
        return out


@contextmanager
def _light_imports(source: Path) -> Iterator[None]:
    """Let the package's modules load without imports they do not need, and without weight norm (merged already)."""
    weight_norm = nn.utils.weight_norm
    package = types.ModuleType("kokoro")
    package.__path__ = [str(source / "kokoro")]
    stubs = {"transformers": types.ModuleType("transformers"), "attr": types.ModuleType("attr")}
    stubs["transformers"].AlbertModel = nn.Module  # type: ignore[attr-defined]
    stubs["attr"].attr = None  # type: ignore[attr-defined]
    saved = {name: sys.modules[name] for name in stubs if name in sys.modules}
    sys.modules.update(kokoro=package, **stubs)
    nn.utils.weight_norm = lambda module, *_, **__: module
    try:
        yield
    finally:
        nn.utils.weight_norm = weight_norm
        for name in stubs:
            del sys.modules[name]
        sys.modules.update(saved)


def _fused_block(block: Any, x: Tensor, style: Tensor) -> Tensor:
    """AdaINResBlock1.forward with norm, affine and Snake in one kernel."""

    def norm_snake(norm: Any, alpha: Tensor, value: Tensor) -> Tensor:
        scale, shift = norm.fc(style).chunk(2, dim=1)
        return kernels.adain_snake(value, 1 + scale, shift, alpha.reshape(-1))

    groups = (block.convs1, block.convs2, block.adain1, block.adain2, block.alpha1, block.alpha2)
    for conv1, conv2, norm1, norm2, alpha1, alpha2 in zip(*groups, strict=True):
        y = conv1(norm_snake(norm1, alpha1, x))
        x = x + conv2(norm_snake(norm2, alpha2, y))
    return x


def _keep_float32(generator: Any) -> None:
    """The sine source and the inverse STFT lose too much in float16 (or do not exist there)."""
    source, inverse = generator.m_source.forward, generator.stft.inverse

    def precise_source(x: Tensor) -> Any:
        with torch.autocast(x.device.type, enabled=False):
            return source(x.float())

    generator.m_source.forward = precise_source
    generator.stft.inverse = lambda magnitude, phase: inverse(magnitude.float(), phase.float())


class Teacher(nn.Module):
    """Phones and a voice vector to speech."""

    def __init__(self, source: Path, weights: dict[str, Tensor]) -> None:
        super().__init__()
        with _light_imports(source):
            modules = importlib.import_module("kokoro.modules")
            istftnet = importlib.import_module("kokoro.istftnet")
        self.bert = Albert()
        self.bert_encoder = nn.Linear(768, 512)
        self.predictor = modules.ProsodyPredictor(
            style_dim=128, d_hid=512, nlayers=3, max_dur=50, dropout=0.2
        )
        self.text_encoder = modules.TextEncoder(channels=512, kernel_size=5, depth=3, n_symbols=178)
        self.decoder = istftnet.Decoder(
            dim_in=512, style_dim=128, dim_out=80, disable_complex=False, upsample_kernel_sizes=[20, 12],
            upsample_rates=[10, 6], gen_istft_hop_size=5, gen_istft_n_fft=20, resblock_dilation_sizes=[[1, 3, 5]] * 3,
            resblock_kernel_sizes=[3, 7, 11], upsample_initial_channel=512,
        )  # fmt: skip
        absent = self.load_state_dict(weights, strict=False)
        unknown = [n for n in absent.missing_keys if not n.endswith(("norm.weight", "norm.bias"))]
        if unknown or [n for n in absent.unexpected_keys if "pooler" not in n and "istft.stft" not in n]:
            raise ValueError(f"teacher weights do not fit: {unknown[:5]} {absent.unexpected_keys[:5]}")
        generator: Any = self.decoder.generator
        for block in [*generator.resblocks, *generator.noise_res]:
            block.forward = lambda x, style, block=block: _fused_block(block, x, style)
        _keep_float32(generator)
        self.float16 = False
        """Run the waveform part in float16 (see `half_error`)."""
        self.eval()

    @torch.no_grad()
    def forward(self, phones: Tensor, lengths: Tensor, styles: Tensor, frames: int) -> tuple[Tensor, Tensor]:
        """One batch of passes, each stretched by silence at its end to `frames` teacher frames.

        phones (B, L) padded with 0, each starting and ending with the silence phone 0; lengths (B,) on the CPU;
        styles (B, 256). Returns audio (B, frames * 600) and the last frame of each phone (B, L), cumulative;
        passes that are longer than `frames` are cut.
        """
        device = phones.device
        count = lengths.to(device)
        drop = torch.arange(phones.shape[1], device=device)[None] >= count[:, None]
        tone, prosody = styles[:, :128], styles[:, 128:]
        predictor: Any = self.predictor
        hidden = self.bert_encoder(self.bert(phones, ~drop)).transpose(1, 2)
        duration_code = predictor.text_encoder(hidden, prosody, lengths, drop)
        packed = nn.utils.rnn.pack_padded_sequence(
            duration_code, lengths, batch_first=True, enforce_sorted=False
        )
        spoken = predictor.lstm(packed)[0]
        x, _ = nn.utils.rnn.pad_packed_sequence(spoken, batch_first=True, total_length=phones.shape[1])
        durations = (
            torch.sigmoid(predictor.duration_proj(x)).sum(-1).round().clamp(min=1).long().masked_fill(drop, 0)
        )
        ends = durations.cumsum(1)
        at = torch.arange(frames, device=device)
        phone_of = torch.searchsorted(ends, at.expand(len(ends), -1).contiguous(), right=True)
        phone_of = torch.minimum(phone_of, count[:, None] - 1)

        def spread(code: Tensor) -> Tensor:
            """(B, L, C) -> (B, C, frames)."""
            return code.gather(1, phone_of[:, :, None].expand(-1, -1, code.shape[2])).transpose(1, 2)

        pitch, energy = predictor.F0Ntrain(spread(duration_code), prosody)
        text = self.text_encoder(phones, lengths, drop).transpose(1, 2)
        with torch.autocast(device.type, torch.float16, enabled=self.float16):
            audio = self.decoder(spread(text), pitch, energy, tone)
        return audio.reshape(len(phones), -1).float(), ends

    @torch.no_grad()
    def half_error(self, phones: Tensor, lengths: Tensor, styles: Tensor, frames: int) -> float:
        """Log-mel difference in dB between float16 and float32 for the same noise; infinite if float16 fails."""
        outputs = []
        for half in (False, True):
            self.float16 = half
            torch.manual_seed(0)
            try:
                outputs.append(self(phones, lengths, styles, frames)[0])
            except RuntimeError:
                return float("inf")
            finally:
                self.float16 = False
        error = mel_error_db(*outputs)
        return error if error == error else float("inf")


def load(folder: Path, source: Path, device: torch.device) -> Teacher:
    """The teacher from `teacher_weights.save`'s file in `folder`; `source` holds the `kokoro` package's folder."""
    from . import teacher_weights

    return Teacher(source, teacher_weights.load(folder / "teacher.bin")).to(device)


def load_voice(path: Path, device: torch.device) -> Tensor:
    """Voice vectors (510, 256), chosen by the number of phones in a pass."""
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.float32).reshape(-1, 256).to(device)
