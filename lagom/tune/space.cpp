#include "lagom/tune/space.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lagom::tune {
namespace {

using hlo::Instruction;
using hlo::Opcode;
using rewrite::Configuration;
using rewrite::Decision;
using rewrite::DecisionKind;

/// Fusions keep the compiler's own decisions: their insides are left alone.
bool is_open(const hlo::Computation& computation) {
  return !computation.is_fusion;
}

bool is_configurable(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::kConvolution:
    case Opcode::kDot:
    case Opcode::kReshape:
    case Opcode::kTranspose:
      return i.shape.is_array() && !i.shape.is_dynamic() && i.shape.rank() >= 2;
    default:
      return false;
  }
}

bool is_fusible(const Instruction& i) {
  return hlo::is_elementwise_unary(i.opcode) || hlo::is_elementwise_binary(i.opcode) ||
         i.opcode == Opcode::kReduce || i.opcode == Opcode::kSelect ||
         i.opcode == Opcode::kBroadcast;
}

hlo::Dims random_layout(int64_t rank, std::mt19937_64& random) {
  hlo::Dims layout(static_cast<size_t>(rank));
  std::iota(layout.begin(), layout.end(), 0);
  std::shuffle(layout.begin(), layout.end(), random);
  return layout;
}

bool has_rule(const Kernel& kernel, std::string_view name) {
  return std::any_of(kernel.rules.begin(), kernel.rules.end(),
                     [&](const rewrite::Rule* rule) { return rule->name() == name; });
}

size_t pick(size_t count, std::mt19937_64& random) {
  return std::uniform_int_distribution<size_t>(0, count - 1)(random);
}

}  // namespace

bool is_heavy(Opcode opcode) {
  switch (opcode) {
    case Opcode::kCholesky:
    case Opcode::kConvolution:
    case Opcode::kDot:
    case Opcode::kFft:
    case Opcode::kGather:
    case Opcode::kRaggedDot:
    case Opcode::kReduceWindow:
    case Opcode::kScatter:
    case Opcode::kSelectAndScatter:
    case Opcode::kSort:
    case Opcode::kTopK:
    case Opcode::kTriangularSolve:
      return true;
    default:
      return false;
  }
}

SearchSpace::SearchSpace(const hlo::Module& module, const SpaceOptions& options)
    : options_(options) {
  find_kernels(module);
  find_places(module);
  if (!options.flags) return;
  // Flags that the CPU backend takes per compilation; other devices drop what they do not know.
  for (const int64_t width : {128, 256, 512}) {
    flag_choices_.emplace_back("xla_cpu_prefer_vector_width", width);
  }
  flag_choices_.emplace_back("xla_cpu_enable_concurrency_optimized_scheduler", true);
  flag_choices_.emplace_back("xla_cpu_enable_concurrency_optimized_scheduler", false);
  flag_choices_.emplace_back("xla_llvm_disable_expensive_passes", true);
  flag_choices_.emplace_back("xla_cpu_use_xnnpack", true);
  flag_choices_.emplace_back("xla_cpu_use_onednn", true);
  if (options.allow_inexact) {
    flag_choices_.emplace_back("xla_cpu_enable_fast_math", true);
    flag_choices_.emplace_back("xla_cpu_enable_fast_min_max", true);
  }
}

void SearchSpace::find_kernels(const hlo::Module& module) {
  for (const auto& computation : module.computations()) {
    if (!is_open(*computation)) continue;
    for (const auto& instruction : computation->instructions()) {
      // The rules that look at this instruction alone, and those that look at more.
      std::vector<const rewrite::Rule*> plain;
      std::vector<std::pair<rewrite::RewriteSite, std::vector<const rewrite::Rule*>>> wide;
      if (options_.forms) {
        for (const rewrite::Rule* rule : rewrite::all_rules()) {
          const bool allowed =
              rule->rule_class() != rewrite::RuleClass::kRelaxes || options_.allow_inexact;
          if (!allowed || !rewrite::fits(*rule, *computation, *instruction)) continue;
          rewrite::RewriteSite site = rewrite::RewriteSite::of(*rule, *computation, *instruction);
          if (site.is_plain()) {
            plain.push_back(rule);
            continue;
          }
          const auto known = std::find_if(wide.begin(), wide.end(),
                                          [&](const auto& entry) { return entry.first == site; });
          if (known != wide.end()) {
            known->second.push_back(rule);
          } else {
            wide.push_back({std::move(site), {rule}});
          }
        }
      }
      if ((!plain.empty() || is_heavy(instruction->opcode)) && rewrite::can_cut_out(*instruction)) {
        add_to_kernel(*instruction, rewrite::cut_out(*instruction), plain, /*is_plain=*/true);
      }
      for (const auto& [site, rules] : wide) {
        if (rewrite::can_cut_out(site)) {
          add_to_kernel(*instruction, rewrite::cut_out(site), rules, /*is_plain=*/false);
        }
      }
    }
  }
  for (size_t i = 0; i < kernels_.size(); ++i) {
    if (!kernels_[i].rules.empty()) open_kernels_.push_back(i);
  }
}

void SearchSpace::add_to_kernel(const Instruction& instruction, rewrite::CutOut cut,
                                const std::vector<const rewrite::Rule*>& rules, bool is_plain) {
  const auto [it, is_new] = by_signature_.emplace(cut.signature, kernels_.size());
  if (is_new) {
    Kernel kernel{.cut_out = std::move(cut),
                  .opcode = instruction.opcode,
                  .is_plain = is_plain,
                  .instructions = {},
                  .rules = rules,
                  .promising = {}};
    for (const rewrite::Rule* rule : rules) {
      if (rule->is_promising(instruction)) kernel.promising.push_back(rule);
    }
    kernels_.push_back(std::move(kernel));
  }
  kernels_[it->second].instructions.push_back(instruction.name);
}

void SearchSpace::find_places(const hlo::Module& module) {
  for (const auto& computation : module.computations()) {
    if (!is_open(*computation)) continue;
    for (const auto& instruction : computation->instructions()) {
      const Instruction& i = *instruction;
      if (options_.layouts && is_configurable(i)) {
        Decision output{.kind = DecisionKind::kOutputLayout,
                        .instruction = i.name,
                        .operand = 0,
                        .form = {},
                        .layout = {}};
        layout_places_.push_back({output, i.shape.rank()});
        for (size_t o = 0; o < i.operands.size(); ++o) {
          if (!i.operand(o).shape.is_array() || i.operand(o).shape.rank() < 2) continue;
          Decision operand = output;
          operand.kind = DecisionKind::kOperandLayout;
          operand.operand = static_cast<int64_t>(o);
          layout_places_.push_back({operand, i.operand(o).shape.rank()});
        }
      }
      if (options_.barriers && computation.get() == module.entry() && is_fusible(i)) {
        for (size_t o = 0; o < i.operands.size(); ++o) {
          if (!is_fusible(i.operand(o)) || i.operand(o).shape.num_elements() < 1024) continue;
          barrier_places_.push_back({.kind = DecisionKind::kBarrier,
                                     .instruction = i.name,
                                     .operand = static_cast<int64_t>(o),
                                     .form = {},
                                     .layout = {}});
        }
      }
    }
  }
}

void SearchSpace::set_form(Configuration& configuration, const Kernel& kernel,
                           const rewrite::Rule* rule) const {
  if (rule == nullptr) {
    std::erase_if(configuration.decisions, [&](const Decision& d) {
      const auto& names = kernel.instructions;
      return d.kind == DecisionKind::kForm && has_rule(kernel, d.form) &&
             std::find(names.begin(), names.end(), d.instruction) != names.end();
    });
    return;
  }
  for (const std::string& name : kernel.instructions) {
    configuration.set({.kind = DecisionKind::kForm,
                       .instruction = name,
                       .operand = 0,
                       .form = std::string(rule->name()),
                       .layout = {}});
  }
}

const rewrite::Rule* SearchSpace::form_of(const Configuration& configuration,
                                          const Kernel& kernel) const {
  for (const Decision& d : configuration.decisions) {
    if (d.kind == DecisionKind::kForm && d.instruction == kernel.instructions[0] &&
        has_rule(kernel, d.form)) {
      return rewrite::find_rule(d.form);
    }
  }
  return nullptr;
}

size_t SearchSpace::num_choices() const {
  return open_kernels_.size() + layout_places_.size() + barrier_places_.size() +
         (flag_choices_.empty() ? 0 : 1);
}

bool SearchSpace::mutate(Configuration& configuration, std::mt19937_64& random) const {
  // Kinds weigh alike, not places: a program has far more layout places than kernels.
  std::vector<int> kinds;
  if (!open_kernels_.empty()) kinds.insert(kinds.end(), {0, 0, 0});
  if (!layout_places_.empty()) kinds.insert(kinds.end(), {1, 1});
  if (!barrier_places_.empty()) kinds.push_back(2);
  if (!flag_choices_.empty()) kinds.push_back(3);
  if (kinds.empty()) return false;
  switch (kinds[pick(kinds.size(), random)]) {
    case 0: {
      const Kernel& kernel = kernels_[open_kernels_[pick(open_kernels_.size(), random)]];
      const size_t choice = pick(kernel.rules.size() + 1, random);
      set_form(configuration, kernel,
               choice < kernel.rules.size() ? kernel.rules[choice] : nullptr);
      return true;
    }
    case 1: {
      const LayoutPlace& place = layout_places_[pick(layout_places_.size(), random)];
      Decision decision = place.place;
      if (pick(3, random) == 0) {
        configuration.remove(decision);
      } else {
        decision.layout = random_layout(place.rank, random);
        configuration.set(std::move(decision));
      }
      return true;
    }
    case 2: {
      const Decision& place = barrier_places_[pick(barrier_places_.size(), random)];
      const auto& d = configuration.decisions;
      if (std::find(d.begin(), d.end(), place) != d.end()) {
        configuration.remove(place);
      } else {
        configuration.set(place);
      }
      return true;
    }
    default: {
      const auto& [name, value] = flag_choices_[pick(flag_choices_.size(), random)];
      const auto it = configuration.flags.find(name);
      if (it != configuration.flags.end() && it->second == value) {
        configuration.flags.erase(it);
      } else {
        configuration.flags[name] = value;
      }
      return true;
    }
  }
}

}  // namespace lagom::tune
