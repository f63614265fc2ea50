#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lagom/hlo/module.h"
#include "lagom/rewrite/configuration.h"

namespace lagom::collect {

/// Configurations of one program as arrays, beside TpuGraphs' own: layouts go where TpuGraphs has
/// them, forms, barriers and flags into arrays of their own.
struct ConfigurationFeatures {
  std::vector<int64_t> node_config_ids;   ///< [nodes], ascending; see graph::OpGraph.
  std::vector<float> node_config_feat;    ///< [configs, nodes, 18]; -1: the compiler's choice.
  std::vector<int16_t> node_config_form;  ///< [configs, nodes]; a form's number, 0: as it is.
  /// [configs, nodes]; bit k: a barrier on operand k (k < 8).
  std::vector<uint8_t> node_config_barrier;
  std::vector<float> config_flags;  ///< [configs, flags]; NaN-free: -1 where a flag is not set.
};

/// Throws std::invalid_argument for a decision that names no instruction of the module, a form or a
/// flag without a number.
ConfigurationFeatures configuration_features(
    const hlo::Module& module, const std::vector<rewrite::Configuration>& configurations);

/// Numbers of forms in data files, from 1; a new rule gets the next one. 0 for an unknown name.
int form_number(std::string_view rule);
/// Columns of config_flags; a new flag is appended. Booleans count as 0 and 1.
const std::vector<std::string>& flag_columns();

}  // namespace lagom::collect
