#!/usr/bin/env bash
# Runs once, when Gradescope builds the autograder's image. The zip holds this folder's two files and, in
# `course/`, a copy of the repository.
set -euo pipefail

apt-get update
apt-get install -y bubblewrap libseccomp2 python3 python3-venv python3-pip
cd /autograder/source/course
python3 -m venv /autograder/venv
/autograder/venv/bin/pip install "$(grep '^torch==' requirements.txt)"
/autograder/venv/bin/pip install -r requirements.txt
/autograder/venv/bin/pip install --no-deps --editable .
