#!/bin/sh
# Gets highs.wasm.gz and LICENSE again: the npm package highs at the version and digests below, by npm's own client.
# Run in this folder; git diff says whether anything is another. A new version: set both digests, and look in its build/highs.js
# whether the names in names.go are still those ("wasmExports", "wasmImports": the compiler shortens them anew each time).
set -eu
version=1.15.3
package=218533577886c69023739024bb92cfc2831ba45ff1fd1fd981753c04cded9793
module=528be4365bea1d4188988646b244263f50320df55782e14d6af5bce7cd45c840
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm pack --silent --pack-destination "$folder" "highs@$version" >/dev/null
echo "$package  $folder/highs-$version.tgz" | sha256sum -c -
tar -xzf "$folder/highs-$version.tgz" -C "$folder"
echo "$module  $folder/package/build/highs.wasm" | sha256sum -c -
gzip -9 -n -c "$folder/package/build/highs.wasm" > highs.wasm.gz
cp "$folder/package/LICENSE" LICENSE
