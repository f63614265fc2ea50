#include "lagom/hlo/module_file.h"

#include <algorithm>
#include <stdexcept>

#include "lagom/hlo/proto_reader.h"
#include "lagom/hlo/proto_writer.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/text_writer.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"

namespace lagom::hlo {
namespace {

/// No control characters but white space in the first bytes.
bool is_text(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, 4096);
  return std::none_of(head.begin(), head.end(), [](char c) {
    const auto u = static_cast<unsigned char>(c);
    return (u < 32 && c != '\n' && c != '\r' && c != '\t') || u == 127;
  });
}

}  // namespace

FileKind sniff_file_kind(std::string_view bytes) {
  if (bytes.empty()) return FileKind::kEmpty;
  if (bytes.starts_with("PK\x03\x04") || bytes.starts_with("PK\x05\x06")) return FileKind::kNpz;
  if (bytes.starts_with("\x93NUMPY")) return FileKind::kNpy;
  if (bytes.starts_with("\x89PNG") || bytes.starts_with("\xff\xd8\xff") ||
      bytes.starts_with("GIF8")) {
    return FileKind::kImage;
  }
  if (bytes.starts_with("ML\xefR")) return FileKind::kMlir;
  if (bytes.size() > 9 && bytes[8] == '{' && bytes.substr(0, 8).find('\0') != std::string::npos) {
    return FileKind::kSafetensors;
  }
  if (is_text(bytes)) {
    const size_t start = bytes.find_first_not_of(" \n\r\t");
    if (start == std::string_view::npos) return FileKind::kEmpty;
    const std::string_view text = bytes.substr(start);
    if (text.starts_with("module @") || text.starts_with("module {") ||
        text.starts_with("module attributes") || text.starts_with("func.func") ||
        text.starts_with("#loc") || text.starts_with("builtin.module")) {
      return FileKind::kMlir;
    }
    const char c = text[0];
    const bool may_be_hlo =
        c == '%' || c == '/' || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return may_be_hlo ? FileKind::kHloText : FileKind::kUnknown;
  }
  return looks_like_hlo_proto(bytes) ? FileKind::kHloProto : FileKind::kUnknown;
}

std::string_view file_kind_name(FileKind kind) {
  switch (kind) {
    case FileKind::kHloText: return "HLO text";
    case FileKind::kHloProto: return "an HLO proto";
    case FileKind::kMlir: return "MLIR (StableHLO)";
    case FileKind::kNpz: return "a zip archive (npz)";
    case FileKind::kNpy: return "a NumPy array (npy)";
    case FileKind::kSafetensors: return "a safetensors file";
    case FileKind::kImage: return "an image";
    case FileKind::kEmpty: return "an empty file";
    case FileKind::kUnknown: return "a file of unknown kind";
  }
  return "a file";
}

std::vector<Module> read_modules(std::string_view bytes, std::string_view path) {
  const FileKind kind = sniff_file_kind(bytes);
  std::vector<Module> modules;
  switch (kind) {
    case FileKind::kHloText:
      return read_hlo_text_modules(bytes, path);
    case FileKind::kHloProto:
      modules.push_back(read_hlo_proto(bytes, path));
      return modules;
    case FileKind::kUnknown:
      // Binary that no message fits: the proto reader says where it breaks.
      if (!is_text(bytes)) {
        modules.push_back(read_hlo_proto(bytes, path));
        return modules;
      }
      [[fallthrough]];
    default: {
      std::string what = "expected HLO text or an HLO proto, found ";
      what += file_kind_name(kind);
      if (kind == FileKind::kMlir) {
        what += "; in JAX, lowered.compiler_ir('hlo').as_hlo_text() gives HLO text";
      }
      throw FormatError(path, "", what);
    }
  }
}

std::vector<Module> read_module_files(const std::filesystem::path& path) {
  return read_modules(read_file(path), path.string());
}

Module read_module_file(const std::filesystem::path& path) {
  std::vector<Module> modules = read_module_files(path);
  return std::move(modules.front());
}

void write_module_file(const Module& module, const std::filesystem::path& path,
                       std::vector<std::string>* dropped) {
  std::string name = path.filename().string();
  const bool compressed = name.ends_with(".gz");
  if (compressed) name.resize(name.size() - 3);
  std::string bytes;
  if (name.ends_with(".pb")) {
    bytes = write_hlo_proto(module, dropped);
  } else if (name.ends_with(".hlo") || name.ends_with(".txt")) {
    bytes = write_hlo_text(module);
  } else {
    throw std::invalid_argument(path.string() +
                                ": cannot tell the format from the name; expected an ending of "
                                ".hlo, .txt (text) or .pb (proto), each also with .gz");
  }
  write_file(path, compressed ? gzip(bytes) : bytes);
}

}  // namespace lagom::hlo
