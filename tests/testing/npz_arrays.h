#pragma once

#include <map>
#include <string>

#include "lagom/formats/npz.h"

namespace lagom::testing {

/// Arrays of an npz that a test changes before it writes them.
using NpzArrays = std::map<std::string, formats::Array>;

/// Two nodes, one edge, v1 features that are 0 but for their first column, and three configurations
/// of node 1 of which the last repeats the first.
NpzArrays small_layout_graph();
/// The same nodes and two tile configurations.
NpzArrays small_tile_graph();

void write_npz(const std::string& path, const NpzArrays& arrays);

}  // namespace lagom::testing
