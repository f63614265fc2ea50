#include "lagom/measure/messages.h"

#include <gtest/gtest.h>

#include "lagom/util/error.h"

namespace lagom::measure {
namespace {

// What arrives when a message is sent.
Message sent(const MessageView& view) {
  Message message{.header = view.header, .payloads = {}};
  for (const std::string_view payload : view.payloads) message.payloads.emplace_back(payload);
  return message;
}

Program some_program() {
  return {.module = std::string("\x0a\0\xff", 3),
          .flags = {{"a", true}, {"b", int64_t{3}}, {"c", 2.0}, {"d", std::string("x")}},
          .tuple_arguments = true};
}

TEST(MessagesTest, BaselineRequestMakesTheRoundTrip) {
  BaselineRequest request{
      .program = some_program(), .seed = 77, .check_health = false, .time_unhealthy = false};
  request.inputs.push_back({.element_type = PrimitiveType::kBF16,
                            .dimensions = {2, 3},
                            .role = InputRole::kWeight,
                            .fan_in = 9,
                            .scale = 0.5});
  request.inputs.push_back({.element_type = PrimitiveType::kS32,
                            .role = InputRole::kIndex,
                            .int_low = -1,
                            .int_high = 4});
  request.noise.max_pairs = 9;

  Message message = sent(encode(request));
  EXPECT_EQ(request_name(message), kLoadBaseline);
  const BaselineRequest back = decode_baseline_request(std::move(message));

  EXPECT_EQ(back.program.module, request.program.module);
  EXPECT_EQ(back.program.flags, request.program.flags);
  EXPECT_TRUE(back.program.tuple_arguments);
  EXPECT_EQ(back.inputs, request.inputs);
  EXPECT_EQ(back.seed, 77u);
  EXPECT_EQ(back.noise.max_pairs, 9);
  EXPECT_FALSE(back.check_health);
  EXPECT_FALSE(back.time_unhealthy);
}

TEST(MessagesTest, MeasureRequestMakesTheRoundTrip) {
  MeasureRequest request{.program = some_program(), .check_outputs = false};
  request.timing = {
      .min_pairs = 7, .max_pairs = 8, .target_width = 0.1, .budget_seconds = 3, .stop_ratio = 1.5};

  const MeasureRequest back = decode_measure_request(sent(encode(request)));

  EXPECT_EQ(back.program.flags, request.program.flags);
  EXPECT_EQ(back.timing.min_pairs, 7);
  EXPECT_EQ(back.timing.stop_ratio, 1.5);
  EXPECT_FALSE(back.check_outputs);
}

TEST(MessagesTest, RunRequestKeepsItsArrays) {
  RunRequest request{.program = some_program(), .return_outputs = true};
  request.input_data = {"abcd", std::string("\0\1", 2)};

  const RunRequest back = decode_run_request(sent(encode(request)));

  EXPECT_EQ(back.program.module, request.program.module);
  EXPECT_EQ(back.input_data, request.input_data);
  EXPECT_TRUE(back.return_outputs);
}

TEST(MessagesTest, FailedMeasureResultHasNoTime) {
  MeasureResult result;
  result.failure = FailureKind::kWrongNumbers;
  result.error = "wrong numbers: \xff broken text";
  result.outputs.push_back({.element_type = PrimitiveType::kF32, .count = 4, .mismatches = 2});

  const MeasureResult back = decode_measure_result(sent(encode(result)));

  EXPECT_EQ(back.failure, FailureKind::kWrongNumbers);
  EXPECT_FALSE(back.ok());
  EXPECT_FALSE(back.seconds.has_value());
  EXPECT_EQ(back.outputs.at(0).mismatches, 2);
  EXPECT_EQ(failure_kind_name(back.failure), "wrong numbers");
}

TEST(MessagesTest, MeasureResultKeepsTimes) {
  MeasureResult result;
  result.seconds = 0.25;
  result.default_seconds = 0.5;
  result.ratio = {
      .median = 0.5, .low = 0.4, .high = 0.6, .geometric = 0.51, .coverage = 0.96, .pairs = 12};
  result.figures.dropped_flags = {"xla_x"};

  const MeasureResult back = decode_measure_result(sent(encode(result)));

  EXPECT_EQ(back.seconds, 0.25);
  EXPECT_EQ(back.ratio.high, 0.6);
  EXPECT_EQ(back.ratio.pairs, 12);
  EXPECT_EQ(back.figures.dropped_flags, result.figures.dropped_flags);
}

TEST(MessagesTest, BaselineResultKeepsHealthAndOutputs) {
  BaselineResult result;
  result.health = {.finite = false, .denormal_share = 0.5, .note = "n"};
  result.outputs.push_back({.element_type = PrimitiveType::kF32,
                            .dimensions = {2},
                            .statistics = {.count = 2, .hash = 0xffffffffffffffffu},
                            .tolerance = {.relative_error = 1e-5}});

  const BaselineResult back = decode_baseline_result(sent(encode(result)));

  EXPECT_FALSE(back.health.finite);
  EXPECT_EQ(back.health.note, "n");
  EXPECT_EQ(back.outputs.at(0).statistics.hash, 0xffffffffffffffffu);
  EXPECT_EQ(back.outputs.at(0).tolerance.relative_error, 1e-5);
}

TEST(MessagesTest, OptimizedResultAndReportCarryPayloads) {
  OptimizedResult optimized;
  optimized.module = std::string("\0m", 2);
  optimized.cost["flops"] = 12;
  const OptimizedResult optimized_back = decode_optimized_result(sent(encode(optimized)));
  EXPECT_EQ(optimized_back.module, optimized.module);
  EXPECT_EQ(optimized_back.cost.at("flops"), 12);

  RunReport report;
  report.seconds = {0.1, 0.2};
  report.output_data = {"a", "bc"};
  const RunReport report_back = decode_run_report(sent(encode(report)));
  EXPECT_EQ(report_back.seconds, report.seconds);
  EXPECT_EQ(report_back.output_data, report.output_data);
}

TEST(MessagesTest, DamagedMessagesAreFormatErrors) {
  EXPECT_THROW(request_name({.header = "not json"}), FormatError);
  EXPECT_THROW(request_name({.header = "{}"}), FormatError);
  EXPECT_THROW(decode_measure_request({.header = "{}"}), FormatError);
  EXPECT_THROW(decode_measure_request({.header = "{}", .payloads = {"m"}}), FormatError);
  EXPECT_THROW(decode_measure_result({.header = R"({"failure": 0, "error": 5})"}), FormatError);
  EXPECT_THROW(decode_worker_info({.header = "[1, 2]"}), FormatError);
}

}  // namespace
}  // namespace lagom::measure
