#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace lagom::testing {

/// What a finished program left.
struct CommandResult {
  int status = -1;  ///< Exit status; 128 + the signal when one ended it; -1 when it did not end.
  std::string out, err;
};

/// A program in the build's bin folder, started with its output in files.
///
/// The destructor kills what still runs.
class Command {
 public:
  using Environment = std::map<std::string, std::string>;

  /// `environment` is added to the caller's; an empty value removes a variable.
  Command(const std::string& program, const std::vector<std::string>& arguments,
          const Environment& environment = {});
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  /// What has been written to stderr so far.
  std::string err() const;
  /// True when `text` appears on stderr in time.
  bool wait_for(const std::string& text, std::chrono::seconds limit) const;
  CommandResult wait(std::chrono::seconds limit = std::chrono::seconds(60));

 private:
  std::filesystem::path folder_;
  pid_t pid_ = -1;
  bool ended_ = false;
};

/// Runs a program of the build's bin folder to its end.
CommandResult run_command(const std::string& program, const std::vector<std::string>& arguments,
                          const Command::Environment& environment = {});

/// A fresh folder, removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  /// Writes a file into it and returns the file's path.
  std::string write(const std::string& name, const std::string& bytes) const;

 private:
  std::filesystem::path path_;
};

/// Direct children of a process that still run.
std::vector<pid_t> children_of(pid_t parent);
/// True when the process is gone (or a zombie) in time.
bool process_ends(pid_t pid, std::chrono::seconds limit);

}  // namespace lagom::testing
