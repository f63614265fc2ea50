#include "lagom/tune/results.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "lagom/hlo/module_file.h"
#include "lagom/tune/advice.h"
#include "lagom/tune/report.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"

namespace lagom::tune {
namespace {

using nlohmann::ordered_json;

ordered_json flags_json(const Flags& flags) {
  ordered_json j = ordered_json::object();
  for (const auto& [name, value] : flags) {
    std::visit([&, &n = name](const auto& v) { j[n] = v; }, value);
  }
  return j;
}

ordered_json ratio_json(const measure::Ratio& ratio) {
  return {{"speedup", 1 / ratio.median},
          {"interval", {1 / ratio.high, 1 / ratio.low}},
          {"coverage", ratio.coverage},
          {"pairs", ratio.pairs}};
}

ordered_json decision_json(const DecisionReport& report) {
  ordered_json j = {{"decision", report.decision.to_string()},
                    {"instruction", report.decision.instruction},
                    {"opcode", report.opcode},
                    {"shape", report.shape},
                    {"op_name", report.op_name},
                    {"source", report.source}};
  if (report.default_seconds > 0) {
    j["alone_ms"] = {{"default", report.default_seconds * 1e3}, {"tuned", report.seconds * 1e3}};
  }
  if (!std::isnan(report.effect_in_place)) j["effect_in_place"] = report.effect_in_place;
  j["in_jax"] = report.advice;
  return j;
}

ordered_json trial_json(const Trial& trial) {
  ordered_json j = {{"number", trial.number},
                    {"seconds", trial.elapsed_seconds},
                    {"kernel_trials", trial.kernel_trials},
                    {"origin", trial.origin},
                    {"configuration", trial.configuration.to_string()}};
  if (trial.measured) j["result"] = ratio_json(trial.ratio);
  if (trial.failure != measure::FailureKind::kNone) {
    j["failure"] = measure::failure_kind_name(trial.failure);
    j["error"] = trial.error;
  } else if (!trial.measured) {
    j["failure"] = "slower, given up early";
  }
  return j;
}

ordered_json kernel_json(const SearchSpace& space, const KernelResult& kernel) {
  const Kernel& k = space.kernels()[kernel.kernel];
  ordered_json j = {{"signature", k.cut_out.signature},
                    {"opcode", hlo::opcode_name(k.opcode)},
                    {"instructions", k.instructions},
                    {"default_ms", kernel.default_seconds * 1e3}};
  if (!kernel.error.empty()) j["error"] = kernel.error;
  ordered_json forms = ordered_json::array();
  for (const KernelRecord& record : kernel.forms) {
    const auto form = rewrite::Configuration::from_string(record.configuration);
    ordered_json f = {{"form", form.decisions.at(0).form}};
    if (record.seconds) {
      f["ms"] = *record.seconds * 1e3;
      f["result"] = ratio_json(record.ratio);
    } else {
      f["failure"] = measure::failure_kind_name(record.failure);
      f["error"] = record.error;
    }
    forms.push_back(std::move(f));
  }
  j["forms"] = std::move(forms);
  return j;
}

}  // namespace

std::string program_name(const std::filesystem::path& path) {
  std::string name = path.filename().string();
  for (const std::string_view ending : {".gz", ".pb", ".hlo", ".txt"}) {
    if (name.size() > ending.size() && name.ends_with(ending)) {
      name.resize(name.size() - ending.size());
    }
  }
  return name;
}

ResultFiles result_files(const std::filesystem::path& folder, const std::string& name) {
  return {.text = folder / (name + ".tuned.hlo"),
          .proto = folder / (name + ".tuned.hlo.pb"),
          .flags = folder / (name + ".flags.json"),
          .decisions = folder / (name + ".decisions.json"),
          .report = folder / (name + ".report.html")};
}

std::string decisions_json(const SearchSpace& space, const TuneResult& result) {
  ordered_json j = {
      {"program", result.program},
      {"device",
       {{"platform", result.device.platform},
        {"platform_version", result.device.platform_version},
        {"plugin_version", result.device.plugin_version}}},
      {"default_ms", result.default_seconds * 1e3},
      {"tuned_ms", result.tuned_seconds * 1e3},
      {"result", ratio_json(result.ratio)},
      {"retimed", result.retimed},
      {"noise_floor", result.baseline.noise_floor},
      {"load_average", result.baseline.load_average},
      {"stopped", result.stopped},
      {"kernel_trials", result.num_kernel_trials},
      {"dropped_decisions", result.num_dropped},
      {"note", result.note},
      {"compile_seconds",
       {{"default", result.default_compile_seconds}, {"tuned", result.tuned_compile_seconds}}},
      {"flags", flags_json(result.configuration.flags)},
      {"compiler_options", compiler_options_python(result.configuration.flags)},
      {"configuration", result.configuration.to_string()}};
  if (!std::isnan(result.fault_shift)) j["fault_shift"] = result.fault_shift;
  j["forms_compared_alone"] = result.forms_compared_alone;
  if (result.machine.flops_per_second > 0) {
    const double peak = result.machine.flops_per_second;
    j["flops"] = result.program_flops;
    j["machine"] = {{"flops_per_second", peak},
                    {"bytes_per_second", result.machine.bytes_per_second}};
    j["share_of_machine"] = {{"default", result.program_flops / result.default_seconds / peak},
                             {"tuned", result.program_flops / result.tuned_seconds / peak}};
  }
  if (result.copies_before >= 0) {
    j["copies"] = {{"default", result.copies_before}, {"tuned", result.copies_after}};
  }
  ordered_json outputs = ordered_json::array();
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    const measure::OutputComparison& o = result.outputs[i];
    outputs.push_back({{"output", i},
                       {"max_abs_difference", o.max_abs_difference},
                       {"max_abs_reference", o.max_abs_reference},
                       {"relative_error", o.max_abs_difference == 0 ? 0.0 : o.relative_error()}});
  }
  j["outputs"] = std::move(outputs);
  for (const DecisionReport& d : result.decisions) j["decisions"].push_back(decision_json(d));
  for (const KernelResult& k : result.kernels) j["kernels"].push_back(kernel_json(space, k));
  for (const Trial& t : result.trials) j["trials"].push_back(trial_json(t));
  for (const char* list : {"decisions", "kernels", "trials"}) {
    if (!j.contains(list)) j[list] = ordered_json::array();
  }
  return j.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

void write_results(const ResultFiles& files, const hlo::Module& module, const SearchSpace& space,
                   const TuneResult& result) {
  const hlo::Module tuned = rewrite::apply(module, result.configuration);
  hlo::write_module_file(tuned, files.text);
  hlo::write_module_file(tuned, files.proto);
  write_file(files.flags, flags_json(result.configuration.flags).dump(2) + "\n");
  write_file(files.decisions, decisions_json(space, result));
  write_file(files.report, report_html(module, space, result));
}

rewrite::Configuration read_configuration(const std::filesystem::path& decisions) {
  const auto json = ordered_json::parse(read_file(decisions), nullptr, /*allow_exceptions=*/false);
  const auto found = json.is_object() ? json.find("configuration") : json.end();
  if (!json.is_object() || found == json.end() || !found->is_string()) {
    throw FormatError(decisions.string(), "", "expected an object with a configuration");
  }
  return rewrite::Configuration::from_string(found->get<std::string>());
}

}  // namespace lagom::tune
