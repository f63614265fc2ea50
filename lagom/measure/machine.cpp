#include "lagom/measure/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string_view>

namespace lagom::measure {
namespace {

// The number of KiB after "NAME:" in one of /proc's tables; -1 when it is not there.
int64_t kib_field(const std::string& path, std::string_view name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, name.size(), name) == 0 && line.size() > name.size() &&
        line[name.size()] == ':') {
      return std::stoll(line.substr(name.size() + 1));
    }
  }
  return -1;
}

// A control group's number; -1 when it has none ("max") or the file is not there.
int64_t number_in(const char* path) {
  std::ifstream in(path);
  int64_t value = -1;
  return in >> value ? value : -1;
}

}  // namespace

int64_t available_memory_bytes() {
  const int64_t kib = kib_field("/proc/meminfo", "MemAvailable");
  int64_t available = kib < 0 ? std::numeric_limits<int64_t>::max() : kib * 1024;
  const int64_t limit = number_in("/sys/fs/cgroup/memory.max");
  const int64_t used = number_in("/sys/fs/cgroup/memory.current");
  if (limit > 0 && used >= 0) available = std::min(available, std::max<int64_t>(limit - used, 0));
  return available;
}

int64_t private_memory_bytes(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/statm");
  int64_t total = 0;
  int64_t resident = 0;
  int64_t shared = 0;
  if (!(in >> total >> resident >> shared)) return 0;
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

int64_t peak_memory_bytes() {
  const int64_t kib = kib_field("/proc/self/status", "VmHWM");
  return kib < 0 ? 0 : kib * 1024;
}

void reset_peak_memory() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

double load_average() {
  std::ifstream in("/proc/loadavg");
  double load = 0;
  return in >> load ? load : 0;
}

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::string memory_to_string(int64_t bytes) {
  constexpr double kMib = 1024.0 * 1024.0;
  const double mib = static_cast<double>(bytes) / kMib;
  char text[48];
  if (mib < 10 * 1024) {
    std::snprintf(text, sizeof text, "%.0f MiB", mib);
  } else {
    std::snprintf(text, sizeof text, "%.1f GiB", mib / 1024);
  }
  return text;
}

}  // namespace lagom::measure
