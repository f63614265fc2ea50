#include "lagom/collect/baselines.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "lagom/hlo/cost_analysis.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "lagom/util/hash.h"

namespace lagom::collect {
namespace {

using hlo::Instruction;
using rewrite::Configuration;
using rewrite::Decision;
using rewrite::DecisionKind;

constexpr std::string_view kNames[] = {"random", "analytic", "disagreements"};
constexpr double kFlopsPerTranscendental = 10;

const Instruction& find_instruction(
    const std::unordered_map<std::string, const Instruction*>& by_name, const Decision& decision) {
  const auto it = by_name.find(decision.instruction);
  if (it == by_name.end()) {
    throw std::invalid_argument("decision '" + decision.to_string() +
                                "': the module has no instruction of that name");
  }
  return *it->second;
}

/// Layouts that decisions give to outputs and to uses.
struct DecidedLayouts {
  std::map<const Instruction*, const hlo::Dims*> made;
  std::map<std::pair<const Instruction*, size_t>, const hlo::Dims*> read;
};

DecidedLayouts decided_layouts(const hlo::Module& module, const Configuration& configuration) {
  std::unordered_map<std::string, const Instruction*> by_name;
  for (const auto& computation : module.computations()) {
    for (const auto& i : computation->instructions()) by_name.emplace(i->name, i.get());
  }
  DecidedLayouts layouts;
  for (const Decision& d : configuration.decisions) {
    const Instruction& instruction = find_instruction(by_name, d);
    if (d.kind == DecisionKind::kOutputLayout) layouts.made[&instruction] = &d.layout;
    if (d.kind == DecisionKind::kOperandLayout) {
      const auto operand = static_cast<size_t>(d.operand);
      if (d.operand < 0 || operand >= instruction.operands.size()) {
        throw std::invalid_argument("decision '" + d.to_string() + "': there is no such operand");
      }
      layouts.read[{&instruction, operand}] = &d.layout;
    }
  }
  return layouts;
}

std::vector<double> random_costs(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> costs(count);
  for (double& cost : costs) cost = static_cast<double>(random() >> 11);
  return costs;
}

}  // namespace

std::span<const std::string_view> option_names(BaselineKind) {
  return kNames;
}

double analytic_cost(const hlo::Module& module, const Configuration& configuration) {
  const hlo::Module changed = rewrite::apply(module, configuration);
  hlo::CostAnalysis analysis(changed);
  double sum = 0;
  for (const auto& instruction : changed.entry()->instructions()) {
    const hlo::Cost cost = analysis.of(*instruction);
    sum += std::max(cost.flops + kFlopsPerTranscendental * cost.transcendentals,
                    kFlopsPerByte * cost.bytes_accessed());
  }
  return sum;
}

int64_t layout_disagreements(const hlo::Module& module, const Configuration& configuration) {
  const DecidedLayouts layouts = decided_layouts(module, configuration);
  int64_t count = 0;
  for (const auto& computation : module.computations()) {
    for (const auto& user : computation->instructions()) {
      for (size_t k = 0; k < user->operands.size(); ++k) {
        const Instruction& operand = user->operand(k);
        const auto read = layouts.read.find({user.get(), k});
        if (read == layouts.read.end()) continue;
        const auto made = layouts.made.find(&operand);
        if (made != layouts.made.end()) {
          count += *made->second != *read->second;
        } else if (operand.opcode == hlo::Opcode::kParameter) {
          count += operand.shape.minor_to_major() != *read->second;
        }
      }
    }
    const auto root = layouts.made.find(computation->root());
    if (root != layouts.made.end()) {
      count += computation->root()->shape.minor_to_major() != *root->second;
    }
  }
  return count;
}

BaselineRanker::BaselineRanker(BaselineKind kind, const hlo::Module& module,
                               const std::vector<Configuration>& configurations, uint64_t seed) {
  if (kind == BaselineKind::kRandom) {
    costs_ = random_costs(configurations.size(), seed);
    return;
  }
  for (const Configuration& configuration : configurations) {
    costs_.push_back(kind == BaselineKind::kAnalytic
                         ? analytic_cost(module, configuration)
                         : static_cast<double>(layout_disagreements(module, configuration)));
  }
}

std::vector<double> BaselineRanker::costs(const rank::ConfiguredGraph& graph) {
  if (graph.num_configs != static_cast<int64_t>(costs_.size())) {
    throw std::invalid_argument(graph.name + ": has " + std::to_string(graph.num_configs) +
                                " configurations, the baseline knows " +
                                std::to_string(costs_.size()));
  }
  return costs_;
}

BaselineRanker baseline_of_file(BaselineKind kind, const std::filesystem::path& npz,
                                uint64_t seed) {
  std::filesystem::path path = npz;
  path.replace_extension(".json");
  const auto description = nlohmann::json::parse(read_file(path), nullptr, /*throw=*/false);
  if (!description.is_object() || !description.contains("hlo") ||
      !description.contains("configurations")) {
    throw FormatError(path.string(), "hlo", "is missing: baselines need the program");
  }
  std::vector<Configuration> configurations;
  try {
    for (const auto& text : description["configurations"]) {
      configurations.push_back(Configuration::from_string(text.get<std::string>(), path.string()));
    }
    const hlo::Module module =
        hlo::read_hlo_text(description["hlo"].get<std::string>(), path.string());
    return {kind, module, configurations, seed ^ hash64(npz.stem().string())};
  } catch (const nlohmann::json::exception& e) {
    throw FormatError(path.string(), "", e.what());
  }
}

}  // namespace lagom::collect
