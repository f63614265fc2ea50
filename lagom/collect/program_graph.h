#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "lagom/collect/configuration_features.h"
#include "lagom/collect/measured_encoding.h"
#include "lagom/collect/rewritten_graphs.h"
#include "lagom/hlo/module.h"
#include "lagom/rank/ranker.h"
#include "lagom/rewrite/configuration.h"
#include "lagom/tune/space.h"

namespace lagom::collect {

/// A program and configurations of it as the arrays of a measured data set, without measuring: what
/// a rank::Ranker is asked about.
class ProgramGraph {
 public:
  /// Throws std::invalid_argument as configuration_features, make_rewritten_graphs and
  /// make_op_graph, and without a configuration.
  ProgramGraph(std::string name, const hlo::Module& module,
               const std::vector<rewrite::Configuration>& configurations,
               const EncodingOptions& options);

  /// Refers to this object.
  rank::ConfiguredGraph view() const;

 private:
  std::string name_;
  RewrittenGraphs graphs_;  ///< One graph without splits where decisions stand beside it.
  ConfigurationFeatures features_;
  std::vector<int8_t> layouts_;
  int64_t num_configs_;
};

/// Up to `count` different configurations, each the default with one to `max_changes` random
/// changes; fewer where the space has not so many. The first is the default itself.
std::vector<rewrite::Configuration> sample_configurations(const tune::SearchSpace& space,
                                                          int64_t count, int64_t max_changes,
                                                          std::mt19937_64& random);

}  // namespace lagom::collect
