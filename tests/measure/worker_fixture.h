#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lagom/measure/worker.h"
#include "tests/testing/plugins.h"
#include "tests/testing/tiny_module.h"

namespace lagom::measure {

inline InputSpec f32(std::vector<int64_t> dims) {
  return {.dimensions = std::move(dims)};
}

inline BaselineRequest matmul_baseline(int64_t n = 128) {
  return {.program = {.module = lagom::testing::matmul_module(n)},
          .inputs = {f32({n, n}), f32({n, n})},
          .noise = {.min_pairs = 3, .max_pairs = 5, .budget_seconds = 0.2}};
}

// The same product, then everything once more into the bargain: equal numbers, about twice the
// time.
inline std::string slower_matmul(int64_t n) {
  lagom::testing::TinyModule module("slower");
  const int64_t a = module.parameter(PrimitiveType::kF32, {n, n});
  const int64_t b = module.parameter(PrimitiveType::kF32, {n, n});
  const int64_t product = module.dot_f32(n, n, a, b);
  const int64_t other = module.dot_f32(n, n, b, a);
  // Adding a tiny multiple keeps the second product alive without moving the result.
  const int64_t tiny =
      module.broadcast_scalar(PrimitiveType::kF32, {n, n}, module.constant_f32(1e-12F));
  const int64_t scaled = module.op("multiply", PrimitiveType::kF32, {n, n}, {other, tiny});
  return module.finish(module.op("add", PrimitiveType::kF32, {n, n}, {product, scaled}));
}

inline std::string wrong_matmul(int64_t n) {
  lagom::testing::TinyModule module("wrong");
  const int64_t a = module.parameter(PrimitiveType::kF32, {n, n});
  const int64_t b = module.parameter(PrimitiveType::kF32, {n, n});
  return module.finish(module.dot_f32(n, n, b, a));
}

inline MeasureRequest candidate(std::string module) {
  return {.program = {.module = std::move(module)},
          .timing = {.min_pairs = 5, .max_pairs = 15, .budget_seconds = 0.5}};
}

// Other work on the machine can spoil any one measurement: the best of a few must be as expected.
inline MeasureResult measure_until(Worker* worker, const MeasureRequest& request,
                                   const std::function<bool(const MeasureResult&)>& as_expected) {
  MeasureResult result;
  for (int attempt = 0; attempt < 6; ++attempt) {
    result = worker->measure(request);
    if (!result.ok() || as_expected(result)) break;
  }
  return result;
}

class WorkerTest : public ::testing::Test {
 protected:
  void SetUp() override { setenv("LAGOM_WORKER_DEBUG", "1", 1); }

  static WorkerOptions options() {
    return {.plugin = lagom::testing::plugin_path(), .timeout = std::chrono::seconds(60)};
  }
};

}  // namespace lagom::measure
