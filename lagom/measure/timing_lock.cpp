#include "lagom/measure/timing_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

namespace lagom::measure {
namespace {

namespace fs = std::filesystem;

fs::path lock_folder() {
  const char* named = std::getenv("LAGOM_LOCK_DIR");
  const fs::path folder =
      named != nullptr && *named != '\0' ? fs::path(named) : fs::temp_directory_path() / "lagom";
  std::error_code ec;
  // Another user's process must be able to use the same files.
  if (fs::create_directories(folder, ec)) fs::permissions(folder, fs::perms::all, ec);
  return folder;
}

int open_lock(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor >= 0) fchmod(descriptor, 0666);
  return descriptor;
}

}  // namespace

TimingLock::TimingLock(std::vector<int> cpus, const std::function<void(const std::string&)>& notice,
                       const std::function<bool()>& should_stop) {
  std::sort(cpus.begin(), cpus.end());
  // A lock held by this very object would be waited for without end.
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  const fs::path folder = lock_folder();
  bool told = false;
  const auto tell = [&](const std::string& line) {
    if (!told && notice) notice(line);
    told = true;
  };
  const auto wait_for = [&](int descriptor, int cpu) {
    while (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return true;
      tell("waiting: another lagom is timing on CPU " + std::to_string(cpu));
      if (should_stop && should_stop()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  };
  for (const int cpu : cpus) {
    const fs::path path = folder / ("cpu" + std::to_string(cpu) + ".lock");
    // Whoever waits holds the queue's lock, so that a process which gives the CPU back and wants it
    // again at once comes after those that were waiting.
    const int queue = open_lock(path.string() + ".queue");
    const int descriptor = open_lock(path);
    if (descriptor < 0) {
      tell(path.string() + ": no lock against other timings: " + std::strerror(errno));
      if (queue >= 0) close(queue);
      continue;
    }
    descriptors_.push_back(descriptor);
    const bool taken = (queue < 0 || wait_for(queue, cpu)) && wait_for(descriptor, cpu);
    if (queue >= 0) close(queue);
    if (!taken) return;
  }
  locked_ = true;
}

TimingLock::~TimingLock() {
  for (const int descriptor : descriptors_) close(descriptor);
}

}  // namespace lagom::measure
