#!/usr/bin/env bash
# `release/smoke.sh IMAGE`: the container image runs a study on sample data to its end, as a user
# without rights, without a network, in an empty folder.
set -euo pipefail
image=$1
work=$(mktemp -d)
run() { docker run --rm --network none --user "$(id -u)" --volume "$work:/work" "$image" "$@"; }
run --version
run init smoke
run study smoke.yaml --cores 2
test -s "$work/results/smoke/index.html"
test -s "$work/results/smoke/summary.csv"
