"""How well the effect of a form is foreseen: every predictor on the same measured forms.

    build/bin/form_study TRAIN_FOLDER... --test TEST_FOLDER... > forms.tsv
    lagom eval MODEL TEST_FOLDER --scores ours.jsonl
    python benchmarks/peers/form_predictors.py forms.tsv TEST_FOLDER ours=ours.jsonl[,MORE.jsonl]

Prints, for what is asked about the forms of the test folders, the error of log(ratio) (root mean
square, mean absolute) and how often the sign of an effect over 10 % is right. Several score files
of one name with commas between are seeds: the errors' mean, and in brackets those of the mean of
their predictions. Boosted trees (LightGBM on the node's description, 31 leaves, 300 rounds) are
trained on the train lines; --no-trees leaves them out. --without RULE trains them without a rule's
lines and asks about that rule's alone, as score files then should.

Needs numpy and lightgbm; not part of the build.
"""

import argparse
import csv
import json
import pathlib

import numpy as np


def read_forms(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def read_configurations(folders):
    """Rows of each kernel by the text of their configuration, by the kernel's file name."""
    found = {}
    for folder in folders:
        for path in pathlib.Path(folder).rglob("*.json"):
            kernel = json.loads(path.read_text())
            if "hlo" in kernel:
                found[path.stem] = kernel["configurations"]
    return found


def read_scores(path, configurations, forms):
    """Log ratios: the score of the form's row less that of the default's."""
    by_kernel = {}
    for line in pathlib.Path(path).read_text().splitlines():
        kernel = json.loads(line)
        by_kernel[kernel["id"]] = dict(zip(configurations[kernel["id"]], kernel["scores"]))
    out = []
    for form in forms:
        scores = by_kernel[form["signature"]]
        out.append(scores[f"node form {form['form']}\n"] - scores[""])
    return np.array(out)


def errors(predicted, measured):
    error = predicted - measured
    large = np.abs(measured) > np.log(1.1)
    sign = (predicted < 0) == (measured < 0)
    return np.array([np.sqrt(np.mean(error**2)), np.mean(np.abs(error)), np.mean(sign[large])])


def trees(train, test, seed):
    import lightgbm

    names = [name for name in train[0] if name.startswith("node_")]
    opcodes = sorted({form["opcode"] for form in train + test})
    rules = sorted({form["form"] for form in train + test})

    def features(forms):
        return np.array([[opcodes.index(f["opcode"]), rules.index(f["form"]),
                          int(f["is_promising"])] + [float(f[n] or "nan") for n in names]
                         for f in forms])

    labels = np.array([float(f["log_ratio"]) for f in train])
    options = {"objective": "huber", "learning_rate": 0.05, "num_leaves": 31,
               "min_data_in_leaf": 10, "bagging_fraction": 0.8, "bagging_freq": 1,
               "feature_fraction": 0.7, "num_threads": 1, "seed": seed, "deterministic": True,
               "verbose": -1}
    data = lightgbm.Dataset(features(train), labels, categorical_feature=[0, 1])
    return lightgbm.train(options, data, num_boost_round=300).predict(features(test))


def print_line(name, predictions, measured):
    rows = np.array([errors(p, measured) for p in predictions])
    line = [f"{rows[:, 0].mean():.3f}", f"{rows[:, 1].mean():.3f}", f"{100 * rows[:, 2].mean():.1f} %"]
    if len(rows) > 1:
        together = errors(np.mean(predictions, axis=0), measured)
        line = [f"{line[0]} ({together[0]:.3f})", f"{line[1]} ({together[1]:.3f})",
                f"{line[2]} ({100 * together[2]:.1f} %)"]
    print("| " + " | ".join([name] + line) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("forms", nargs="?", help="table of form_study")
    parser.add_argument("folders", nargs="*", help="folders of test kernels; NAME=FILE,...: scores")
    parser.add_argument("--without", help="a rule to train without and to ask about")
    parser.add_argument("--no-trees", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.forms is None:  # as `./run bench` calls every peer
        print("left out: it needs a table of build/bin/form_study")
        return

    scores = dict(a.split("=", 1) for a in arguments.folders if "=" in a)
    configurations = read_configurations([a for a in arguments.folders if "=" not in a])
    forms = read_forms(arguments.forms)
    train = [f for f in forms if f["split"] == "train" and f["form"] != arguments.without]
    test = [f for f in forms if f["split"] == "test"
            and arguments.without in (None, f["form"])]
    measured = np.array([float(f["log_ratio"]) for f in test])
    print(f"{len(train)} forms to learn from, {len(test)} to ask about, "
          f"{len({f['signature'] for f in test})} kernels\n")
    print("| predictor | root mean square error | mean absolute error | sign |\n|---|---|---|---|")
    print_line("no effect", [np.zeros(len(test))], measured)
    for name in ("prior", "neighbours"):
        if name == "neighbours" and arguments.without:
            continue
        print_line(name, [np.array([float(f[name]) for f in test])], measured)
    if not arguments.no_trees:
        print_line("boosted trees", [trees(train, test, s) for s in range(arguments.seeds)],
                   measured)
    for name, files in scores.items():
        predictions = [read_scores(f, configurations, test) for f in files.split(",")]
        print_line(name, predictions, measured)


if __name__ == "__main__":
    main()
