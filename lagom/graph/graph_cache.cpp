#include "lagom/graph/graph_cache.h"

#include <algorithm>
#include <stdexcept>

#include "lagom/util/error.h"

namespace lagom::graph {
namespace {

constexpr const char* kCodes = "node_config_codes";
constexpr const char* kLayouts = "node_config_layouts";

constexpr const char* kCheckedAtOnce[] = {
    "graph_cache",    "feature_version", "list_padding", "source",
    "node_opcode",    "node_feat",       "edge_index",   "node_splits",
    "config_runtime", "config_feat",     kLayouts,       "config_runtime_normalizers",
    "node_config_ids"};

}  // namespace

GraphCache::GraphCache(const std::filesystem::path& path) : file_(path) {
  if (file_.find("graph_cache") == nullptr) {
    throw FormatError(file_.path(), "", "an array file, but no graph");
  }
  for (const char* name : kCheckedAtOnce) {
    if (file_.find(name) != nullptr) file_.verify(name);
  }
  const auto scalar = [&](const char* name) { return file_.values<int32_t>(name, 0)[0]; };
  feature_version_ = scalar("feature_version");
  if (feature_version_ < 1 || feature_version_ > kMaxFeatureVersion) {
    throw FormatError(
        file_.path(), "feature_version",
        std::to_string(feature_version_) + ", expected 1 to " + std::to_string(kMaxFeatureVersion));
  }
  list_padding_ = scalar("list_padding");
  source_ = file_.values<uint64_t>("source", 0)[0];
  node_opcode_ = file_.values<uint8_t>("node_opcode", 1);
  node_feat_ = file_.values<float>("node_feat", 2);
  edge_index_ = file_.values<int64_t>("edge_index", 2);
  node_splits_ = file_.values<int64_t>("node_splits", 1);
  if (file_.shape("node_feat") !=
      std::vector<int64_t>{num_nodes(), num_node_features(feature_version_)}) {
    throw FormatError(file_.path(), "node_feat", "does not fit nodes and feature version");
  }
  const std::string problem = file_.shape("edge_index")[1] == 2
                                  ? edge_problem(edge_index_, num_nodes())
                                  : std::string("has other than 2 columns");
  if (!problem.empty()) throw FormatError(file_.path(), "edge_index", problem);
  if (file_.find("config_runtime") != nullptr) read_measurements();
}

void GraphCache::read_measurements() {
  config_runtime_ = file_.values<int64_t>("config_runtime", 1);
  has_labels_ = std::any_of(config_runtime_.begin(), config_runtime_.end(),
                            [](int64_t ns) { return ns != 0; });
  const auto expect = [&](const char* name, bool fits) {
    if (!fits) throw FormatError(file_.path(), name, "does not fit the other arrays");
  };
  if (file_.find("config_runtime_normalizers") != nullptr) {
    normalizers_ = file_.values<int64_t>("config_runtime_normalizers", 1);
    expect("config_runtime_normalizers", normalizers_.size() == config_runtime_.size());
  }
  if (file_.find("config_feat") != nullptr) {
    kind_ = GraphKind::kTile;
    config_feat_ = file_.values<float>("config_feat", 2);
    expect("config_feat",
           file_.shape("config_feat") == std::vector<int64_t>{num_configs(), kTileConfigFeatures});
    return;
  }
  kind_ = GraphKind::kLayout;
  node_config_ids_ = file_.values<int64_t>("node_config_ids", 1);
  for (const int64_t node : node_config_ids_) {
    expect("node_config_ids", node >= 0 && node < num_nodes());
  }
  layouts_ = file_.values<int8_t>(kLayouts, 2);
  expect(kLayouts, file_.shape(kLayouts)[1] == kLayoutConfigFeatures);
  expect(kCodes, file_.shape(kCodes) == std::vector<int64_t>{num_configs(), num_config_nodes()});
  if (file_.find(kCodes)->element_type == PrimitiveType::kU16) {
    codes16_ = file_.values<uint16_t>(kCodes, 2);
  } else {
    codes32_ = file_.values<uint32_t>(kCodes, 2);
  }
}

void GraphCache::check_rows(std::span<const int64_t> rows) const {
  if (kind_ != GraphKind::kLayout) throw std::invalid_argument(path() + ": has no layouts");
  for (const int64_t row : rows) {
    if (row >= 0 && row < num_configs()) continue;
    throw std::invalid_argument(path() + ": there is no configuration " + std::to_string(row) +
                                ", the graph has " + std::to_string(num_configs()));
  }
}

void GraphCache::read_layout_codes(std::span<const int64_t> rows, std::span<uint32_t> out) const {
  read_codes(rows, std::nullopt, out);
}

void GraphCache::read_codes(std::span<const int64_t> rows,
                            std::optional<std::span<const int64_t>> places,
                            std::span<uint32_t> out) const {
  check_rows(rows);
  const auto width = static_cast<size_t>(num_config_nodes());
  if (places) {
    for (const int64_t place : *places) {
      if (place >= 0 && place < num_config_nodes()) continue;
      throw std::invalid_argument(path() + ": there is no configurable node " +
                                  std::to_string(place));
    }
  }
  const size_t count = places ? places->size() : width;
  if (out.size() != rows.size() * count) {
    throw std::invalid_argument("GraphCache: expected an array for " +
                                std::to_string(rows.size() * count) + " codes");
  }
  uint32_t largest = 0;
  const auto copy = [&](const auto codes) {
    for (size_t r = 0; r < rows.size(); ++r) {
      const auto* const row = codes.data() + static_cast<size_t>(rows[r]) * width;
      for (size_t n = 0; n < count; ++n) {
        const auto code = row[places ? static_cast<size_t>((*places)[n]) : n];
        out[r * count + n] = code;
        largest = std::max<uint32_t>(largest, code);
      }
    }
  };
  codes16_.data() != nullptr ? copy(codes16_) : copy(codes32_);
  if (!out.empty() && largest >= num_layouts()) {
    throw FormatError(path(), kCodes, "a code is past the end of the dictionary");
  }
}

void GraphCache::read_layouts(std::span<const int64_t> rows,
                              std::optional<std::span<const int64_t>> places,
                              std::span<int8_t> out) const {
  const size_t nodes = places ? places->size() : static_cast<size_t>(num_config_nodes());
  std::vector<uint32_t> codes(rows.size() * nodes);
  if (out.size() != codes.size() * kLayoutConfigFeatures) {
    throw std::invalid_argument("GraphCache: expected an array for " +
                                std::to_string(codes.size()) + " layouts");
  }
  read_codes(rows, places, codes);
  for (size_t i = 0; i < codes.size(); ++i) {
    std::copy_n(layouts_.data() + size_t{codes[i]} * kLayoutConfigFeatures, kLayoutConfigFeatures,
                out.data() + i * kLayoutConfigFeatures);
  }
}

void GraphCache::require_feature_version(int version) const {
  if (version == feature_version_) return;
  throw FormatError(path(), "feature_version",
                    std::to_string(feature_version_) + ", expected " + std::to_string(version));
}

void GraphCache::require_labels() const {
  if (has_labels_) return;
  throw FormatError(path(), "config_runtime",
                    num_configs() == 0 ? "there are no measurements"
                                       : "only zeros: a test file without its labels");
}

void GraphCache::verify() const {
  file_.verify_all();
  if (kind_ != GraphKind::kLayout) return;
  std::vector<uint32_t> codes(static_cast<size_t>(num_config_nodes()));
  for (int64_t row = 0; row < num_configs(); ++row) read_layout_codes({&row, 1}, codes);
}

}  // namespace lagom::graph
