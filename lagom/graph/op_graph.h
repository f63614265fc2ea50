#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/hlo/module.h"

/// Programs as the plain arrays of TpuGraphs (Phothilimthana et al. 2023, arXiv 2308.13490), under
/// the names that they have on disk.
///
/// Feature set *v1* is that of the data set, value by value. *v2* begins with the columns of v1 and
/// goes on with what v1 leaves out: dimension numbers of dot, gather and scatter, shapes and
/// layouts of operands, later element types, memory spaces; opcodes that XLA got later have numbers
/// of their own instead of 0. Absent values are -1 in the columns that v2 adds. *v3* goes on with
/// sizes as log2(1 + size), 0 where there is nothing: FLOPs, transcendentals and bytes of the
/// instruction (hlo::CostAnalysis), bytes and minor-most dimension of result and operands, and of
/// dots and convolutions the rows, columns and depth of the matrix products that they are.
///
/// Vocabulary: a *node* is an instruction, numbered through all computations in order; an edge is
/// {user, operand}: the user reads what the operand makes.
namespace lagom::graph {

inline constexpr int kMaxFeatureVersion = 3;
inline constexpr int64_t kNodeFeatures = 140;    ///< Columns of node_feat in v1.
inline constexpr int64_t kNodeFeaturesV2 = 275;  ///< In v2.
inline constexpr int64_t kNodeFeaturesV3 = 295;  ///< In v3.
/// Numbers of opcodes from v2 on that the data set does not have begin here; its own end at 120.
inline constexpr int kFirstExtendedOpcode = 192;
inline constexpr int64_t kTileConfigFeatures = 24;
inline constexpr int64_t kLayoutConfigFeatures = 18;
/// Dimensions of a tensor that features tell apart.
inline constexpr size_t kFeatureRank = 6;

/// Columns of node_feat. Throws std::invalid_argument for a version that there is not.
int64_t num_node_features(int feature_version);

struct OpGraph {
  int feature_version = 1;
  /// What stands behind the end of dimension lists in v1's columns; see OpGraphOptions.
  int list_padding = 0;
  /// [n]; the data set's numbers. Opcodes that came later: 0 in v1, in v2 from
  /// kFirstExtendedOpcode.
  std::vector<uint8_t> node_opcode;
  std::vector<float> node_feat;     ///< [n, num_node_features(feature_version)]
  std::vector<int64_t> edge_index;  ///< [m, 2]: {user, operand}
  /// [s]: 0, boundaries of the computations whose names have "cluster", "while" or "cond" in them,
  /// n.
  std::vector<int64_t> node_splits;

  int64_t num_nodes() const { return static_cast<int64_t>(node_opcode.size()); }
  int64_t num_edges() const { return static_cast<int64_t>(edge_index.size() / 2); }
};

struct OpGraphOptions {
  int feature_version = 1;  ///< 1 to 3; 3 of a verified module only.
  /// Edges by user, then operand. Otherwise as the instructions stand: operands by ascending id,
  /// then roots of called computations.
  bool sort_edges = false;
  /// What fills the places of v1's lists that have no sum and product (dimensions, dimension
  /// numbers, minor_to_major) behind their last value: 0 as in the data set, where it looks like
  /// dimension 0, or -1.
  int list_padding = 0;
};

/// Throws std::invalid_argument for an instruction that reads itself, and for an unknown version.
OpGraph make_op_graph(const hlo::Module& module, const OpGraphOptions& options = {});

/// What is wrong with edges between `num_nodes` nodes, in words: an end outside the graph, or a
/// node that reads itself. Empty when nothing is.
std::string edge_problem(std::span<const int64_t> edge_index, int64_t num_nodes);

/// Edges that stand there more than once, beyond the first of each.
int64_t count_duplicate_edges(std::span<const int64_t> edge_index);

/// The opcode's number in a feature version: the data set's, 0 when v1 has none.
uint8_t opcode_number(hlo::Opcode opcode, int feature_version = 1);

/// Names of the columns of node_feat: "is_root", "element_type_f32", "shape_dimensions_0",
/// "shape_dimensions_sum", ... Made by the code that makes the values.
const std::vector<std::string>& node_feature_names(int feature_version = 1);

/// Bounds of one tile configuration.
struct TileConfig {
  std::vector<int64_t> kernel_bounds, output_bounds, input_bounds;
};
/// [24]: six values, sum and product of each; the product of an empty list is 0.
std::array<float, kTileConfigFeatures> tile_config_features(const TileConfig& config);

/// A layout per tensor of one node: output, input, and for convolutions and dots the kernel. An
/// empty layout is the compiler's own choice, a short one names the minor-most dimensions.
using NodeLayouts = std::vector<std::vector<int64_t>>;
/// [18]: three tensors, six dimensions each, -1 where there is none. Throws std::invalid_argument
/// for more than three tensors.
std::array<float, kLayoutConfigFeatures> layout_config_features(const NodeLayouts& layouts);

const std::vector<std::string>& tile_config_feature_names();
const std::vector<std::string>& layout_config_feature_names();

}  // namespace lagom::graph
