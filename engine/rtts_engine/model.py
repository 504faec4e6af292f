"""One loaded model: every network, the text front end, and the ways to speak with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rtts_engine import pages
from rtts_engine.batch import BatchStream
from rtts_engine.cloning import VoiceCloner
from rtts_engine.codec import CodecDecoder, CodecState
from rtts_engine.errors import CheckpointError, ModelError
from rtts_engine.generate import FrameStream
from rtts_engine.graph.writer import Precision
from rtts_engine.manifest import (
    CODEC_DECODER,
    LOAD_CHECK_BYTES,
    PREDICTOR,
    TABLES_FILE,
    TALKER,
    TALKER_ATTENTION,
    TEXT_PROJECTION,
    TOKENIZER_FOLDER,
    Manifest,
)
from rtts_engine.manner import CloneVoice
from rtts_engine.prompt import LivePrompt, PromptBuilder
from rtts_engine.prompt_plan import PromptSpec
from rtts_engine.request import Settings, SpeechRequest
from rtts_engine.runtime import Net, check_environment
from rtts_engine.tables import Tables
from rtts_engine.talker import Predictor, Talker
from rtts_engine.tensors import TensorSource
from rtts_engine.text_stream import IncrementalTokenizer
from rtts_engine.threads import Threads as Threads
from rtts_engine.threads import automatic
from rtts_engine.tokenizer import Tokenizer
from rtts_engine.voice import Voice

F32 = npt.NDArray[np.float32]


class Model:
    """A converted model, loaded. Holds no stream's state: any number of streams may run over one model."""

    def __init__(self, path: Path, manifest: Manifest, tables: TensorSource, threads: Threads) -> None:
        """Use ``Model.load``."""
        self.path = path
        self.manifest = manifest
        self.threads = threads
        self.load_s: float | None = None
        """Seconds that ``load`` took."""
        config, precision = manifest.config, manifest.precision
        talker = config.talker
        self.tables = Tables(tables, self._net(TEXT_PROJECTION, precision, threads.ar), talker)
        # int8 products are exact for a row in any company. The rest has to be, too: a last bit of difference would tip
        # roundings, and then codes. Products of floats differ by last bits anyway, and gain from packing.
        packing = precision != "int8"
        attention = self._net(TALKER_ATTENTION, precision, threads.ar, packing)
        self.talker = Talker(self._net(TALKER, precision, threads.ar, packing), attention, talker)
        self.predictor = Predictor(self._net(PREDICTOR, precision, threads.ar, packing), talker, self.tables)
        decoder = self._net(CODEC_DECODER, precision, threads.codec)
        self.codec = CodecDecoder(decoder, config.codec, tables.with_prefix("codec."))
        self.tokenizer = Tokenizer.from_dir(path / TOKENIZER_FOLDER)
        self.prompts = PromptBuilder(PromptSpec.of(config), self.tokenizer, self.tables)
        self._stored_tables = tables
        self._cloner: VoiceCloner | None = None
        self._cloner_lock = threading.Lock()

    @classmethod
    def load(cls, path: Path | str, *, threads: Threads | None = None) -> Model:
        """Load a converted model directory. Large weights then move to large pages behind the scenes, see ``pages``.

        Args:
            path: the directory.
            threads: of the two stages; None leaves it to ``threads.automatic``, which may measure for half a second.

        Raises:
            ModelError: the directory is not a converted model, or is damaged.
            RuntimeSetupError: the installed ncnn cannot run streams.
        """
        start = time.perf_counter()
        check_environment()
        folder = Path(path)
        manifest = Manifest.load(folder)
        manifest.verify(folder, largest_bytes=LOAD_CHECK_BYTES)
        weights = sum(record.size_bytes for name, record in manifest.files.items() if name.endswith(".bin"))
        threads = threads or automatic(weights)
        try:
            model = cls(folder, manifest, TensorSource.open_file(folder / TABLES_FILE), threads)
        except CheckpointError as error:
            raise ModelError(f"{error}; convert the checkpoint again") from None
        model.load_s = time.perf_counter() - start
        if weights >= pages.WORTHWHILE_BYTES and pages.wanted():
            pages.collapse_in_background()
        return model

    def _net(self, stem: str, precision: Precision, threads: int, packing: bool = True) -> Net:
        return Net(self.path / stem, precision=precision, threads=threads, packing=packing)

    @property
    def sample_rate_hz(self) -> int:
        """Of the sound that comes out: 24000."""
        return self.manifest.config.codec.sample_rate_hz

    def frames(self, request: SpeechRequest) -> FrameStream:
        """The frames of a complete text.

        Raises:
            TextError, RequestError, VoiceError: the request cannot be spoken by this model.
        """
        settings = request.settings
        return self.stream(
            self.prompts.start(request.text, request.manner, layout=settings.text_layout), settings
        )

    def stream(self, prompt: LivePrompt, settings: Settings) -> FrameStream:
        """The frames of a prompt, whose text may still be arriving (``prompts.open`` and ``incremental_text``)."""
        return FrameStream(self.talker, self.predictor, self.tables, prompt, self.manifest.config, settings)

    def batch(self, requests: Iterable[SpeechRequest], size: int = 8) -> BatchStream:
        """The frames of many complete texts, up to ``size`` computed together: several times the frames per second.

        A request that cannot be spoken ends with its error, the others go on.

        Raises:
            RequestError: ``size`` is out of range.
        """
        return BatchStream(self.frames, requests, size)

    def codec_state(self, voice: CloneVoice | None = None) -> CodecState:
        """The codec's state before an utterance's first frame.

        A voice with reference codes is heard behind its clip, as the official package decodes it.
        """
        state = self.codec.init_state()
        if voice is not None and voice.ref_codes is not None:
            self.codec.prime(state, voice.ref_codes)
        return state

    def clone(self, samples: F32, transcript: str | None = None, name: str = "clone") -> Voice:
        """A voice from a reference clip; arguments and errors as ``VoiceCloner``. Loads the encoders once."""
        with self._cloner_lock:
            if self._cloner is None:
                self._cloner = VoiceCloner(
                    self.manifest,
                    self._stored_tables,
                    lambda stem: self._net(stem, "fp32", self.threads.codec),
                )
        return self._cloner.clone(samples, transcript, name)

    def incremental_text(self) -> IncrementalTokenizer:
        """Turns text that arrives in pieces into ids that later text cannot change."""
        return IncrementalTokenizer(self.tokenizer)
