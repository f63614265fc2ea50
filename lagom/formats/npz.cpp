#include "lagom/formats/npz.h"

#include <algorithm>

#include "lagom/util/error.h"
#include "lagom/util/hash.h"

namespace lagom::formats {
namespace {

constexpr std::string_view kEnding = ".npy";

/// Leaves the stream at the values.
NpyHeader read_header(ZipReader::Stream& stream, const std::string& path, std::string_view name) {
  std::string bytes(12, '\0');
  bytes.resize(stream.read(bytes.data(), bytes.size()));
  if (is_npy(bytes) && bytes.size() >= 12) {
    size_t length = static_cast<unsigned char>(bytes[8]) |
                    static_cast<size_t>(static_cast<unsigned char>(bytes[9])) << 8;
    size_t begin = 10;
    if (bytes[6] != 1) {
      begin = 12;
      length |= static_cast<size_t>(static_cast<unsigned char>(bytes[10])) << 16 |
                static_cast<size_t>(static_cast<unsigned char>(bytes[11])) << 24;
    }
    const size_t whole = std::min(begin + length, kMaxNpyHeaderBytes);
    if (whole > bytes.size()) {
      const size_t have = bytes.size();
      bytes.resize(whole);
      bytes.resize(have + stream.read(bytes.data() + have, whole - have));
    }
  }
  return read_npy_header(bytes, path, name);
}

}  // namespace

NpzReader::NpzReader(const std::filesystem::path& path) : archive_(path) {}

std::vector<std::string> NpzReader::names() const {
  std::vector<std::string> names;
  for (const ZipMember& member : archive_.members()) {
    std::string name = member.name;
    if (name.ends_with(kEnding)) name.resize(name.size() - kEnding.size());
    names.push_back(std::move(name));
  }
  return names;
}

bool NpzReader::contains(std::string_view name) const {
  return archive_.find(std::string(name) + std::string(kEnding)) != nullptr ||
         archive_.find(name) != nullptr;
}

uint64_t NpzReader::fingerprint() const {
  std::string text;
  for (const ZipMember& member : archive_.members()) {
    text +=
        member.name + '\0' + std::to_string(member.bytes) + ' ' + std::to_string(member.crc) + '\n';
  }
  return hash64(text);
}

void NpzReader::fail(std::string_view name, const std::string& what) const {
  throw FormatError(path(), name, what);
}

const ZipMember& NpzReader::member(std::string_view name) const {
  const ZipMember* found = archive_.find(std::string(name) + std::string(kEnding));
  if (found == nullptr) found = archive_.find(name);
  if (found != nullptr) return *found;
  std::string list;
  for (const std::string& other : names()) list += (list.empty() ? "" : ", ") + other;
  fail(name, "there is no such array; the file has " + (list.empty() ? "none" : list));
}

NpyHeader NpzReader::header(std::string_view name) const {
  ZipReader::Stream stream(archive_, member(name));
  return read_header(stream, path(), name);
}

Array NpzReader::read(std::string_view name) const {
  const ZipMember& found = member(name);
  // The header first: it says how many bytes there are to be, before they are allocated.
  const NpyHeader expected = header(name);
  if (expected.data_offset + expected.data_bytes() != found.bytes) {
    fail(name,
         "holds " + std::to_string(found.bytes - std::min(found.bytes, expected.data_offset)) +
             " bytes of values, its shape and type need " + std::to_string(expected.data_bytes()));
  }
  Buffer bytes = archive_.read(found);
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(expected.data_offset));
  return array_from_npy(expected, std::move(bytes));
}

NpzReader::Rows::Rows(const NpzReader& file, std::string_view name)
    : stream_(file.archive_, file.member(name)) {
  header_ = read_header(stream_, file.path(), name);
  if (header_.shape.empty()) file.fail(name, "is a single value, expected rows");
  if (header_.is_fortran_order && header_.shape.size() > 1) {
    file.fail(name, "is stored column by column and cannot be read row by row");
  }
  if (header_.data_offset + header_.data_bytes() != file.member(name).bytes) {
    file.fail(name, "holds other than the " + std::to_string(header_.data_bytes()) +
                        " bytes of values that its shape and type need");
  }
  row_bytes_ = static_cast<uint64_t>(number_format(header_.element_type).bytes);
  for (size_t d = 1; d < header_.shape.size(); ++d) {
    row_bytes_ *= static_cast<uint64_t>(header_.shape[d]);
  }
}

Array NpzReader::Rows::next(int64_t count) {
  NpyHeader part = header_;
  part.shape[0] = std::clamp<int64_t>(num_rows() - at_, 0, std::max<int64_t>(count, 0));
  Buffer values(static_cast<size_t>(part.shape[0]) * row_bytes_);
  stream_.read(values.data(), values.size());
  at_ += part.shape[0];
  return array_from_npy(part, std::move(values));
}

}  // namespace lagom::formats
