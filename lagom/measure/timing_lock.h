#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lagom::measure {

/// Keeps several processes on one machine from timing on the same CPUs at once.
///
/// One lock file per CPU, in LAGOM_LOCK_DIR or else a folder of the machine's temporary one that
/// all users share. Locks are the kernel's (flock): they vanish with the process that holds them.
/// Those who wait take turns.
class TimingLock {
 public:
  /// Locks all of `cpus`, in ascending order so that two processes cannot wait for each other.
  /// While others hold one, `notice` is called once with a line that says so, and `should_stop`
  /// every fiftieth of a second: true gives up, and locked() is false. Where the folder cannot be
  /// written, a notice says so and the lock counts as taken.
  TimingLock(std::vector<int> cpus, const std::function<void(const std::string&)>& notice,
             const std::function<bool()>& should_stop);
  ~TimingLock();
  TimingLock(const TimingLock&) = delete;
  TimingLock& operator=(const TimingLock&) = delete;

  bool locked() const { return locked_; }

 private:
  std::vector<int> descriptors_;
  bool locked_ = false;
};

}  // namespace lagom::measure
