#include "lagom/formats/array_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "lagom/formats/shape_text.h"
#include "lagom/util/error.h"
#include "lagom/util/hash.h"

namespace lagom::formats {
namespace {

constexpr std::string_view kMagic = "LGMARRAY";
constexpr uint64_t kAlignment = 64;
constexpr size_t kNameBytes = 40;
constexpr size_t kMaxRank = 4;

// Both are stored as they lie in memory: little endian, without holes.
struct Header {
  char magic[8];
  uint32_t version, num_arrays;
  uint64_t directory_offset, file_bytes;
  uint32_t directory_crc;
  uint32_t header_crc;  ///< Of the 36 bytes before.
  char zeros[24];
};
static_assert(sizeof(Header) == kAlignment);
constexpr size_t kCheckedHeaderBytes = offsetof(Header, header_crc);

struct StoredEntry {
  char name[kNameBytes];
  uint32_t element_type, rank;
  int64_t dims[kMaxRank];
  uint64_t offset;
  uint32_t crc, zero;
};
static_assert(sizeof(StoredEntry) == 96);

std::string_view bytes_of(const Header& header) {
  return {reinterpret_cast<const char*>(&header), kCheckedHeaderBytes};
}

uint64_t size_of(PrimitiveType type, const std::vector<int64_t>& shape) {
  uint64_t bytes = static_cast<uint64_t>(number_format(type).bytes);
  for (const int64_t size : shape) bytes *= static_cast<uint64_t>(size);
  return bytes;
}

std::string name_of(const StoredEntry& entry) {
  return {entry.name, strnlen(entry.name, kNameBytes)};
}

/// The array lies in the file, counted without overflow.
bool fits(const StoredEntry& stored, uint64_t file_bytes) {
  if (stored.offset % kAlignment != 0 || stored.offset > file_bytes) return false;
  uint64_t bytes =
      static_cast<uint64_t>(number_format(static_cast<PrimitiveType>(stored.element_type)).bytes);
  bool is_empty = false;
  for (uint32_t d = 0; d < stored.rank; ++d) {
    const int64_t size = stored.dims[d];
    if (size < 0) return false;
    is_empty |= size == 0;
    if (static_cast<uint64_t>(size) > (uint64_t{1} << 60) / bytes) return false;
    bytes *= std::max<uint64_t>(static_cast<uint64_t>(size), 1);
  }
  return is_empty || bytes <= file_bytes - stored.offset;
}

}  // namespace

bool is_array_file(std::string_view bytes) {
  return bytes.starts_with(kMagic);
}

uint64_t ArrayFile::Entry::data_bytes() const {
  return size_of(element_type, shape);
}

ArrayFile::ArrayFile(const std::filesystem::path& path) : path_(path.string()), file_(path) {
  read_directory();
}

void ArrayFile::fail(std::string_view where, const std::string& what) const {
  throw FormatError(path_, where, what);
}

void ArrayFile::read_directory() {
  const std::string_view bytes = file_.bytes();
  if (!is_array_file(bytes)) fail("", "expected an array file, found other bytes");
  if (bytes.size() < sizeof(Header)) fail("header", "is cut off");
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (crc32(bytes_of(header)) != header.header_crc) fail("header", "does not have its checksum");
  if (header.version != kArrayFileVersion) {
    fail("header", "version " + std::to_string(header.version) + ", expected " +
                       std::to_string(kArrayFileVersion));
  }
  if (header.file_bytes != bytes.size()) {
    fail("header", "the file has " + std::to_string(bytes.size()) + " bytes, expected " +
                       std::to_string(header.file_bytes));
  }
  const uint64_t directory_bytes = uint64_t{header.num_arrays} * sizeof(StoredEntry);
  if (header.directory_offset > bytes.size() ||
      directory_bytes != bytes.size() - header.directory_offset) {
    fail("directory", "does not end where the file does");
  }
  const std::string_view directory = bytes.substr(header.directory_offset);
  if (crc32(directory) != header.directory_crc) fail("directory", "does not have its checksum");
  for (size_t at = 0; at < directory.size(); at += sizeof(StoredEntry)) {
    StoredEntry stored;
    std::memcpy(&stored, directory.data() + at, sizeof stored);
    std::string name = name_of(stored);
    if (stored.element_type >= static_cast<uint32_t>(kNumPrimitiveTypes) ||
        number_format(static_cast<PrimitiveType>(stored.element_type)).bytes == 0 ||
        stored.rank > kMaxRank || !fits(stored, header.directory_offset)) {
      fail(name, "has a type, shape or place that the file cannot hold");
    }
    if (find(name) != nullptr) fail(name, "stands twice in the directory");
    entries_.push_back({.name = std::move(name),
                        .element_type = static_cast<PrimitiveType>(stored.element_type),
                        .shape = {stored.dims, stored.dims + stored.rank},
                        .offset = stored.offset,
                        .crc = stored.crc});
  }
}

const ArrayFile::Entry* ArrayFile::find(std::string_view name) const {
  const auto it = std::find_if(entries_.begin(), entries_.end(),
                               [&](const Entry& entry) { return entry.name == name; });
  return it == entries_.end() ? nullptr : &*it;
}

const ArrayFile::Entry& ArrayFile::existing(std::string_view name) const {
  const Entry* entry = find(name);
  if (entry == nullptr) fail(name, "there is no such array");
  return *entry;
}

const ArrayFile::Entry& ArrayFile::checked(std::string_view name, PrimitiveType type,
                                           size_t rank) const {
  const Entry& entry = existing(name);
  if (entry.element_type != type || entry.shape.size() != rank) {
    fail(name, "is " + std::string(number_format(entry.element_type).name) +
                   shape_text(entry.shape) + ", expected " + std::string(number_format(type).name) +
                   " with " + std::to_string(rank) + " dimensions");
  }
  return entry;
}

const std::vector<int64_t>& ArrayFile::shape(std::string_view name) const {
  return existing(name).shape;
}

void ArrayFile::verify(std::string_view name) const {
  const Entry& entry = existing(name);
  if (crc32(bytes(entry)) != entry.crc) {
    fail(name, "its values do not have their checksum");
  }
}

void ArrayFile::verify_all() const {
  for (const Entry& entry : entries_) verify(entry.name);
}

// ---- Writer

struct ArrayFileWriter::State {
  std::filesystem::path path, temporary;
  std::ofstream out;
  uint64_t offset = 0;
  std::vector<StoredEntry> entries;
  uint64_t bytes_left = 0;  ///< Of the array that was begun last.

  [[noreturn]] void fail(const std::string& why) const {
    throw SystemError(path.string() + ": cannot be written: " + why);
  }
  void write(std::string_view bytes) {
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out) fail(std::strerror(errno));
    offset += bytes.size();
  }
  void align() { write(std::string((kAlignment - offset % kAlignment) % kAlignment, '\0')); }
  void check_complete() const {
    if (bytes_left == 0) return;
    throw std::invalid_argument("ArrayFileWriter: array '" + name_of(entries.back()) + "' lacks " +
                                std::to_string(bytes_left) + " bytes");
  }
};

ArrayFileWriter::ArrayFileWriter(std::filesystem::path path) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.path = std::move(path);
  s.temporary = s.path.string() + ".part" + std::to_string(static_cast<long>(::getpid()));
  std::error_code ec;
  if (s.path.has_parent_path()) std::filesystem::create_directories(s.path.parent_path(), ec);
  s.out.open(s.temporary, std::ios::binary | std::ios::trunc);
  if (!s.out) s.fail(std::strerror(errno));
  s.write(std::string(sizeof(Header), '\0'));
}

ArrayFileWriter::~ArrayFileWriter() {
  if (!state_->out.is_open()) return;
  state_->out.close();
  std::error_code ec;
  std::filesystem::remove(state_->temporary, ec);
}

void ArrayFileWriter::begin(std::string_view name, PrimitiveType type, std::vector<int64_t> shape) {
  State& s = *state_;
  s.check_complete();
  const bool is_taken =
      std::any_of(s.entries.begin(), s.entries.end(),
                  [&](const StoredEntry& entry) { return name_of(entry) == name; });
  if (name.empty() || name.size() > kNameBytes || shape.size() > kMaxRank || is_taken) {
    throw std::invalid_argument("ArrayFileWriter: array '" + std::string(name) +
                                "' has a name or a shape that cannot be stored");
  }
  s.align();
  StoredEntry entry{};
  std::copy(name.begin(), name.end(), entry.name);
  entry.element_type = static_cast<uint32_t>(type);
  entry.rank = static_cast<uint32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), entry.dims);
  entry.offset = s.offset;
  s.entries.push_back(entry);
  s.bytes_left = size_of(type, shape);
}

void ArrayFileWriter::append_bytes(std::string_view bytes) {
  State& s = *state_;
  if (bytes.size() > s.bytes_left) {
    throw std::invalid_argument("ArrayFileWriter: more values than the shape holds");
  }
  s.write(bytes);
  s.entries.back().crc = crc32(bytes, s.entries.back().crc);
  s.bytes_left -= bytes.size();
}

void ArrayFileWriter::finish() {
  State& s = *state_;
  s.check_complete();
  s.align();
  const std::string_view directory(reinterpret_cast<const char*>(s.entries.data()),
                                   s.entries.size() * sizeof(StoredEntry));
  Header header{};
  std::copy(kMagic.begin(), kMagic.end(), header.magic);
  header.version = kArrayFileVersion;
  header.num_arrays = static_cast<uint32_t>(s.entries.size());
  header.directory_offset = s.offset;
  header.file_bytes = s.offset + directory.size();
  header.directory_crc = crc32(directory);
  header.header_crc = crc32(bytes_of(header));
  s.write(directory);
  s.out.seekp(0);
  s.write({reinterpret_cast<const char*>(&header), sizeof header});
  s.out.close();
  if (!s.out) s.fail(std::strerror(errno));
  std::error_code ec;
  std::filesystem::rename(s.temporary, s.path, ec);
  if (ec) s.fail(ec.message());
}

}  // namespace lagom::formats
