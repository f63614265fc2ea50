#pragma once

// A comparison of models at equal training FLOPs: which models, how many steps each gets.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lagom/lm/trainer.h"
#include "lagom/util/options.h"

namespace lagom::lm {

/// Models of one kind in several sizes.
struct IsoflopFamily {
  /// KEY=VALUE over the plan's training config, as "model.routing.capacity=0.25".
  std::vector<std::string> set;
  /// Models as WIDTHxBLOCKS, "64x4"; empty: the plan's; none there: planned for each budget.
  std::vector<std::string> sizes;
  /// Another family's name: for each of its sizes the model of this family and that width whose
  /// number of blocks comes nearest in FLOPs per forward pass. Excludes `sizes`.
  std::string match;
  std::vector<int64_t> seeds;  ///< Empty: the plan's.

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("set", self.set);
    visit("sizes", self.sizes);
    visit("match", self.match);
    visit("seeds", self.seeds);
  }
};

struct IsoflopPlan {
  std::string config;  ///< Training config that all runs share; a path from the working folder.
  std::vector<std::string> set;  ///< KEY=VALUE over it.
  std::vector<double> budgets;   ///< Training FLOPs of a run.
  std::vector<std::string> sizes;
  /// Planned sizes: this many for each budget, spread over the sizes that get a number of training
  /// tokens per parameter within these two.
  int64_t num_sizes = 5;
  std::vector<double> tokens_per_parameter = {10, 300};
  std::vector<int64_t> seeds = {1, 2, 3};
  int64_t head_dim = 32;   ///< num_heads is the width divided by it.
  int64_t min_steps = 50;  ///< A budget that pays for fewer is too small for a model.
  /// Learning rates to try for each family, at the smallest budget, its middle size and its first
  /// seed; its other runs take the best. Fewer than two: the config's rate.
  std::vector<double> learning_rates;
  std::string baseline = "dense";  ///< The family that others are compared with.
  NamedTables<IsoflopFamily> families;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("config", self.config);
    visit("set", self.set);
    visit("budgets", self.budgets);
    visit("sizes", self.sizes);
    visit("num_sizes", self.num_sizes);
    visit("tokens_per_parameter", self.tokens_per_parameter);
    visit("seeds", self.seeds);
    visit("head_dim", self.head_dim);
    visit("min_steps", self.min_steps);
    visit("learning_rates", self.learning_rates);
    visit("baseline", self.baseline);
    visit("families", self.families);
  }
};

/// One training run of a plan.
struct IsoflopRun {
  std::string id;  ///< "1e13-mod-64x8-s1": a file name; "rate-mod-64x8-0.003" for a tried rate.
  std::string family, size;
  double budget = 0;
  int64_t seed = 0;
  bool tries_rate = false;    ///< To choose a learning rate: no part of the comparison.
  std::vector<double> rates;  ///< Those that its own is chosen from; empty: it has its own.
  /// Steps and schedule end at the budget.
  LmTrainOptions options;
  int64_t parameters = 0;
  double forward_flops_per_token = 0;
  double training_flops = 0;  ///< Of all its steps: the budget to the nearest step.
};

/// All runs, those that try learning rates first; of the others the rate then is the config's until
/// it is chosen.
/// Throws std::invalid_argument saying what cannot be met: no families, budgets or sizes; a name,
/// size or seed that is given twice; a size that is no WIDTHxBLOCKS; a budget that is too small for
/// a model; a capacity of less than one token; options that the model refuses (more experts than
/// tokens). FormatError for `set` as read_options.
std::vector<IsoflopRun> plan_runs(const IsoflopPlan& plan);

/// The plan as a table for people: family, size, parameters, FLOPs, steps and tokens.
std::string plan_text(const std::vector<IsoflopRun>& runs);
std::string plan_csv(const std::vector<IsoflopRun>& runs);

/// A budget as people write it: "1e13", "3e13", "2.5e12".
std::string budget_name(double budget);

}  // namespace lagom::lm
