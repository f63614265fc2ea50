#include "lagom/measure/pool.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "lagom/measure/machine.h"

namespace lagom::measure {

WorkerPool::WorkerPool(const WorkerOptions& options,
                       const std::vector<std::vector<int>>& cpu_sets) {
  if (cpu_sets.empty()) throw std::invalid_argument("WorkerPool: no set of CPUs");
  std::set<int> seen;
  for (const std::vector<int>& cpus : cpu_sets) {
    for (const int cpu : cpus) {
      if (!seen.insert(cpu).second) {
        throw std::invalid_argument("WorkerPool: two workers share CPU " + std::to_string(cpu));
      }
    }
    WorkerOptions own = options;
    own.cpus = cpus;
    // Memory is shared too: each may take its part.
    if (own.memory_limit_bytes == 0) {
      own.memory_limit_bytes =
          available_memory_bytes() / 10 * 9 / static_cast<int64_t>(cpu_sets.size());
    }
    workers_.emplace_back(std::move(own));
  }
}

std::vector<BaselineResult> WorkerPool::load_baseline(const BaselineRequest& request) {
  std::vector<BaselineResult> results(workers_.size());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < workers_.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = workers_[i].load_baseline(request); });
  }
  results[0] = workers_[0].load_baseline(request);
  for (std::thread& thread : threads) thread.join();
  return results;
}

void WorkerPool::share_out(size_t count, const std::function<void(Worker&, size_t)>& work) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto serve = [&](Worker& worker) {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(worker, i);
      } catch (...) {
        const std::lock_guard<std::mutex> guard(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::thread> threads;
  for (size_t w = 1; w < std::min(workers_.size(), count); ++w) {
    threads.emplace_back([&, w] { serve(workers_[w]); });
  }
  serve(workers_[0]);
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

void WorkerPool::measure(std::span<const MeasureRequest> requests,
                         const std::function<void(size_t, MeasureResult)>& on_result) {
  std::mutex mutex;
  share_out(requests.size(), [&](Worker& worker, size_t i) {
    MeasureResult result = worker.measure(requests[i]);
    const std::lock_guard<std::mutex> guard(mutex);
    on_result(i, std::move(result));
  });
}

std::vector<std::vector<int>> split_cpus(int cpus_per_worker) {
  if (cpus_per_worker < 1) throw std::invalid_argument("split_cpus: expected at least one CPU");
  const std::vector<int> cpus = allowed_cpus();
  const auto step = static_cast<size_t>(cpus_per_worker);
  std::vector<std::vector<int>> sets;
  for (size_t i = 0; i + step <= cpus.size(); i += step) {
    sets.emplace_back(cpus.begin() + static_cast<std::ptrdiff_t>(i),
                      cpus.begin() + static_cast<std::ptrdiff_t>(i + step));
  }
  return sets;
}

}  // namespace lagom::measure
