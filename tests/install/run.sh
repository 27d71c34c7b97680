#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the build in folder $1, moves what was installed, and builds and runs a program against
# it out of the tree: the package must be relocatable and complete.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first"
mv "$work/first" "$work/moved"
if grep -rIl "$work/first\|$root" "$work/moved" --include='*.cmake'; then
  echo "the package names a folder of the machine that built it"
  exit 1
fi
cmake -S "$root/tests/install/example" -B "$work/build" -G Ninja \
  -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_BUILD_TYPE=Release
cmake --build "$work/build"
cd "$work"
text=$(build/example "$root/models/demo" $'Ge 1\nIn the beginning')
echo "$text"
[[ $text == " God created the heaven and the earth"* ]]
moved/bin/headrace --version
