# SPDX-License-Identifier: Apache-2.0
# Functions shared by quickstart and test. Sourced, not run; needs $root, the repository.

say() { printf '%s\n' "$*" >&2; }
die() {
  say "error: $*"
  exit 1
}

# packages_of GROUP...: names of scripts/packages.txt in these groups.
packages_of() {
  local group
  for group in "$@"; do
    awk -v group="$group" '$1 == group { print $2 }' "$root/scripts/packages.txt"
  done
}

# install_packages GROUP...: installs what is missing of these groups. Touches no network when
# nothing is missing.
install_packages() {
  command -v dpkg-query > /dev/null || die "this script installs Debian packages, and dpkg is not \
here. Install these by your own means: $(packages_of "$@" | tr '\n' ' ')"
  local missing=() name
  while read -r name; do
    dpkg-query -W -f='${Status}' "$name" 2> /dev/null | grep -q 'ok installed' || missing+=("$name")
  done < <(packages_of "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  say "Installing Debian packages: ${missing[*]}"
  local run=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo > /dev/null || die "not root and no sudo. Run as root: \
apt-get install ${missing[*]}"
    run=(sudo)
  fi
  local log
  log=$(mktemp)
  if ! { "${run[@]}" apt-get update -q &&
    "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
      --no-install-recommends "${missing[@]}"; } > "$log" 2>&1; then
    tail -n 20 "$log" >&2
    die "apt-get failed (above). Install by hand: ${missing[*]}"
  fi
  rm -f "$log"
}

# gpu_is_usable: a driver is loaded and at least one NVIDIA GPU answers.
gpu_is_usable() {
  [ -e /proc/driver/nvidia/version ] && ls /dev/nvidia[0-9]* > /dev/null 2>&1
}

# find_nvcc: prints the path of an installed CUDA compiler of version 13 or later, or fails.
find_nvcc() {
  local candidate
  for candidate in "${CUDACXX:-}" "$(command -v nvcc)" /usr/local/cuda/bin/nvcc \
    "$root"/.venv/lib/python3*/site-packages/nvidia/cu13/bin/nvcc; do
    if [ -n "$candidate" ] && [ -x "$candidate" ] &&
      "$candidate" --version | grep -q 'release 1[3-9]'; then
      printf '%s\n' "$candidate"
      return 0
    fi
  done
  return 1
}

# require_nvcc: find_nvcc, after installing the pinned toolkit from PyPI into .venv if need be.
require_nvcc() {
  find_nvcc && return 0
  install_packages cuda
  say "Installing the CUDA 13.0 compiler into .venv (about 270 MB)"
  { python3 -m venv "$root/.venv" &&
    "$root/.venv/bin/pip" install -q 'cuda-toolkit[nvcc,cudart,cccl]==13.0.3.0'; } >&2 ||
    die "the CUDA toolkit could not be installed. Install CUDA 13.0 yourself, or build without --cuda"
  # nvcc links from lib64, where the wheels have lib; and CMake looks for a libcudart.so, though only
  # the static library is linked.
  local toolkit
  for toolkit in "$root"/.venv/lib/python3*/site-packages/nvidia/cu13; do
    ln -sfn lib "$toolkit/lib64"
    ln -sf libcudart.so.13 "$toolkit/lib/libcudart.so"
  done
  find_nvcc
}
