#include "lagom/tune/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <unordered_map>

#include "lagom/hlo/cost_analysis.h"
#include "lagom/tune/advice.h"
#include "lagom/tune/report_chart.h"
#include "lagom/util/report.h"

namespace lagom::tune {
namespace {

constexpr char kStyle[] = R"css(
:root{color-scheme:light dark;--bg:#fbfbf9;--fg:#1d2327;--dim:#667078;--line:#dfe2e0;--card:#fff;
--before:#b9c0c6;--after:#0f7b6c;--accent:#0f7b6c;--warn:#a1520a}
@media(prefers-color-scheme:dark){:root{--bg:#15191c;--fg:#e6e9ea;--dim:#98a3aa;--line:#2c3338;
--card:#1c2226;--before:#5a656d;--after:#35b8a4;--accent:#35b8a4;--warn:#e0a15a}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}
main{max-width:960px;margin:0 auto;padding:24px 16px 64px}
h1{font-size:1.35rem;margin:0;overflow-wrap:anywhere}h2{font-size:1.05rem;margin:40px 0 8px}
p{margin:6px 0}.dim{color:var(--dim)}.warn{color:var(--warn)}
.hero{font-size:3.4rem;font-weight:650;letter-spacing:-.02em;line-height:1.1;margin:14px 0 2px}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;margin:18px 0}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 12px}
.card b{display:block;font-size:1.15rem}.card span{color:var(--dim);font-size:.85rem}
svg{width:100%;height:auto;display:block;background:var(--card);border:1px solid var(--line);
border-radius:8px}
.grid{stroke:var(--line)}.tick{fill:var(--dim);font:11px system-ui,sans-serif}
.noise{fill:var(--dim);opacity:.15}.best{fill:none;stroke:var(--accent);stroke-width:1.5}
.interval{stroke:var(--dim);opacity:.6}.trial{fill:var(--dim)}.final{fill:var(--accent)}
.failed{fill:var(--warn)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.88rem}
th,td{text-align:left;padding:6px 10px 6px 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--dim);font-weight:500}td.n,th.n{text-align:right;white-space:nowrap}
code,pre{font:.84rem/1.45 ui-monospace,monospace}code{overflow-wrap:anywhere}
pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 12px;
overflow-x:auto}
.bars{min-width:120px}.bars i{display:block;height:6px;border-radius:2px;margin:3px 0}
.bars .before{background:var(--before)}.bars .after{background:var(--after)}
.key i{display:inline-block;width:12px;height:8px;border-radius:2px;margin:0 4px 0 12px}
)css";

std::string format(const char* pattern, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, pattern, value);
  return buffer;
}

std::string time_text(double seconds) {
  if (seconds >= 1) return format("%.3g s", seconds);
  if (seconds >= 1e-3) return format("%.3g ms", seconds * 1e3);
  return format("%.3g us", seconds * 1e6);
}

/// One kernel's time before and after, for the table.
struct KernelLine {
  const Kernel* kernel = nullptr;
  std::string form, shape, source, op_name;
  double executions = 0, before = 0, after = 0;  ///< Seconds of one execution.
  double flops = 0, bytes = 0;
};

class Report {
 public:
  Report(const hlo::Module& module, const SearchSpace& space, const TuneResult& result)
      : module_(module), space_(space), r_(result) {}

  std::string build() {
    collect_kernels();
    std::string page =
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
        "<title>" +
        html_escape(r_.program) + " tuned</title><style>" + kStyle + "</style></head><body><main>";
    page +=
        headline() + cards() + curve() + decisions() + kernels() + flags() + outputs() + usage();
    return page + "</main></body></html>\n";
  }

 private:
  bool is_default() const { return r_.configuration.is_default(); }

  std::string headline() const {
    std::string out = "<h1>" + html_escape(r_.program) + "</h1><p class=\"dim\">" +
                      html_escape(r_.device.platform + ", " + r_.device.device_kind +
                                  ", plugin API " + r_.device.plugin_version) +
                      "</p>";
    if (is_default()) {
      out += "<p class=\"hero\">1.00x</p><p>No faster form was found: the default is returned.</p>";
    } else {
      out += "<p class=\"hero\">" + format("%.2fx", r_.speedup()) +
             "</p><p>faster, 95 % interval [" + format("%.2f", 1 / r_.ratio.high) + ", " +
             format("%.2f", 1 / r_.ratio.low) + "] over " + std::to_string(r_.ratio.pairs) +
             " pairs" + (r_.retimed ? ", timed afresh after the search" : ", not timed afresh") +
             ": " + time_text(r_.default_seconds) + " &rarr; " + time_text(r_.tuned_seconds) +
             " a run</p>";
    }
    if (!r_.note.empty()) out += "<p class=\"warn\">" + html_escape(r_.note) + "</p>";
    if (r_.stopped) out += "<p class=\"warn\">The search was stopped before its end.</p>";
    return out;
  }

  static std::string card(const std::string& value, const std::string& what) {
    return "<div class=\"card\"><b>" + value + "</b><span>" + what + "</span></div>";
  }

  std::string cards() const {
    std::string out = "<div class=\"cards\">";
    out += card(format("%.1f %%", r_.baseline.noise_floor * 100),
                "noise floor: default against itself");
    size_t measured = 0;
    for (const Trial& t : r_.trials) measured += t.measured;
    out += card(std::to_string(r_.trials.size()),
                "whole-program trials, " + std::to_string(measured) + " measured to the end");
    out += card(std::to_string(r_.kernels.size()),
                "distinct kernels measured alone, of " + std::to_string(space_.kernels().size()));
    out += card(format("%.0f s", r_.elapsed_seconds), "search time");
    if (!is_default()) {
      out += card(
          time_text(r_.default_compile_seconds) + " &rarr; " + time_text(r_.tuned_compile_seconds),
          "compile time");
    }
    if (r_.copies_before >= 0) {
      const int64_t change = r_.copies_after - r_.copies_before;
      out += card(std::to_string(r_.copies_before) + " &rarr; " + std::to_string(r_.copies_after),
                  "copies and transposes in the optimised program (" +
                      std::string(change > 0 ? "+" : "") + std::to_string(change) + ")");
    }
    return out + "</div>";
  }

  std::string curve() const {
    if (r_.trials.empty()) return "";
    return "<h2>The search</h2>" + search_chart_svg(r_) +
           "<p class=\"dim\">Each point is a whole program: its speed-up over the default, with "
           "interval. The line is the best so far, the band the noise floor; coloured points were "
           "timed afresh at the end. Points on the axis failed or were given up.</p>";
  }

  /// Decisions of one kind on equal kernels go into one row.
  std::string decisions() const {
    std::string out = "<h2>Decisions</h2>";
    if (r_.decisions.empty()) return out + "<p>None: every operation is as it was.</p>";
    std::map<std::string, std::vector<const DecisionReport*>> groups;
    std::vector<std::string> order;
    for (const DecisionReport& d : r_.decisions) {
      std::string key = d.decision.form + "|" + d.opcode + "|" + d.shape + "|" +
                        format("%.9g", d.default_seconds);
      if (d.decision.kind != rewrite::DecisionKind::kForm) key = d.decision.to_string();
      if (groups[key].empty()) order.push_back(key);
      groups[key].push_back(&d);
    }
    const auto saved = [&](const std::string& key) {
      const auto& group = groups.at(key);
      return (group[0]->default_seconds - group[0]->seconds) * static_cast<double>(group.size());
    };
    std::stable_sort(order.begin(), order.end(), [&](const std::string& a, const std::string& b) {
      return saved(a) > saved(b);
    });
    out +=
        "<div class=\"scroll\"><table><tr><th>Operation</th><th>Decision</th><th class=\"n\">"
        "Alone, before</th><th class=\"n\">after</th><th class=\"n\">saves in all</th>"
        "<th class=\"n\">In place, of the default's time</th></tr>";
    std::map<std::string, std::string> advice;
    for (const std::string& key : order) {
      const auto& group = groups.at(key);
      const DecisionReport& d = *group[0];
      out += "<tr><td><code>" + html_escape(d.opcode + " " + d.decision.instruction) + "</code>";
      if (group.size() > 1) out += " and " + std::to_string(group.size() - 1) + " like it";
      out += "<br><span class=\"dim\"><code>" + html_escape(d.shape) + "</code>";
      if (!d.op_name.empty()) out += "<br>" + html_escape(d.op_name);
      if (!d.source.empty()) out += "<br>" + html_escape(d.source);
      out += "</span></td><td><code>" + html_escape(decision_text(d.decision)) + "</code></td>";
      if (d.default_seconds > 0) {
        out += "<td class=\"n\">" + time_text(d.default_seconds) + "</td><td class=\"n\">" +
               time_text(d.seconds) + "</td><td class=\"n\">" + time_text(saved(key)) + "</td>";
      } else {
        out += "<td></td><td></td><td></td>";
      }
      out += "<td class=\"n\">" +
             (std::isnan(d.effect_in_place) ? "" : format("%+.1f %%", d.effect_in_place * 100)) +
             "</td></tr>";
      advice.emplace(decision_text(d.decision), d.advice);
    }
    out += "</table></div><h2>The same in JAX</h2>";
    for (const auto& [what, how] : advice) {
      out += "<p><code>" + html_escape(what) + "</code>: <code>" + html_escape(how) + "</code></p>";
    }
    return out;
  }

  static std::string decision_text(const rewrite::Decision& decision) {
    const std::string text = decision.to_string();
    return text.substr(decision.instruction.size() + 1);
  }

  void collect_kernels() {
    std::unordered_map<std::string, std::pair<const hlo::Computation*, const hlo::Instruction*>>
        where;
    for (const auto& computation : module_.computations()) {
      for (const auto& i : computation->instructions()) {
        where[i->name] = {computation.get(), i.get()};
      }
    }
    hlo::CostAnalysis costs(module_);
    for (const KernelResult& result : r_.kernels) {
      if (result.default_seconds <= 0) continue;
      KernelLine line;
      line.kernel = &space_.kernels()[result.kernel];
      const hlo::Instruction& first = *where.at(line.kernel->instructions[0]).second;
      line.shape = first.shape.to_string(/*with_layout=*/false);
      line.source = hlo::source_location(module_, first);
      line.op_name = first.metadata ? first.metadata->op_name : "";
      for (const std::string& name : line.kernel->instructions) {
        line.executions += executions_of(module_, *where.at(name).first);
      }
      line.before = line.after = result.default_seconds;
      if (const rewrite::Rule* rule = space_.form_of(r_.configuration, *line.kernel)) {
        line.form = rule->name();
        for (const KernelRecord& record : result.forms) {
          if (record.configuration == form_configuration(*rule) && record.seconds) {
            line.after = result.default_seconds * record.ratio.median;
          }
        }
      }
      const hlo::Cost cost = costs.of(first);
      line.flops = cost.flops;
      line.bytes = cost.bytes_accessed();
      lines_.push_back(std::move(line));
    }
    std::stable_sort(lines_.begin(), lines_.end(), [](const KernelLine& a, const KernelLine& b) {
      return a.before * a.executions > b.before * b.executions;
    });
  }

  /// The larger of the shares of the machine's FLOP rate and memory rate that a kernel reaches.
  std::string rate(const KernelLine& line, double seconds) const {
    const MachineRate& m = r_.machine;
    if (m.flops_per_second <= 0 || m.bytes_per_second <= 0 || seconds <= 0) return "";
    const double flops = line.flops / seconds / m.flops_per_second;
    const double bytes = line.bytes / seconds / m.bytes_per_second;
    return format("%.0f %%", 100 * std::max(flops, bytes)) + (flops > bytes ? " FLOP" : " memory");
  }

  std::string kernels() const {
    if (lines_.empty()) return "";
    std::string out =
        "<h2>Where the time goes</h2><p class=\"dim\">Heavy kernels measured alone, "
        "per run of the program";
    if (r_.machine.flops_per_second > 0) {
      out += "; the machine does " + format("%.0f GFLOP/s", r_.machine.flops_per_second / 1e9) +
             " in a matrix product and moves " +
             format("%.1f GB/s", r_.machine.bytes_per_second / 1e9);
    }
    out +=
        ". <span class=\"key\"><i style=\"background:var(--before)\"></i>before"
        "<i style=\"background:var(--after)\"></i>after</span></p>";
    out +=
        "<div class=\"scroll\"><table><tr><th>Kernel</th><th>Form</th><th class=\"n\">Before</th>"
        "<th class=\"n\">of the machine</th><th class=\"n\">After</th><th class=\"n\">of the "
        "machine</th><th></th></tr>";
    const double largest = lines_[0].before * lines_[0].executions;
    constexpr size_t kMaxRows = 30;
    for (size_t i = 0; i < lines_.size() && i < kMaxRows; ++i) {
      const KernelLine& line = lines_[i];
      out += "<tr><td><code>" +
             html_escape(std::string(hlo::opcode_name(line.kernel->opcode)) + " " + line.shape) +
             "</code>";
      if (line.executions != 1) out += " &times; " + format("%.0f", line.executions);
      out += "<br><span class=\"dim\">" +
             html_escape(line.source.empty() ? line.op_name : line.source) +
             "</span></td><td><code>" + html_escape(line.form.empty() ? "as it is" : line.form) +
             "</code></td>";
      out += "<td class=\"n\">" + time_text(line.before * line.executions) +
             "</td><td class=\"n\">" + rate(line, line.before) + "</td><td class=\"n\">" +
             time_text(line.after * line.executions) + "</td><td class=\"n\">" +
             rate(line, line.after) + "</td><td>" +
             bar_pair_html(line.before * line.executions, line.after * line.executions, largest) +
             "</td></tr>";
    }
    out += "</table></div>";
    if (lines_.size() > kMaxRows) {
      out +=
          "<p class=\"dim\">and " + std::to_string(lines_.size() - kMaxRows) + " smaller ones</p>";
    }
    return out;
  }

  std::string flags() const {
    if (r_.configuration.flags.empty()) return "";
    return "<h2>Compiler flags</h2><pre>compiler_options=" +
           html_escape(compiler_options_python(r_.configuration.flags)) + "</pre>";
  }

  std::string outputs() const {
    if (r_.outputs.empty()) return "";
    double worst = 0;
    size_t identical = 0;
    for (const measure::OutputComparison& o : r_.outputs) {
      identical += o.mismatches == 0;
      if (o.max_abs_difference > 0) worst = std::max(worst, o.relative_error());
    }
    std::string out = "<h2>Results</h2><p>" + std::to_string(r_.outputs.size()) + " output" +
                      (r_.outputs.size() == 1 ? "" : "s") +
                      " compared with the default's on the "
                      "same inputs: ";
    out += identical == r_.outputs.size()
               ? "identical bit for bit.</p>"
               : "largest difference " + format("%.1e", worst) +
                     " of the output's largest value; " + std::to_string(identical) +
                     " identical bit for bit.</p>";
    return out;
  }

  std::string usage() const {
    if (is_default()) return "";
    return "<h2>Using it</h2><p>The tuned program takes the same parameters and gives the same "
           "results. It lies beside this page as HLO text and as a proto; "
           "<code>docs/using-the-result.md</code> shows how to run it from JAX and C++.</p>";
  }

  const hlo::Module& module_;
  const SearchSpace& space_;
  const TuneResult& r_;
  std::vector<KernelLine> lines_;
};

}  // namespace

std::string report_html(const hlo::Module& module, const SearchSpace& space,
                        const TuneResult& result) {
  return Report(module, space, result).build();
}

}  // namespace lagom::tune
