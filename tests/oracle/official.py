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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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


@dataclass
class Run:
    """One official ``generate_*`` call.

    ``T`` frames were emitted; the talker made ``S`` choices of c0, one more than frames (the last is the end of
    speech or was discarded at the limit).
    """

    codes: CodeArray = field(default_factory=lambda: np.zeros((0, 16), np.int64))
    """(T, 16)."""
    waveform: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))
    """24 kHz; about 1920 T samples (ICL: possibly one more, semantics 4.5)."""
    prompt: FloatArray = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """(L, D): the rows handed to the talker."""
    trailing: FloatArray = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """(N, D): the text rows added to the frames' inputs."""
    hidden: list[FloatArray] = field(default_factory=list)
    """S rows (D,): the talker's last hidden state, after the final norm, before each choice of c0."""
    logits: list[FloatArray] = field(default_factory=list)
    """S rows (V,): the codec head's raw output for those."""
    predictor_logits: list[FloatArray] = field(default_factory=list)
    """15 T rows (C,): the predictor heads' raw outputs, in order."""
    ended: bool = False
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

    # -- speech --------------------------------------------------------------------------------------------------

    def generate(self, case: Case, *, voice: Any = None, seed: int | None = None) -> Run:
        """Runs one case: greedily, or with the checkpoint's sampling defaults from torch's seed ``seed``."""
        run = Run()
        sampled = seed is not None
        if seed is not None:
            torch.manual_seed(seed)
        arguments = case.official_arguments(voice)
        heads = [f"talker.code_predictor.lm_head.{group}" for group in range(15)]
        with self._spied(run), self.outputs_of("talker.codec_head") as seen, self._predictor(run, heads):
            hidden = self._hidden(run)
            try:
                waveforms, _ = getattr(self.wrapper, case.official_method)(
                    **arguments,
                    do_sample=sampled,
                    subtalker_dosample=sampled,
                    max_new_tokens=case.frames + 1,
                )
            finally:
                hidden.remove()
        run.waveform = np.asarray(waveforms[0], np.float32)
        run.logits = [logits[0, -1] for logits in seen["talker.codec_head"]]
        run.ended = len(run.codes) < case.frames
        return run

    @contextlib.contextmanager
    def _spied(self, run: Run) -> Iterator[None]:
        """Keeps the prompt, the trailing rows and the codes of the calls in between."""
        model, talker = self.model, self.talker
        generate_model, generate_talker = model.generate, talker.generate

        def spy_model(*args: Any, **kwargs: Any) -> Any:
            codes, hidden = generate_model(*args, **kwargs)
            run.codes = codes[0].cpu().numpy()
            return codes, hidden

        def spy_talker(*args: Any, **kwargs: Any) -> Any:
            run.prompt = _numpy(kwargs["inputs_embeds"][0])
            run.trailing = _numpy(kwargs["trailing_text_hidden"][0])
            return generate_talker(*args, **kwargs)

        model.generate, talker.generate = spy_model, spy_talker
        try:
            yield
        finally:
            del model.generate, talker.generate

    @contextlib.contextmanager
    def _predictor(self, run: Run, heads: list[str]) -> Iterator[None]:
        def keep(_module: Any, _inputs: Any, output: Any) -> None:
            run.predictor_logits.append(_numpy(output[0, -1]))

        handles = [self.model.get_submodule(name).register_forward_hook(keep) for name in heads]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _hidden(self, run: Run) -> Any:
        def keep(_module: Any, inputs: Any) -> None:
            run.hidden.append(_numpy(inputs[0][0, -1]))

        return self.talker.codec_head.register_forward_pre_hook(keep)


def _numpy(tensor: Any) -> FloatArray:
    array: FloatArray = tensor.detach().float().cpu().numpy().copy()
    return array


def _recorder(into: list[FloatArray]) -> Callable[[Any, Any, Any], None]:
    def record(_module: Any, _inputs: Any, output: Any) -> None:
        first = output if isinstance(output, torch.Tensor) else output[0]
        into.append(_numpy(first))

    return record
