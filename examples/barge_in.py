"""A user interrupts the assistant by speaking: python examples/barge_in.py [--live]

Without --live nobody needs to hear or say anything: the user is a recording, and the sound goes to a WebRTC track.
"""

from __future__ import annotations

import asyncio
import sys

import numpy as np

import rtts
from rtts.barge_in import BargeIn, from_device

ANSWER = (
    "The weather will be sunny in the morning, with a light breeze from the sea. In the afternoon there may be "
    "some clouds, and towards the evening a little rain. Tomorrow it will be cooler than today. "
)


async def recording(sound: np.ndarray, track: rtts.webrtc.TtsTrack, after_s: float):
    """What a microphone gives, 20 ms at a time in real time: silence, and the user after ``after_s`` of the answer."""
    begun = False
    at = 0
    time_s = asyncio.get_running_loop().time()
    while at < len(sound):
        await asyncio.sleep(time_s - asyncio.get_running_loop().time())
        time_s += 0.02
        begun = begun or track.buffer.played_s >= after_s
        yield sound[at : at + 480] if begun else np.zeros(480, np.float32), 24000
        at += 480 * begun


async def listen_to(track: rtts.webrtc.TtsTrack) -> None:
    while True:
        await track.recv()


async def main(live: bool) -> None:
    user = rtts.say("Wait a moment, please! I have a question.", seed=2)
    async with rtts.open() as tts, tts.session(seed=1) as session:
        if live:
            player = rtts.local.Player(session)
            player.start()
            microphone = from_device()
        else:
            track = rtts.webrtc.TtsTrack(session)
            far_end = asyncio.create_task(listen_to(track))
            microphone = recording(user.samples, track, after_s=2.5)
        async with BargeIn(session) as barge_in:
            barge_in.listen(microphone)
            session.feed(ANSWER)
            session.end()
            interruption = await barge_in.wait()
        commit_ms = (interruption.commit_s - interruption.first_voice_s) * 1000
        print(f"The user heard {interruption.heard.seconds:.1f} s: {interruption.heard.text!r}")
        print(f"Committed {commit_ms:.0f} ms after the first frame with voice.")
        if live:
            player.close()
        else:
            far_end.cancel()
            track.stop()


if __name__ == "__main__":
    asyncio.run(main("--live" in sys.argv))
