#pragma once

#include <string>
#include <string_view>

#include "lagom/measure/protocol.h"
#include "lagom/measure/types.h"

/// Requests and answers as messages: fields in the JSON header, modules and arrays in payloads.
///
/// Decoders throw FormatError for a message that is not what they expect.
namespace lagom::measure {

inline constexpr std::string_view kHello = "hello";
inline constexpr std::string_view kLoadBaseline = "load_baseline";
inline constexpr std::string_view kMeasure = "measure";
inline constexpr std::string_view kOptimized = "optimized";
inline constexpr std::string_view kRun = "run";
inline constexpr std::string_view kDebug = "debug";

/// A message whose payloads are views into what it was made from.
struct MessageView {
  std::string header;
  std::vector<std::string_view> payloads;
};

/// The request's name: its header's "request".
std::string request_name(const Message& message);

MessageView encode_hello_request();
/// Only answered by workers with LAGOM_WORKER_DEBUG set: "abort", "segfault", "hang", "exit",
/// "eat_memory", "garbage", "half_message", "spin".
MessageView encode_debug_request(std::string_view action);
std::string decode_debug_request(const Message& message);

MessageView encode(const BaselineRequest& request);
MessageView encode(const MeasureRequest& request);
MessageView encode_optimized_request(const Program& program);
MessageView encode(const RunRequest& request);
BaselineRequest decode_baseline_request(Message&& message);
MeasureRequest decode_measure_request(Message&& message);
Program decode_optimized_request(Message&& message);
RunRequest decode_run_request(Message&& message);

MessageView encode(const WorkerInfo& info);
MessageView encode(const BaselineResult& result);
MessageView encode(const MeasureResult& result);
MessageView encode(const OptimizedResult& result);
MessageView encode(const RunReport& report);
WorkerInfo decode_worker_info(Message&& message);
BaselineResult decode_baseline_result(Message&& message);
MeasureResult decode_measure_result(Message&& message);
OptimizedResult decode_optimized_result(Message&& message);
RunReport decode_run_report(Message&& message);

}  // namespace lagom::measure
