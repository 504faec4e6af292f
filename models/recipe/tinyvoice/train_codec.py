"""The codec in three stages.

A  tokens: front end -> split RVQ -> the front of the real decoder (12.5 to 50 Hz) -> log-mel, no waveform.
B  tokens frozen; the whole decoder learns the waveform by spectral losses (long latent context, short decoded crop).
C  the same with discriminators; the moving average of the decoder is what is kept.
"""

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .adversary import Critics, critic_loss, generator_losses
from .codec import CodecDecoder, FrontEnd, encode
from .config import CodecTraining, Config
from .features import FRAME, SUB, causal_mel, mel_distance, mel_error_db
from .graphs import Step
from .speech import LABELS, Speech

log = logging.getLogger(__name__)
PHONES = 178
Codes = npt.NDArray[np.uint8]


@dataclass
class _Rate:
    """A learning rate that a recorded graph reads from a tensor."""

    value: Tensor
    peak: float


def _mel50(mel: Tensor) -> Tensor:
    """Patches (B, n, 8, 80) -> (B, 160, 4 n): two mel frames for each 50 Hz feature."""
    return mel.reshape(mel.shape[0], mel.shape[1] * 4, 160).transpose(1, 2)


class CodecTrainer:
    """Networks, optimisers and the three steps."""

    def __init__(self, cfg: Config, speech: Speech, device: torch.device) -> None:
        self.cfg, self.t, self.device, self.speech = cfg, cfg.codec_training, device, speech
        self.cuda = device.type == "cuda"
        self.front = FrontEnd(cfg.codec).to(device)
        self.decoder = CodecDecoder(cfg.codec).to(device)
        self.critics = Critics().to(device)
        if self.cuda:
            self.critics.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.readout = nn.Conv1d(cfg.codec.decoder_dim, 160, 1).to(device)
        self.phone_head = nn.Linear(cfg.codec.codebook_dim // 2, LABELS * PHONES).to(device)
        self.quantizer = self.decoder.quantizer
        d = self.decoder
        token_parts = (
            self.front,
            d.pre_transformer,
            d.pre_conv,
            d.upsample,
            d.decoder[0],
            self.quantizer,
            self.readout,
            self.phone_head,
        )
        self.token_params = [p for m in token_parts for p in m.parameters() if p.requires_grad]
        self.wave_params = [
            p for n, p in d.named_parameters() if p.requires_grad and not n.startswith("quantizer")
        ] + list(self.readout.parameters())
        self.average = [p.detach().clone() for p in self.wave_params]
        self.log = torch.zeros(6, device=device)
        self.decay = torch.tensor(0.99, device=device)
        self.resumed = False
        self._rates: dict[str, _Rate] = {}
        self._optimisers: dict[str, torch.optim.AdamW] = {}
        self._add("tokens", self.token_params, self.t.token_rate, (0.9, 0.99))
        self._add("wave", self.wave_params, self.t.wave_rate, (0.8, 0.99))
        self._add("gan", self.wave_params, self.t.gan_rate, (0.8, 0.99))
        self._add("critic", list(self.critics.parameters()), self.t.gan_rate, (0.8, 0.99))
        self._prepare_data()

    def _add(self, name: str, params: list[nn.Parameter], peak: float, betas: tuple[float, float]) -> None:
        rate = torch.tensor(0.0, device=self.device)
        self._rates[name] = _Rate(rate, peak)
        self._optimisers[name] = torch.optim.AdamW(
            params, lr=rate if self.cuda else peak, betas=betas, weight_decay=1e-3, capturable=self.cuda
        )

    # ---------------------------------------------------------------------------------------- data
    def _prepare_data(self) -> None:
        s, t, dev = self.speech, self.t, self.device
        starts = s.starts
        total = int(starts[-1])
        reach = max(t.token_frames, t.wave_context)
        usable = np.ones(total, bool)
        usable[max(0, total - reach) :] = False
        for u in np.flatnonzero(s.lines < 0):
            usable[max(0, starts[u] - reach) : starts[u + 1]] = False
        self.crop_starts = torch.from_numpy(np.flatnonzero(usable)).to(dev)
        cold = starts[:-1][(s.lines >= 0) & (s.frames > t.wave_scored)]
        self.cold_starts = torch.from_numpy(cold).to(dev)
        self.in_mel = torch.zeros(t.token_batch, t.token_frames, SUB, 80, device=dev)
        self.in_phones = torch.zeros(t.token_batch, t.token_frames, LABELS, dtype=torch.long, device=dev)
        dim = self.cfg.codec.codebook_dim
        self.in_latent = torch.zeros(t.wave_batch, t.wave_context, dim, device=dev)
        self.in_wave_mel = torch.zeros(t.wave_batch, t.wave_context, SUB, 80, device=dev)
        self.in_wave = torch.zeros(t.wave_batch, t.wave_scored, FRAME, device=dev)
        self.in_cold = torch.zeros(t.cold_rows, t.wave_scored, dim, device=dev)
        self.in_cold_wave = torch.zeros(t.cold_rows, t.wave_scored, FRAME, device=dev)
        self.latent = torch.zeros(0, dim, device=dev)
        self.codes: Codes = np.zeros((0, 0), np.uint8)

    def _pick(self, starts: Tensor, rows: int, frames: int) -> Tensor:
        first = starts[torch.randint(0, len(starts), (rows,), device=self.device)]
        return first[:, None] + torch.arange(frames, device=self.device)

    def _load_tokens_batch(self) -> None:
        at = self._pick(self.crop_starts, self.t.token_batch, self.t.token_frames)
        self.in_mel.copy_(self.speech.mel[at])
        self.in_phones.copy_(self.speech.phones[at])

    def _load_wave_batch(self) -> None:
        t = self.t
        at = self._pick(self.crop_starts, t.wave_batch, t.wave_context)
        self.in_latent.copy_(self.latent[at])
        self.in_wave_mel.copy_(self.speech.mel[at])
        self.in_wave.copy_(self.speech.wave[at[:, -t.wave_scored :]]).div_(32768)
        at = self._pick(self.cold_starts, t.cold_rows, t.wave_scored)
        self.in_cold.copy_(self.latent[at])
        self.in_cold_wave.copy_(self.speech.wave[at]).div_(32768)

    # ---------------------------------------------------------------------------------------- steps
    def _log(self, *values: Tensor) -> None:
        self.log.copy_(torch.stack([v.detach().float() for v in values]))

    def _token_step(self) -> None:
        t, rows, books = self.t, self.t.token_batch, self.cfg.codec.num_quantizers
        z = self.front(self.in_mel)
        a, _, commit_first = self.quantizer.rvq_first.quantise(z, self.decay)
        some = torch.rand(rows, device=self.device) < t.level_dropout
        level = torch.randint(1, books, (rows,), device=self.device)
        b, _, commit_rest = self.quantizer.rvq_rest.quantise(
            z, self.decay, torch.where(some, level - 1, books)
        )
        h = self.quantizer.rvq_first.output_proj(a) + self.quantizer.rvq_rest.output_proj(b)
        phone = F.cross_entropy(
            self.phone_head(a.transpose(1, 2)).reshape(-1, PHONES), self.in_phones.view(-1)
        )
        mel = (self.readout(self.decoder.front(h)) - _mel50(self.in_mel)).abs().mean()
        loss = 10 * mel + 0.2 * (commit_first + commit_rest / 4) + t.phone_weight * phone
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.token_params, 5.0, foreach=True)
        self._optimisers["tokens"].step()
        self._log(mel, commit_first, commit_rest, phone, norm, loss)

    def _synthesise(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(recorded, synthesised, mel read-out loss, spectral loss) of the current wave batch."""
        t = self.t
        features = self.decoder.front(self.in_latent.transpose(1, 2))
        readout = (self.readout(features) - _mel50(self.in_wave_mel)).abs().mean()
        y = self.decoder.back(features[:, :, -(t.wave_scored + t.wave_margin) * 4 :])[
            :, t.wave_margin * FRAME :
        ]
        cold = self.decoder.back(self.decoder.front(self.in_cold.transpose(1, 2)))
        y = torch.cat([y, cold])
        x = torch.cat([self.in_wave, self.in_cold_wave]).view(len(y), -1)
        return x, y, readout, mel_distance(y, x)

    def _follow(self) -> None:
        with torch.no_grad():
            torch._foreach_lerp_(self.average, list[Tensor](self.wave_params), 0.002)

    def _wave_step(self) -> None:
        _, _, readout, spectral = self._synthesise()
        loss = 5 * spectral + 2 * readout
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(self.wave_params, 100.0, foreach=True)
        self._optimisers["wave"].step()
        self._follow()
        zero = torch.zeros_like(loss)
        self._log(spectral, readout, zero, zero, norm, loss)

    def _judge(self, x: Tensor, y: Tensor) -> list[tuple[Tensor, list[Tensor]]]:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.cuda, cache_enabled=False):
            judged: list[tuple[Tensor, list[Tensor]]] = self.critics(torch.cat([x, y]))
        return judged

    def _gan_step(self, train_critics: bool) -> None:
        x, y, readout, spectral = self._synthesise()
        rows = len(x)
        judged_by = torch.zeros((), device=self.device)
        if train_critics:
            judged_by = critic_loss(self._judge(x, y.detach()), rows)
            judged_by.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self.critics.parameters(), 10.0, foreach=True)
            self._optimisers["critic"].step()
        for p in self.critics.parameters():
            p.requires_grad_(False)
        adversarial, features = generator_losses(self._judge(x, y), rows)
        spectral_part = self.t.gan_spectral_weight * spectral + self.t.gan_readout_weight * readout
        loss = spectral_part + adversarial + 2 * features
        loss.backward()  # type: ignore[no-untyped-call]
        for p in self.critics.parameters():
            p.requires_grad_(True)
        norm = nn.utils.clip_grad_norm_(self.wave_params, 100.0, foreach=True)
        self._optimisers["gan"].step()
        self._follow()
        self._log(spectral, readout, judged_by, adversarial, features, norm)

    # ---------------------------------------------------------------------------------------- stages
    def _clear(self) -> None:
        for o in self._optimisers.values():
            o.zero_grad(set_to_none=True)

    def _stage(
        self,
        name: str,
        seconds: float,
        load: Callable[[], None],
        runs: list[Callable[[], None]],
        rates: tuple[str, ...],
        warm: int,
        low: float,
        steps: int | None = None,
        keep: Path | None = None,
    ) -> None:
        """Run until `seconds` have passed (or `steps` are done): linear warm-up, cosine fall to `low` of the peak.

        Every `keep_seconds` the state is saved in the file `keep` and measured: a run that is cut off leaves one.
        """
        recorded = [Step(run, self._clear, self.device) for run in runs]
        began = kept = time.monotonic()
        n = 0
        while True:
            if keep and time.monotonic() - kept > self.t.keep_seconds:
                self.save(keep)
                self.heldout()
                kept = time.monotonic()
            if n % 20 == 0 or n < 3 or steps:
                if self.cuda:
                    torch.cuda.synchronize()
                done = n / steps if steps else (time.monotonic() - began) / seconds
                if done >= 1:
                    break
                fall = low + (1 - low) * 0.5 * (1 + math.cos(math.pi * done))
                for key in rates:
                    now = self._rates[key].peak * min(1.0, (n + 1) / warm) * fall
                    self._rates[key].value.fill_(now)
                    if not self.cuda:
                        self._optimisers[key].param_groups[0]["lr"] = now
                self.decay.fill_(0.95 if n < 400 and not self.resumed else 0.99)
            load()
            recorded[n % len(recorded)]()
            n += 1
            if n % 500 == 0 or (not self.cuda and n % 10 == 0):
                figures = " ".join(f"{v:.3f}" for v in self.log.tolist())
                log.info("%s %d %.0f s: %s", name, n, time.monotonic() - began, figures)
        took = time.monotonic() - began
        log.info("stage %s: %d steps, %.1f s, %.1f ms a step", name, n, took, took / max(1, n) * 1000)

    @torch.no_grad()
    def start_tokens(self) -> None:
        """Unit scale for the latent and its projections, codebooks on real vectors: else the first steps do nothing."""
        self._load_tokens_batch()
        z = self.front(self.in_mel)
        scale = z.std()
        self.front.o.conv.weight.div_(scale)
        self.front.o.conv.bias.div_(scale)  # type: ignore[union-attr]
        z = self.front(self.in_mel)
        for q in (self.quantizer.rvq_first, self.quantizer.rvq_rest):
            q.input_proj.weight.div_(q.input_proj(z).std())
            x = q.input_proj(z).transpose(1, 2).reshape(-1, q.input_proj.weight.shape[0])
            for i, book in enumerate(q.books()):
                some = torch.randint(0, len(x), (len(book.cluster_usage),), device=self.device)
                book.embedding_sum.copy_(x[some] * 0.7**i)

    def train_tokens(self, seconds: float, steps: int | None = None) -> None:
        """Stage A; after `resume` it goes on with the codebooks as they are."""
        if not self.resumed:
            self.start_tokens()
        warm = 200 if self.cuda else 30
        self._stage("A", seconds, self._load_tokens_batch, [self._token_step], ("tokens",), warm, 0.05, steps)
        with torch.no_grad():
            for kept, p in zip(self.average, self.wave_params, strict=True):
                kept.copy_(p)

    @torch.no_grad()
    def tokenise(self) -> Codes:
        """Codes (NF, books) of all speech; also the latents that stages B and C start from."""
        s, starts = self.speech, self.speech.starts
        codes = torch.zeros(
            int(starts[-1]), self.cfg.codec.num_quantizers, dtype=torch.uint8, device=self.device
        )
        order = np.argsort(s.frames, kind="stable")
        i = 0
        with _NoBenchmark():
            while i < len(order):
                length = int(s.frames[order[i]])
                j = i
                while j < len(order) and s.frames[order[j]] == length and (j - i) * length < 24000:
                    j += 1
                at = torch.from_numpy(starts[order[i:j]]).to(self.device)[:, None]
                at = at + torch.arange(length, device=self.device)
                found = encode(self.front, self.quantizer, s.mel[at].float())
                codes[at] = found.transpose(1, 2).to(torch.uint8)
                i = j
        self.set_codes(codes)
        return self.codes

    @torch.no_grad()
    def set_codes(self, codes: Tensor) -> None:
        """Take codes (NF, books) as the tokens of `speech`."""
        blocks = torch.split(codes, 8000)
        self.latent = torch.cat([self.quantizer.decode(b.long().t()[None])[0].t() for b in blocks])
        self.codes = codes.cpu().numpy()
        size = self.cfg.codec.codebook_size
        shares = [
            np.bincount(self.codes[:, k], minlength=size) / len(self.codes)
            for k in range(self.codes.shape[1])
        ]
        entropy = [float(-(p[p > 0] * np.log2(p[p > 0])).sum()) for p in shares]
        log.info("codes used %s, entropy %s", [int((p > 0).sum()) for p in shares], np.round(entropy, 2))

    def train_wave(self, seconds: float, steps: int | None = None, keep: Path | None = None) -> None:
        """Stage B."""
        self._stage("B", seconds, self._load_wave_batch, [self._wave_step], ("wave",), 300, 0.3, steps, keep)

    def train_adversarial(self, seconds: float, steps: int | None = None, keep: Path | None = None) -> None:
        """Stage C."""
        every = max(1, self.t.discriminator_every)
        runs: list[Callable[[], None]] = [lambda: self._gan_step(True)] + [lambda: self._gan_step(False)] * (
            every - 1
        )
        self._stage("C", seconds, self._load_wave_batch, runs, ("gan", "critic"), 200, 0.05, steps, keep)

    # ---------------------------------------------------------------------------------------- results
    @torch.no_grad()
    def _swap(self) -> None:
        for p, kept in zip(self.wave_params, self.average, strict=True):
            now = p.detach().clone()
            p.copy_(kept)
            kept.copy_(now)

    def save(self, path: Path) -> None:
        """Averaged decoder, front end, read-out and discriminators; float16 except the codebooks."""
        self._swap()
        parts = dict(
            decoder=self.decoder,
            front=self.front,
            readout=self.readout,
            critics=self.critics,
            phones=self.phone_head,
        )
        state = {
            part: {
                n: (v if "_codebook" in n else v.half()).cpu().contiguous().clone()
                for n, v in module.state_dict().items()
            }
            for part, module in parts.items()
        }
        self._swap()
        torch.save(state, path.with_suffix(".tmp"))
        path.with_suffix(".tmp").replace(path)

    def resume(self, path: Path) -> None:
        """Go on from what `save` wrote (the optimisers start anew)."""
        self.resumed = True
        state = torch.load(path, map_location=self.device)
        parts = dict(
            decoder=self.decoder,
            front=self.front,
            readout=self.readout,
            critics=self.critics,
            phones=self.phone_head,
        )
        for part, module in parts.items():
            module.load_state_dict({n: v.float() for n, v in state[part].items()})
        with torch.no_grad():
            for kept, p in zip(self.average, self.wave_params, strict=True):
                kept.copy_(p)

    @torch.no_grad()
    def heldout(self, books: tuple[int, ...] = (1, 4, 8, 16)) -> dict[str, Tensor]:
        """Resynthesis of every seventh held-out utterance: `u{line}_{speaker}` waves, with mean errors in the log."""
        self._swap()
        waves: dict[str, Tensor] = {}
        spectral, decibel, readout = [], [], []
        with _NoBenchmark():
            for u in np.flatnonzero(self.speech.lines < 0)[::7]:
                a, b = self.speech.starts[u : u + 2]
                x = (self.speech.wave[a:b].float() / 32768).view(1, -1)
                mel = causal_mel(x)
                codes = encode(self.front, self.quantizer, mel)
                features = self.decoder.front(self.quantizer.decode(codes))
                y = self.decoder.back(features)
                spectral.append(float(mel_distance(y, x)))
                decibel.append(mel_error_db(y, x))
                fewer = [self.decoder.front(self.quantizer.decode(codes[:, :n])) for n in books]
                readout.append([float((self.readout(f) - _mel50(mel)).abs().mean()) for f in fewer])
                waves[f"u{-1 - self.speech.lines[u]}_{self.speech.speakers[u]}"] = y[0].clamp(-1, 1).cpu()
        self._swap()
        log.info(
            "held-out: spectral %.3f, log-mel error %.2f dB, read-out with %s books %s",
            np.mean(spectral), np.mean(decibel), books, np.mean(readout, 0).round(4),
        )  # fmt: skip
        return waves


class _NoBenchmark:
    """Varied lengths follow: do not time convolution algorithms for each."""

    def __enter__(self) -> None:
        self._was = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = False

    def __exit__(self, *_: object) -> None:
        torch.backends.cudnn.benchmark = self._was


def settings(training: CodecTraining) -> str:
    """One line for the log."""
    return ", ".join(f"{k} {v}" for k, v in vars(training).items())
