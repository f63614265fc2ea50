#include "lagom/formats/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "lagom/formats/shape_text.h"
#include "lagom/util/error.h"
#include "lagom/util/file.h"

namespace lagom::formats {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr std::string_view kMetadata = "__metadata__";

constexpr std::array<std::pair<std::string_view, PrimitiveType>, 16> kTypes = {{
    {"BOOL", PrimitiveType::kPred},
    {"U8", PrimitiveType::kU8},
    {"I8", PrimitiveType::kS8},
    {"F8_E5M2", PrimitiveType::kF8E5M2},
    {"F8_E4M3", PrimitiveType::kF8E4M3FN},
    {"I16", PrimitiveType::kS16},
    {"U16", PrimitiveType::kU16},
    {"F16", PrimitiveType::kF16},
    {"BF16", PrimitiveType::kBF16},
    {"I32", PrimitiveType::kS32},
    {"U32", PrimitiveType::kU32},
    {"F32", PrimitiveType::kF32},
    {"F64", PrimitiveType::kF64},
    {"I64", PrimitiveType::kS64},
    {"U64", PrimitiveType::kU64},
    {"C64", PrimitiveType::kC64},
}};

std::optional<PrimitiveType> type_of_name(std::string_view name) {
  for (const auto& [text, type] : kTypes) {
    if (text == name) return type;
  }
  return std::nullopt;
}

std::string_view name_of_type(PrimitiveType type) {
  for (const auto& [text, known] : kTypes) {
    if (known == type) return text;
  }
  throw std::invalid_argument("safetensors: no dtype for " + std::string(number_format(type).name));
}

/// Bytes of a tensor; nothing when they cannot be counted in 63 bits.
std::optional<uint64_t> size_of(PrimitiveType type, const std::vector<int64_t>& shape) {
  int64_t bytes = number_format(type).bytes;
  for (const int64_t dimension : shape) {
    if (dimension < 0 || __builtin_mul_overflow(bytes, dimension, &bytes)) return std::nullopt;
  }
  return static_cast<uint64_t>(bytes);
}

uint64_t read_length(std::string_view bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  return length;
}

/// Reads the header's fields; every mistake becomes a FormatError that names the tensor.
class HeaderReader {
 public:
  HeaderReader(std::string_view path, std::string_view values) : path_(path), values_(values) {}

  SafetensorsEntry read_entry(const std::string& name, const Json& json) const {
    SafetensorsEntry entry;
    entry.name = name;
    if (!json.is_object()) fail(name, "expected an object with dtype, shape and data_offsets");
    const std::string dtype = string_field(name, json, "dtype");
    const auto type = type_of_name(dtype);
    if (!type) fail(name, "unknown dtype '" + dtype + "'");
    entry.element_type = *type;
    for (const uint64_t dimension : numbers_field(name, json, "shape")) {
      entry.shape.push_back(static_cast<int64_t>(dimension));
    }
    const std::vector<uint64_t> offsets = numbers_field(name, json, "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1]) {
      fail(name, "data_offsets: expected [begin, end]");
    }
    if (offsets[1] > values_.size()) {
      fail(name, "ends at byte " + std::to_string(offsets[1]) + " of the values, the file has " +
                     std::to_string(values_.size()));
    }
    const auto size = size_of(entry.element_type, entry.shape);
    if (!size || *size != offsets[1] - offsets[0]) {
      fail(name, dtype + shape_text(entry.shape) + " expects " +
                     (size ? std::to_string(*size) : "uncountable") + " bytes, found " +
                     std::to_string(offsets[1] - offsets[0]));
    }
    entry.data = values_.substr(offsets[0], offsets[1] - offsets[0]);
    return entry;
  }

  [[noreturn]] void fail(std::string_view name, const std::string& what) const {
    throw FormatError(path_, "tensor '" + std::string(name) + "'", what);
  }

 private:
  std::string string_field(std::string_view name, const Json& json, const char* field) const {
    const auto found = json.find(field);
    if (found == json.end() || !found->is_string()) {
      fail(name, std::string(field) + ": expected a string");
    }
    return found->get<std::string>();
  }
  std::vector<uint64_t> numbers_field(std::string_view name, const Json& json,
                                      const char* field) const {
    const auto found = json.find(field);
    std::vector<uint64_t> numbers;
    bool is_good = found != json.end() && found->is_array();
    for (size_t i = 0; is_good && i < found->size(); ++i) {
      is_good = (*found)[i].is_number_unsigned() && (*found)[i].get<uint64_t>() < uint64_t{1} << 62;
      if (is_good) numbers.push_back((*found)[i].get<uint64_t>());
    }
    if (!is_good) fail(name, std::string(field) + ": expected an array of numbers from 0");
    return numbers;
  }

  std::string_view path_;
  std::string_view values_;
};

/// nlohmann keeps the last of equal keys without a word; this refuses them.
Json parse_header(const std::string& path, std::string_view text) {
  std::vector<std::set<std::string>> open;
  std::string twice;
  const auto callback = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key &&
        !open.back().insert(parsed.get<std::string>()).second) {
      twice = parsed.get<std::string>();
    }
    return true;
  };
  Json header;
  try {
    header = Json::parse(text, callback);
  } catch (const nlohmann::json::exception& error) {
    throw FormatError(path, "header", "no JSON: " + std::string(error.what()));
  }
  if (!twice.empty()) throw FormatError(path, "header", "'" + twice + "' is there twice");
  if (!header.is_object()) throw FormatError(path, "header", "expected a JSON object");
  return header;
}

}  // namespace

bool is_safetensors(std::string_view bytes) {
  if (bytes.size() <= kLengthBytes || bytes[kLengthBytes] != '{') return false;
  const uint64_t length = read_length(bytes);
  return length >= 2 && length <= kMaxHeaderBytes;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path.string()), file_(path) {
  const std::string_view bytes = file_.bytes();
  if (bytes.size() < kLengthBytes) {
    throw FormatError(path_, "header",
                      "expected at least 8 bytes, found " + std::to_string(bytes.size()));
  }
  const uint64_t length = read_length(bytes);
  if (length > kMaxHeaderBytes || length > bytes.size() - kLengthBytes) {
    throw FormatError(path_, "header",
                      "claims " + std::to_string(length) + " bytes, the file has " +
                          std::to_string(bytes.size() - kLengthBytes) + " after its length");
  }
  const Json header = parse_header(path_, bytes.substr(kLengthBytes, length));
  const HeaderReader reader(path_, bytes.substr(kLengthBytes + length));
  for (const auto& [name, json] : header.items()) {
    if (name != kMetadata) {
      entries_.push_back(reader.read_entry(name, json));
      continue;
    }
    if (!json.is_object()) throw FormatError(path_, "metadata", "expected an object of strings");
    for (const auto& [key, value] : json.items()) {
      if (!value.is_string())
        throw FormatError(path_, "metadata '" + key + "'", "expected a string");
      metadata_[key] = value.get<std::string>();
    }
  }
  std::stable_sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.data.data(), a.data.size()) < std::pair(b.data.data(), b.data.size());
  });
  const char* end = bytes.data() + kLengthBytes + length;
  for (const SafetensorsEntry& entry : entries_) {
    if (entry.data.data() != end) {
      reader.fail(entry.name, "its values overlap the ones before or leave bytes between");
    }
    end += entry.data.size();
  }
  if (end != bytes.data() + bytes.size()) {
    throw FormatError(path_, "",
                      std::to_string(bytes.data() + bytes.size() - end) +
                          " bytes after the last tensor's values");
  }
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  for (const SafetensorsEntry& entry : entries_) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

const SafetensorsEntry& SafetensorsFile::at(std::string_view name) const {
  if (const SafetensorsEntry* entry = find(name)) return *entry;
  throw FormatError(path_, "", "has no tensor '" + std::string(name) + "'");
}

void write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsEntry> entries,
                       const SafetensorsMetadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  uint64_t offset = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.name == kMetadata || header.contains(entry.name)) {
      throw std::invalid_argument("safetensors: '" + entry.name + "' is given twice or reserved");
    }
    if (size_of(entry.element_type, entry.shape) != entry.data.size()) {
      throw std::invalid_argument("safetensors: '" + entry.name + "' " + shape_text(entry.shape) +
                                  " has " + std::to_string(entry.data.size()) + " bytes");
    }
    header[entry.name] = {{"dtype", name_of_type(entry.element_type)},
                          {"shape", entry.shape},
                          {"data_offsets", {offset, offset + entry.data.size()}}};
    offset += entry.data.size();
  }
  std::string head = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  head.append((8 - head.size() % 8) % 8, ' ');
  const uint64_t length = head.size();
  std::string length_bytes(kLengthBytes, '\0');
  std::memcpy(length_bytes.data(), &length, kLengthBytes);

  std::vector<std::string_view> pieces = {length_bytes, head};
  for (const SafetensorsEntry& entry : entries) pieces.push_back(entry.data);
  write_file(path, pieces);
}

}  // namespace lagom::formats
