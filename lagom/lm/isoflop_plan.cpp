#include "lagom/lm/isoflop_plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <tuple>

#include "lagom/lm/flops.h"
#include "lagom/util/report.h"

namespace lagom::lm {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::invalid_argument("plan: " + what);
}
void require(bool ok, const std::string& what) {
  if (!ok) fail(what);
}

/// Width and blocks of a model.
struct Size {
  int64_t width = 0, blocks = 0;
  std::string name() const { return std::to_string(width) + "x" + std::to_string(blocks); }
};

Size parse_size(const std::string& text) {
  Size size;
  const char* end = text.data() + text.size();
  const auto width = std::from_chars(text.data(), end, size.width);
  if (width.ec == std::errc() && width.ptr != end && *width.ptr == 'x') {
    const auto blocks = std::from_chars(width.ptr + 1, end, size.blocks);
    if (blocks.ec == std::errc() && blocks.ptr == end && size.width > 0 && size.blocks > 0) {
      return size;
    }
  }
  fail("a size is WIDTHxBLOCKS, as 64x4; found '" + text + "'");
}

template <typename T, typename Show>
void refuse_repeats(const std::vector<T>& values, const std::string& what, Show&& show) {
  std::set<T> seen;
  for (const T& value : values) {
    require(seen.insert(value).second, what + " " + show(value) + " is given twice");
  }
}

bool is_file_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '+';
  });
}

/// Reads the config once and makes options from it.
class Planner {
 public:
  explicit Planner(const IsoflopPlan& plan) : plan_(plan) {
    check();
    read_options(plan.config, plan.set, base_);
    for (const double budget : plan.budgets) {
      for (const auto& [name, family] : plan.families) {
        if (!family.match.empty()) continue;
        auto& sizes = sizes_[{budget, name}];
        for (const std::string& size : sizes_of(family)) sizes.push_back(parse_size(size));
        if (sizes.empty()) sizes = planned_sizes(name, family, budget);
      }
      for (const auto& [name, family] : plan.families) {
        if (family.match.empty()) continue;
        sizes_[{budget, name}] = matching_sizes(name, family, sizes_.at({budget, family.match}));
      }
    }
  }

  std::vector<IsoflopRun> runs() const {
    std::vector<IsoflopRun> all;
    if (plan_.learning_rates.size() > 1) {
      for (const auto& [name, family] : plan_.families) {
        const double budget = *std::min_element(plan_.budgets.begin(), plan_.budgets.end());
        const auto& sizes = sizes_.at({budget, name});
        for (const double rate : plan_.learning_rates) {
          IsoflopRun run =
              make(name, family, sizes[sizes.size() / 2], budget, seeds_of(family).front());
          run.tries_rate = true;
          run.rates.clear();
          run.options.schedule.learning_rate = rate;
          run.id = "rate-" + name + "-" + run.size + "-" + format_number("%g", rate);
          all.push_back(std::move(run));
        }
      }
    }
    const size_t tried = all.size();
    for (const double budget : plan_.budgets) {
      for (const auto& [name, family] : plan_.families) {
        for (const Size& size : sizes_.at({budget, name})) {
          for (const int64_t seed : seeds_of(family)) {
            all.push_back(make(name, family, size, budget, seed));
          }
        }
      }
    }
    // Cheap budgets first, and a seed of everything before the next seed: an early look is fair.
    std::stable_sort(all.begin() + static_cast<std::ptrdiff_t>(tried), all.end(),
                     [](const IsoflopRun& a, const IsoflopRun& b) {
                       return std::tie(a.budget, a.seed) < std::tie(b.budget, b.seed);
                     });
    return all;
  }

 private:
  void check() const {
    require(!plan_.config.empty(), "config names no training config");
    require(!plan_.families.empty(), "there are no families");
    require(!plan_.budgets.empty(), "there are no budgets");
    for (const double budget : plan_.budgets) {
      require(budget > 0 && std::isfinite(budget), "budgets must be above 0");
    }
    require(plan_.head_dim > 0, "head_dim must be above 0");
    require(plan_.min_steps > 0, "min_steps must be above 0");
    require(plan_.num_sizes >= 3, "num_sizes must be 3 at least: a parabola needs them");
    require(plan_.tokens_per_parameter.size() == 2 && plan_.tokens_per_parameter[0] > 0 &&
                plan_.tokens_per_parameter[0] < plan_.tokens_per_parameter[1],
            "tokens_per_parameter is a lower and an upper number");
    for (const double rate : plan_.learning_rates) {
      require(rate > 0, "learning_rates must be above 0");
    }
    const auto as_is = [](const std::string& text) { return text; };
    refuse_repeats(plan_.budgets, "budget", budget_name);
    refuse_repeats(plan_.learning_rates, "learning rate",
                   [](double rate) { return format_number("%g", rate); });
    for (const auto& [name, family] : plan_.families) {
      require(is_file_name(name),
              "a family's name has letters, digits, '_', '.' and '+'; found '" + name + "'");
      require(!seeds_of(family).empty(), "family " + name + " has no seeds");
      refuse_repeats(seeds_of(family), "seed", [](int64_t s) { return std::to_string(s); });
      if (family.match.empty()) {
        refuse_repeats(sizes_of(family), "size", as_is);
      } else {
        require(family.sizes.empty(), "family " + name + " has both sizes and match");
        const IsoflopFamily* other = find(family.match);
        require(other != nullptr && other->match.empty(),
                "family " + name + " matches '" + family.match +
                    "', which is no family with sizes of its own");
      }
    }
    require(find(plan_.baseline) != nullptr,
            "the baseline '" + plan_.baseline + "' is none of the families");
  }

  const IsoflopFamily* find(const std::string& name) const {
    for (const auto& [other, family] : plan_.families) {
      if (other == name) return &family;
    }
    return nullptr;
  }
  const std::vector<std::string>& sizes_of(const IsoflopFamily& family) const {
    return family.sizes.empty() ? plan_.sizes : family.sizes;
  }
  const std::vector<int64_t>& seeds_of(const IsoflopFamily& family) const {
    return family.seeds.empty() ? plan_.seeds : family.seeds;
  }

  LmTrainOptions options_of(const std::string& name, const IsoflopFamily& family,
                            const Size& size) const {
    LmTrainOptions options = base_;
    options.model.d_model = size.width;
    options.model.num_layers = size.blocks;
    options.model.num_heads = std::max<int64_t>(1, size.width / plan_.head_dim);
    read_options("", family.set, options);
    try {
      options.validate();
    } catch (const std::invalid_argument& error) {
      fail("family " + name + ", " + size.name() + ": " + error.what());
    }
    const RoutingOptions& routing = options.model.routing;
    const double tokens = routing.capacity * static_cast<double>(options.model.seq_len);
    require(options.model.num_routed() == 0 || routing.capacity_tokens > 0 || tokens >= 1,
            "family " + name + ": a capacity of " + format_number("%g", routing.capacity) + " is " +
                format_number("%.2f", tokens) + " tokens of " +
                std::to_string(options.model.seq_len) + ", less than one");
    return options;
  }

  static double forward_per_token(const LmTrainOptions& options) {
    return count_flops(options.model, options.model.seq_len).forward_per_token();
  }

  /// Sizes of a ladder whose width is 8 to 32 times the blocks, spread over those that fit.
  std::vector<Size> planned_sizes(const std::string& name, const IsoflopFamily& family,
                                  double budget) const {
    std::vector<std::pair<int64_t, Size>> fitting;  // by parameters
    for (const int64_t width : {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048}) {
      if (width % plan_.head_dim != 0) continue;
      for (const int64_t blocks : {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}) {
        if (width < 8 * blocks || width > 32 * blocks) continue;
        const Size size = {width, blocks};
        const LmOptions model = options_of(name, family, size).model;
        const int64_t parameters = count_parameters(model);
        const double tokens = budget / count_flops(model, model.seq_len).training_per_token();
        const double ratio = tokens / static_cast<double>(parameters);
        if (ratio >= plan_.tokens_per_parameter[0] && ratio <= plan_.tokens_per_parameter[1]) {
          fitting.emplace_back(parameters, size);
        }
      }
    }
    require(fitting.size() >= 3,
            "for " + name + " at " + budget_name(budget) + " only " +
                std::to_string(fitting.size()) +
                " sizes get a number of tokens within tokens_per_parameter; name sizes");
    const auto by_parameters = [](const auto& a, const auto& b) { return a.first < b.first; };
    std::sort(fitting.begin(), fitting.end(), by_parameters);
    const double low = std::log(static_cast<double>(fitting.front().first));
    const double high = std::log(static_cast<double>(fitting.back().first));
    std::vector<Size> sizes;
    for (int64_t i = 0; i < plan_.num_sizes; ++i) {
      const double wanted =
          std::lerp(low, high, static_cast<double>(i) / static_cast<double>(plan_.num_sizes - 1));
      const auto gap = [&](const auto& entry) {
        return std::abs(std::log(static_cast<double>(entry.first)) - wanted);
      };
      const auto nearest =
          std::min_element(fitting.begin(), fitting.end(),
                           [&](const auto& a, const auto& b) { return gap(a) < gap(b); });
      if (sizes.empty() || sizes.back().name() != nearest->second.name()) {
        sizes.push_back(nearest->second);
      }
    }
    return sizes;
  }

  std::vector<Size> matching_sizes(const std::string& name, const IsoflopFamily& family,
                                   const std::vector<Size>& targets) const {
    std::vector<Size> sizes;
    for (const Size& target : targets) {
      const double wanted =
          forward_per_token(options_of(family.match, *find(family.match), target));
      std::optional<Size> best;
      double best_gap = 0;
      for (int64_t blocks = 1; blocks <= 4 * target.blocks; ++blocks) {
        const Size size = {target.width, blocks};
        const double gap =
            std::abs(std::log(forward_per_token(options_of(name, family, size)) / wanted));
        if (best && gap >= best_gap) continue;
        best = size;
        best_gap = gap;
      }
      const bool known = std::any_of(sizes.begin(), sizes.end(), [&](const Size& other) {
        return other.name() == best->name();
      });
      if (!known) sizes.push_back(*best);
    }
    return sizes;
  }

  IsoflopRun make(const std::string& name, const IsoflopFamily& family, const Size& size,
                  double budget, int64_t seed) const {
    IsoflopRun run{.family = name, .size = size.name(), .budget = budget, .seed = seed};
    run.id = budget_name(budget) + "-" + name + "-" + run.size + "-s" + std::to_string(seed);
    run.options = options_of(name, family, size);
    run.options.seed = seed;
    if (plan_.learning_rates.size() > 1) run.rates = plan_.learning_rates;
    const FlopTable table = count_flops(run.options.model, run.options.model.seq_len);
    const auto step = static_cast<double>(table.training) *
                      static_cast<double>(run.options.batch * run.options.accumulate);
    const double steps = budget / step;
    require(steps >= static_cast<double>(plan_.min_steps),
            "a budget of " + budget_name(budget) + " FLOPs is too small for " + name + " " +
                run.size + ": it pays for " + format_number("%.1f", steps) +
                " steps, min_steps is " + std::to_string(plan_.min_steps));
    run.options.steps = std::llround(steps);
    run.parameters = count_parameters(run.options.model);
    run.forward_flops_per_token = table.forward_per_token();
    run.training_flops = step * static_cast<double>(run.options.steps);
    return run;
  }

  const IsoflopPlan& plan_;
  LmTrainOptions base_;
  std::map<std::pair<double, std::string>, std::vector<Size>> sizes_;
};

}  // namespace

std::string budget_name(double budget) {
  std::string text = format_number("%.6e", budget);
  const size_t e = text.find('e');
  std::string digits = text.substr(0, e);
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return digits + "e" + std::to_string(std::stoi(text.substr(e + 1)));
}

std::vector<IsoflopRun> plan_runs(const IsoflopPlan& plan) {
  return Planner(plan).runs();
}

std::string plan_text(const std::vector<IsoflopRun>& runs) {
  std::string out =
      "budget   family          size      parameters  FLOPs/token     steps      "
      "tokens  runs\n";
  std::map<std::tuple<double, std::string, std::string>, int> counts;
  for (const IsoflopRun& run : runs) {
    if (!run.tries_rate) ++counts[{run.budget, run.family, run.size}];
  }
  int rates = 0;
  for (const IsoflopRun& run : runs) {
    if (run.tries_rate) {
      ++rates;
      continue;
    }
    int& count = counts[{run.budget, run.family, run.size}];
    if (count == 0) continue;  // shown with its first seed
    char line[160];
    const int64_t tokens =
        run.options.steps * run.options.batch * run.options.accumulate * run.options.model.seq_len;
    std::snprintf(line, sizeof line, "%-8s %-15s %-9s %10lld %12.4g %9lld %11lld %5d\n",
                  budget_name(run.budget).c_str(), run.family.c_str(), run.size.c_str(),
                  static_cast<long long>(run.parameters), run.forward_flops_per_token,
                  static_cast<long long>(run.options.steps), static_cast<long long>(tokens), count);
    out += line;
    count = 0;
  }
  if (rates > 0) out += "and " + std::to_string(rates) + " runs to choose learning rates\n";
  return out;
}

std::string plan_csv(const std::vector<IsoflopRun>& runs) {
  std::string out =
      "id,family,size,budget,seed,parameters,forward_flops_per_token,steps,tokens,training_flops\n";
  for (const IsoflopRun& run : runs) {
    char line[320];
    const int64_t tokens =
        run.options.steps * run.options.batch * run.options.accumulate * run.options.model.seq_len;
    std::snprintf(line, sizeof line, "%s,%s,%s,%.6g,%lld,%lld,%.8g,%lld,%lld,%.8g\n",
                  run.id.c_str(), run.family.c_str(), run.size.c_str(), run.budget,
                  static_cast<long long>(run.seed), static_cast<long long>(run.parameters),
                  run.forward_flops_per_token, static_cast<long long>(run.options.steps),
                  static_cast<long long>(tokens), run.training_flops);
    out += line;
  }
  return out;
}

}  // namespace lagom::lm
