#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

namespace lagom::collect {

/// Which part of a data set each program belongs to. Families of architectures are whole in one
/// part, so that a model is judged on programs unlike those it was trained on.
class ProgramSplits {
 public:
  /// Reads a table of tab-separated columns `program`, `family`, `split` (train, valid or test),
  /// with that header. Throws SystemError when it cannot be read, FormatError with the line for
  /// another header or split, a program given twice, or a family in two splits.
  explicit ProgramSplits(const std::filesystem::path& path);

  /// Throws FormatError for a program that is not in the table.
  const std::string& split_of(const std::string& program) const;
  /// Of what several programs have: train when any of them is for training, since a model has then
  /// seen it; otherwise valid when any is.
  std::string split_of(std::span<const std::string> programs) const;
  /// Throws as split_of.
  const std::string& family_of(const std::string& program) const;

 private:
  struct Entry {
    std::string family, split;
  };
  const Entry& entry(const std::string& program) const;

  std::string path_;
  std::map<std::string, Entry> entries_;
};

}  // namespace lagom::collect
