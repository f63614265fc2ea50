#!/bin/sh
# Strategies of `lagom tune` side by side (docs/results.md), in turn program by program, each with an
# empty database, on programs of families that neither the model nor what is known of forms has seen.
#
#   benchmarks/strategies.sh OUT PROGRAM...
#
# SEEDS="1 2 3", BUDGET=20 (seconds) and STRATEGIES can be set: network (strategy model), measurements
# (model without the network), fixed (model that does not learn from the program), trees (boosted trees
# instead of the network, of the file TREES), genetic, random.
# What is there already is kept; strategies.py makes the table. Needs build/bin.
set -eu
out=$1
shift
here=$(cd "$(dirname "$0")/.." && pwd)
bin=${BIN:-$here/build/bin}
model=$here/models/kernel_xla_cpu.safetensors
mkdir -p "$out"

# What was measured of the other families' kernels.
for k in 1 2; do
  [ -d "$out/measured/$k" ] || "$bin/lagom" convert "$here/data/measured/kernel_$k.zip" "$out/measured/$k"
  rm -rf "$out/measured/$k/kernel/test"
done
[ -d "$out/forms" ] || { mkdir "$out/forms"; "$bin/lagom" convert "$out/measured" "$out/forms/known.jsonl"; }

for seed in ${SEEDS:-1 2 3}; do
  for program in "$@"; do
    for strategy in ${STRATEGIES:-network measurements fixed genetic random}; do
      case $strategy in
        network) options="--strategy model --model $model" ;;
        measurements) options="--strategy model --model none" ;;
        trees) options="--strategy model --model $TREES" ;;
        fixed) options="--strategy model --model $model --no-learning" ;;
        *) options="--strategy $strategy" ;;
      esac
      name=$(basename "$program")
      [ -f "$out/$strategy/$seed/${name%%.*}.decisions.json" ] ||
        "$bin/lagom" tune "$program" $options --out "$out/$strategy/$seed" --database none --quiet \
          --from "$out/forms" --seed "$seed" --budget-seconds "${BUDGET:-20}" | head -1
    done
  done
done
