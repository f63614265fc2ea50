"""How well the effect of a form is foreseen: every predictor on the same measured forms.

    build/bin/form_study TRAIN_FOLDER... --test TEST_FOLDER... > forms.tsv
    lagom eval MODEL TEST_FOLDER --scores ours.jsonl
    python benchmarks/peers/form_predictors.py forms.tsv TEST_FOLDER ours=ours.jsonl[,MORE.jsonl]

Prints, for what is asked about the forms of the test folders, the error of log(ratio) (root mean
square, mean absolute), how often the sign of an effect over 10 % is right, Kendall's tau of a kernel's forms and "as it is"
(the mean over kernels), and what would be had without measuring anything: the share of what the best forms save (mean of log(ratio)) that is saved
by the form which is believed to be the fastest, where it is believed to gain 10 %. Several score
files of one name with commas between are seeds: their mean, and in brackets what the mean of their
predictions gives. Score files also come together with the neighbours, as `lagom tune --model` joins
them. Boosted trees (LightGBM on the node's description, 31 leaves, 300 rounds) are
trained on the train lines; --no-trees leaves them out, --save writes those of the first seed. --without RULE trains them without a rule's
lines and asks about that rule's alone, as score files then should.

Needs numpy and lightgbm; not part of the build.
"""

import argparse
import csv
import json
import pathlib

import numpy as np

MODEL_DEVIATION = 0.5  # as in lagom/tune/form_beliefs.h


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


class Judge:
    """The figures of predictions of these forms."""

    def __init__(self, forms):
        self.measured = np.array([float(f["log_ratio"]) for f in forms])
        self.kernels = {}
        for place, form in enumerate(forms):
            self.kernels.setdefault(form["signature"], []).append(place)

    def saved(self, predicted):
        found = best = 0.0
        for places in self.kernels.values():
            ratios = self.measured[places]
            choice = np.argmin(predicted[places])
            best += min(0.0, ratios.min())
            found += ratios[choice] if predicted[places][choice] < -0.1 else 0.0
        return found / best if best else 0.0

    def tau(self, predicted):
        """Kendall's tau-b of each kernel's forms and "as it is", the mean over kernels."""
        taus = []
        for places in self.kernels.values():
            a, b = (np.sign(np.subtract.outer(x, x)) for x in
                    (np.append(predicted[places], 0), np.append(self.measured[places], 0)))
            ties = np.sqrt((a**2).sum() * (b**2).sum())
            taus.append((a * b).sum() / ties if ties else 0)
        return np.mean(taus)

    def __call__(self, predicted):
        error = predicted - self.measured
        large = np.abs(self.measured) > np.log(1.1)
        sign = (predicted < 0) == (self.measured < 0)
        return np.array([np.sqrt(np.mean(error**2)), np.mean(np.abs(error)),
                         100 * np.mean(sign[large]), self.tau(predicted),
                         100 * self.saved(predicted)])


def trees(train, test, seed, knows_promising=True, save=None):
    import lightgbm

    names = [name for name in train[0] if name.startswith("node_")]
    numbers = ["opcode_number", "form_number", "is_promising"] + names

    def features(forms):
        table = np.array([[float(f[n] or "nan") for n in numbers] for f in forms])
        if not knows_promising:
            table[:, 2] = 0
        return table

    labels = np.array([float(f["log_ratio"]) for f in train])
    options = {"objective": "huber", "learning_rate": 0.05, "num_leaves": 31,
               "min_data_in_leaf": 10, "bagging_fraction": 0.8, "bagging_freq": 1,
               "feature_fraction": 0.7, "num_threads": 1, "seed": seed, "deterministic": True,
               "verbose": -1}
    data = lightgbm.Dataset(features(train), labels, categorical_feature=[0, 1],
                            feature_name=["opcode", "form", "is_promising"] + names)
    booster = lightgbm.train(options, data, num_boost_round=300)
    if save:
        booster.save_model(save)
    return booster.predict(features(test))


def print_line(name, predictions, judge):
    means = np.mean([judge(p) for p in predictions], axis=0)
    together = judge(np.mean(predictions, axis=0))
    formats = ["{:.3f}", "{:.3f}", "{:.1f} %", "{:.2f}", "{:.0f} %"]
    cells = [name]
    for form, mean, other in zip(formats, means, together):
        cells.append(form.format(mean) +
                     (f" ({form.format(other)})" if len(predictions) > 1 else ""))
    print("| " + " | ".join(cells) + " |")


def print_comparison(name, predictions, tree_predictions, judge):
    """Root mean square errors against the trees', with a 95 % interval by bootstrap over kernels."""
    def squares(of):
        per_form = np.mean([(p - judge.measured) ** 2 for p in of], axis=0)
        return np.array([[per_form[k].sum(), len(k)] for k in judge.kernels.values()])

    ours, trees_ = squares(predictions), squares(tree_predictions)
    random = np.random.default_rng(1)
    draws = []
    for _ in range(2000):
        rows = random.integers(len(ours), size=len(ours))
        mine, theirs = (np.sqrt(x[rows, 0].sum() / x[rows, 1].sum()) for x in (ours, trees_))
        draws.append(mine - theirs)
    low, high = np.quantile(draws, [0.025, 0.975])
    print(f"{name}: root mean square error less that of boosted trees [{low:+.3f}, {high:+.3f}]")


def with_neighbours(predicted, forms):
    """The product of two Gaussians, as lagom/tune/form_beliefs.h has it."""
    mean = np.array([float(f["neighbours"]) for f in forms])
    doubt = np.array([float(f["deviation"]) for f in forms]) ** 2
    weight = doubt / (doubt + MODEL_DEVIATION**2)
    return weight * predicted + (1 - weight) * mean


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("forms", nargs="?", help="table of form_study")
    parser.add_argument("folders", nargs="*", help="folders of test kernels; NAME=FILE,...: scores")
    parser.add_argument("--without", help="a rule to train without and to ask about")
    parser.add_argument("--no-trees", action="store_true")
    parser.add_argument("--save", help="file for the first seed's trees (lagom tune --model)")
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
    judge = Judge(test)
    print(f"{len(train)} forms to learn from, {len(test)} to ask about, "
          f"{len({f['signature'] for f in test})} kernels\n")
    print("| predictor | root mean square error | mean absolute error | sign | tau | saved unmeasured |")
    print("|---|---|---|---|---|---|")
    print_line("no effect", [np.zeros(len(test))], judge)
    for name in ("prior", "neighbours"):
        if name == "neighbours" and arguments.without:
            continue
        print_line(name, [np.array([float(f[name]) for f in test])], judge)
    by_trees = []
    if not arguments.no_trees:
        by_trees = [trees(train, test, s, save=arguments.save if s == 0 else None)
                    for s in range(arguments.seeds)]
        print_line("boosted trees", by_trees, judge)
        if arguments.without:  # promising or not is what the rule's own survey said
            blind = [trees(train, test, s, knows_promising=False)
                     for s in range(arguments.seeds)]
            print_line("boosted trees, not told what is promising", blind, judge)
    comparable = []
    for name, files in scores.items():
        predictions = [read_scores(f, configurations, test) for f in files.split(",")]
        print_line(name, predictions, judge)
        comparable.append((name, predictions))
        if not arguments.without:
            print_line(name + " with neighbours",
                       [with_neighbours(p, test) for p in predictions], judge)
    print()
    for name, predictions in comparable if by_trees else []:
        print_comparison(name, predictions, by_trees, judge)


if __name__ == "__main__":
    main()
