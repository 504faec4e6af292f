"""Quality by packages of the extra ``judge``: STOI and ESTOI against a reference, DNSMOS without one.

A package that is not installed leaves its figures out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]


def intelligibility(original: F32, degraded: F32, rate_hz: int) -> dict[str, float]:
    """STOI and ESTOI (0 to 1) of a clip against its original; empty without ``pystoi`` or for too short a sound."""
    try:
        import pystoi
    except ImportError:
        return {}
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # too little sound is a warning and a made-up 1e-5
        try:
            return {
                "stoi": float(pystoi.stoi(original, degraded, rate_hz)),
                "estoi": float(pystoi.stoi(original, degraded, rate_hz, extended=True)),
            }
        except RuntimeWarning:
            return {}


class Mos:
    """DNSMOS: opinion scores from 1 to 5 that a network predicts from the clip alone."""

    def __call__(self, samples: F32, rate_hz: int) -> dict[str, float]:
        """P.835 signal, background and overall quality, and P.808; empty without ``speechmos`` or without sound."""
        try:
            from speechmos import dnsmos
        except ImportError:
            return {}
        import soxr

        if not len(samples):
            return {}
        x = np.clip(np.asarray(soxr.resample(samples, rate_hz, 16000), np.float64), -1, 1)
        scores = dnsmos.run(x, 16000)
        names = {"sig_mos": "signal", "bak_mos": "background", "ovrl_mos": "overall", "p808_mos": "p808"}
        return {name: round(float(scores[key]), 3) for key, name in names.items()}
