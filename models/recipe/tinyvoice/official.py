"""The exported checkpoint in the official `qwen-tts` package against this recipe's own networks."""

import importlib.machinery
import itertools
import logging
import sys
import types
from pathlib import Path
from typing import Any

import torch

from .codec import CodecDecoder
from .config import Config
from .generate import Sampling, generate
from .ids import CodecIds, prompt
from .tokenizer import VoiceTokenizer
from .train_talker import new_talker

log = logging.getLogger(__name__)
TEXTS = ("Hello there, this is a test.", "Where is the train station?", "Yes.")


def _stub_unused() -> None:
    """The package imports audio libraries that only its 25 Hz tokenizer needs."""
    for name in (
        "torchaudio",
        "torchaudio.compliance",
        "torchaudio.compliance.kaldi",
        "sox",
        "einops",
        "onnxruntime",
    ):
        try:
            __import__(name)
        except ImportError:
            module = types.ModuleType(name)
            module.__spec__ = importlib.machinery.ModuleSpec(name, None)
            module.__path__ = []
            for attribute in ("rearrange", "repeat", "reduce", "kaldi", "InferenceSession"):
                setattr(module, attribute, None)
            sys.modules[name] = module


def compare(voice: Path, cfg: Config, frames: int = 16) -> dict[str, Any]:
    """Greedy codes of both layouts and languages, and the codec's waveform; `equal` must be true throughout."""
    _stub_unused()
    from qwen_tts import Qwen3TTSModel

    official: Any = Qwen3TTSModel.from_pretrained(
        str(voice), dtype=torch.float32, device_map="cpu", attn_implementation="eager"
    )
    inner = official.model
    net = new_talker(cfg).eval()
    loaded = net.load_state_dict({k: v.float() for k, v in inner.talker.state_dict().items()}, strict=False)
    results: dict[str, Any] = dict(missing=loaded.missing_keys, unexpected=loaded.unexpected_keys)
    tokenizer = VoiceTokenizer(voice)
    codec = CodecIds(cfg.codec.codebook_size)
    greedy = Sampling(temperature=0.0, sub_temperature=0.0)
    forms = itertools.product(range(len(cfg.teacher.speakers)), (True, False), (True, False))
    for (speaker, streaming, english), text in zip(forms, itertools.cycle(TEXTS), strict=False):
        ids = official.processor(text=official._build_assistant_text(text), return_tensors="pt")["input_ids"]
        own = tokenizer.encode([text])[0][0]
        name, language = cfg.teacher.speakers[speaker], "english" if english else "auto"
        theirs, _ = inner.generate(
            input_ids=[ids], languages=[language], speakers=[name], non_streaming_mode=not streaming, do_sample=False,
            subtalker_dosample=False, repetition_penalty=1.0, max_new_tokens=frames + 1,
        )  # fmt: skip
        form = prompt(codec, tokenizer.text_ids, own, speaker, english, streaming)
        (ours,), _ = generate(net, [form], tokenizer.text_ids.pad, frames, greedy, 0)
        same = ids[0, 3:-5].tolist() == own and torch.equal(ours, theirs[0].cpu())
        key = f"{text} / {name} / {'streaming' if streaming else 'full'} / {language}"
        results[key] = f"equal {same}, {len(ours)} frames"
        log.info("%s: %s", key, results[key])
    decoder = CodecDecoder(cfg.codec).eval()
    theirs_codec = inner.speech_tokenizer.model.decoder
    decoder.load_state_dict(
        {k: v.float() for k, v in theirs_codec.state_dict().items() if k in decoder.state_dict()},
        strict=False,
    )
    codes = torch.randint(0, cfg.codec.codebook_size, (1, cfg.codec.num_quantizers, 30))
    with torch.no_grad():
        difference = (theirs_codec(codes).flatten() - decoder(codes).flatten()).abs().max()
    results["largest waveform difference"] = float(difference)
    return results
