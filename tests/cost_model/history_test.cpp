#include "lagom/cost_model/history.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/command.h"

namespace lagom::cost_model {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::vector<HistoryTable::Graph> kGraphs = {{.num_configs = 3, .num_segments = 2},
                                                  {.num_configs = 2, .num_segments = 4}};
constexpr int64_t kColumns = 5;

/// Every entry gets a value that tells it from all others.
at::Tensor value_of(int64_t graph, int64_t segment, const std::vector<int64_t>& configs) {
  at::Tensor out = at::empty({static_cast<int64_t>(configs.size()), kColumns});
  for (size_t i = 0; i < configs.size(); ++i) {
    out[static_cast<int64_t>(i)].fill_(100 * graph + 10 * configs[i] + segment);
  }
  return out;
}

TEST(HistoryTableTest, EveryGraphHasItsOwnRows) {
  const testing::TemporaryFolder folder;
  for (const HistoryStorage storage : {HistoryStorage::kHashed, HistoryStorage::kDense}) {
    for (const bool is_mapped : {false, true}) {
      HistoryTable table(kGraphs, kColumns, at::kFloat,
                         {.storage = storage, .is_mapped = is_mapped}, folder / "history.bin");
      const std::vector<int64_t> of_first = {2, 0}, of_second = {1, 0};
      for (int64_t s = 0; s < 2; ++s) table.store(0, of_first, s, value_of(0, s, of_first), 4);
      for (int64_t s = 0; s < 4; ++s) table.store(1, of_second, s, value_of(1, s, of_second), 6);
      for (int64_t s = 0; s < 2; ++s) {
        EXPECT_TRUE(at::equal(table.read(0, of_first, s), value_of(0, s, of_first)));
      }
      for (int64_t s = 0; s < 4; ++s) {
        EXPECT_TRUE(at::equal(table.read(1, of_second, s), value_of(1, s, of_second)));
      }
      EXPECT_EQ(table.step_of(0, 1, 0), std::nullopt);
      EXPECT_EQ(table.step_of(0, 2, 1), 4);
      EXPECT_EQ(table.num_entries(), 4 + 8);
      const std::vector<int64_t> never = {1};
      EXPECT_TRUE(at::equal(table.read(0, never, 1), at::zeros({1, kColumns})));
    }
  }
}

TEST(HistoryTableTest, AFullHashedTableLosesItsOldestEntries) {
  // Room for three rows of 20 + 48 bytes.
  HistoryTable table(kGraphs, kColumns, at::kFloat, {.max_bytes = 3 * 68 + 67});
  const std::vector<int64_t> config = {0};
  for (int64_t s = 0; s < 4; ++s) table.store(1, config, s, value_of(1, s, config), s);
  EXPECT_EQ(table.num_entries(), 3);
  EXPECT_EQ(table.num_replaced(), 1);
  EXPECT_EQ(table.step_of(1, 0, 0), std::nullopt);
  EXPECT_LE(table.bytes(), 3 * 68 + 67);
  for (int64_t s = 1; s < 4; ++s) {
    EXPECT_TRUE(at::equal(table.read(1, config, s), value_of(1, s, config)));
  }
  table.store(1, config, 3, value_of(0, 0, config), 9);  // what is there is written over
  EXPECT_EQ(table.num_replaced(), 1);
}

TEST(HistoryTableTest, ATablePastItsBoundIsRefused) {
  const auto make = [](HistoryStorage storage, int64_t max_bytes) {
    return [=] {
      HistoryTable(kGraphs, kColumns, at::kFloat, {.storage = storage, .max_bytes = max_bytes});
    };
  };
  constexpr int64_t kDenseBytes = 14 * (4 * kColumns + 8);
  EXPECT_NO_THROW(make(HistoryStorage::kDense, kDenseBytes)());
  EXPECT_THAT(make(HistoryStorage::kDense, kDenseBytes - 1),
              ThrowsMessage<std::invalid_argument>(::testing::AllOf(
                  HasSubstr("14 embeddings of 5 values"), HasSubstr("the bound"))));
  EXPECT_THAT(make(HistoryStorage::kHashed, 67),
              ThrowsMessage<std::invalid_argument>(HasSubstr("segments.history.max_bytes")));
}

TEST(HistoryTableTest, ACheckpointGivesTheTableBack) {
  const testing::TemporaryFolder folder;
  for (const HistoryStorage storage : {HistoryStorage::kHashed, HistoryStorage::kDense}) {
    const HistoryOptions options = {.storage = storage, .max_bytes = 14 * 28};
    HistoryTable table(kGraphs, kColumns, at::kFloat, options);
    HistoryTable again(kGraphs, kColumns, at::kFloat, options);
    const std::vector<int64_t> config = {1};
    for (int64_t s = 0; s < 4; ++s) table.store(1, config, s, value_of(1, s, config), 10 + s);
    table.store(0, config, 1, value_of(0, 1, config), 20);
    tensor::save_tensors(folder / "table.safetensors", table.state(), {});
    const tensor::TensorFile file = tensor::load_tensors(folder / "table.safetensors");
    again.load_state(file);
    for (int i = 0; i < 3; ++i) {  // the same entries go, too
      const std::vector<int64_t> other = {0};
      for (HistoryTable* each : {&table, &again}) {
        each->store(1, other, i, value_of(1, i, other), 30 + i);
      }
      for (int64_t s = 0; s < 4; ++s) {
        EXPECT_EQ(table.step_of(1, 1, s), again.step_of(1, 1, s));
        EXPECT_TRUE(at::equal(table.read(1, config, s), again.read(1, config, s)));
      }
    }
    HistoryTable smaller({{.num_configs = 1, .num_segments = 1}}, kColumns, at::kFloat, {});
    EXPECT_THROW(smaller.load_state(file), std::invalid_argument);
    EXPECT_THROW(again.load_state({}), std::invalid_argument);
  }
}

TEST(HistoryTableTest, RowsThatThereAreNotAreRefused) {
  HistoryTable table(kGraphs, kColumns, at::kFloat, {});
  EXPECT_THROW(table.step_of(0, 3, 0), std::invalid_argument);
  EXPECT_THROW(table.step_of(0, 0, 2), std::invalid_argument);
  const std::vector<int64_t> config = {0};
  EXPECT_ANY_THROW(table.store(0, config, 0, at::zeros({1, kColumns + 1}), 0));
}

}  // namespace
}  // namespace lagom::cost_model
