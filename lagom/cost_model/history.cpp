#include "lagom/cost_model/history.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

namespace lagom::cost_model {
namespace {

constexpr int64_t kBlockRows = 4096;
constexpr int64_t kMappingBytes = 48;  // of a hashed row beside its values: map, key, step

std::string in_mb(int64_t bytes) {
  return std::to_string((bytes + 999'999) / 1'000'000) + " MB";
}

at::Tensor tensor_of(const std::vector<int64_t>& values) {
  return at::tensor(values, at::kLong);
}

}  // namespace

std::span<const std::string_view> option_names(HistoryStorage) {
  static constexpr std::array<std::string_view, 2> kNames = {"hashed", "dense"};
  return kNames;
}

HistoryTable::HistoryTable(std::vector<Graph> graphs, int64_t columns, at::ScalarType dtype,
                           const HistoryOptions& options, const std::filesystem::path& file)
    : graphs_(std::move(graphs)),
      first_key_{0},
      columns_(columns),
      dtype_(dtype),
      is_dense_(options.storage == HistoryStorage::kDense),
      block_rows_(kBlockRows) {
  for (const Graph& graph : graphs_) {
    first_key_.push_back(first_key_.back() + graph.num_configs * graph.num_segments);
  }
  const int64_t all = first_key_.back();
  capacity_ = std::min(all, options.max_bytes / row_bytes());
  const bool fits = is_dense_ ? capacity_ == all : capacity_ > 0 || all == 0;
  if (!fits || capacity_ > std::numeric_limits<int32_t>::max()) {
    throw std::invalid_argument("segments.history.max_bytes: the table of " + std::to_string(all) +
                                " embeddings of " + std::to_string(columns) + " values needs " +
                                in_mb(full_bytes()) + ", the bound is " +
                                std::to_string(options.max_bytes) + " bytes; raise it" +
                                (is_dense_ ? " or take storage = \"hashed\"" : ""));
  }
  if (is_dense_) steps_.assign(static_cast<size_t>(all), -1);
  if (options.is_mapped && capacity_ > 0) {
    std::filesystem::remove(file);
    blocks_ = {at::from_file(file.string(), /*shared=*/true, capacity_ * columns_,
                             at::TensorOptions().dtype(dtype_))};
    block_rows_ = capacity_;
  }
}

int64_t HistoryTable::row_bytes() const {
  const auto size = static_cast<int64_t>(c10::elementSize(dtype_));
  return columns_ * size + (is_dense_ ? static_cast<int64_t>(sizeof(int64_t)) : kMappingBytes);
}

int64_t HistoryTable::bytes() const {
  return (is_dense_ ? first_key_.back() : num_entries_) * row_bytes();
}

int64_t HistoryTable::full_bytes() const {
  return first_key_.back() * row_bytes();
}

int64_t HistoryTable::key_of(int64_t graph, int64_t config, int64_t segment) const {
  const auto at = static_cast<size_t>(graph);
  const Graph& sizes = graphs_.at(at);
  if (config < 0 || config >= sizes.num_configs || segment < 0 || segment >= sizes.num_segments) {
    throw std::invalid_argument("HistoryTable: graph " + std::to_string(graph) +
                                " has no configuration " + std::to_string(config) +
                                " or no segment " + std::to_string(segment));
  }
  return first_key_[at] + config * sizes.num_segments + segment;
}

int64_t HistoryTable::row_of(int64_t key) const {
  if (is_dense_) return steps_[static_cast<size_t>(key)] < 0 ? -1 : key;
  const auto found = rows_.find(key);
  return found == rows_.end() ? -1 : found->second;
}

int64_t HistoryTable::new_row(int64_t key) {
  if (is_dense_) {
    ++num_entries_;
    return key;
  }
  int64_t row = num_entries_;
  if (row < capacity_) {
    ++num_entries_;
    keys_.push_back(key);
    steps_.push_back(-1);
  } else {
    row = next_;
    next_ = (next_ + 1) % capacity_;
    ++num_replaced_;
    rows_.erase(keys_[static_cast<size_t>(row)]);
    keys_[static_cast<size_t>(row)] = key;
  }
  rows_[key] = static_cast<int32_t>(row);
  return row;
}

void* HistoryTable::row_data(int64_t row) const {
  const at::Tensor& block = blocks_[static_cast<size_t>(row / block_rows_)];
  const auto size = static_cast<int64_t>(c10::elementSize(dtype_));
  return static_cast<char*>(block.mutable_data_ptr()) + row % block_rows_ * columns_ * size;
}

std::optional<int64_t> HistoryTable::step_of(int64_t graph, int64_t config, int64_t segment) const {
  const int64_t row = row_of(key_of(graph, config, segment));
  if (row < 0) return std::nullopt;
  return steps_[static_cast<size_t>(row)];
}

at::Tensor HistoryTable::read(int64_t graph, std::span<const int64_t> configs,
                              int64_t segment) const {
  at::Tensor out = at::empty({static_cast<int64_t>(configs.size()), columns_},
                             at::TensorOptions().dtype(dtype_));
  const auto size = static_cast<size_t>(columns_) * c10::elementSize(dtype_);
  auto* to = static_cast<char*>(out.mutable_data_ptr());
  for (size_t i = 0; i < configs.size(); ++i, to += size) {
    const int64_t row = row_of(key_of(graph, configs[i], segment));
    if (row < 0) {
      std::memset(to, 0, size);
    } else {
      std::memcpy(to, row_data(row), size);
    }
  }
  return out;
}

void HistoryTable::store(int64_t graph, std::span<const int64_t> configs, int64_t segment,
                         const at::Tensor& values, int64_t step) {
  const at::Tensor rows = values.detach().to(dtype_).contiguous();
  TORCH_CHECK_VALUE(rows.dim() == 2 && rows.size(0) == static_cast<int64_t>(configs.size()) &&
                        rows.size(1) == columns_,
                    "HistoryTable: expected values [", configs.size(), ", ", columns_, "], got ",
                    values.sizes());
  const auto size = static_cast<size_t>(columns_) * c10::elementSize(dtype_);
  const auto* from = static_cast<const char*>(rows.const_data_ptr());
  for (size_t i = 0; i < configs.size(); ++i, from += size) {
    const int64_t key = key_of(graph, configs[i], segment);
    int64_t row = row_of(key);
    if (row < 0) row = new_row(key);
    while (row / block_rows_ >= static_cast<int64_t>(blocks_.size())) {
      blocks_.push_back(at::empty({kBlockRows * columns_}, at::TensorOptions().dtype(dtype_)));
    }
    std::memcpy(row_data(row), from, size);
    steps_[static_cast<size_t>(row)] = step;
  }
}

void HistoryTable::clear() {
  rows_.clear();
  keys_.clear();
  steps_.assign(is_dense_ ? static_cast<size_t>(first_key_.back()) : 0, -1);
  num_entries_ = num_replaced_ = next_ = 0;
}

std::vector<tensor::NamedTensor> HistoryTable::state() const {
  std::vector<int64_t> keys, steps;
  at::Tensor values = at::empty({num_entries_, columns_}, at::TensorOptions().dtype(dtype_));
  const auto size = static_cast<size_t>(columns_) * c10::elementSize(dtype_);
  auto* to = static_cast<char*>(values.mutable_data_ptr());
  for (size_t row = 0; row < steps_.size(); ++row) {
    if (steps_[row] < 0) continue;
    keys.push_back(is_dense_ ? static_cast<int64_t>(row) : keys_[row]);
    steps.push_back(steps_[row]);
    std::memcpy(to, row_data(static_cast<int64_t>(row)), size);
    to += size;
  }
  return {{"history.keys", tensor_of(keys)},
          {"history.steps", tensor_of(steps)},
          {"history.values", values},
          {"history.next", tensor_of({num_replaced_, next_})}};
}

void HistoryTable::load_state(const tensor::TensorFile& checkpoint) {
  const auto find = [&](const char* name, at::ScalarType dtype) {
    const at::Tensor found = checkpoint.find(name);
    if (!found.defined() || found.scalar_type() != dtype) {
      throw std::invalid_argument(std::string("the checkpoint has no '") + name + "'");
    }
    return found.contiguous();
  };
  const at::Tensor keys = find("history.keys", at::kLong);
  const at::Tensor steps = find("history.steps", at::kLong);
  const at::Tensor values = find("history.values", dtype_);
  const at::Tensor next = find("history.next", at::kLong);
  const int64_t count = keys.numel();
  const auto* key = keys.const_data_ptr<int64_t>();
  const auto* step = steps.const_data_ptr<int64_t>();
  const bool fits =
      steps.numel() == count && values.sizes() == at::IntArrayRef{count, columns_} &&
      next.numel() == 2 && count <= capacity_ &&
      std::all_of(key, key + count, [&](int64_t k) { return k >= 0 && k < first_key_.back(); });
  if (!fits) throw std::invalid_argument("the checkpoint's history is of another table");
  clear();
  for (int64_t i = 0; i < count; ++i) {
    const auto graph =
        std::upper_bound(first_key_.begin(), first_key_.end(), key[i]) - first_key_.begin() - 1;
    const int64_t within = key[i] - first_key_[static_cast<size_t>(graph)];
    const int64_t segments = graphs_[static_cast<size_t>(graph)].num_segments;
    const int64_t config = within / segments;
    store(graph, {&config, 1}, within % segments, values.narrow(0, i, 1), step[i]);
  }
  num_replaced_ = next.const_data_ptr<int64_t>()[0];
  next_ = next.const_data_ptr<int64_t>()[1];
}

}  // namespace lagom::cost_model
