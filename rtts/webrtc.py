"""A session as an aiortc audio track: ``peer.addTrack(rtts.webrtc.TtsTrack(session))``."""

from __future__ import annotations

import asyncio
import fractions
import logging
import time
from collections.abc import Awaitable, Callable

from rtts.errors import RuntimeSetupError, StreamError
from rtts.stream.outlet import Outlet
from rtts.stream.pace import Pacer
from rtts.stream.playback import PlaybackBuffer
from rtts.stream.pump import Pump
from rtts.stream.session import Session, check_session

try:
    from aiortc import MediaStreamTrack
    from aiortc.mediastreams import MediaStreamError
    from av import AudioFrame
except ImportError:
    raise RuntimeSetupError("WebRTC needs the package aiortc; run pip install 'rtts[webrtc]'") from None

log = logging.getLogger(__name__)

SAMPLE_RATE_HZ = 48_000
"""What Opus runs at: aiortc resamples nothing then."""
FRAME_SAMPLES = 960
FRAME_S = FRAME_SAMPLES / SAMPLE_RATE_HZ
_TIME_BASE = fractions.Fraction(1, SAMPLE_RATE_HZ)


class TtsTrack(MediaStreamTrack):
    """The speech of a session as a live track: 48 kHz mono, a frame every 20 ms, silence while nothing is said.

    Frames are paced from an absolute start. A consumer that comes late is served at once; after more than 60 ms the
    missed frames are skipped, so that ``pts`` jumps and the speech goes on where it stopped (``stream.pace``).

    After ``session.interrupt()`` the next frame fades out within 8 ms and everything behind it is silent.

    A turn that fails is logged, is kept in ``error``, ends in ``Done("error")`` among the session's events and makes
    ``drained`` raise; the next turn can be spoken. The track ends with its session, or with ``stop``.
    """

    kind = "audio"

    def __init__(
        self,
        session: Session,
        *,
        latency_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Takes over the session's sound; call it from the session's event loop.

        Args:
            session: nobody else may iterate over it.
            latency_s: from here to the far end's ear (network, jitter buffer), if you know it: ``interrupt`` then
                tells what was heard there, not what was sent.
            clock: monotonic seconds, for tests.
            sleep: waits for so many seconds of ``clock``, for tests.

        Raises:
            RequestError: that is no session, or it has another sink, or is closed.
        """
        check_session(session)
        super().__init__()
        self.buffer = PlaybackBuffer()
        """What waits to be sent; ``buffer.duck(gain)`` turns the volume down."""
        self._outlet = Outlet(self.buffer, SAMPLE_RATE_HZ, latency_s=latency_s)
        self._pacer = Pacer(FRAME_S)
        self._clock = clock
        self._sleep = sleep
        self._pump = Pump(session, self.buffer)

    @property
    def error(self) -> StreamError | None:
        """Why the last turn that failed did."""
        return self._pump.error

    @property
    def underruns(self) -> int:
        """Times that speech was not generated in time."""
        return self.buffer.underruns

    @property
    def skipped_frames(self) -> int:
        """Frames of 20 ms that were never sent because the consumer came too late for them."""
        return self._pacer.skipped

    async def drained(self) -> None:
        """Wait until every turn that has begun was sent to its end. Needs a consumer that takes the frames.

        Raises:
            StreamError: a turn failed since this was last asked.
        """
        await self._pump.drained()

    async def recv(self) -> AudioFrame:
        """The next frame of 20 ms, when it is due.

        Raises:
            MediaStreamError: the track has ended.
        """
        self._require_live()
        number, wait_s = self._pacer.next(self._clock())
        if wait_s:
            await self._sleep(wait_s)
            self._require_live()
        frame = AudioFrame(format="s16", layout="mono", samples=FRAME_SAMPLES)
        frame.planes[0].update(self._outlet.pull(FRAME_SAMPLES).tobytes())
        frame.sample_rate = SAMPLE_RATE_HZ
        frame.pts = number * FRAME_SAMPLES
        frame.time_base = _TIME_BASE
        return frame

    def stop(self) -> None:
        """End the track. Its task is gone when the event loop runs next."""
        self._pump.stop()
        super().stop()

    def _require_live(self) -> None:
        if not self._pump.running and self.buffer.idle and self._outlet.idle:
            self.stop()  # the session is closed, and its last word is out
        if self.readyState != "live":
            raise MediaStreamError("the track has ended")
