"""A call in one program: an LLM's answer goes out over WebRTC, the far end saves what it hears.

python examples/llm_to_webrtc.py HEARD.wav          (pip install 'rtts[webrtc]')
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from aiortc import RTCPeerConnection
from aiortc.contrib.media import MediaRecorder

import rtts

ANSWER = "Good morning! You are hearing this over a call."


async def llm() -> AsyncIterator[str]:
    """Stands for your LLM: yield the text of every delta."""
    for word in ANSWER.split(" "):
        yield word + " "
        await asyncio.sleep(0.05)


async def connect(agent: RTCPeerConnection, caller: RTCPeerConnection) -> None:
    """What a signalling server does: carry the offer there and the answer back."""
    await agent.setLocalDescription(await agent.createOffer())
    await caller.setRemoteDescription(agent.localDescription)
    await caller.setLocalDescription(await caller.createAnswer())
    await agent.setRemoteDescription(caller.localDescription)


async def main(path: str) -> None:
    agent, caller = RTCPeerConnection(), RTCPeerConnection()
    recorder = MediaRecorder(path)
    caller.on("track", recorder.addTrack)  # in a browser: audio.srcObject = event.streams[0]
    try:
        async with rtts.open() as tts, tts.session(seed=1) as session:
            track = rtts.webrtc.TtsTrack(session)
            agent.addTrack(track)
            await connect(agent, caller)
            await recorder.start()
            await session.speak(llm())
            await track.drained()
            await asyncio.sleep(0.3)  # what is on its way
    finally:
        await recorder.stop()
        await agent.close()
        await caller.close()


if len(sys.argv) != 2:
    sys.exit(__doc__)
asyncio.run(main(sys.argv[1]))
