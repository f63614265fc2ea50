#include "lagom/measure/messages.h"

#include <array>
#include <nlohmann/json.hpp>

#include "lagom/util/error.h"

namespace lagom::measure {

using Json = nlohmann::json;

namespace {

constexpr std::array<std::string_view, 9> kFailureNames = {
    "none", "compile", "run", "wrong numbers", "crash", "timeout", "memory", "stopped", "system"};

std::string dump(const Json& json) {
  // Error texts come from anywhere: bytes that are no UTF-8 are replaced.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json flags_to_json(const Flags& flags) {
  Json json = Json::object();
  for (const auto& [name, value] : flags) {
    std::visit([&, key = name](const auto& v) { json[key] = v; }, value);
  }
  return json;
}

Flags flags_from_json(const Json& json) {
  Flags flags;
  for (const auto& [name, value] : json.items()) {
    if (value.is_boolean()) {
      flags[name] = value.get<bool>();
    } else if (value.is_number_integer()) {
      flags[name] = value.get<int64_t>();
    } else if (value.is_number()) {
      flags[name] = value.get<double>();
    } else {
      flags[name] = value.get<std::string>();
    }
  }
  return flags;
}

}  // namespace

std::string_view failure_kind_name(FailureKind kind) {
  return kFailureNames.at(static_cast<size_t>(kind));
}

// Found by nlohmann's look-up in this namespace; one line per struct keeps the fields' list short.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TimingOptions, min_pairs, max_pairs, target_width, effect_share,
                                   budget_seconds, stop_ratio)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(InputSpec, element_type, dimensions, role, fan_in, scale,
                                   int_low, int_high)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Ratio, median, low, high, geometric, coverage, pairs)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Tolerance, relative_error, mismatch_share)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OutputComparison, element_type, count, max_abs_difference,
                                   max_abs_reference, worst_index, mismatches, nan_mismatches,
                                   infinity_mismatches)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OutputStatistics, count, min, max, mean, max_abs, num_nan,
                                   num_infinite, num_denormal, num_zero, hash)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OutputInfo, element_type, dimensions, statistics, sensitivity,
                                   tolerance)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Health, finite, moves, deterministic, responsive, calm,
                                   denormal_share, note)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProgramFigures, compile_seconds, code_size_bytes, argument_bytes,
                                   output_bytes, temp_bytes, dropped_flags, num_copies)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorkerInfo, failure, error, plugin, plugin_version, platform,
                                   platform_version, device_kind, num_devices, pid)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BaselineResult, failure, error, seconds, self_ratio, noise_floor,
                                   health, outputs, figures, peak_memory_bytes, load_average)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OptimizedResult, failure, error, cost, figures)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunReport, failure, error, seconds, first_seconds, outputs,
                                   figures, peak_memory_bytes, load_average)

namespace {

// Runs a decoder; what JSON finds wrong becomes a FormatError.
template <typename Decoder>
auto decoded(const Message& message, size_t num_payloads, Decoder&& decoder) {
  if (message.payloads.size() < num_payloads) {
    throw FormatError("message", "",
                      "expected " + std::to_string(num_payloads) + " payloads, found " +
                          std::to_string(message.payloads.size()));
  }
  try {
    return decoder(Json::parse(message.header));
  } catch (const Json::exception& error) {
    throw FormatError("message", "header", error.what());
  }
}

Json program_to_json(const Program& program) {
  return {{"flags", flags_to_json(program.flags)}, {"tuple_arguments", program.tuple_arguments}};
}

Program program_from(const Json& json, std::string&& module) {
  return {.module = std::move(module),
          .flags = flags_from_json(json.at("flags")),
          .tuple_arguments = json.at("tuple_arguments").get<bool>()};
}

template <typename Answer>
Answer plain_answer(Message&& message) {
  return decoded(message, 0, [](const Json& json) { return json.get<Answer>(); });
}

}  // namespace

std::string request_name(const Message& message) {
  return decoded(message, 0,
                 [](const Json& json) { return json.at("request").get<std::string>(); });
}

MessageView encode_hello_request() {
  return {.header = dump({{"request", kHello}})};
}

MessageView encode_debug_request(std::string_view action) {
  return {.header = dump({{"request", kDebug}, {"action", action}})};
}

std::string decode_debug_request(const Message& message) {
  return decoded(message, 0, [](const Json& json) { return json.at("action").get<std::string>(); });
}

MessageView encode(const BaselineRequest& request) {
  return {.header = dump({{"request", kLoadBaseline},
                          {"program", program_to_json(request.program)},
                          {"inputs", request.inputs},
                          {"seed", request.seed},
                          {"noise", request.noise},
                          {"check_health", request.check_health},
                          {"time_unhealthy", request.time_unhealthy}}),
          .payloads = {request.program.module}};
}

BaselineRequest decode_baseline_request(Message&& message) {
  return decoded(message, 1, [&](const Json& json) {
    return BaselineRequest{
        .program = program_from(json.at("program"), std::move(message.payloads[0])),
        .inputs = json.at("inputs").get<std::vector<InputSpec>>(),
        .seed = json.at("seed").get<uint64_t>(),
        .noise = json.at("noise").get<TimingOptions>(),
        .check_health = json.at("check_health").get<bool>(),
        .time_unhealthy = json.at("time_unhealthy").get<bool>()};
  });
}

MessageView encode(const MeasureRequest& request) {
  return {.header = dump({{"request", kMeasure},
                          {"program", program_to_json(request.program)},
                          {"timing", request.timing},
                          {"check_outputs", request.check_outputs},
                          {"allowed_error", request.allowed_error},
                          {"count_copies", request.count_copies}}),
          .payloads = {request.program.module}};
}

MeasureRequest decode_measure_request(Message&& message) {
  return decoded(message, 1, [&](const Json& json) {
    return MeasureRequest{
        .program = program_from(json.at("program"), std::move(message.payloads[0])),
        .timing = json.at("timing").get<TimingOptions>(),
        .check_outputs = json.at("check_outputs").get<bool>(),
        .allowed_error = json.at("allowed_error").get<double>(),
        .count_copies = json.at("count_copies").get<bool>()};
  });
}

MessageView encode_optimized_request(const Program& program) {
  return {.header = dump({{"request", kOptimized}, {"program", program_to_json(program)}}),
          .payloads = {program.module}};
}

Program decode_optimized_request(Message&& message) {
  return decoded(message, 1, [&](const Json& json) {
    return program_from(json.at("program"), std::move(message.payloads[0]));
  });
}

MessageView encode(const RunRequest& request) {
  MessageView view{.header = dump({{"request", kRun},
                                   {"program", program_to_json(request.program)},
                                   {"inputs", request.inputs},
                                   {"seed", request.seed},
                                   {"min_runs", request.min_runs},
                                   {"max_runs", request.max_runs},
                                   {"budget_seconds", request.budget_seconds},
                                   {"return_outputs", request.return_outputs}}),
                   .payloads = {request.program.module}};
  view.payloads.insert(view.payloads.end(), request.input_data.begin(), request.input_data.end());
  return view;
}

RunRequest decode_run_request(Message&& message) {
  return decoded(message, 1, [&](const Json& json) {
    RunRequest request{.program = program_from(json.at("program"), std::move(message.payloads[0])),
                       .inputs = json.at("inputs").get<std::vector<InputSpec>>(),
                       .seed = json.at("seed").get<uint64_t>(),
                       .input_data = {},
                       .min_runs = json.at("min_runs").get<int>(),
                       .max_runs = json.at("max_runs").get<int>(),
                       .budget_seconds = json.at("budget_seconds").get<double>(),
                       .return_outputs = json.at("return_outputs").get<bool>()};
    for (size_t i = 1; i < message.payloads.size(); ++i) {
      request.input_data.push_back(std::move(message.payloads[i]));
    }
    return request;
  });
}

MessageView encode(const WorkerInfo& info) {
  return {.header = dump(info)};
}
MessageView encode(const BaselineResult& result) {
  return {.header = dump(result)};
}

MessageView encode(const OptimizedResult& result) {
  return {.header = dump(result), .payloads = {result.module}};
}

MessageView encode(const RunReport& report) {
  MessageView view{.header = dump(report)};
  view.payloads.assign(report.output_data.begin(), report.output_data.end());
  return view;
}

MessageView encode(const MeasureResult& result) {
  Json json{{"failure", result.failure},
            {"error", result.error},
            {"seconds", nullptr},
            {"default_seconds", result.default_seconds},
            {"ratio", result.ratio},
            {"dropped_early", result.dropped_early},
            {"runs_per_time", result.runs_per_time},
            {"outputs", result.outputs},
            {"figures", result.figures},
            {"default_copies", result.default_copies},
            {"peak_memory_bytes", result.peak_memory_bytes},
            {"load_average", result.load_average}};
  if (result.seconds) json["seconds"] = *result.seconds;
  return {.header = dump(json)};
}

WorkerInfo decode_worker_info(Message&& message) {
  return plain_answer<WorkerInfo>(std::move(message));
}

BaselineResult decode_baseline_result(Message&& message) {
  return plain_answer<BaselineResult>(std::move(message));
}

MeasureResult decode_measure_result(Message&& message) {
  return decoded(message, 0, [](const Json& json) {
    MeasureResult result;
    json.at("failure").get_to(result.failure);
    json.at("error").get_to(result.error);
    if (!json.at("seconds").is_null()) result.seconds = json.at("seconds").get<double>();
    json.at("default_seconds").get_to(result.default_seconds);
    json.at("ratio").get_to(result.ratio);
    json.at("dropped_early").get_to(result.dropped_early);
    json.at("runs_per_time").get_to(result.runs_per_time);
    json.at("outputs").get_to(result.outputs);
    json.at("figures").get_to(result.figures);
    json.at("default_copies").get_to(result.default_copies);
    json.at("peak_memory_bytes").get_to(result.peak_memory_bytes);
    json.at("load_average").get_to(result.load_average);
    return result;
  });
}

OptimizedResult decode_optimized_result(Message&& message) {
  return decoded(message, 1, [&](const Json& json) {
    auto result = json.get<OptimizedResult>();
    result.module = std::move(message.payloads[0]);
    return result;
  });
}

RunReport decode_run_report(Message&& message) {
  return decoded(message, 0, [&](const Json& json) {
    auto report = json.get<RunReport>();
    report.output_data = std::move(message.payloads);
    return report;
  });
}

}  // namespace lagom::measure
