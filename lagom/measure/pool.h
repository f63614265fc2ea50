#pragma once

#include <functional>
#include <span>
#include <vector>

#include "lagom/measure/worker.h"

namespace lagom::measure {

/// Several workers, each on CPUs of its own, that share out candidates of one program.
class WorkerPool {
 public:
  /// One worker per set of CPUs; at least one set. Throws std::invalid_argument when there is none
  /// or two share a CPU: they would disturb each other's times.
  WorkerPool(const WorkerOptions& options, const std::vector<std::vector<int>>& cpu_sets);

  size_t size() const { return workers_.size(); }
  Worker& worker(size_t i) { return workers_.at(i); }

  /// Loads the default into every worker, at the same time.
  std::vector<BaselineResult> load_baseline(const BaselineRequest& request);

  /// Measures all candidates, each on the next free worker, and returns when all are done.
  /// `on_result(index, result)` is called as results come, from one thread at a time; what it
  /// throws stops the rest and is thrown here.
  void measure(std::span<const MeasureRequest> requests,
               const std::function<void(size_t, MeasureResult)>& on_result);

 private:
  /// Runs work(worker, i) for i in [0, count), each i once.
  void share_out(size_t count, const std::function<void(Worker&, size_t)>& work);

  std::vector<Worker> workers_;
};

/// The CPUs that this process may use, cut into sets of `cpus_per_worker` (a remainder is left
/// out).
std::vector<std::vector<int>> split_cpus(int cpus_per_worker);

}  // namespace lagom::measure
