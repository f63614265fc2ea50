#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lagom/hlo/module.h"

namespace lagom::hlo {

/// What a file's first bytes say it is.
enum class FileKind {
  kHloText,
  kHloProto,
  kMlir,  ///< StableHLO text or MLIR bytecode.
  kNpz,
  kNpy,
  kSafetensors,
  kImage,
  kEmpty,
  kUnknown,
};

FileKind sniff_file_kind(std::string_view bytes);
/// "HLO text", "an npz archive", ... for messages.
std::string_view file_kind_name(FileKind kind);

/// Reads a module from HLO text or proto, gzip-compressed or not; the content decides, not the
/// name. Throws FormatError or SystemError. A text with several modules gives the first.
Module read_module_file(const std::filesystem::path& path);
std::vector<Module> read_module_files(const std::filesystem::path& path);
/// The same for bytes already read.
std::vector<Module> read_modules(std::string_view bytes, std::string_view path);

/// Writes text for names that end in .txt or .hlo, a proto for names that end in .pb, each also
/// with .gz behind. Names the attributes that a proto cannot hold in `dropped`. Throws
/// std::invalid_argument for another ending.
void write_module_file(const Module& module, const std::filesystem::path& path,
                       std::vector<std::string>* dropped = nullptr);

}  // namespace lagom::hlo
