#!/bin/sh
# How well the effect of a form on a kernel is foreseen (docs/results.md): every predictor learns from
# kernels of the training families and is asked about forms of the others.
#
#   benchmarks/forms-study.sh OUT [PART...]
#
# PART: compare, ours, leave-out; all of them without. SEEDS="1 2 3" and STEPS can be set. Runs on
# one thread; what is there already is kept. Needs build/bin, and for the table python3 (PYTHON) with
# numpy and lightgbm.
set -eu
out=$1
shift
parts=${*:-compare ours leave-out}
seeds=${SEEDS:-1 2 3}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")/.." && pwd)
bin=${BIN:-$here/build/bin}
configs=$here/configs/cost_model
mkdir -p "$out"

for k in 1 2; do
  [ -d "$out/measured/$k" ] || "$bin/lagom" convert "$here/data/measured/kernel_$k.zip" "$out/measured/$k"
done
test="$out/measured/2/kernel/valid $out/measured/2/kernel/test"
[ -f "$out/forms.tsv" ] ||
  "$bin/form_study" "$out/measured/1/kernel/train" "$out/measured/2/kernel/train" --test $test > "$out/forms.tsv"

# encode NAME ENCODING FEATURES [OPTION...]
encode() {
  name=$1 encoding=$2 features=$3
  shift 3
  [ -d "$out/$name" ] ||
    "$bin/lagom" convert "$out/measured" "$out/$name" --encoding "$encoding" --features "$features" "$@"
}

# train NAME ENCODED CONFIG [OPTION...]: a model per seed, and its scores of the test kernels of $asked
train() {
  name=$1 encoded=$2 config=$3
  shift 3
  set -- "$@" --set "train=[\"$out/$encoded/1/kernel/train\",\"$out/$encoded/2/kernel/train\"]"
  for seed in $seeds; do
    run=$out/runs/$name/$seed
    if [ ! -f "$run/scores.jsonl" ]; then
      "$bin/lagom-learn" train "$config" --out "$run" --threads 1 --set "seeds=[$seed]" \
        ${STEPS:+--set steps=$STEPS} "$@"
      for split in valid test; do
        "$bin/lagom-learn" eval "$run/best.safetensors" "$out/$asked/2/kernel/$split" --threads 1 \
          --scores "$run/$split.jsonl" > "$run/$split.txt"
      done
      cat "$run/valid.jsonl" "$run/test.jsonl" > "$run/scores.jsonl"
    fi
  done
}

# table [OPTION...]: of the runs in $names
table() {
  files=
  for name in $names; do
    list=
    for seed in $seeds; do list=$list,$out/runs/$name/$seed/scores.jsonl; done
    files="$files $name=${list#,}"
  done
  "$python" "$here/benchmarks/peers/form_predictors.py" "$out/forms.tsv" $test $files "$@"
}

for part in $parts; do
  case $part in
    compare)
      encode rewritten rewritten 3
      encode decisions decisions 3
      encode decisions_v1 decisions 1
      asked=rewritten
      train rewritten rewritten "$configs/rewritten.toml"
      asked=decisions
      train ours decisions "$configs/forms.toml"
      train mlp decisions "$configs/forms.toml" --set 'model.kind="mlp"'
      asked=decisions_v1
      train ours_v1 decisions_v1 "$configs/forms.toml"
      names="rewritten ours mlp ours_v1" table | tee "$out/compare.md"
      ;;
    ours)  # each ingredient off
      encode decisions decisions 3
      asked=decisions
      names=ours
      train ours decisions "$configs/forms.toml"
      for off in trunk_layers=0 graph_layers=0 channel_attention=false instance_norm=false \
        bidirectional=false use_edge_kinds=false pool_configs=false dropout=0; do
        train "ours_$off" decisions "$configs/forms.toml" --set "model.$off"
        names="$names ours_$off"
      done
      table --no-trees | tee "$out/ours.md"
      ;;
    leave-out)  # one rule in turn
      encode rewritten rewritten 3
      asked=rewritten
      train rewritten_short rewritten "$configs/rewritten.toml" --set steps=500
      for rule in im2col_dot depthwise_taps ones_dot position_dots pool_slices row_dots swapped_dot \
        col2im; do
        encode "rewritten_without_$rule" rewritten 3 --without-form $rule
        train "rewritten_without_$rule" "rewritten_without_$rule" "$configs/rewritten.toml" --set steps=500
        names="rewritten_short rewritten_without_$rule"
        table --without $rule | tee "$out/without_$rule.md"
      done
      ;;
    *)
      echo "$0: there is no part $part" >&2
      exit 2
      ;;
  esac
done
