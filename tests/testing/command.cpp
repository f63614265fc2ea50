#include "tests/testing/command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace lagom::testing {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

fs::path new_folder() {
  std::string name = (fs::temp_directory_path() / "lagom-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder: " + name);
  return name;
}

/// The state letter and parent of /proc/PID/stat; 'X' when there is no such process.
std::pair<char, pid_t> process_state(pid_t pid) {
  const std::string stat = content("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return {'X', 0};
  std::istringstream rest(stat.substr(name_end + 1));
  char state = 'X';
  pid_t parent = 0;
  rest >> state >> parent;
  return {state, parent};
}

void redirect(const fs::path& file, int descriptor) {
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(fd, descriptor);
  close(fd);
}

}  // namespace

Command::Command(const std::string& program, const std::vector<std::string>& arguments,
                 const Environment& environment)
    : folder_(new_folder()) {
  const std::string path = (fs::read_symlink("/proc/self/exe").parent_path() / program).string();
  if (!fs::exists(path)) throw std::runtime_error(path + " has not been built");
  std::vector<std::string> words = {path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ != 0) return;
  for (const auto& [name, value] : environment) {
    value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
  }
  redirect(folder_ / "out", STDOUT_FILENO);
  redirect(folder_ / "err", STDERR_FILENO);
  close(STDIN_FILENO);
  execv(path.c_str(), argv.data());
  _exit(127);
}

Command::~Command() {
  if (!ended_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  fs::remove_all(folder_);
}

void Command::signal(int number) const {
  kill(pid_, number);
}

std::string Command::err() const {
  return content(folder_ / "err");
}

bool Command::wait_for(const std::string& text, std::chrono::seconds limit) const {
  const auto end = Clock::now() + limit;
  while (err().find(text) == std::string::npos) {
    if (Clock::now() > end || process_state(pid_).first == 'Z') {
      return err().find(text) != std::string::npos;
    }
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

CommandResult Command::wait(std::chrono::seconds limit) {
  const auto end = Clock::now() + limit;
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (Clock::now() > end) return {.out = content(folder_ / "out"), .err = err()};
    std::this_thread::sleep_for(2ms);
  }
  ended_ = true;
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = content(folder_ / "out"),
          .err = err()};
}

CommandResult run_command(const std::string& program, const std::vector<std::string>& arguments,
                          const Command::Environment& environment) {
  return Command(program, arguments, environment).wait();
}

TemporaryFolder::TemporaryFolder() : path_(new_folder()) {}
TemporaryFolder::~TemporaryFolder() {
  fs::remove_all(path_);
}

std::string TemporaryFolder::write(const std::string& name, const std::string& bytes) const {
  std::ofstream(path_ / name, std::ios::binary) << bytes;
  return *this / name;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    const auto [state, its_parent] = process_state(pid);
    if (its_parent == parent && state != 'Z' && state != 'X') children.push_back(pid);
  }
  return children;
}

bool process_ends(pid_t pid, std::chrono::seconds limit) {
  const auto end = Clock::now() + limit;
  while (true) {
    const char state = process_state(pid).first;
    if (state == 'X' || state == 'Z') return true;
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(5ms);
  }
}

}  // namespace lagom::testing
