#include "lagom/xla/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <stdexcept>

#include "tests/testing/plugins.h"
#include "tests/testing/tiny_module.h"

namespace lagom::xla {
namespace {

using lagom::testing::TinyModule;

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::vector<float> floats_of(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// One client per plugin, kept: creating one is cheap, but XLA's threads stay.
const Client& client_of(const std::string& path) {
  static std::map<std::string, std::unique_ptr<Client>> clients;
  std::unique_ptr<Client>& client = clients[path];
  if (!client) client = std::make_unique<Client>(Plugin::load(lagom::testing::plugin_path(path)));
  return *client;
}

class ClientTest : public ::testing::TestWithParam<std::string> {
 protected:
  const Client& client() const { return client_of(GetParam()); }
  Buffer f32(const std::vector<int64_t>& dims, const std::vector<float>& values) const {
    return client().buffer_from_host({PrimitiveType::kF32, dims}, bytes_of(values));
  }
};

TEST_P(ClientTest, NamesItsPlatformAndDevice) {
  EXPECT_EQ(client().platform_name(), "cpu");
  EXPECT_FALSE(client().device_kind().empty());
  EXPECT_GE(client().num_devices(), 1);
  EXPECT_EQ(client().plugin().major_version(), 0);
  EXPECT_GE(client().plugin().minor_version(), 100);
}

TEST_P(ClientTest, RunsAnAddition) {
  const Executable executable = client().compile(lagom::testing::double_module(4));
  std::vector<Buffer> inputs;
  inputs.push_back(f32({4}, {1, -2, 0.5, 1e30F}));

  const RunResult result = executable.run(inputs);

  ASSERT_EQ(result.outputs.size(), 1u);
  EXPECT_EQ(executable.outputs().at(0), (ArrayType{PrimitiveType::kF32, {4}}));
  EXPECT_EQ(result.outputs[0].type(), (ArrayType{PrimitiveType::kF32, {4}}));
  EXPECT_EQ(floats_of(result.outputs[0].to_host()), (std::vector<float>{2, -4, 1, 2e30F}));
  EXPECT_GT(result.seconds, 0);
}

TEST_P(ClientTest, TupleRootGivesItsLeavesInOrder) {
  TinyModule module("pair");
  const int64_t a = module.parameter(PrimitiveType::kF32, {2});
  const int64_t b = module.parameter(PrimitiveType::kF32, {2});
  const int64_t product = module.op("multiply", PrimitiveType::kF32, {2}, {a, b});
  const Executable executable = client().compile(module.finish(module.tuple({product, a})));
  std::vector<Buffer> inputs;
  inputs.push_back(f32({2}, {2, 3}));
  inputs.push_back(f32({2}, {5, 7}));

  const RunResult result = executable.run(inputs);

  ASSERT_EQ(result.outputs.size(), 2u);
  EXPECT_EQ(floats_of(result.outputs[0].to_host()), (std::vector<float>{10, 21}));
  EXPECT_EQ(floats_of(result.outputs[1].to_host()), (std::vector<float>{2, 3}));
}

TEST_P(ClientTest, HostDataIsRowMajorWhateverLayoutsTheProgramNames) {
  // f32[2,3]{0,1} goes in and comes out by the program; the host gives and gets rows.
  TinyModule module("columns");
  const int64_t x = module.parameter(PrimitiveType::kF32, {2, 3}, {0, 1});
  const Executable executable = client().compile(
      module.finish(module.op("negate", PrimitiveType::kF32, {2, 3}, {x}, {0, 1})));
  std::vector<Buffer> inputs;
  inputs.push_back(f32({2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(floats_of(inputs[0].to_host()), (std::vector<float>{1, 2, 3, 4, 5, 6}));

  const RunResult result = executable.run(inputs);

  EXPECT_EQ(floats_of(result.outputs[0].to_host()), (std::vector<float>{-1, -2, -3, -4, -5, -6}));
}

TEST_P(ClientTest, EveryElementTypeMakesTheRoundTrip) {
  using enum PrimitiveType;
  for (const PrimitiveType type :
       {kPred,       kS8,         kS16,    kS32,    kS64, kU8,   kU16,    kU32,      kU64,
        kF16,        kBF16,       kF32,    kF64,    kC64, kC128, kF8E5M2, kF8E4M3FN, kF8E4M3B11FNUZ,
        kF8E5M2FNUZ, kF8E4M3FNUZ, kF8E4M3, kF8E3M4, kS4,  kU4}) {
    const ArrayType array{type, {3}};
    std::string data(static_cast<size_t>(array.size_bytes()), '\0');
    for (size_t i = 0; i < 3; ++i) {
      encode_number(type, static_cast<double>(i), data.data() + i * data.size() / 3);
    }
    SCOPED_TRACE(array.to_string());
    EXPECT_EQ(client().buffer_from_host(array, data).to_host(), data);
  }
}

TEST_P(ClientTest, DonatedInputsAreKept) {
  TinyModule module("donated");
  const int64_t x = module.parameter(PrimitiveType::kF32, {4});
  module.alias_output_with_parameter(0);
  const Executable executable =
      client().compile(module.finish(module.op("add", PrimitiveType::kF32, {4}, {x, x})));
  std::vector<Buffer> inputs;
  inputs.push_back(f32({4}, {1, 2, 3, 4}));

  for (int run = 0; run < 3; ++run) {
    const RunResult result = executable.run(inputs);
    EXPECT_EQ(floats_of(result.outputs[0].to_host()), (std::vector<float>{2, 4, 6, 8}));
  }
  EXPECT_EQ(floats_of(inputs[0].to_host()), (std::vector<float>{1, 2, 3, 4}));
}

TEST_P(ClientTest, FlagsAreAccepted) {
  CompileOptions options;
  options.flags["xla_backend_optimization_level"] = int64_t{0};
  options.flags["xla_cpu_enable_fast_math"] = false;
  options.flags["xla_disable_hlo_passes"] = std::string("algsimp");

  EXPECT_NO_THROW(client().compile(lagom::testing::double_module(4), options));
}

TEST_P(ClientTest, UnknownFlagIsRefusedOrDropped) {
  CompileOptions options;
  options.flags["xla_no_such_flag"] = true;
  options.flags["xla_backend_optimization_level"] = int64_t{1};
  const std::string module = lagom::testing::double_module(4);

  EXPECT_THROW(client().compile(module, options), PjrtError);
  std::vector<std::string> dropped;
  client().compile_dropping_unknown_flags(module, options, &dropped);
  EXPECT_THAT(dropped, ::testing::ElementsAre("xla_no_such_flag"));
}

TEST_P(ClientTest, FlagOfTheWrongTypeIsAnErrorAndNotDropped) {
  CompileOptions options;
  options.flags["xla_backend_optimization_level"] = std::string("fast");

  std::vector<std::string> dropped;
  EXPECT_THROW(
      client().compile_dropping_unknown_flags(lagom::testing::double_module(4), options, &dropped),
      PjrtError);
  EXPECT_TRUE(dropped.empty());
}

TEST_P(ClientTest, OptimizedProgramIsAModuleThatCompiles) {
  const Executable executable = client().compile(lagom::testing::double_module(4));

  const std::string optimized = executable.optimized_program();

  EXPECT_NE(optimized.find("double"), std::string::npos);
  EXPECT_FALSE(optimized.empty());
}

TEST_P(ClientTest, CostAnalysisCountsTheFlopsOfADotWhereThePluginHasOne) {
  const Executable executable = client().compile(lagom::testing::matmul_module(16));

  const std::map<std::string, double> cost = executable.cost_analysis();

  if (!cost.empty()) {
    EXPECT_EQ(cost.at("flops"), 2.0 * 16 * 16 * 16);
  }
}

TEST_P(ClientTest, MemoryStatsCountArgumentsAndOutputs) {
  const Executable executable = client().compile(lagom::testing::matmul_module(16));

  const MemoryStats stats = executable.memory_stats();

  EXPECT_EQ(stats.argument_bytes, 2 * 16 * 16 * 4);
  EXPECT_EQ(stats.output_bytes, 16 * 16 * 4);
  EXPECT_GE(stats.temp_bytes, 0);
}

TEST_P(ClientTest, GarbageIsNoProgram) {
  EXPECT_THROW(client().compile("this is no protobuf"), PjrtError);
}

TEST_P(ClientTest, CustomCallWithoutHandlerIsNamed) {
  TinyModule module("call");
  const int64_t x = module.parameter(PrimitiveType::kF32, {4});
  const std::string bytes =
      module.finish(module.custom_call("no_such_target", PrimitiveType::kF32, {4}, {x}));
  std::string message;
  try {
    const Executable executable = client().compile(bytes);
    std::vector<Buffer> inputs;
    inputs.push_back(f32({4}, {1, 2, 3, 4}));
    executable.run(inputs);
  } catch (const PjrtError& error) {
    message = error.what();
  }

  EXPECT_NE(message.find("no_such_target"), std::string::npos) << message;
}

TEST_P(ClientTest, WrongNumberOfInputsIsAnError) {
  const Executable executable = client().compile(lagom::testing::matmul_module(4));
  std::vector<Buffer> inputs;
  inputs.push_back(f32({4, 4}, std::vector<float>(16, 1)));

  EXPECT_THROW(executable.run(inputs), PjrtError);
}

TEST_P(ClientTest, BufferRejectsSizesAndTypesThatCannotBe) {
  EXPECT_THROW(f32({4}, {1, 2, 3}), std::invalid_argument);
  EXPECT_THROW(client().buffer_from_host({PrimitiveType::kInvalid, {0}}, ""),
               std::invalid_argument);
  EXPECT_THROW((ArrayType{PrimitiveType::kF32, {int64_t{1} << 40, int64_t{1} << 40}}.size_bytes()),
               std::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Plugins, ClientTest, ::testing::ValuesIn(lagom::testing::test_plugins()),
                         [](const auto& info) { return "Plugin" + std::to_string(info.index); });

}  // namespace
}  // namespace lagom::xla
