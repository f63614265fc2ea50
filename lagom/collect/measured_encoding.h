#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "lagom/graph/op_graph.h"

namespace lagom::collect {

/// How a graph's arrays show the decisions of a configuration.
enum class Encoding {
  kDecisions,  ///< Beside one graph: per node its form's number, its layouts, its barriers.
  kRewritten,  ///< By the graph of the rewritten program, one per configuration.
};
std::span<const std::string_view> option_names(Encoding);

struct EncodingOptions {
  Encoding encoding = Encoding::kDecisions;
  graph::OpGraphOptions graph;  ///< Feature version and padding of what is written.
  /// Rows with a form of this rule are left out: what a model knows of a rule that it never saw.
  /// Kernels of which fewer than two rows remain are, too. Empty: none are.
  std::string without_form;
  /// Folder with the HLO files of whole programs, by their names; empty: programs are left out.
  std::filesystem::path programs;
};

/// Writes the measured kernels below a folder (measured_file.h) to the same places below `out` in
/// another encoding or feature version, made from the HLO that stands beside them; the .json come
/// along. Whole programs have no HLO there: theirs is added to the .json. `progress` hears of each
/// path; returning false stops. Returns how many were written. Throws SystemError and FormatError,
/// the latter also when there is none.
int64_t encode_measured(const std::filesystem::path& folder, const std::filesystem::path& out,
                        const EncodingOptions& options,
                        const std::function<bool(const std::filesystem::path&)>& progress = {});

}  // namespace lagom::collect
