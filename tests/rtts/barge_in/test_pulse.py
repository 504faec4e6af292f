"""A real sound server: what one program plays into PulseAudio's null sink, the microphone (its monitor) hears."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time

import numpy as np
import pytest

from rtts.barge_in import BargeIn, Interruption, from_device
from tests.rtts.barge_in.sounds import silence, speech
from tests.rtts.barge_in.test_controller import speaking, with_noise
from tests.rtts.sinks.conftest import Pulse, pulse

__all__ = ["pulse"]

pytestmark = pytest.mark.asyncio


async def test_a_user_at_a_real_microphone_interrupts(pulse: Pulse) -> None:
    user = with_noise(np.concatenate([silence(1.0), speech("user", rms=0.1), silence(1.0)]))
    pcm = np.rint(user * 32767).astype("<i2").tobytes()
    async with speaking() as (session, _), BargeIn(session) as barge_in:
        barge_in.listen(from_device("pulse"))
        waiting = asyncio.create_task(barge_in.wait())
        await asyncio.sleep(0.3)
        player = subprocess.Popen(
            ["pacat", "--device=rtts", "--rate=16000", "--channels=1", "--format=s16le", "--raw"],
            env=pulse.environment,
            stdin=subprocess.PIPE,
        )
        try:
            assert player.stdin is not None
            await asyncio.to_thread(player.stdin.write, pcm)
            player.stdin.close()
            interruption = await asyncio.wait_for(waiting, 20)
        finally:
            player.kill()
            player.wait()
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
        assert isinstance(interruption, Interruption)
        assert time.monotonic() - 20 < interruption.first_voice_s < interruption.commit_s < time.monotonic()
