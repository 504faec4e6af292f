"""What a turn measured, from its jobs."""

from __future__ import annotations

from collections.abc import Collection

from rtts.stream.events import Metrics, StopReason, Timeline
from rtts.stream.turn import Turn
from rtts_engine.config import SAMPLE_RATE_HZ

_BY_SEVERITY: tuple[StopReason, ...] = ("eos", "length_cap", "stalled", "silence")


def stop_reason(turn: Turn) -> StopReason:
    """Why a turn ended whose jobs all have: the gravest of their reasons."""
    reasons = {sentence.job.stop_reason for sentence in turn.sentences}
    return gravest(reasons | {"stalled"} if turn.stalled else reasons)


def gravest(reasons: Collection[str | None]) -> StopReason:
    """The one to tell of several; ``eos`` of none."""
    known = [reason for reason in _BY_SEVERITY if reason in reasons]
    return known[-1] if known else "eos"


def metrics(turn: Turn, now_s: float, underruns: int) -> Metrics:
    """Figures of a turn that ended at ``now_s`` (monotonic), its sink having run dry ``underruns`` times."""
    jobs = [sentence.job for sentence in turn.sentences]
    frames = sum(job.frames for job in jobs)
    ar_s, codec_s = sum(job.ar_s for job in jobs), sum(job.codec_s for job in jobs)
    audio_s = sum(sentence.samples for sentence in turn.sentences) / SAMPLE_RATE_HZ
    return Metrics(
        timeline=_timeline(turn),
        audio_s=audio_s,
        wall_s=now_s - turn.started_s,
        rtf=max(ar_s, codec_s) / audio_s if audio_s else None,
        ar_ms_per_frame=ar_s * 1e3 / frames if frames else None,
        codec_ms_per_frame=codec_s * 1e3 / frames if frames else None,
        frames=frames,
        underruns=underruns,
        preroll_s=turn.preroll_s,
    )


def _timeline(turn: Turn) -> Timeline:
    def since_start(moment_s: float | None) -> float | None:
        return None if moment_s is None else (moment_s - turn.started_s) * 1e3

    job = turn.sentences[0].job if turn.sentences else None
    return Timeline(
        text_end_ms=since_start(turn.closed_s),
        sentence_ms=since_start(job.submitted_s if job else None),
        prefill_ms=since_start(job.prefilled_s if job else None),
        frame_ms=since_start(job.first_frame_s if job else None),
        pcm_ms=since_start(job.first_pcm_s if job else None),
        chunk_ms=since_start(turn.first_chunk_s),
    )
