#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lagom/measure/types.h"
#include "lagom/xla/client.h"

namespace lagom::worker {

/// A compiled program with the compiler's figures.
struct Compiled {
  xla::Executable executable;
  measure::ProgramFigures figures;
};

/// What a worker does for its parent: it owns the plugin, the client and the loaded baseline.
///
/// Every method answers with a value: failures are put into its Outcome.
class Session {
 public:
  /// `plugin` as for xla::find_plugin; it is loaded, with its options, at the first use.
  /// `memory_limit_bytes`: what the process may take, 0 for no limit.
  Session(std::string plugin, xla::ClientOptions plugin_options, int64_t memory_limit_bytes);

  measure::WorkerInfo hello();
  measure::BaselineResult load_baseline(const measure::BaselineRequest& request);
  measure::MeasureResult measure(const measure::MeasureRequest& request);
  measure::OptimizedResult optimized(const measure::Program& program);
  measure::RunReport run(const measure::RunRequest& request);

 private:
  struct Baseline {
    measure::BaselineRequest request;
    std::vector<xla::Buffer> inputs;
    std::optional<Compiled> compiled;
    std::vector<std::string> outputs;  ///< On the host, row-major.
    std::vector<measure::OutputInfo> infos;
    double seconds = 0;
  };

  const xla::Client& client();
  Compiled compile(const measure::Program& program);
  /// The same, or what `remember` kept of it.
  Compiled recall_or_compile(const measure::Program& program);
  /// Keeps a candidate: the last few are likely to be measured again.
  void remember(measure::Program program, Compiled compiled);
  /// Throws OutOfMemory when the program's arrays do not fit.
  void require_memory(int64_t argument_bytes, int64_t largest_argument, int64_t output_bytes,
                      int64_t temp_bytes) const;
  std::vector<xla::Buffer> make_inputs(std::span<const measure::InputSpec> specs,
                                       const measure::InputDraw& draw);
  static std::vector<measure::OutputComparison> compare_run(
      const Baseline& baseline, const std::vector<xla::Buffer>& outputs);
  void check_health(Baseline* baseline, measure::Health* health);
  /// known: the program compiled, where it is that of the baseline before.
  void fill_baseline(const measure::BaselineRequest& request, std::optional<Compiled> known,
                     measure::BaselineResult* result);
  void fill_measure(const measure::MeasureRequest& request, measure::MeasureResult* result);
  void fill_run(const measure::RunRequest& request, measure::RunReport* report);

  std::string plugin_;
  xla::ClientOptions plugin_options_;
  int64_t memory_limit_bytes_;
  std::unique_ptr<xla::Client> client_;
  std::unique_ptr<Baseline> baseline_;
  std::deque<std::pair<measure::Program, Compiled>> remembered_;  ///< The latest first.
};

}  // namespace lagom::worker
