#!/bin/sh
# How well configurations of whole programs are ranked (docs/results.md): every predictor learns from
# programs of the training families and is asked about those of others.
#
#   benchmarks/programs-study.sh OUT PROGRAMS [NAME...]
#
# PROGRAMS: folder of the HLO of the measured programs. NAME: mlp, first_place, third_place, ours,
# adds_nodes; all of them without. SEEDS="1 2 3" and STEPS=400 can be set. Runs on one thread; what is
# there already is kept. Needs build/bin, and for the table python3 (PYTHON) with numpy and lightgbm.
set -eu
out=$1 programs=$2
shift 2
names=${*:-mlp first_place third_place ours adds_nodes}
seeds=${SEEDS:-1 2 3}
steps=${STEPS:-400}
here=$(cd "$(dirname "$0")/.." && pwd)
bin=${BIN:-$here/build/bin}
mkdir -p "$out"

for k in 1 2; do
  [ -f "$out/measured/$k" ] || "$bin/lagom" convert "$here/data/measured/graph_$k.zip" "$out/measured"
  touch "$out/measured/$k"
done
for k in 1 2; do
  [ -d "$out/kernels/$k" ] || "$bin/lagom" convert "$here/data/measured/kernel_$k.zip" "$out/kernels/$k"
done
for encoding in decisions rewritten; do
  [ -d "$out/$encoding" ] || "$bin/lagom" convert "$out/measured" "$out/$encoding" \
    --encoding $encoding --features 3 --programs "$programs"
done
[ -d "$out/rewritten_kernels" ] ||
  "$bin/lagom" convert "$out/kernels" "$out/rewritten_kernels" --encoding rewritten --features 3
[ -f "$out/programs.tsv" ] ||
  "$bin/program_study" "$here/models/kernel_xla_cpu.safetensors" "$out/kernels/1/kernel/train" \
    "$out/kernels/2/kernel/train" --programs "$out/decisions" > "$out/programs.tsv"

# train NAME ENCODED CONFIG [OPTION...]: a model per seed, and its scores of the test programs
train() {
  name=$1 encoded=$2 config=$3
  shift 3
  for seed in $seeds; do
    run=$out/runs/$name/$seed
    [ -f "$run/test.jsonl" ] && continue
    "$bin/lagom-learn" train "$here/configs/$config" --out "$run" --threads 1 \
      --set "seeds=[$seed]" --set "steps=$steps" --set eval_every=100 "$@"
    "$bin/lagom-learn" eval "$run/best.safetensors" "$out/$encoded/graph/test" --threads 1 \
      --scores "$run/test.jsonl" > "$run/test.txt"
  done
}

files=
for name in $names; do
  splits="--set train=[\"$out/decisions/graph/train\"] --set valid=[\"$out/decisions/graph/valid\"]"
  case $name in
    mlp) train mlp decisions cost_model/mlp.toml --set configs=24 $splits ;;
    first_place) train first_place decisions cost_model/first_place_random.toml --set configs=24 $splits ;;
    third_place) train third_place decisions cost_model/third_place.toml $splits ;;
    ours) train ours decisions gst/programs.toml $splits ;;
    adds_nodes)  # with the kernels; without validation graphs the average at the last step is the result
      train adds_nodes rewritten cost_model/programs.toml --set \
        "train=[\"$out/rewritten/graph/train\",\"$out/rewritten_kernels/1/kernel/train\",\"$out/rewritten_kernels/2/kernel/train\"]"
      ;;
    *)
      echo "$0: there is no predictor $name" >&2
      exit 2
      ;;
  esac
  list=
  for seed in $seeds; do list=$list,$out/runs/$name/$seed/test.jsonl; done
  files="$files $name=${list#,}"
done
"${PYTHON:-python3}" "$here/benchmarks/peers/program_predictors.py" "$out/programs.tsv" $files |
  tee "$out/programs.md"
