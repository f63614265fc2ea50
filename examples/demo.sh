#!/usr/bin/env bash
# Tunes two real programs; `./run demo` sets things up and calls this with LAGOM set.
set -euo pipefail
repo="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
out="$repo/out"
seconds="${1:-30}"

tune() {
  echo
  echo "== lagom tune data/programs/$1.hlo.pb.gz"
  "$LAGOM" tune "$repo/data/programs/$1.hlo.pb.gz" --out "$out" --budget-seconds "$seconds" \
    --database "$out/kernels"
}

"$LAGOM" inspect "$repo/data/programs/mobilenet_v2_b1_160_infer.hlo.pb.gz"
tune mobilenet_v2_b1_160_infer
tune mobilenet_v2_b4_64_train
echo
echo "The tuned programs and a report for each (open it in a browser) are under out/."
