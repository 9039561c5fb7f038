#!/usr/bin/env bash
# Runs once, when Gradescope builds the autograder's image. The zip holds this folder's three files and, in
# `course/`, a copy of the repository.
set -euo pipefail

autograder="${AUTOGRADER:-/autograder}"

# The walls need bubblewrap 0.8, and Ubuntu 22.04 has 0.6: that of 24.04 is built from Ubuntu's own source.
build_bubblewrap() {
    sed -n '/^deb .* jammy .*main/{s/^deb/deb-src/;s/jammy/noble/p}' /etc/apt/sources.list \
        > /etc/apt/sources.list.d/noble-source.list
    apt-get update
    apt-get install -y --no-install-recommends dpkg-dev gcc libc6-dev libcap-dev meson pkg-config
    cd "$(mktemp -d)"
    apt-get source bubblewrap
    meson setup build bubblewrap-*/ --prefix /usr/local
    meson install -C build
}

apt-get update
apt-get install -y --no-install-recommends bubblewrap libseccomp2 python3-venv
[[ "$(bwrap --help)" == *--disable-userns* ]] || (build_bubblewrap)

# Python 3.11 is needed, and Ubuntu 22.04 has 3.10: uv fetches one.
python3 -m venv "$autograder/uv"
"$autograder/uv/bin/pip" install uv
export UV_PYTHON_INSTALL_DIR="$autograder/python"
"$autograder/uv/bin/uv" python install 3.11
# uv's own path to it goes through a link, which is not there behind the sandbox's walls.
python="$(readlink -f "$("$autograder/uv/bin/uv" python find 3.11)")"

"$python" -m venv "$autograder/venv"
cd "$autograder/source/course"
pip=("$autograder/venv/bin/pip" install --no-cache-dir)
"${pip[@]}" --index-url https://download.pytorch.org/whl/cpu "$(grep '^torch==' requirements.txt)"
"${pip[@]}" -r requirements.txt
"${pip[@]}" --constraint constraints.txt --editable ".[grade]"
