#!/usr/bin/env bash
# perf-analyzer.sh PYTHON FOLDER: FOLDER/perf_analyzer runs the program out of its wheel, as it is. It
# wants glibc 2.38; where this system has an older one it gets Debian 13's beside it, unpacked, not
# installed. It loads CUDA's runtime library for shared memory of any kind; that comes from PyPI, and
# needs no GPU. Works on x86_64 with the machine's pip, and for an older glibc with Debian's apt-get.
set -euo pipefail
python=$(realpath -s "$1") want=2.60.0
mkdir -p "$2"
cd "$2"
if [ "$(cat .made 2>/dev/null)" = "$want" ] && ./perf_analyzer --version; then exit 0; fi
rm -rf ./* .made
"$python" -m pip download -q --no-deps --only-binary :all: --platform manylinux_2_38_x86_64 -d . "perf-analyzer==$want"
"$python" -m pip download -q --no-deps --only-binary :all: -d . nvidia-cuda-runtime-cu12==12.9.79
for w in *.whl; do "$python" -m zipfile -e "$w" wheel; done
rm ./*.whl
mkdir lib
ln -s ../wheel/nvidia/cuda_runtime/lib/libcudart.so.12 lib/libcudart.so
program=$PWD/wheel/perf_analyzer/bin/perf_analyzer
chmod +x "$program"
run=() path=$PWD/lib
if ! "$program" --version >/dev/null 2>&1; then
  mkdir -p apt/lists/partial apt/cache/archives/partial apt/parts libs
  echo 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main' > apt/sources.list
  apt() {
    apt-get -q -o Dir::Etc::SourceList="$PWD/apt/sources.list" -o Dir::Etc::SourceParts="$PWD/apt/parts" -o Dir::State::Lists="$PWD/apt/lists" -o Dir::Cache="$PWD/apt/cache" -o APT::Sandbox::User=root "$@"
  }
  apt update
  apt download libc6 libstdc++6 libgcc-s1 zlib1g libssl3t64
  for d in *.deb; do dpkg -x "$d" libs; done
  libs=$PWD/libs/usr/lib/x86_64-linux-gnu
  run=("$libs/ld-linux-x86-64.so.2" --library-path "$path:$libs")
  rm -rf apt ./*.deb
fi
printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %s "$@"\n' "$path" "$(printf '%q ' "${run[@]}" "$program")" > perf_analyzer
chmod +x perf_analyzer
./perf_analyzer --version
echo "$want" > .made
