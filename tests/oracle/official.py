"""The official package as an oracle: fp32, eager attention, CPU, with everything it computes on the way captured.

Importing this module imports torch; only the oracle tests and tools do so. ``qwen_tts`` is installed without its
dependencies, and what only its 25 Hz tokenizer needs is replaced by stubs.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import io
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cases import Case

FloatArray = NDArray[np.float32]
CodeArray = NDArray[np.int64]

_ONLY_25HZ = (
    "sox",
    "onnxruntime",
    "einops",
    "torchaudio",
    "torchaudio.compliance",
    "torchaudio.compliance.kaldi",
)


class _Stub(types.ModuleType):
    """A module whose attributes can be imported but not used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def unusable(*_args: Any, **_kwargs: Any) -> None:
            raise RuntimeError(f"{self.__name__}.{name} is a stub: only the 25 Hz tokenizer needs it")

        return unusable


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _import_qwen_tts() -> Any:
    for name in _ONLY_25HZ:
        if name in sys.modules or _is_installed(name):
            continue
        stub = _Stub(name)
        stub.__spec__ = importlib.machinery.ModuleSpec(name, loader=None, is_package=True)
        stub.__path__ = []
        sys.modules[name] = stub
        if "." in name:
            parent, child = name.rsplit(".", 1)
            setattr(sys.modules[parent], child, stub)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints a flash-attention banner
        return importlib.import_module("qwen_tts")


torch: Any = importlib.import_module("torch")
torch.set_num_threads(1)
transformers: Any = importlib.import_module("transformers")
transformers.logging.set_verbosity_error()
_qwen_tts: Any = _import_qwen_tts()


def voice_model(path: Path, dtype: Any) -> Any:
    """The official model as its users load it, for comparisons of speed."""
    return _qwen_tts.Qwen3TTSModel.from_pretrained(str(path), device_map=None, dtype=dtype)


@dataclass(frozen=True)
class Run:
    """One utterance of an official ``generate_*`` call.

    ``T`` frames were emitted; the talker made ``T + 1`` choices of c0 (the last is the end of speech or was
    discarded at the limit).
    """

    codes: CodeArray
    """(T, 16)."""
    waveform: FloatArray
    """24 kHz; about 1920 T samples (ICL: possibly one more, semantics 4.5)."""
    prompt: FloatArray
    """(L, D): the rows handed to the talker."""
    trailing: FloatArray
    """(N, D): the text rows added to the frames' inputs; in a batch, padded to the longest with tts_pad rows."""
    hidden: list[FloatArray]
    """T + 1 rows (D,): the talker's last hidden state, after the final norm, before each choice of c0."""
    logits: list[FloatArray]
    """T + 1 rows (V,): the codec head's raw output for those."""
    predictor_logits: list[FloatArray]
    """15 T rows (C,): the predictor heads' raw outputs, in order."""
    ended: bool
    """Whether it stopped at the end of speech rather than at the limit."""


class Official:
    """An official model in fp32 with eager attention on the CPU."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.wrapper: Any = _qwen_tts.Qwen3TTSModel.from_pretrained(
            str(path), device_map=None, dtype=torch.float32, attn_implementation="eager"
        )
        self.model: Any = self.wrapper.model
        self.talker: Any = self.model.talker
        self.codec: Any = self.model.speech_tokenizer.model

    # -- voices --------------------------------------------------------------------------------------------------

    def voice(self, clip: FloatArray, ref_text: str) -> Any:
        """A clone prompt item (x-vector and reference codes) from a 24 kHz clip."""
        return self.wrapper.create_voice_clone_prompt([(clip, 24000)], ref_text=ref_text)[0]

    def xvector(self, clip: FloatArray) -> FloatArray:
        """(D,) speaker embedding of a 24 kHz clip."""
        return _numpy(self.model.extract_speaker_embedding(clip, 24000))

    def encode(self, clip: FloatArray) -> CodeArray:
        """(R, 16) reference codes of a 24 kHz clip."""
        with torch.inference_mode():
            codes: CodeArray = self.model.speech_tokenizer.encode(clip, sr=24000).audio_codes[0].numpy()
        return codes

    # -- codec ---------------------------------------------------------------------------------------------------

    def decode(self, codes: NDArray[Any]) -> FloatArray:
        """The package's own decode: fresh runs of 300 frames with 25 frames of context (semantics 4.4)."""
        batch = torch.from_numpy(np.ascontiguousarray(codes, dtype=np.int64).T)[None]
        with torch.inference_mode():
            return _numpy(self.codec.decoder.chunked_decode(batch)[0, 0])

    def decode_once(self, codes: NDArray[Any]) -> FloatArray:
        """One causal pass over all frames, which a stateful decoder reproduces at any chunking."""
        batch = torch.from_numpy(np.ascontiguousarray(codes, dtype=np.int64).T)[None]
        with torch.inference_mode():
            return _numpy(self.codec.decoder(batch)[0, 0])

    @contextlib.contextmanager
    def outputs_of(self, *names: str) -> Iterator[dict[str, list[FloatArray]]]:
        """Captures the first tensor that each named submodule of the whole model returns, call by call.

        Names are those of the checkpoint's tensors: ``talker.*``, ``speaker_encoder.*``, and ``decoder.*`` or
        ``encoder.*`` for the codec.
        """
        captured: dict[str, list[FloatArray]] = {name: [] for name in names}
        handles = []
        for name in names:
            root = self.codec if name.split(".")[0] in ("decoder", "encoder") else self.model
            handles.append(root.get_submodule(name).register_forward_hook(_recorder(captured[name])))
        try:
            yield captured
        finally:
            for handle in handles:
                handle.remove()

    # -- language model ------------------------------------------------------------------------------------------

    def text(self, ids: NDArray[Any]) -> FloatArray:
        """(n, D) projected text embeddings."""
        with torch.inference_mode():
            rows = self.talker.get_text_embeddings()(torch.from_numpy(ids.astype(np.int64)))
            return _numpy(self.talker.text_projection(rows))

    def frames(self, codes: NDArray[Any]) -> FloatArray:
        """(R, D) sums of the 16 embeddings of each frame."""
        with torch.inference_mode():
            columns = torch.from_numpy(codes.astype(np.int64)).T
            tables = [self.talker.get_input_embeddings(), *self.talker.code_predictor.get_input_embeddings()]
            return _numpy(sum(table(column) for table, column in zip(tables, columns, strict=True)))

    def talker_pass(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(L, D) final-normed states and (L, V) logits of one pass over rows (L, D)."""
        with torch.inference_mode():
            states = self.talker.model(inputs_embeds=torch.from_numpy(rows)[None], use_cache=False)[0]
            return _numpy(states[0]), _numpy(self.talker.codec_head(states)[0])

    # -- speech --------------------------------------------------------------------------------------------------

    def generate(self, case: Case, *, voice: Any = None, seed: int | None = None) -> Run:
        """Runs one case: greedily, or with the checkpoint's sampling defaults from torch's seed ``seed``."""
        return self._generate([case], voice, seed)[0]

    def generate_batch(self, cases: Sequence[Case], *, voice: Any = None) -> list[Run]:
        """Runs cases of one kind, layout and limit as one greedy batch, many times faster than one by one.

        The package pads prompts on the left and masks the padding; its results are those of single runs (the
        committed goldens are single runs, and the oracle tests compare the same cases in batches).
        """
        return self._generate(cases, voice, None)

    def _generate(self, cases: Sequence[Case], voice: Any, seed: int | None) -> list[Run]:
        first = cases[0]
        if {(case.kind, case.layout, case.frames) for case in cases} != {
            (first.kind, first.layout, first.frames)
        }:
            raise ValueError("the cases of a batch share kind, layout and limit")
        if seed is not None:
            torch.manual_seed(seed)
        each = [case.official_arguments(voice) for case in cases]
        arguments: dict[str, Any] = {key: [one[key] for one in each] for key in each[0]}
        arguments["non_streaming_mode"] = first.layout == "full"
        heads = [f"talker.code_predictor.lm_head.{group}" for group in range(15)]
        calls: dict[str, Any] = {}
        with self._spied(calls), self.outputs_of("talker.codec_head", "talker.model", *heads) as seen:
            waveforms, _ = getattr(self.wrapper, first.official_method)(
                **arguments,
                do_sample=seed is not None,
                subtalker_dosample=seed is not None,
                max_new_tokens=first.frames + 1,
            )
        lengths = calls["attention_mask"].sum(dim=1).tolist()
        runs = []
        for i, case in enumerate(cases):
            codes = calls["codes"][i].cpu().numpy()
            steps = range(len(codes) + 1)
            runs.append(
                Run(
                    codes=codes,
                    waveform=np.asarray(waveforms[i], np.float32),
                    prompt=_numpy(calls["inputs_embeds"][i, -int(lengths[i]) :]),
                    trailing=_numpy(calls["trailing_text_hidden"][i]),
                    hidden=[seen["talker.model"][step][i, -1] for step in steps],
                    logits=[seen["talker.codec_head"][step][i, -1] for step in steps],
                    predictor_logits=[
                        seen[head][frame][i, -1] for frame in range(len(codes)) for head in heads
                    ],
                    ended=len(codes) < case.frames,
                )
            )
        return runs

    @contextlib.contextmanager
    def _spied(self, calls: dict[str, Any]) -> Iterator[None]:
        """Keeps the codes that come out of the language model and the arguments that go into the talker."""
        model, talker = self.model, self.talker
        generate_model, generate_talker = model.generate, talker.generate

        def spy_model(*args: Any, **kwargs: Any) -> Any:
            calls["codes"], hidden = generate_model(*args, **kwargs)
            return calls["codes"], hidden

        def spy_talker(*args: Any, **kwargs: Any) -> Any:
            calls.update(kwargs)
            return generate_talker(*args, **kwargs)

        model.generate, talker.generate = spy_model, spy_talker
        try:
            yield
        finally:
            del model.generate, talker.generate


def _numpy(tensor: Any) -> FloatArray:
    array: FloatArray = tensor.detach().float().cpu().numpy().copy()
    return array


def _recorder(into: list[FloatArray]) -> Callable[[Any, Any, Any], None]:
    def record(_module: Any, _inputs: Any, output: Any) -> None:
        first = output if isinstance(output, torch.Tensor) else output[0]
        into.append(_numpy(first))

    return record
