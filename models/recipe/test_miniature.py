"""The recipe in miniature on a CPU: losses fall, the export loads in the official package, codes are equal.

python -m pytest models/recipe    (a minute; torch, tokenizers, transformers; one test needs qwen-tts)
"""

import importlib.util
import random
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
sys.path.insert(0, str(Path(__file__).parent))

from tinyvoice import config, corpus, export, features, kernels, official, sentences, speech, tokenizer  # noqa: E402
from tinyvoice import train_talker as talker_stage  # noqa: E402
from tinyvoice.rows import TokenSet  # noqa: E402
from tinyvoice.train_codec import CodecTrainer  # noqa: E402

torch.set_num_threads(1)  # many small steps: threads only get in each other's way
CPU = torch.device("cpu")
TINY = {
    "text_vocab_size": 400,
    "codec.codebook_size": 32,
    "codec.codebook_dim": 32,
    "codec.latent_dim": 32,
    "codec.hidden_size": 32,
    "codec.num_attention_heads": 1,
    "codec.head_dim": 32,
    "codec.intermediate_size": 32,
    "codec.decoder_dim": 32,
    "codec.front_width": 64,
    "codec.front_latent": 32,
    "codec_training.token_batch": 8,
    "codec_training.token_frames": 8,
    "codec_training.wave_batch": 2,
    "codec_training.wave_context": 8,
    "codec_training.wave_scored": 4,
    "codec_training.cold_rows": 1,
    "codec_training.keep_seconds": 0,
    "talker.hidden_size": 64,
    "talker.intermediate_size": 64,
    "talker.num_hidden_layers": 2,
    "talker.num_attention_heads": 2,
    "talker.num_key_value_heads": 1,
    "talker.head_dim": 32,
    "predictor.hidden_size": 64,
    "predictor.intermediate_size": 64,
    "predictor.num_hidden_layers": 1,
    "predictor.num_attention_heads": 2,
    "predictor.num_key_value_heads": 1,
    "predictor.head_dim": 32,
    "talker_training.row_length": 160,
    "talker_training.rows": 4,
    "talker_training.predictor_frames": 64,
    "talker_training.attention_layers": [0, 1],
    "talker_training.dropout": 0.0,
    "talker_training.average": 0.5,
}


def make_lines(count: int) -> list[corpus.Line]:
    """Template sentences whose "phones" are their letters."""
    rnd = random.Random(0)
    texts = [sentences.template(rnd)[:50] for _ in range(count)]
    return [
        corpus.Line(t, np.frombuffer(t.encode(), np.uint8) % 178, np.arange(len(t), dtype=np.uint8))
        for t in texts
    ]


def make_speech(lines: list[corpus.Line]) -> speech.Speech:
    """One tone for each letter, 3 letters a frame: enough to be learnt."""
    waves, phones, places, frames = [], [], [], []
    time = torch.arange(features.FRAME) / features.RATE
    for line in lines:
        letters = torch.from_numpy(line.phones[::3].astype(np.int64))
        waves.append(torch.sin(2 * np.pi * (200 + 25 * (letters % 64))[:, None] * time) * 8000)
        phones.append(letters[:, None].expand(-1, 4))
        places.append(torch.arange(len(letters)) * 3)
        frames.append(len(letters))
    wave = torch.cat(waves).to(torch.int16)
    count = len(lines)
    numbers = np.arange(count)
    numbers[0] = -1
    return speech.Speech(
        wave, speech.mel_of(wave), torch.cat(phones).to(torch.uint8), torch.cat(places).to(torch.uint8),
        numbers, np.arange(count) % 2, np.array(frames),
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, config.Config]:
    """(weights, tokenizer, configuration) after a few steps of every stage, with the losses checked on the way."""
    torch.manual_seed(0)
    out = tmp_path_factory.mktemp("recipe")
    cfg = config.load(Path(__file__).parent / "config.toml", TINY)
    lines = make_lines(80)
    tokenizer.train([line.text for line in lines], cfg.text_vocab_size, out / "tokenizer")
    trainer = CodecTrainer(cfg, make_speech(lines), CPU)
    trainer.train_tokens(0, steps=2)
    before = float(trainer.log[0])
    trainer.resumed = True
    trainer.train_tokens(0, steps=25)
    assert float(trainer.log[0]) < before
    codes = trainer.tokenise()
    said = trainer.speech
    tokens = TokenSet(codes, said.phones.numpy(), said.places.numpy(), said.lines, said.speakers, said.frames)
    tokens.save(out)
    (out / "tokens.ready").touch()
    assert np.array_equal(TokenSet.load(out).codes, codes)
    trainer.train_wave(0, steps=2)
    before = float(trainer.log[0])
    trainer.train_wave(0, steps=10)
    assert float(trainer.log[0]) < before
    trainer.train_adversarial(0, steps=2, keep=out / "kept.pt")
    assert (out / "kept.pt").exists()
    trainer.save(out / "codec.pt")
    trainer.resume(out / "codec.pt")
    assert (trainer.tokenise() == codes).mean() > 0.95

    lm = talker_stage.TalkerTrainer(cfg, CPU, len(codes), compiled=False)
    lm.use_tokens(tokens)
    spec = talker_stage.BuilderSpec(
        lines, out, out / "tokenizer", 32, cfg.talker_training.row_length, cfg.talker_training.bpe_dropout
    )
    history = lm.train(talker_stage.EpochSource(spec, cfg, out, 0), 0, out, steps=40, warm=5)
    assert history[-1]["c0"] < history[0]["c0"]
    assert history[-1]["attention"] < history[0]["attention"]
    return out, out / "tokenizer", cfg


def test_exported_voice_speaks_the_same_codes_in_the_official_package(
    trained: tuple[Path, Path, config.Config], tmp_path: Path
) -> None:
    if importlib.util.find_spec("qwen_tts") is None:
        pytest.skip("needs qwen-tts")
    weights, tokenizer_folder, cfg = trained
    export.write(weights, tokenizer_folder, tmp_path, cfg)
    results = official.compare(tmp_path, cfg, frames=6)
    forms = {k: v for k, v in results.items() if " / " in k}
    assert len(forms) == 8
    assert all(v.startswith("equal True") for v in forms.values()), forms
    assert results["largest waveform difference"] < 1e-5


def test_stages_learn_and_resume(trained: tuple[Path, Path, config.Config]) -> None:
    weights, _, _ = trained
    assert {"codec.pt", "talker.pt", "talker_predictor.pt", "tokens0.npz"} <= {
        p.name for p in weights.iterdir()
    }


def test_stft_equals_the_librarys() -> None:
    x = torch.randn(2, 7680)
    for n, _ in features.RESOLUTIONS:
        ours = features.magnitude(features.stft(x, n))
        theirs = torch.stft(x, n, n // 4, n, torch.hann_window(n), return_complex=True).abs()
        assert torch.allclose(ours, theirs, atol=1e-3 * float(theirs.max()))


def test_fused_kernels_fall_back_on_a_cpu() -> None:
    assert kernels.self_test(CPU) < 1e-6
