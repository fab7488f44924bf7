#!/usr/bin/env bash
# Prints the folder of a cuda.h that tag cuda compiles with, or nothing: CUDA 11.4 to 12.9,
# as gorgonia.org/cu does not compile with 13's (a driver for 13 serves what was built with 12's).
cd "$(dirname "$0")/.."
for dir in build/cuda/include /usr/local/cuda/include /usr/include; do
  version=$(sed -n 's/^#define CUDA_VERSION \([0-9]*\).*/\1/p' "$dir/cuda.h" 2>/dev/null)
  if [ "${version:-0}" -ge 11040 ] && [ "$version" -lt 13000 ]; then
    realpath "$dir"
    exit
  fi
done
