#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lagom/tensor/safetensors.h"

/// The historical embedding table of Graph Segment Training.
namespace lagom::cost_model {

enum class HistoryStorage {
  /// Room for what was stored so far. When the bound is reached, the oldest entry goes.
  kHashed,
  kDense,  ///< Room for every configuration and segment from the start; refused past the bound.
};
std::span<const std::string_view> option_names(HistoryStorage);

struct HistoryOptions {
  HistoryStorage storage = HistoryStorage::kHashed;
  int64_t max_bytes = int64_t{1} << 30;
  bool is_mapped = false;  ///< The values lie in a file of the run's folder instead of in memory.

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("storage", self.storage);
    visit("max_bytes", self.max_bytes);
    visit("mapped", self.is_mapped);
  }
};

/// An embedding per (graph, configuration, segment), with the step that it is of.
class HistoryTable {
 public:
  struct Graph {
    int64_t num_configs = 0, num_segments = 0;
  };

  /// columns: of an embedding. file: of the values, for a mapped table; what was there is lost.
  /// Throws std::invalid_argument when the bound cannot hold a dense table, or one row of any.
  HistoryTable(std::vector<Graph> graphs, int64_t columns, at::ScalarType dtype,
               const HistoryOptions& options, const std::filesystem::path& file = {});

  /// The step that an entry is of; none where nothing is stored.
  std::optional<int64_t> step_of(int64_t graph, int64_t config, int64_t segment) const;
  /// [configs, columns]: entries of one segment; zeros where nothing is stored.
  at::Tensor read(int64_t graph, std::span<const int64_t> configs, int64_t segment) const;
  /// values: [configs, columns]; gradients are left behind.
  void store(int64_t graph, std::span<const int64_t> configs, int64_t segment,
             const at::Tensor& values, int64_t step);
  void clear();

  int64_t num_entries() const { return num_entries_; }
  int64_t num_replaced() const { return num_replaced_; }  ///< Entries that went for others.
  int64_t bytes() const;                                  ///< Of what it holds now.
  int64_t full_bytes() const;                             ///< Of all configurations and segments.

  /// "history.keys" int64 [n], "history.steps" int64 [n], "history.values" [n, columns], and
  /// "history.next" int64 [2] (entries replaced, the next one to go), for a checkpoint.
  std::vector<tensor::NamedTensor> state() const;
  /// Takes them back. Throws std::invalid_argument when they are missing or of another table.
  void load_state(const tensor::TensorFile& checkpoint);

 private:
  int64_t key_of(int64_t graph, int64_t config, int64_t segment) const;
  int64_t row_of(int64_t key) const;  ///< -1: none.
  int64_t new_row(int64_t key);
  void* row_data(int64_t row) const;
  int64_t row_bytes() const;

  std::vector<Graph> graphs_;
  std::vector<int64_t> first_key_;  ///< [graphs + 1]
  int64_t columns_, capacity_;
  at::ScalarType dtype_;
  bool is_dense_;
  std::vector<at::Tensor> blocks_;  ///< [kBlockRows, columns] each; one of all rows when mapped.
  int64_t block_rows_;
  std::unordered_map<int64_t, int32_t> rows_;  ///< Hashed: key to row.
  std::vector<int64_t> keys_, steps_;          ///< By row; step -1: nothing stored.
  int64_t num_entries_ = 0, num_replaced_ = 0, next_ = 0;
};

}  // namespace lagom::cost_model
