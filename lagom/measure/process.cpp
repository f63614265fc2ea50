#include "lagom/measure/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>

#include "lagom/util/error.h"

namespace lagom::measure {
namespace {

constexpr size_t kTailBytes = size_t{16} << 10;
constexpr int kSocketInChild = 3;

// Runs in the child between fork and exec: nothing here may allocate.
[[noreturn]] void become(const char* program, char* const* arguments, int socket, int output) {
  // Both are moved out of the way first: either may be one of the numbers that are set below.
  const int high_socket = fcntl(socket, F_DUPFD, 10);
  const int high_output = fcntl(output, F_DUPFD, 10);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, 0);
  dup2(high_output, 1);
  dup2(high_output, 2);
  dup2(high_socket, kSocketInChild);
  close_range(kSocketInChild + 1, ~0U, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execv(program, arguments);
  const char* why = strerror(errno);
  ssize_t ignored = write(2, why, strlen(why));
  (void)ignored;
  _exit(127);
}

std::string describe_status(int status) {
  if (WIFEXITED(status)) return "exited with code " + std::to_string(WEXITSTATUS(status));
  const int number = WTERMSIG(status);
  const char* abbreviation = sigabbrev_np(number);
  const std::string name =
      abbreviation != nullptr ? std::string("SIG") + abbreviation : std::to_string(number);
  switch (number) {
    case SIGABRT:
      return "aborted (" + name + ")";
    case SIGKILL:
    case SIGTERM:
      return "was killed (" + name + ")";
    default:
      return "crashed (" + name + ")";
  }
}

}  // namespace

ChildProcess::ChildProcess(const std::string& program, const std::vector<std::string>& arguments,
                           int socket) {
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw SystemError(std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  pid_ = fork();
  if (pid_ < 0) {
    const std::string why = std::strerror(errno);
    close(ends[0]);
    close(ends[1]);
    throw SystemError("cannot start a process: " + why);
  }
  if (pid_ == 0) become(program.c_str(), argv.data(), socket, ends[1]);
  close(ends[1]);
  output_ = ends[0];
  fcntl(output_, F_SETFL, O_NONBLOCK);
}

ChildProcess::~ChildProcess() {
  kill_now();
  close(output_);
}

void ChildProcess::drain_output() {
  char buffer[4096];
  while (true) {
    const ssize_t n = read(output_, buffer, sizeof buffer);
    if (n <= 0) {
      if (n < 0 && errno == EINTR) continue;
      break;
    }
    tail_.append(buffer, static_cast<size_t>(n));
    if (tail_.size() > 2 * kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
  }
}

namespace {

// Lines that tell a reader nothing: the frames of a stack trace without symbols, log preambles.
bool is_noise(std::string_view line) {
  return line.find("    @ ") == 0 || line.find("*** Check failure stack trace") == 0 ||
         line.find("WARNING: All log messages before absl::InitializeLog") == 0 ||
         line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

std::string ChildProcess::last_lines(int count) const {
  std::vector<std::string> lines;
  size_t end = tail_.size();
  while (end > 0 && static_cast<int>(lines.size()) < count) {
    const size_t line_break = tail_.rfind('\n', end - 1);
    const size_t begin = line_break == std::string::npos ? 0 : line_break + 1;
    const std::string line = tail_.substr(begin, std::min<size_t>(end - begin, 400));
    if (!is_noise(line)) lines.push_back(line);
    end = line_break == std::string::npos ? 0 : line_break;
  }
  std::string text;
  for (size_t i = lines.size(); i-- > 0;) {
    if (!text.empty()) text += " | ";
    text += lines[i];
  }
  return text;
}

std::string ChildProcess::wait_for_end(double seconds) {
  if (pid_ < 0) return "has ended";
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int status = 0;
  while (true) {
    const pid_t ended = waitpid(pid_, &status, WNOHANG);
    if (ended == pid_ || (ended < 0 && errno != EINTR)) break;
    if (std::chrono::steady_clock::now() >= deadline) {
      kill(pid_, SIGKILL);
      while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
      }
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  pid_ = -1;
  drain_output();
  return describe_status(status);
}

void ChildProcess::kill_now() {
  wait_for_end(0);
}

std::string find_worker_program() {
  namespace fs = std::filesystem;
  std::error_code ec;
  if (const char* named = std::getenv("LAGOM_WORKER"); named != nullptr && *named != '\0') {
    if (fs::is_regular_file(named, ec)) return named;
    throw SystemError(std::string(named) + ": no such worker program (named by LAGOM_WORKER)");
  }
  const fs::path beside = fs::read_symlink("/proc/self/exe", ec).parent_path() / "lagom-worker";
  if (fs::is_regular_file(beside, ec)) return beside.string();
  throw SystemError(beside.string() + ": no such worker program; build it, or set LAGOM_WORKER");
}

}  // namespace lagom::measure
