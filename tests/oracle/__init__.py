"""Parity with the official ``qwen-tts`` package (torch). Run with ``pytest tests/oracle --oracle``; see conftest.py."""
