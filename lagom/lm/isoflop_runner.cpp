#include "lagom/lm/isoflop_runner.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <limits>
#include <list>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

#include "lagom/train/run_log.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "lagom/util/hash.h"
#include "lagom/util/json_lines.h"
#include "lagom/util/report.h"

namespace lagom::lm {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

/// Of result.json, and of what its numbers mean.
constexpr int kResultVersion = 1;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::filesystem::path run_folder(const std::filesystem::path& folder, const IsoflopRun& run) {
  return folder / "runs" / run.id;
}

/// What makes two runs of one name the same run. A rate that is chosen by tries follows from them.
std::string options_key(const IsoflopRun& run) {
  LmTrainOptions options = run.options;
  if (!run.rates.empty()) options.schedule.learning_rate = 0;
  std::string text = options_to_toml(options);
  for (const double rate : run.rates) text += format_number("%.17g ", rate);
  return hex64(hash64(text));
}

/// The file of a run's lock, locked; vanishes with its processes.
class RunLock {
 public:
  explicit RunLock(const std::filesystem::path& path)
      // Inherited by the run's process: the lock outlives a runner that is killed while it saves.
      : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT, 0644)) {
    if (descriptor_ < 0) {
      throw SystemError(path.string() + ": cannot be opened: " + std::strerror(errno));
    }
    locked_ = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
  }
  ~RunLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  RunLock(RunLock&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), locked_(other.locked_) {}
  RunLock& operator=(RunLock&&) = delete;

  bool locked() const { return locked_; }

 private:
  int descriptor_ = -1;
  bool locked_ = false;
};

std::string last_line(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::string last;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) last = line;
  }
  return last.empty() ? "it printed nothing" : last;
}

/// The numbers of a run's last evaluation.
IsoflopResult collect(const std::filesystem::path& log) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  IsoflopResult result{.loss = kNaN, .loss_topk = kNaN};
  const auto set = [](const nlohmann::json& line, const char* key, double& value) {
    if (line.contains(key)) value = line[key].is_number() ? line[key].get<double>() : kNaN;
  };
  for_each_json_line(log, [&](const nlohmann::json& line) {
    if (line.contains("validation_loss")) result.loss_topk = kNaN;
    set(line, "validation_loss", result.loss);
    set(line, "validation_loss_topk", result.loss_topk);
    set(line, "training_seconds", result.training_seconds);
  });
  if (std::isnan(result.loss_topk)) result.loss_topk = result.loss;  // nothing looks ahead
  return result;
}

/// A run's process.
struct Job {
  IsoflopRun run;
  RunLock lock;
  int cpu = 0;
  pid_t pid = -1;
  Clock::time_point start = Clock::now();
};

pid_t start_process(const std::vector<std::string>& command, int cpu,
                    const std::filesystem::path& log) {
  std::vector<char*> arguments;
  for (const std::string& part : command) arguments.push_back(const_cast<char*>(part.c_str()));
  arguments.push_back(nullptr);
  const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (output < 0) throw SystemError(log.string() + ": cannot be opened: " + std::strerror(errno));
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    // With its runner gone a run saves and ends.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    // Ctrl-C in a terminal reaches the whole group; the runner passes it on.
    ::setpgid(0, 0);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(cpu), &set);
    ::sched_setaffinity(0, sizeof set, &set);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(output);
  if (pid < 0) throw SystemError("cannot start a process: " + std::string(std::strerror(errno)));
  return pid;
}

class Runner {
 public:
  Runner(const IsoflopPlan& plan, const IsoflopRunnerOptions& options)
      : options_(options), all_(plan_runs(plan)) {
    std::filesystem::create_directories(options.folder / "runs");
    write_file(options.folder / "plan.toml", options_to_toml(plan));
    write_file(options.folder / "plan.csv", plan_csv(all_));
    for (size_t i = 0; i < all_.size(); ++i) {
      if (static_cast<int64_t>(i) % options.num_shards == options.shard - 1) {
        mine_.push_back(all_[i]);
      }
    }
    for (const IsoflopRun& run : mine_) done_ += read_result(options.folder, run).has_value();
    free_cpus_ = {options.cpus.begin(), options.cpus.end()};
  }

  IsoflopSummary run() {
    const auto start = Clock::now();
    bool stopping = false;
    while (true) {
      reap();
      if (!stopping && options_.stop && options_.stop()) {
        stopping = true;
        for (const Job& job : jobs_) ::kill(job.pid, SIGTERM);
      }
      const bool waits = !stopping && fill();
      if (jobs_.empty() && !waits) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(jobs_.empty() ? 1000 : 20));
    }
    summary_.total = std::ssize(mine_);
    for (const IsoflopRun& run : mine_) {
      if (read_result(options_.folder, run)) {
        ++summary_.done;
      } else if (!stopping && !failed_.contains(run.id)) {
        ++summary_.elsewhere;
      }
    }
    summary_.seconds = seconds_since(start);
    return summary_;
  }

 private:
  /// Starts runs on free cores. Returns whether there are runs that wait for a learning rate that
  /// others are finding.
  bool fill() {
    bool waits = false;
    for (const IsoflopRun& planned : mine_) {
      if (free_cpus_.empty()) break;
      if (failed_.contains(planned.id) || in_hand(planned.id)) continue;
      if (read_result(options_.folder, planned)) continue;
      IsoflopRun run = planned;
      if (!run.tries_rate) {
        const auto rate = chosen_rate(options_.folder, all_, run.family);
        if (!rate) {
          waits = waits || !rate_failed(run.family);
          continue;
        }
        if (*rate > 0) run.options.schedule.learning_rate = *rate;
      }
      RunLock lock(options_.folder / "runs" / (run.id + ".lock"));
      // Between the two looks another runner may have ended it.
      if (!lock.locked() || read_result(options_.folder, run)) continue;
      start(std::move(run), std::move(lock));
    }
    return waits;
  }

  bool in_hand(const std::string& id) const {
    for (const Job& job : jobs_) {
      if (job.run.id == id) return true;
    }
    return false;
  }

  bool rate_failed(const std::string& family) const {
    for (const IsoflopRun& run : all_) {
      if (run.tries_rate && run.family == family && failed_.contains(run.id)) return true;
    }
    return false;
  }

  void start(IsoflopRun run, RunLock lock) {
    const auto folder = run_folder(options_.folder, run);
    std::filesystem::create_directories(folder);
    write_file(folder / "train.toml", options_to_toml(run.options));
    const int cpu = *free_cpus_.begin();
    free_cpus_.erase(free_cpus_.begin());
    Job& job = jobs_.emplace_back(Job{.run = std::move(run), .lock = std::move(lock), .cpu = cpu});
    job.pid = start_process({options_.program, "lm", "train", (folder / "train.toml").string(),
                             "--out", folder.string(), "--resume", "--threads", "1"},
                            cpu, folder / "train.log");
  }

  void reap() {
    for (auto job = jobs_.begin(); job != jobs_.end();) {
      int status = 0;
      const pid_t ended = ::waitpid(job->pid, &status, WNOHANG);
      if (ended == 0) {
        ++job;
        continue;
      }
      finish(*job, ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
      free_cpus_.insert(job->cpu);
      job = jobs_.erase(job);
    }
  }

  void finish(const Job& job, bool succeeded) {
    const auto folder = run_folder(options_.folder, job.run);
    const auto wall = folder / "wall_seconds";
    // A run that was stopped and resumed took what all its processes took.
    double seconds = seconds_since(job.start);
    if (std::ifstream before(wall); before) {
      double earlier = 0;
      if (before >> earlier) seconds += earlier;
    }
    if (!succeeded && job.run.tries_rate && diverged(folder)) {
      write_result(options_.folder, job.run,
                   {.loss = std::numeric_limits<double>::quiet_NaN(), .wall_seconds = seconds});
    } else if (!succeeded) {
      failed_.insert(job.run.id);
      summary_.failures.push_back(job.run.id + ": " + last_line(folder / "train.log"));
      options_.note(summary_.failures.back());
      return;
    } else if (!std::filesystem::exists(folder / "model.safetensors")) {
      write_file(wall, format_number("%.3f", seconds));  // stopped: to be resumed
      return;
    } else {
      IsoflopResult result = collect(folder / "log.jsonl");
      result.wall_seconds = seconds;
      write_result(options_.folder, job.run, result);
    }
    // A whole optimizer state for each of many runs fills a disk.
    std::error_code error;
    std::filesystem::remove(folder / "checkpoint.safetensors", error);
    std::filesystem::remove(wall, error);
    const IsoflopResult result = *read_result(options_.folder, job.run);
    ++done_;
    summary_.training_seconds += result.training_seconds;
    summary_.wall_seconds += seconds;
    options_.note("[" + std::to_string(done_) + "/" + std::to_string(mine_.size()) + "] " +
                  job.run.id + ": loss " + format_number("%.4f", result.loss) + ", " +
                  train::duration_to_string(seconds));
  }

  static bool diverged(const std::filesystem::path& folder) {
    return last_line(folder / "train.log").find("not finite") != std::string::npos;
  }

  const IsoflopRunnerOptions& options_;
  std::vector<IsoflopRun> all_, mine_;
  std::set<int> free_cpus_;
  std::list<Job> jobs_;
  std::set<std::string> failed_;
  int64_t done_ = 0;
  IsoflopSummary summary_;
};

}  // namespace

void write_result(const std::filesystem::path& folder, const IsoflopRun& run,
                  const IsoflopResult& result) {
  const auto number = [](double value) {
    return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
  };
  const ordered_json json = {{"version", kResultVersion},
                             {"id", run.id},
                             {"options", options_key(run)},
                             {"loss", number(result.loss)},
                             {"loss_topk", number(result.loss_topk)},
                             {"training_seconds", result.training_seconds},
                             {"wall_seconds", result.wall_seconds}};
  write_file(run_folder(folder, run) / "result.json", json.dump(2) + "\n");
}

std::optional<IsoflopResult> read_result(const std::filesystem::path& folder,
                                         const IsoflopRun& run) {
  const auto path = run_folder(folder, run) / "result.json";
  if (!std::filesystem::exists(path)) return std::nullopt;
  try {
    const auto json = nlohmann::json::parse(read_file(path));
    const int version = json.at("version").get<int>();
    if (version != kResultVersion) {
      throw FormatError(path.string(), "version",
                        "expected " + std::to_string(kResultVersion) + ", found " +
                            std::to_string(version) +
                            ": a result of another version; take a fresh folder");
    }
    if (json.at("options").get<std::string>() != options_key(run)) {
      throw FormatError(path.string(), "options",
                        "this run was made with other options than the plan's (see train.toml "
                        "beside it); take a fresh folder");
    }
    const auto number = [&](const char* key) {
      const auto& value = json.at(key);
      return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
    };
    return IsoflopResult{.loss = number("loss"),
                         .loss_topk = number("loss_topk"),
                         .training_seconds = number("training_seconds"),
                         .wall_seconds = number("wall_seconds")};
  } catch (const nlohmann::json::exception& error) {
    throw FormatError(path.string(), "", error.what());
  }
}

std::optional<double> chosen_rate(const std::filesystem::path& folder,
                                  const std::vector<IsoflopRun>& runs, const std::string& family) {
  double rate = 0, best = std::numeric_limits<double>::infinity();
  for (const IsoflopRun& run : runs) {
    if (!run.tries_rate || run.family != family) continue;
    const auto result = read_result(folder, run);
    if (!result) return std::nullopt;
    const double tried = run.options.schedule.learning_rate;
    if (result->loss < best || (result->loss == best && tried < rate)) {
      best = result->loss;
      rate = tried;
    }
  }
  return rate;
}

IsoflopSummary run_plan(const IsoflopPlan& plan, const IsoflopRunnerOptions& options) {
  if (options.cpus.empty()) throw std::invalid_argument("a runner needs a core at least");
  if (options.num_shards < 1 || options.shard < 1 || options.shard > options.num_shards) {
    throw std::invalid_argument("a shard is i/n with i from 1 to n");
  }
  return Runner(plan, options).run();
}

}  // namespace lagom::lm
