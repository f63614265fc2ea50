#include "lagom/graph/op_graph.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <unordered_map>

#include "lagom/hlo/contraction.h"
#include "lagom/hlo/cost_analysis.h"

namespace lagom::graph {
namespace {

using hlo::Dims;
using hlo::ElementType;
using hlo::Instruction;
using hlo::Opcode;

/// Element types in the order of their columns: that of the data set, not of their numbers.
constexpr ElementType kElementTypes[] = {
    ElementType::kInvalid, ElementType::kPred,   ElementType::kS8,   ElementType::kS16,
    ElementType::kS32,     ElementType::kS64,    ElementType::kU8,   ElementType::kU16,
    ElementType::kU32,     ElementType::kU64,    ElementType::kF16,  ElementType::kF32,
    ElementType::kF64,     ElementType::kBF16,   ElementType::kC64,  ElementType::kC128,
    ElementType::kTuple,   ElementType::kOpaque, ElementType::kToken};

/// Those that v1 does not tell apart.
constexpr ElementType kLaterElementTypes[] = {ElementType::kS4,
                                              ElementType::kU4,
                                              ElementType::kF8E5M2,
                                              ElementType::kF8E4M3FN,
                                              ElementType::kF8E4M3B11FNUZ,
                                              ElementType::kF8E5M2FNUZ,
                                              ElementType::kF8E4M3FNUZ,
                                              ElementType::kS2,
                                              ElementType::kU2,
                                              ElementType::kF8E4M3,
                                              ElementType::kF8E3M4,
                                              ElementType::kS1,
                                              ElementType::kU1,
                                              ElementType::kF4E2M1FN,
                                              ElementType::kF8E8M0FNU,
                                              ElementType::kBuffer};

/// Receives features in order. One implementation stores values, the other names.
class ValueSink {
 public:
  ValueSink(float* out, int list_padding) : out_(out), padding_(list_padding) {}

  /// Names that are put together are so only where they are wanted.
  static std::string_view label(std::string_view, std::string_view) { return {}; }
  void scalar(std::string_view, int64_t value) { *out_++ = static_cast<float>(value); }
  void size(std::string_view, double value) {
    *out_++ = static_cast<float>(std::log2(1 + std::max(value, 0.0)));
  }
  void list(std::string_view, const Dims& values, size_t length) {
    for (size_t i = 0; i < length; ++i) *out_++ = static_cast<float>(at(values, i, padding_));
  }
  /// A list of v2: -1 behind the end.
  void numbers(std::string_view, const Dims& values, size_t length) {
    for (size_t i = 0; i < length; ++i) *out_++ = static_cast<float>(at(values, i, -1));
  }
  /// With sum and product of all, the product of none being `empty_product`.
  void aggregated(std::string_view, const Dims& values, size_t length, int64_t empty_product = 1) {
    for (size_t i = 0; i < length; ++i) *out_++ = static_cast<float>(at(values, i, 0));
    // In 64 bits that wrap, as in the data set's own encoder.
    uint64_t sum = 0, product = values.empty() ? static_cast<uint64_t>(empty_product) : 1;
    for (const int64_t value : values) {
      sum += static_cast<uint64_t>(value);
      product *= static_cast<uint64_t>(value);
    }
    *out_++ = static_cast<float>(static_cast<int64_t>(sum));
    *out_++ = static_cast<float>(static_cast<int64_t>(product));
  }

 private:
  static int64_t at(const Dims& values, size_t i, int64_t padding) {
    return i < values.size() ? values[i] : padding;
  }
  float* out_;
  int64_t padding_;
};

class NameSink {
 public:
  std::vector<std::string> names;

  static std::string label(std::string_view prefix, std::string_view rest) {
    return std::string(prefix).append(rest);
  }
  void scalar(std::string_view name, int64_t) { names.emplace_back(name); }
  void size(std::string_view name, double) { names.push_back("log_" + std::string(name)); }
  void list(std::string_view name, const Dims&, size_t length) { places(name, length); }
  void numbers(std::string_view name, const Dims&, size_t length) { places(name, length); }
  void aggregated(std::string_view name, const Dims&, size_t length, int64_t = 1) {
    places(name, length);
    names.push_back(std::string(name) + "_sum");
    names.push_back(std::string(name) + "_product");
  }

 private:
  void places(std::string_view name, size_t length) {
    for (size_t i = 0; i < length; ++i) {
      names.push_back(std::string(name) + "_" + std::to_string(i));
    }
  }
};

template <typename Item, typename Member>
Dims collect(const std::vector<Item>& items, Member Item::* member) {
  Dims values;
  for (const Item& item : items) values.push_back(item.*member);
  return values;
}

template <typename Sink>
void emit_window(Sink& sink, const hlo::Window& window) {
  using hlo::WindowDim;
  sink.aggregated("window_size", collect(window, &WindowDim::size), kFeatureRank);
  sink.aggregated("window_stride", collect(window, &WindowDim::stride), kFeatureRank);
  sink.aggregated("window_padding_low", collect(window, &WindowDim::pad_low), kFeatureRank);
  sink.aggregated("window_padding_high", collect(window, &WindowDim::pad_high), kFeatureRank);
  sink.aggregated("window_dilation", collect(window, &WindowDim::window_dilation), kFeatureRank);
  sink.aggregated("window_base_dilation", collect(window, &WindowDim::base_dilation), kFeatureRank);
  const Dims reversal = collect(window, &WindowDim::reversal);
  const auto reversed = std::count(reversal.begin(), reversal.end(), 1);
  sink.list("window_reversal", reversal, kFeatureRank);
  sink.scalar("window_reversal_true_count", reversed);
  sink.scalar("window_reversal_false_count", static_cast<int64_t>(reversal.size()) - reversed);
}

template <typename Sink>
void emit_convolution(Sink& sink, const hlo::ConvolutionDims& d) {
  constexpr size_t kSpatial = 4;
  sink.scalar("convolution_input_batch", d.input_batch);
  sink.scalar("convolution_input_feature", d.input_feature);
  sink.list("convolution_input_spatial", d.input_spatial, kSpatial);
  sink.scalar("convolution_kernel_input_feature", d.kernel_input_feature);
  sink.scalar("convolution_kernel_output_feature", d.kernel_output_feature);
  sink.list("convolution_kernel_spatial", d.kernel_spatial, kSpatial);
  sink.scalar("convolution_output_batch", d.output_batch);
  sink.scalar("convolution_output_feature", d.output_feature);
}

/// The 140 features of one instruction, in the data set's order.
template <typename Sink>
void emit_node(Sink& sink, const Instruction& i, bool is_root) {
  static const hlo::ConvolutionDims kNoDims;
  constexpr size_t kPair = 2;
  const hlo::Attributes& a = i.attributes;
  sink.scalar("is_root", is_root);
  sink.scalar("element_size_in_bits", 0);
  for (const ElementType type : kElementTypes) {
    sink.scalar(sink.label("element_type_", hlo::element_type_name(type)),
                i.shape.element_type == type);
  }
  sink.aggregated("shape_dimensions", i.shape.dimensions, kFeatureRank);
  sink.scalar("shape_tuple_shapes", static_cast<int64_t>(i.shape.tuple_shapes.size()));
  sink.scalar("parameter_number", a.parameter_number);
  sink.list("dimensions", a.dimensions, kFeatureRank);
  emit_window(sink, a.window);
  emit_convolution(sink, a.convolution ? *a.convolution : kNoDims);
  // Other instructions do not have these at all, which reads as 0.
  const bool has_groups = i.opcode == Opcode::kConvolution || i.opcode == Opcode::kCustomCall;
  sink.scalar("feature_group_count", has_groups ? a.feature_group_count : 0);
  sink.scalar("batch_group_count", has_groups ? a.batch_group_count : 0);
  sink.aggregated("slice_start", collect(a.slice, &hlo::SliceDim::start), kPair);
  sink.aggregated("slice_stride", collect(a.slice, &hlo::SliceDim::stride), kPair);
  sink.aggregated("slice_limit", collect(a.slice, &hlo::SliceDim::limit), kPair);
  sink.aggregated("dynamic_slice_sizes", i.rare().dynamic_slice_sizes, kPair);
  sink.aggregated("padding_low", collect(a.padding, &hlo::PadDim::low), kPair);
  sink.aggregated("padding_high", collect(a.padding, &hlo::PadDim::high), kPair);
  sink.scalar("is_stable", i.rare().is_stable);
  sink.list("layout_minor_to_major", i.shape.layout ? i.shape.layout->minor_to_major : Dims(),
            kFeatureRank);
}

const Dims kNone;

template <typename Sink>
void emit_dimension_numbers(Sink& sink, const hlo::Attributes& a) {
  static const hlo::DotDims kNoDot;
  static const hlo::GatherDims kNoGather;
  static const hlo::ScatterDims kNoScatter;
  constexpr size_t kNumbers = 4;
  const hlo::DotDims& dot = a.dot ? *a.dot : kNoDot;
  sink.numbers("dot_lhs_contracting", dot.lhs_contracting, kNumbers);
  sink.numbers("dot_rhs_contracting", dot.rhs_contracting, kNumbers);
  sink.numbers("dot_lhs_batch", dot.lhs_batch, kNumbers);
  sink.numbers("dot_rhs_batch", dot.rhs_batch, kNumbers);
  const hlo::GatherDims& gather = a.gather ? *a.gather : kNoGather;
  sink.numbers("gather_offset", gather.offset_dims, kNumbers);
  sink.numbers("gather_collapsed_slice", gather.collapsed_slice_dims, kNumbers);
  sink.numbers("gather_start_index_map", gather.start_index_map, kNumbers);
  sink.numbers("gather_operand_batching", gather.operand_batching_dims, kNumbers);
  sink.numbers("gather_start_indices_batching", gather.start_indices_batching_dims, kNumbers);
  sink.numbers("gather_slice_sizes", gather.slice_sizes, kFeatureRank);
  sink.scalar("gather_index_vector", a.gather ? gather.index_vector_dim : -1);
  const hlo::ScatterDims& scatter = a.scatter ? *a.scatter : kNoScatter;
  sink.numbers("scatter_update_window", scatter.update_window_dims, kNumbers);
  sink.numbers("scatter_inserted_window", scatter.inserted_window_dims, kNumbers);
  sink.numbers("scatter_to_operand", scatter.scatter_dims_to_operand_dims, kNumbers);
  sink.numbers("scatter_input_batching", scatter.input_batching_dims, kNumbers);
  sink.numbers("scatter_indices_batching", scatter.scatter_indices_batching_dims, kNumbers);
  sink.scalar("scatter_index_vector", a.scatter ? scatter.index_vector_dim : -1);
  sink.numbers("convolution_output_spatial", a.convolution ? a.convolution->output_spatial : kNone,
               kNumbers);
}

/// Absent operands, and lists of those that are no arrays, read -1.
template <typename Sink>
void emit_operand(Sink& sink, std::string_view operand, const hlo::Shape* shape) {
  const bool has_layout = shape != nullptr && shape->layout;
  sink.numbers(sink.label(operand, "_dimensions"), shape ? shape->dimensions : kNone, kFeatureRank);
  sink.scalar(sink.label(operand, "_elements"), shape ? shape->num_elements() : -1);
  sink.scalar(sink.label(operand, "_element_bits"),
              shape ? hlo::element_bits(shape->element_type) : -1);
  sink.numbers(sink.label(operand, "_layout"), has_layout ? shape->layout->minor_to_major : kNone,
               kFeatureRank);
  sink.scalar(sink.label(operand, "_memory_space"), has_layout ? shape->layout->memory_space : -1);
}

/// What v2 has after the features of v1.
template <typename Sink>
void emit_node_v2(Sink& sink, const Instruction& i) {
  for (const ElementType type : kLaterElementTypes) {
    sink.scalar(sink.label("element_type_", hlo::element_type_name(type)),
                i.shape.element_type == type);
  }
  sink.scalar("element_bits", hlo::element_bits(i.shape.element_type));
  sink.scalar("is_dynamic", i.shape.is_dynamic());
  sink.scalar("memory_space", i.shape.layout ? i.shape.layout->memory_space : -1);
  emit_dimension_numbers(sink, i.attributes);
  sink.scalar("indices_are_sorted", i.rare().indices_are_sorted);
  sink.scalar("unique_indices", i.rare().unique_indices);
  sink.scalar("num_operands", static_cast<int64_t>(i.operands.size()));
  constexpr std::string_view kOperands[] = {"operand_0", "operand_1", "operand_2"};
  for (size_t k = 0; k < std::size(kOperands); ++k) {
    emit_operand(sink, kOperands[k], k < i.operands.size() ? &i.operands[k]->shape : nullptr);
  }
}

/// What v3 has after the features of v2.
template <typename Sink>
void emit_node_v3(Sink& sink, const Instruction& i, const hlo::Cost& cost) {
  sink.size("flops", cost.flops);
  sink.size("transcendentals", cost.transcendentals);
  sink.size("bytes_read", cost.bytes_read);
  sink.size("bytes_written", cost.bytes_written);
  sink.size("result_bytes", static_cast<double>(i.shape.size_bytes()));
  sink.size("result_minor_size", hlo::minor_size(i.shape));
  constexpr std::string_view kOperands[] = {"operand_0", "operand_1"};
  for (size_t k = 0; k < std::size(kOperands); ++k) {
    const hlo::Shape* shape = k < i.operands.size() ? &i.operands[k]->shape : nullptr;
    sink.size(sink.label(kOperands[k], "_bytes"),
              shape ? static_cast<double>(shape->size_bytes()) : 0);
    sink.size(sink.label(kOperands[k], "_minor_size"), shape ? hlo::minor_size(*shape) : 0);
  }
  const hlo::Contraction c = hlo::contraction_of(i);
  sink.size("contraction_batch", c.batch);
  sink.size("contraction_rows", c.rows);
  sink.size("contraction_columns", c.columns);
  sink.size("contraction_depth", c.depth);
  sink.size("window_elements", c.window_elements);
  sink.size("window_strides", c.strides);
  sink.size("window_holes", c.holes);
  sink.size("window_dilations", c.dilation);
  sink.scalar("left_is_depth_last", c.left_is_depth_last);
  sink.scalar("right_is_depth_last", c.right_is_depth_last);
}

template <typename Sink>
void emit_tile_config(Sink& sink, const TileConfig& config) {
  sink.aggregated("kernel_bounds", config.kernel_bounds, kFeatureRank, /*empty_product=*/0);
  sink.aggregated("output_bounds", config.output_bounds, kFeatureRank, /*empty_product=*/0);
  sink.aggregated("input_bounds", config.input_bounds, kFeatureRank, /*empty_product=*/0);
}

bool starts_a_split(std::string_view computation) {
  for (const std::string_view part : {"cluster", "while", "cond"}) {
    if (computation.find(part) != std::string_view::npos) return true;
  }
  return false;
}

void add_edges(const Instruction& user, int64_t number,
               const std::unordered_map<const Instruction*, int64_t>& numbers,
               std::vector<int64_t>& edge_index) {
  std::vector<const Instruction*> operands(user.operands.begin(), user.operands.end());
  // Programs that were not read from a proto have no ids: their numbers ascend alike.
  std::sort(operands.begin(), operands.end(), [&](const Instruction* a, const Instruction* b) {
    return a->id != b->id ? a->id < b->id : numbers.at(a) < numbers.at(b);
  });
  operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
  const auto add = [&](const Instruction* operand) {
    const int64_t other = numbers.at(operand);
    if (other == number) throw std::invalid_argument("'" + user.name + "' reads itself");
    edge_index.insert(edge_index.end(), {number, other});
  };
  for (const Instruction* operand : operands) add(operand);
  for (const hlo::Computation* called : user.called) add(called->root());
}

std::vector<std::pair<int64_t, int64_t>> sorted_edges(std::span<const int64_t> edge_index) {
  std::vector<std::pair<int64_t, int64_t>> edges;
  for (size_t i = 0; i < edge_index.size(); i += 2) {
    edges.emplace_back(edge_index[i], edge_index[i + 1]);
  }
  std::sort(edges.begin(), edges.end());
  return edges;
}

void sort_edges(std::vector<int64_t>& edge_index) {
  const auto edges = sorted_edges(edge_index);
  edge_index.clear();
  for (const auto& [user, operand] : edges) edge_index.insert(edge_index.end(), {user, operand});
}

}  // namespace

int64_t num_node_features(int feature_version) {
  if (feature_version < 1 || feature_version > kMaxFeatureVersion) {
    throw std::invalid_argument("feature version " + std::to_string(feature_version) +
                                ", expected 1 to " + std::to_string(kMaxFeatureVersion));
  }
  constexpr int64_t kColumns[] = {kNodeFeatures, kNodeFeaturesV2, kNodeFeaturesV3};
  return kColumns[feature_version - 1];
}

OpGraph make_op_graph(const hlo::Module& module, const OpGraphOptions& options) {
  const int version = options.feature_version;
  const int64_t width = num_node_features(version);
  OpGraph graph{.feature_version = version, .list_padding = options.list_padding};
  const size_t count = module.num_instructions();
  graph.node_opcode.reserve(count);
  graph.node_feat.resize(count * static_cast<size_t>(width));
  graph.node_splits.push_back(0);
  std::unordered_map<const Instruction*, int64_t> numbers;
  numbers.reserve(count);
  std::optional<hlo::CostAnalysis> costs;
  if (version > 2) costs.emplace(module);
  for (const auto& computation : module.computations()) {
    for (const auto& i : computation->instructions()) {
      const int64_t number = graph.num_nodes();
      numbers[i.get()] = number;
      graph.node_opcode.push_back(opcode_number(i->opcode, version));
      ValueSink sink(graph.node_feat.data() + number * width, options.list_padding);
      emit_node(sink, *i, i.get() == computation->root());
      if (version > 1) emit_node_v2(sink, *i);
      if (version > 2) emit_node_v3(sink, *i, costs->of(*i));
      add_edges(*i, number, numbers, graph.edge_index);
    }
    if (starts_a_split(computation->name())) graph.node_splits.push_back(graph.num_nodes());
  }
  if (graph.node_splits.back() != graph.num_nodes()) {
    graph.node_splits.push_back(graph.num_nodes());
  }
  if (options.sort_edges) sort_edges(graph.edge_index);
  return graph;
}

std::string edge_problem(std::span<const int64_t> edge_index, int64_t num_nodes) {
  for (size_t i = 0; i < edge_index.size(); i += 2) {
    const int64_t user = edge_index[i], operand = edge_index[i + 1];
    const bool is_inside = std::min(user, operand) >= 0 && std::max(user, operand) < num_nodes;
    if (is_inside && user != operand) continue;
    return "edge " + std::to_string(i / 2) + " goes from node " + std::to_string(user) + " to " +
           (user == operand ? "itself" : std::to_string(operand)) + ", the graph has " +
           std::to_string(num_nodes) + " nodes";
  }
  return "";
}

int64_t count_duplicate_edges(std::span<const int64_t> edge_index) {
  const auto edges = sorted_edges(edge_index);
  int64_t count = 0;
  for (size_t i = 1; i < edges.size(); ++i) count += edges[i] == edges[i - 1];
  return count;
}

const std::vector<std::string>& node_feature_names(int feature_version) {
  static const auto kOfVersion = [] {
    std::array<std::vector<std::string>, kMaxFeatureVersion> names;
    NameSink sink;
    emit_node(sink, Instruction(), false);
    names[0] = sink.names;
    emit_node_v2(sink, Instruction());
    names[1] = sink.names;
    emit_node_v3(sink, Instruction(), {});
    names[2] = std::move(sink.names);
    return names;
  }();
  num_node_features(feature_version);
  return kOfVersion[static_cast<size_t>(feature_version - 1)];
}

std::array<float, kTileConfigFeatures> tile_config_features(const TileConfig& config) {
  std::array<float, kTileConfigFeatures> features{};
  ValueSink sink(features.data(), 0);
  emit_tile_config(sink, config);
  return features;
}

const std::vector<std::string>& tile_config_feature_names() {
  static const std::vector<std::string> kNames = [] {
    NameSink sink;
    emit_tile_config(sink, {});
    return sink.names;
  }();
  return kNames;
}

std::array<float, kLayoutConfigFeatures> layout_config_features(const NodeLayouts& layouts) {
  constexpr size_t kTensors = kLayoutConfigFeatures / kFeatureRank;
  if (layouts.size() > kTensors) {
    throw std::invalid_argument("a node has layouts for " + std::to_string(layouts.size()) +
                                " tensors, expected 3 at most");
  }
  std::array<float, kLayoutConfigFeatures> features;
  features.fill(-1);
  for (size_t t = 0; t < layouts.size(); ++t) {
    for (size_t d = 0; d < std::min(layouts[t].size(), kFeatureRank); ++d) {
      features[t * kFeatureRank + d] = static_cast<float>(layouts[t][d]);
    }
  }
  return features;
}

const std::vector<std::string>& layout_config_feature_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const char* tensor : {"output", "input", "kernel"}) {
      for (size_t d = 0; d < kFeatureRank; ++d) {
        names.push_back(std::string(tensor) + "_layout_" + std::to_string(d));
      }
    }
    return names;
  }();
  return kNames;
}

}  // namespace lagom::graph
