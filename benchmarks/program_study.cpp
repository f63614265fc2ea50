// What can be said of a whole program's configurations without measuring them, as a table for
// benchmarks/peers/program_predictors.py:
//
//   program_study KERNEL_MODEL MEASURED_KERNELS... --programs ENCODED_PROGRAMS... > programs.tsv
//
// A line per measured configuration of the programs, which `lagom convert --encoding ...
// --programs` wrote. `analytic` is the roofline's log(cost / the default's), `disagreements` the
// layouts that disagree. `prior`, `neighbours` (with what is known of the measured kernels) and
// `model` are sums over kernels: each kernel's share of the program's roofline becomes longer or
// shorter by what is believed of the form that the configuration gives it, in logarithm. The other
// columns count decisions by kind and form and give the flags.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lagom/collect/baselines.h"
#include "lagom/collect/configuration_features.h"
#include "lagom/collect/kernel_descriptions.h"
#include "lagom/collect/measured_kernels.h"
#include "lagom/formats/npz.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/tune/form_beliefs.h"
#include "lagom/tune/kernel_search.h"
#include "learn/models.h"

namespace lagom {
namespace {

using rewrite::Configuration;
using rewrite::DecisionKind;

constexpr size_t kSources = 3;  // prior, neighbours, model

/// What the sources say of a form that an instruction can take, and the instruction's share of
/// the program's roofline.
struct FormEffect {
  double share = 0;
  std::array<double, kSources> log_ratio{};
};

class Study {
 public:
  Study(tune::CostFunction costs, tune::Neighbours neighbours)
      : costs_(std::move(costs)), prior_({}, {}, ""), informed_(std::move(neighbours), {}, "") {}

  void print_program(const std::filesystem::path& json_path, const nlohmann::ordered_json& j) {
    const hlo::Module module =
        hlo::read_hlo_text(j.at("hlo").get<std::string>(), json_path.string());
    std::vector<Configuration> configurations;
    for (const auto& text : j.at("configurations")) {
      configurations.push_back(Configuration::from_string(text.get<std::string>()));
    }
    const std::vector<double> ratios = measured_ratios(json_path);
    const double whole = collect::analytic_cost(module, {});
    const auto effects = effects_of(module, configurations, whole);
    const auto features = collect::configuration_features(module, configurations);
    const size_t num_flags = features.config_flags.size() / configurations.size();
    for (size_t row = 0; row < configurations.size(); ++row) {
      const Configuration& configuration = configurations[row];
      const auto sums = summed(configuration, effects);
      std::printf("%s\t%s\t%zu\t%.6g\t%.6g\t%ld\t%.6g\t%.6g\t%.6g",
                  json_path.parent_path().filename().c_str(), json_path.stem().c_str(), row,
                  std::log(ratios[row]),
                  std::log(collect::analytic_cost(module, configuration) / whole),
                  static_cast<long>(collect::layout_disagreements(module, configuration)), sums[0],
                  sums[1], sums[2]);
      for (const auto kind : {DecisionKind::kForm, DecisionKind::kOutputLayout,
                              DecisionKind::kOperandLayout, DecisionKind::kBarrier}) {
        std::printf("\t%ld", static_cast<long>(std::count_if(
                                 configuration.decisions.begin(), configuration.decisions.end(),
                                 [&](const auto& d) { return d.kind == kind; })));
      }
      for (size_t f = 0; f < num_flags; ++f) {
        std::printf("\t%g", static_cast<double>(features.config_flags[row * num_flags + f]));
      }
      std::printf("\n");
    }
  }

  static void print_header() {
    std::printf(
        "split\tid\trow\tlog_ratio\tanalytic\tdisagreements\tprior\tneighbours\tmodel"
        "\tforms\toutput_layouts\toperand_layouts\tbarriers");
    for (const std::string_view name : collect::flag_columns()) {
      std::printf("\t%s", std::string(name).c_str());
    }
    std::printf("\n");
  }

 private:
  using FormKey = std::pair<std::string, std::string>;  // instruction, rule
  using Effects = std::map<FormKey, FormEffect>;

  static std::vector<double> measured_ratios(std::filesystem::path path) {
    const formats::NpzReader npz(path.replace_extension(".npz"));
    const auto runtimes = formats::values_as<double>(npz.read("config_runtime"));
    const auto defaults = formats::values_as<double>(npz.read("config_runtime_normalizers"));
    std::vector<double> out;
    for (size_t i = 0; i < runtimes.size(); ++i) out.push_back(runtimes[i] / defaults[i]);
    return out;
  }

  Effects effects_of(const hlo::Module& module, const std::vector<Configuration>& configurations,
                     double whole) {
    Effects effects;
    for (const Configuration& configuration : configurations) {
      for (const auto& d : configuration.decisions) {
        if (d.kind == DecisionKind::kForm) effects[{d.instruction, d.form}];
      }
    }
    const tune::SearchSpace space(module, tune::SpaceOptions{.allow_inexact = true});
    for (const tune::Kernel& kernel : space.kernels()) {
      std::vector<std::pair<size_t, FormEffect*>> used;  // place of the rule
      for (size_t r = 0; r < kernel.rules.size(); ++r) {
        for (const std::string& instruction : kernel.instructions) {
          const auto it = effects.find({instruction, std::string(kernel.rules[r]->name())});
          if (it != effects.end()) used.emplace_back(r, &it->second);
        }
      }
      if (used.empty()) continue;
      const auto prior = prior_.of(kernel), informed = informed_.of(kernel);
      std::vector<Configuration> forms = {{}};
      for (const auto* rule : kernel.rules) {
        forms.push_back(Configuration::from_string(tune::form_configuration(*rule)));
      }
      const std::vector<double> costs = costs_(kernel.cut_out.module, forms);
      const double share = collect::analytic_cost(kernel.cut_out.module, {}) / whole;
      for (const auto& [r, effect] : used) {
        *effect = {share, {prior[r].mean, informed[r].mean, costs[r + 1] - costs[0]}};
      }
    }
    return effects;
  }

  static std::array<double, kSources> summed(const Configuration& configuration,
                                             const Effects& effects) {
    std::array<double, kSources> sums = {1, 1, 1};
    for (const auto& d : configuration.decisions) {
      if (d.kind != DecisionKind::kForm) continue;
      const FormEffect& effect = effects.at({d.instruction, d.form});
      for (size_t s = 0; s < kSources; ++s) {
        sums[s] += effect.share * (std::exp(effect.log_ratio[s]) - 1);
      }
    }
    for (double& sum : sums) sum = std::log(std::max(sum, 0.01));
    return sums;
  }

  tune::CostFunction costs_;
  tune::FormBeliefs prior_, informed_;
};

int run(int argc, char** argv) {
  tune::Neighbours neighbours;
  int i = 2;
  for (; i < argc && std::string_view(argv[i]) != "--programs"; ++i) {
    collect::read_measured_kernels(argv[i], [&](collect::MeasuredKernel measured) {
      for (const auto& record : measured.records) neighbours.add(record);
    });
  }
  if (i + 1 >= argc) {
    std::fprintf(stderr,
                 "usage: program_study KERNEL_MODEL MEASURED_KERNELS... --programs FOLDER...\n");
    return 2;
  }
  Study study(learn::load_cost_model(argv[1]).costs, std::move(neighbours));
  Study::print_header();
  for (++i; i < argc; ++i) {
    collect::for_each_kernel_description(
        argv[i], {}, [&](const std::filesystem::path& path, const nlohmann::ordered_json& j) {
          study.print_program(path, j);
        });
  }
  return 0;
}

}  // namespace
}  // namespace lagom

int main(int argc, char** argv) {
  try {
    return lagom::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "program_study: %s\n", error.what());
    return 1;
  }
}
