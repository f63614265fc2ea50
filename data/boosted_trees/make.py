"""Boosted trees as LightGBM 4 saves them, and what it predicts with them: make.py FOLDER."""
import json
import sys

import lightgbm
import numpy as np

rng = np.random.default_rng(7)
n = 400
x = np.column_stack([rng.integers(0, 70, n), rng.normal(size=n),
                     np.where(rng.random(n) < 0.3, 0.0, rng.normal(size=n)),
                     rng.normal(size=n)]).astype(float)
x[rng.random(n) < 0.2, 1] = np.nan
y = (x[:, 0] % 3) + np.where(np.isnan(x[:, 1]), 2, x[:, 1]) + x[:, 2] * x[:, 3]
data = lightgbm.Dataset(x, y, categorical_feature=[0],
                        feature_name=["kind", "holes", "zeros", "plain"])
options = {"objective": "huber", "num_leaves": 5, "min_data_in_leaf": 5, "verbose": -1,
           "num_threads": 1, "max_cat_to_onehot": 2, "cat_smooth": 1, "cat_l2": 1,
           "min_data_per_group": 5, "learning_rate": 0.3}
booster = lightgbm.train(options, data, num_boost_round=6)
booster.save_model(sys.argv[1] + "/trees.txt")

asked = x[:40].copy()
asked[0, 0], asked[1, 0], asked[2, 0] = 99, np.nan, -3
asked[3, 3], asked[4, 2] = np.nan, np.nan
with open(sys.argv[1] + "/predictions.jsonl", "w") as file:
    for row, prediction in zip(asked.tolist(), booster.predict(asked)):
        features = [None if np.isnan(value) else value for value in row]
        file.write(json.dumps({"features": features, "prediction": prediction}) + "\n")
