#pragma once

#include <filesystem>

#include "lagom/tune/form_beliefs.h"

namespace lagom::collect {

/// Boosted trees (rank::BoostedTrees) that foresee log(seconds in the form / as it is) of a kernel,
/// for `lagom tune`. Their features are known by name: `opcode` (graph::opcode_number, version 2),
/// `form` (form_number), `is_promising` (rewrite::Rule), `node_K` (number K of
/// tune::describe_node, missing past its end). benchmarks/peers/form_predictors.py trains them.
/// Throws as BoostedTrees::load, and FormatError for a feature of another name.
tune::CostModel load_form_trees(const std::filesystem::path& path);

}  // namespace lagom::collect
