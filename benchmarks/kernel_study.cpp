// How many measurements it takes to find good forms of kernels, replayed from measured data sets:
//
//   kernel_study SPLITS.tsv MEASURED_FOLDER...
//
// Every family of programs in turn is left out of what neighbours are asked about. A kernel's trial
// is its default's measurement or a form's. Printed for each way: trials per kernel, and which
// share of the time that the best measured forms save is saved by the best that was tried.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "lagom/collect/measured_kernels.h"
#include "lagom/tune/conditions.h"
#include "lagom/tune/form_beliefs.h"
#include "lagom/tune/kernel_search.h"

namespace lagom {
namespace {

struct Study {
  std::unique_ptr<tune::SearchSpace> space;
  size_t place = 0;
  std::set<std::string> families;
  std::map<std::string, double> ratios;  ///< By configuration: of the forms that were measured.
  std::vector<tune::KernelRecord> records;

  const tune::Kernel& kernel() const { return space->kernels()[place]; }
};

std::map<std::string, std::string> read_families(const char* path) {
  std::map<std::string, std::string> families;
  std::ifstream file(path);
  std::string line, program, family;
  while (std::getline(file, line)) {
    std::istringstream columns(line);
    if (columns >> program >> family) families[program] = family;
  }
  return families;
}

/// What a way of choosing found: the best ratio among those tried, and how many trials that took.
struct Found {
  double ratio = 1;
  int trials = 0;
};

std::vector<std::string> in_order(const Study& study, const std::vector<tune::Belief>& beliefs) {
  std::vector<std::pair<double, std::string>> order;
  for (size_t i = 0; i < beliefs.size(); ++i) {
    const std::string form = tune::form_configuration(*study.kernel().rules[i]);
    if (!study.ratios.contains(form)) continue;
    order.emplace_back(-tune::expected_gain(beliefs[i], 1, 1), form);
  }
  std::stable_sort(order.begin(), order.end());
  std::vector<std::string> forms;
  for (const auto& [gain, form] : order) forms.push_back(form);
  return forms;
}

/// Forms in the order of expected gain while more than `least` of the kernel's time is expected.
Found by_beliefs(const Study& study, const std::vector<tune::Belief>& beliefs, double least) {
  Found found;
  for (const std::string& form : in_order(study, beliefs)) {
    size_t i = 0;
    while (tune::form_configuration(*study.kernel().rules[i]) != form) ++i;
    if (tune::expected_gain(beliefs[i], 1, found.ratio) < least) continue;
    if (found.trials == 0) found.trials = 1;  // the default, once something is to be compared
    ++found.trials;
    found.ratio = std::min(found.ratio, study.ratios.at(form));
  }
  return found;
}

/// The promising forms, or all.
Found unguided(const Study& study, bool promising_only) {
  Found found;
  for (const rewrite::Rule* rule :
       promising_only ? study.kernel().promising : study.kernel().rules) {
    const auto it = study.ratios.find(tune::form_configuration(*rule));
    if (it == study.ratios.end()) continue;
    if (found.trials == 0) found.trials = 1;
    ++found.trials;
    found.ratio = std::min(found.ratio, it->second);
  }
  return found;
}

Found by_conditions(const Study& study) {
  const hlo::Instruction* node =
      study.kernel().cut_out.module.entry()->find(study.kernel().cut_out.node);
  const rewrite::Rule* rule = node == nullptr ? nullptr : tune::form_by_conditions(*node);
  if (rule == nullptr) return {};
  const auto it = study.ratios.find(tune::form_configuration(*rule));
  return {.ratio = it == study.ratios.end() ? 1 : it->second, .trials = 0};
}

struct Total {
  double log_ratio = 0, log_best = 0, trials = 0;
  int hits = 0, kernels = 0;
  void add(const Found& found, double best) {
    log_ratio += std::log(std::min(found.ratio, 1.0));
    log_best += std::log(best);
    trials += found.trials;
    // Within 5 % of the best, or rightly left as it is.
    hits += found.ratio < 1.05 * best;
    ++kernels;
  }
  void print(const char* name) const {
    std::printf("| %s | %.2f | %.3fx | %.0f %% | %.0f %% |\n", name, trials / kernels,
                std::exp(-log_ratio / kernels), 100 * log_ratio / log_best, 100.0 * hits / kernels);
  }
};

std::vector<Study> read_studies(const std::map<std::string, std::string>& families, char** begin,
                                char** end) {
  std::vector<Study> studies;
  std::map<std::string, size_t> by_signature;
  for (char** folder = begin; folder != end; ++folder) {
    collect::read_measured_kernels(*folder, [&](collect::MeasuredKernel measured) {
      const std::string signature = measured.records.at(0).signature;
      if (by_signature.contains(signature)) return;
      Study study{
          .space = std::make_unique<tune::SearchSpace>(measured.module, tune::SpaceOptions{}),
          .records = std::move(measured.records)};
      const auto& kernels = study.space->kernels();
      const auto kernel = std::find_if(kernels.begin(), kernels.end(), [&](const auto& k) {
        return k.cut_out.signature == signature;
      });
      if (kernel == kernels.end()) return;
      study.place = static_cast<size_t>(kernel - kernels.begin());
      for (const std::string& program : measured.programs) {
        study.families.insert(families.at(program));
      }
      for (const tune::KernelRecord& record : study.records) {
        if (!record.configuration.empty()) study.ratios[record.configuration] = record.ratio.median;
      }
      if (study.ratios.empty()) return;
      by_signature[signature] = studies.size();
      studies.push_back(std::move(study));
    });
  }
  return studies;
}

int run(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: kernel_study SPLITS.tsv MEASURED_FOLDER...\n");
    return 2;
  }
  const auto families = read_families(argv[1]);
  const std::vector<Study> studies = read_studies(families, argv + 2, argv + argc);
  std::map<std::string, std::vector<const Study*>> by_family;
  for (const Study& study : studies) by_family[*study.families.begin()].push_back(&study);

  constexpr double kLeast[] = {0.3, 0.1, 0.05, 0.02};  // of the kernel's time
  Total conditions, promising, all, first, prior[4], neighbours[4];
  for (const auto& [family, members] : by_family) {
    tune::Neighbours others;
    for (const Study& study : studies) {
      if (study.families.contains(family)) continue;
      for (const tune::KernelRecord& record : study.records) others.add(record);
    }
    tune::FormBeliefs informed(others, {}, ""), bare({}, {}, "");
    for (const Study* study : members) {
      double best = 1;
      for (const auto& [form, ratio] : study->ratios) best = std::min(best, ratio);
      conditions.add(by_conditions(*study), best);
      promising.add(unguided(*study, true), best);
      all.add(unguided(*study, false), best);
      const auto beliefs = informed.of(study->kernel());
      for (size_t i = 0; i < 4; ++i) {
        prior[i].add(by_beliefs(*study, bare.of(study->kernel()), kLeast[i]), best);
        neighbours[i].add(by_beliefs(*study, beliefs, kLeast[i]), best);
      }
      // Unmeasured: the form that is believed to be the fastest, if it is believed to win.
      Found unmeasured;
      double least = -0.1;
      for (size_t i = 0; i < beliefs.size(); ++i) {
        const auto it = study->ratios.find(tune::form_configuration(*study->kernel().rules[i]));
        if (it == study->ratios.end() || beliefs[i].mean >= least) continue;
        least = beliefs[i].mean;
        unmeasured.ratio = it->second;
      }
      first.add(unmeasured, best);
    }
  }
  std::printf("%zu kernels of %zu families\n\n", studies.size(), by_family.size());
  std::printf("| way | trials a kernel | geometric mean | of what all forms give | best found |\n");
  std::printf("|---|---|---|---|---|\n");
  conditions.print("fixed conditions, nothing measured");
  first.print("neighbours' word, nothing measured");
  promising.print("promising forms");
  for (size_t i = 0; i < 4; ++i) {
    char name[80];
    std::snprintf(name, sizeof name, "expected gain over %.0f %%, without neighbours",
                  100 * kLeast[i]);
    prior[i].print(name);
    std::snprintf(name, sizeof name, "expected gain over %.0f %%, with neighbours",
                  100 * kLeast[i]);
    neighbours[i].print(name);
  }
  all.print("all forms");
  return 0;
}

}  // namespace
}  // namespace lagom

int main(int argc, char** argv) {
  try {
    return lagom::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernel_study: %s\n", error.what());
    return 1;
  }
}
