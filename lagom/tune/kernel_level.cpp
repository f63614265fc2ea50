#include "lagom/tune/kernel_level.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <unordered_map>

#include "lagom/hlo/cost_analysis.h"

namespace lagom::tune {
namespace {

using rewrite::Configuration;

class KernelLevel {
 public:
  explicit KernelLevel(SearchSession& session) : session_(session) {}

  void search_kernels() {
    Database database(session_.options().database, session_.device_key());
    KernelSearchOptions kernel_options;
    kernel_options.seed = session_.options().seed;
    kernel_options.should_stop = session_.options().should_stop;
    kernel_options.min_total_seconds = 0.004 * session_.result().default_seconds;
    kernel_options.flops_per_second = session_.result().machine.flops_per_second;
    kernel_options.promising_only = true;
    const std::vector<size_t> order = kernel_order(estimate_work());
    for (const size_t index : order) {
      if (!session_.space().kernels()[index].promising.empty() &&
          !time_kernel(index, database, kernel_options)) {
        return;
      }
    }
    kernel_options.promising_only = false;
    kernel_options.min_total_seconds = 0.01 * session_.result().default_seconds;
    for (const size_t index : order) {
      const Kernel& kernel = session_.space().kernels()[index];
      if (kernel.rules.size() == kernel.promising.size() || is_near_limit(index)) continue;
      if (!time_kernel(index, database, kernel_options)) return;
    }
  }

  /// Returns what share of the work in kernels with promising forms is known.
  double recall_kernels() {
    Database database(session_.options().database, session_.device_key());
    const std::vector<double> work = estimate_work();
    double known = 0, sum = 0;
    for (const size_t index : kernel_order(work)) {
      const Kernel& kernel = session_.space().kernels()[index];
      KernelResult result =
          search_kernel(kernel, index, session_.kernel_worker(), database, {.known_only = true});
      if (!kernel.promising.empty()) {
        sum += work[index];
        if (result.from_database) known += work[index];
      }
      if (result.from_database) keep(index, std::move(result));
    }
    return sum > 0 ? known / sum : 0;
  }

  void form_beliefs() {
    FormBeliefs source(neighbours(), session_.options().cost_model, session_.device_key());
    for (const Kernel& kernel : session_.space().kernels()) {
      session_.beliefs().push_back(source.of(kernel));
    }
    describe_source(source);
  }

  void search_likely_kernels() {
    Database database(session_.options().database, session_.device_key());
    const double whole = session_.result().default_seconds;
    KernelSearchOptions kernel_options;
    kernel_options.seed = session_.options().seed;
    kernel_options.should_stop = session_.options().should_stop;
    kernel_options.min_total_seconds = 0.004 * whole;
    kernel_options.flops_per_second = session_.result().machine.flops_per_second;
    kernel_options.min_gain_seconds = kLeastGain * whole;
    std::vector<double> gains = expected_gains(database);
    std::vector<size_t> order(gains.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return gains[a] > gains[b]; });
    for (const size_t index : order) {
      if (gains[index] < kLeastGain * whole) break;
      kernel_options.beliefs = session_.beliefs()[index];
      if (!time_kernel(index, database, kernel_options)) return;
    }
  }

 private:
  /// A kernel or form from which less is expected, as a share of the program's time, is not worth a
  /// measurement.
  static constexpr double kLeastGain = 0.004;

  /// What this device's database knows, and what the other one that the user named does.
  Neighbours neighbours() const {
    Neighbours neighbours;
    const Database database(session_.options().database, session_.device_key());
    for (const KernelRecord* record : database.records()) neighbours.add(*record);
    if (session_.options().inform_from.empty()) return neighbours;
    for (const DeviceRecords& other : read_databases(session_.options().inform_from)) {
      const double doubt = doubt_of_device(other.device, session_.device_key());
      for (const KernelRecord& record : other.records) neighbours.add(record, doubt);
    }
    return neighbours;
  }

  void describe_source(const FormBeliefs& source) const {
    if (!source.model_error().empty()) {
      session_.report("kernels", "the cost model is left out: " + source.model_error());
    }
    if (!source.model_doubt().empty()) {
      session_.report("kernels", "the cost model is believed less: " + source.model_doubt());
    }
    session_.report("kernels", std::string(source.has_model() ? "the cost model and " : "") +
                                   std::to_string(source.num_neighbours()) +
                                   " measurements of other kernels say where to look first");
  }

  /// By kernel: seconds that its likeliest form is expected to save in all its places. How long
  /// kernels take that were never measured is estimated from their work.
  std::vector<double> expected_gains(const Database& database) const {
    const std::vector<double> work = estimate_work();
    const auto& kernels = session_.space().kernels();
    double sum = 0;
    for (size_t i = 0; i < work.size(); ++i) sum += kernels[i].is_plain ? work[i] : 0;
    std::vector<double> gains;
    for (size_t i = 0; i < work.size(); ++i) {
      const auto known = database.find(kernels[i].cut_out.signature, "");
      const double seconds =
          known && known->default_seconds > 0
              ? known->default_seconds * static_cast<double>(kernels[i].instructions.size())
              : session_.result().default_seconds * work[i] / std::max(sum, 1.0);
      double gain = 0;
      for (const Belief& belief : session_.beliefs()[i]) {
        gain = std::max(gain, expected_gain(belief, seconds, seconds));
      }
      gains.push_back(gain);
    }
    return gains;
  }

  /// False when there is no time for it.
  bool time_kernel(size_t index, Database& database, const KernelSearchOptions& kernel_options) {
    const Kernel& kernel = session_.space().kernels()[index];
    KernelSearchOptions late = kernel_options;
    late.known_only = session_.past(0.6);  // what the database knows costs no time
    KernelResult kernel_result =
        search_kernel(kernel, index, session_.kernel_worker(), database, late);
    if (late.known_only && !kernel_result.from_database) {
      session_.report("kernels", "the time for kernels is used up; the others stay as they are");
      return false;
    }
    keep(index, std::move(kernel_result));
    return true;
  }

  void keep(size_t index, KernelResult&& kernel_result) {
    const Kernel& kernel = session_.space().kernels()[index];
    KernelResult* earlier = find_kernel(index);
    // A program has many small kernels that stay as they are: only the others are news.
    const double total =
        kernel_result.default_seconds * static_cast<double>(kernel.instructions.size());
    const bool is_news = earlier == nullptr || !kernel_result.from_database;
    if (is_news && (kernel_result.best() != nullptr || !kernel_result.error.empty() ||
                    total > 0.01 * session_.result().default_seconds)) {
      session_.report("kernels", describe_kernel(kernel, kernel_result));
    }
    if (earlier != nullptr) {
      kernel_result.num_trials += earlier->num_trials;
      *earlier = std::move(kernel_result);
    } else {
      session_.result().kernels.push_back(std::move(kernel_result));
    }
  }

  KernelResult* find_kernel(size_t index) {
    const auto it = std::find_if(session_.result().kernels.begin(), session_.result().kernels.end(),
                                 [&](const KernelResult& k) { return k.kernel == index; });
    return it == session_.result().kernels.end() ? nullptr : &*it;
  }

  /// A kernel whose best form runs near the machine's rate, or takes next to nothing of the
  /// program, has little left to gain.
  bool is_near_limit(size_t index) {
    const KernelResult* known = find_kernel(index);
    if (known == nullptr) return false;
    const Kernel& kernel = session_.space().kernels()[index];
    const double best = known->best_seconds();
    if (best * static_cast<double>(kernel.instructions.size()) <
        0.01 * session_.result().default_seconds) {
      return true;
    }
    if (session_.result().machine.flops_per_second <= 0 ||
        session_.result().machine.bytes_per_second <= 0)
      return false;
    hlo::CostAnalysis costs(kernel.cut_out.module);
    const hlo::Cost cost = costs.total();
    const double bound =
        std::max(cost.flops / session_.result().machine.flops_per_second,
                 cost.bytes_accessed() / session_.result().machine.bytes_per_second);
    return best < 1.6 * bound;
  }

  static std::string describe_kernel(const Kernel& kernel, const KernelResult& kernel_result) {
    const KernelRecord* best = kernel_result.best();
    std::string text = std::string(hlo::opcode_name(kernel.opcode)) + " " + kernel.instructions[0];
    if (kernel.instructions.size() > 1) {
      text += " and " + std::to_string(kernel.instructions.size() - 1) + " like it";
    }
    text += ": " + milliseconds_text(kernel_result.default_seconds);
    if (!kernel_result.error.empty()) {
      text += ", cannot be measured alone: " + kernel_result.error;
    } else if (best != nullptr) {
      const Configuration form = Configuration::from_string(best->configuration);
      text += " -> " + milliseconds_text(kernel_result.best_seconds()) + " as " +
              form.decisions.at(0).form;
    } else {
      text += ", as it is";
    }
    return text + (kernel_result.from_database ? " (known)" : "");
  }

  /// Kernels with forms to try, those with the most work in all their places first.
  std::vector<size_t> kernel_order(const std::vector<double>& work) const {
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < work.size(); ++i) {
      if (!session_.space().kernels()[i].rules.empty()) order.emplace_back(-work[i], i);
    }
    std::sort(order.begin(), order.end());
    std::vector<size_t> indices;
    for (const auto& [weight, i] : order) indices.push_back(i);
    return indices;
  }

  /// By kernel: work in all its places, in no unit.
  std::vector<double> estimate_work() const {
    hlo::CostAnalysis costs(session_.module());
    std::unordered_map<std::string, const hlo::Instruction*> by_name;
    for (const auto& computation : session_.module().computations()) {
      for (const auto& i : computation->instructions()) by_name[i->name] = i.get();
    }
    std::vector<double> work;
    for (const Kernel& kernel : session_.space().kernels()) {
      const hlo::Instruction& node = *by_name.at(kernel.instructions[0]);
      const hlo::Cost cost = costs.of(node);
      double weight =
          (cost.flops + cost.bytes_accessed()) * static_cast<double>(kernel.instructions.size());
      // Compilers run grouped convolutions as plain loops more often than not, and the gradients of
      // grouped ones as if every pair of groups mattered.
      const hlo::Attributes& a = node.attributes;
      if (a.feature_group_count > 1) weight *= 30;
      weight *= static_cast<double>(a.batch_group_count);
      work.push_back(weight);
    }
    return work;
  }

  SearchSession& session_;
};

}  // namespace

void search_kernels(SearchSession& session) {
  KernelLevel(session).search_kernels();
}

double recall_kernels(SearchSession& session) {
  return KernelLevel(session).recall_kernels();
}

void form_beliefs(SearchSession& session) {
  KernelLevel(session).form_beliefs();
}

void search_likely_kernels(SearchSession& session) {
  KernelLevel(session).search_likely_kernels();
}

void time_other_kernels(SearchSession& session) {
  std::set<size_t> known;
  for (const KernelResult& kernel : session.result().kernels) known.insert(kernel.kernel);
  Database database(session.options().database, session.device_key());
  KernelSearchOptions kernel_options;
  kernel_options.seed = session.options().seed;
  kernel_options.should_stop = session.options().should_stop;
  kernel_options.min_total_seconds = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < session.space().kernels().size() && !session.past(0.78); ++i) {
    if (known.contains(i)) continue;
    session.result().kernels.push_back(search_kernel(
        session.space().kernels()[i], i, session.kernel_worker(), database, kernel_options));
  }
}

}  // namespace lagom::tune
