"""One command per stage: `python -m tinyvoice STAGE --help`.

prepare  packages -> sentences, phones, tokenizer, teacher weights (CPU)
codec    teacher speech -> tokens -> decoder (GPU; stages A, B, C)
talker   tokens -> talker and code predictor (GPU)
speak    held-out sentences -> codes (any device)
export   weights -> checkpoint in the hub's layout
check    the checkpoint in the official package against this code
judge    word error rate of spoken held-out sentences
references  teacher speech and codes of the held-out sentences, for `python -m bench.voice` (any device)
plot     curves of talker runs
"""

import argparse
import json
import logging
import os
import shutil
import sys
import time
from pathlib import Path

import numpy as np

from . import config

log = logging.getLogger("tinyvoice")


def _arguments() -> argparse.Namespace:
    here = Path(__file__).resolve().parent.parent
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--config", type=Path, default=here / "config.toml")
    common.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a configuration value"
    )
    common.add_argument("--inputs", type=Path, default=Path("build/voice/inputs"))
    common.add_argument("--out", type=Path, default=Path("build/voice/out"))
    common.add_argument("--heldout", type=Path, default=here / "heldout.tsv")
    common.add_argument("--device", default=None)
    parser = argparse.ArgumentParser(
        prog="tinyvoice", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    stages = parser.add_subparsers(dest="stage", required=True)

    prepare = stages.add_parser("prepare", parents=[common])
    prepare.add_argument("--packages", type=Path, required=True, help="folder made by fetch.sh")

    codec = stages.add_parser("codec", parents=[common])
    codec.add_argument("--teacher-seconds", type=float, default=100)
    codec.add_argument("--token-seconds", type=float, default=65)
    codec.add_argument("--wave-seconds", type=float, default=80)
    codec.add_argument("--gan-seconds", type=float, default=0)
    codec.add_argument("--end", type=float, help="UNIX time: stage C gets what is left until then")
    codec.add_argument(
        "--resume", type=Path, help="codec.pt of an earlier run; with --token-seconds 0 its tokens are kept"
    )
    codec.add_argument("--steps", type=int, help="steps of each stage instead of seconds")
    codec.add_argument("--lines", type=int, help="use only the first lines of the corpus")
    codec.add_argument("--float16-teacher", choices=("no", "check", "yes"), default="check")
    codec.add_argument(
        "--skip-lines", type=int, default=0, help="lines per voice that an earlier run has spoken already"
    )
    codec.add_argument(
        "--earlier-tokens", type=Path, help="folder of tokens*.npz that the new tokens are added to"
    )
    codec.add_argument("--speech-seed", type=int, default=1)
    codec.add_argument("--keep-tokens", action="store_true", help="write tokens*.npz also when resuming")

    talker = stages.add_parser("talker", parents=[common])
    talker.add_argument("--seconds", type=float, default=240)
    talker.add_argument("--steps", type=int)
    talker.add_argument("--tokens", type=Path, help="folder of tokens*.npz (default: OUT)")
    talker.add_argument("--end", type=float, help="stop at this UNIX time instead of after SECONDS")
    talker.add_argument("--resume", type=Path, nargs="*", default=[])
    talker.add_argument("--workers", type=int, default=3)
    talker.add_argument("--no-compile", action="store_true")
    talker.add_argument("--room", type=int, default=5_000_000, help="most frames of tokens")
    talker.add_argument("--lines", type=int)

    speak = stages.add_parser("speak", parents=[common])
    speak.add_argument("--seeds", type=int, default=1)
    speak.add_argument("--temperature", type=float, nargs="*", default=[0.7])
    speak.add_argument("--every", type=int, default=1, help="take every n-th sentence")
    speak.add_argument("--longest", type=int, default=220)
    speak.add_argument("--waves", type=int, default=0, help="also store mu-law speech of the first sentences")

    export = stages.add_parser("export", parents=[common])
    export.add_argument("--voice", type=Path, required=True, help="folder of the checkpoint")
    check = stages.add_parser("check", parents=[common])
    check.add_argument("--voice", type=Path, required=True)
    judge = stages.add_parser("judge", parents=[common])
    judge.add_argument("--what", nargs="*", default=[], help="trials (default: all); `teacher`, `codec`")
    judge.add_argument("--every", type=int, default=1, help="take every n-th sentence")
    judge.add_argument("--show", action="store_true")
    references = stages.add_parser("references", parents=[common])
    references.add_argument("--codec", type=Path, default=here / "state/codec.pt", help="codec.pt of any run")
    plot = stages.add_parser("plot", parents=[common])
    plot.add_argument("--runs", nargs="+", metavar="LABEL=FOLDER", help="default: the run in OUT")
    return parser.parse_args()


def _override(pairs: list[str]) -> dict[str, object]:
    return {k: json.loads(v) for k, v in (p.split("=", 1) for p in pairs)}


def main() -> None:
    """Run one stage."""
    a = _arguments()
    a.out.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(name)s %(message)s",
        datefmt="%H:%M:%S",
        handlers=[logging.StreamHandler(sys.stdout), logging.FileHandler(a.out / f"{a.stage}.log")],
    )
    cfg = config.load(a.config, _override(a.set))
    began = time.monotonic()
    globals()[f"_{a.stage}"](a, cfg)
    log.info("%s took %.1f s", a.stage, time.monotonic() - began)


def _prepare(a: argparse.Namespace, cfg: config.Config) -> None:
    from . import corpus, teacher_weights

    log.info(corpus.build(a.packages, a.heldout, a.inputs, cfg.sentences, cfg.text_vocab_size, cfg.seed))
    teacher_weights.save(teacher_weights.extract(a.packages / "kokoro.int8.onnx"), a.inputs / "teacher.bin")
    for voice in cfg.teacher.voices:
        shutil.copy(a.packages / f"npm/package/voices/{voice}.bin", a.inputs)
    (a.inputs / "kokoro").mkdir(exist_ok=True)
    for module in ("modules", "istftnet", "custom_stft"):
        shutil.copy(a.packages / f"kokx/kokoro/{module}.py", a.inputs / "kokoro")


def _codec(a: argparse.Namespace, cfg: config.Config) -> None:
    import torch

    from . import corpus, heldout, kernels, speech, teacher
    from .rows import TokenSet
    from .train_codec import CodecTrainer

    device = _device(a.device)
    torch.manual_seed(cfg.seed)
    torch.backends.cudnn.benchmark = True
    error = kernels.self_test(device)
    log.info("fused kernels: largest relative error %.1e", error)
    if error > 1e-3:
        raise SystemExit("the fused kernels are wrong on this device")
    lines = corpus.load(a.inputs / "corpus.xz")
    if a.lines:
        lines = corpus.Corpus(lines.lines[: a.lines], lines.heldout[: max(1, a.lines // 8)])
    speaker = teacher.load(a.inputs, a.inputs, device)
    voices = [teacher.load_voice(a.inputs / f"{v}.bin", device) for v in cfg.teacher.voices]
    log.info("teacher loaded")
    spoken = speech.speak(
        speaker, voices, lines, cfg.teacher, a.teacher_seconds, a.speech_seed, a.float16_teacher, a.skip_lines
    )
    del speaker
    heldout.save_teacher(spoken, a.out / "teacher.npz", list(range(0, 200, 5)))
    trainer = CodecTrainer(cfg, spoken, device)
    if a.resume:
        trainer.resume(a.resume)
    if a.token_seconds:
        trainer.train_tokens(a.token_seconds, a.steps)
    codes = trainer.tokenise()
    if a.token_seconds or a.keep_tokens:
        host = (spoken.phones.cpu().numpy(), spoken.places.cpu().numpy())
        tokens = TokenSet(codes, *host, spoken.lines, spoken.speakers, spoken.frames)
        if a.earlier_tokens:
            tokens = TokenSet.load(a.earlier_tokens).joined(tokens)
        tokens.save(a.out)
        (a.out / "tokens.ready").touch()
    trainer.save(a.out / "codec.pt")
    log.info("tokens written")
    if a.wave_seconds:
        trainer.train_wave(a.wave_seconds, a.steps, a.out / "codec.pt")
        trainer.save(a.out / "codec.pt")
        trainer.heldout()
    gan_seconds = a.end - time.time() if a.end else a.gan_seconds
    if gan_seconds > 0:
        trainer.train_adversarial(gan_seconds, a.steps, a.out / "codec.pt")
        trainer.save(a.out / "codec.pt")
        trainer.heldout()


def _talker(a: argparse.Namespace, cfg: config.Config) -> None:
    from . import corpus
    from .rows import TokenSet
    from .train_talker import BuilderSpec, EpochSource, TalkerTrainer

    device = _device(a.device)
    folder = a.tokens or a.out
    lines = corpus.load(a.inputs / "corpus.xz").lines[: a.lines]
    trainer = TalkerTrainer(cfg, device, a.room, compiled=device.type == "cuda" and not a.no_compile)
    trainer.warm_up()
    log.info("step recorded")
    scratch = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else a.out
    spec = BuilderSpec(
        lines, folder, a.inputs / "tokenizer", cfg.codec.codebook_size, cfg.talker_training.row_length,
        cfg.talker_training.bpe_dropout,
    )  # fmt: skip
    source = EpochSource(spec, cfg, scratch, a.workers)
    trainer.use_tokens(TokenSet.load(folder))
    if a.resume:
        trainer.resume(a.resume)
    history = trainer.train(source, a.end - time.time() if a.end else a.seconds, a.out, a.steps)
    source.close()
    (a.out / "talker.json").write_text(json.dumps(history))


def _load_voice(a: argparse.Namespace, cfg: config.Config) -> tuple:  # type: ignore[type-arg]
    import torch

    from .codec import CodecDecoder
    from .tokenizer import VoiceTokenizer
    from .train_talker import new_talker

    device = _device(a.device)
    net = new_talker(cfg)
    state = {
        k: v.float()
        for name in ("talker.pt", "talker_predictor.pt")
        for k, v in torch.load(a.out / name, map_location="cpu").items()
        if not k.startswith("helpers.")
    }
    net.load_state_dict(state)
    decoder = CodecDecoder(cfg.codec)
    decoder.load_state_dict(
        {k: v.float() for k, v in torch.load(a.out / "codec.pt", map_location="cpu")["decoder"].items()}
    )
    return net.to(device).eval(), decoder.to(device).eval(), VoiceTokenizer(a.inputs / "tokenizer"), device


def _speak(a: argparse.Namespace, cfg: config.Config) -> None:
    from . import corpus, heldout
    from .generate import Sampling

    net, decoder, tokenizer, device = _load_voice(a, cfg)
    texts = [text for _, text in corpus.read_heldout(a.heldout)]
    trials = [
        heldout.Trial(
            f"{'stream' if streaming else 'full'}_t{t}_s{seed}", streaming, True, Sampling(t, 50, t, 50), seed
        )
        for t in a.temperature
        for streaming in (True, False)
        for seed in range(a.seeds if t > 0 else 1)
    ]
    codes, figures = heldout.synthesise(
        net, decoder, tokenizer, texts, trials, len(cfg.teacher.speakers), a.longest, a.every
    )
    np.savez_compressed(a.out / "spoken.npz", **codes)  # type: ignore[arg-type]
    (a.out / "spoken.json").write_text(json.dumps(figures, indent=1))
    if a.waves:
        waves = {
            k: heldout.compress(heldout.decode(decoder, c, device))
            for k, c in codes.items()
            if int(k.split("/")[1].split("_")[0]) % max(1, len(texts) // a.waves)
            == 0  # a spread over all kinds
        }
        np.savez(a.out / "spoken_waves.npz", **waves)  # type: ignore[arg-type]


def _export(a: argparse.Namespace, cfg: config.Config) -> None:
    from . import export

    export.write(a.out, a.inputs / "tokenizer", a.voice, cfg)


def _check(a: argparse.Namespace, cfg: config.Config) -> None:
    from . import official

    for name, value in official.compare(a.voice, cfg).items():
        log.info("%s: %s", name, value)


def _judge(a: argparse.Namespace, cfg: config.Config) -> None:
    from . import judge

    judge.run(a.out, a.heldout, cfg, a.what, a.every, a.show)


def _references(a: argparse.Namespace, cfg: config.Config) -> None:
    from . import references

    references.make(a.inputs, a.codec, a.out / "references.npz", cfg, _device(a.device))


def _plot(a: argparse.Namespace, cfg: config.Config) -> None:
    from . import plot

    runs = dict(r.split("=", 1) for r in a.runs or [f"run={a.out}"])
    plot.curves({label: Path(folder) / "talker.json" for label, folder in runs.items()}, a.out / "talker.png")


def _device(name: str | None):  # type: ignore[no-untyped-def]
    import torch

    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.matmul.allow_tf32 = True
    return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


if __name__ == "__main__":
    main()
