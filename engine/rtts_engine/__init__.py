"""Qwen3-TTS (12 Hz) inference on ncnn: numpy in, numpy out, synchronous, no torch."""
