#include "lagom/formats/zip.h"

#include <libdeflate.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <unordered_set>

#include "lagom/util/error.h"

namespace lagom::formats {
namespace {

/// What a stream holds of the mapped file.
constexpr size_t kPackedAtOnce = size_t{4} << 20;
constexpr uint32_t kEndSignature = 0x06054b50, kEnd64Signature = 0x06064b50,
                   kLocator64Signature = 0x07064b50, kEntrySignature = 0x02014b50,
                   kLocalSignature = 0x04034b50;
constexpr size_t kEndSize = 22, kEnd64Size = 56, kLocator64Size = 20, kEntrySize = 46,
                 kLocalSize = 30;
constexpr uint16_t kStored = 0, kDeflated = 8, kZip64Field = 1;
constexpr uint32_t kFull32 = 0xffffffff;
/// Deflate cannot do better: a member that claims more is damaged, or made to fill memory.
constexpr uint64_t kMostExpansion = 1032;
constexpr int kLevel = 6;

template <typename T>
T little(std::string_view bytes, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<T>(static_cast<unsigned char>(bytes[at + i])) << (8 * i));
  }
  return value;
}

template <typename T>
void put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

}  // namespace

// ---- Reader

ZipReader::ZipReader(const std::filesystem::path& path) : path_(path.string()), file_(path) {
  read_directory();
}

void ZipReader::fail(std::string_view where, const std::string& what) const {
  throw FormatError(path_, where, what);
}

void ZipReader::read_directory() {
  const std::string_view file = file_.bytes();
  // The end record, behind which there may be a comment.
  size_t end = std::string_view::npos;
  for (size_t back = kEndSize; back <= std::min<size_t>(file.size(), kEndSize + 0xffff); ++back) {
    const size_t at = file.size() - back;
    if (little<uint32_t>(file, at) == kEndSignature &&
        little<uint16_t>(file, at + 20) + kEndSize <= back) {
      end = at;
      break;
    }
  }
  if (end == std::string_view::npos) {
    fail("", file.starts_with("PK") ? "the zip archive is cut off: it has no central directory"
                                    : "expected a zip archive, found other bytes");
  }
  uint64_t count = little<uint16_t>(file, end + 10);
  uint64_t size = little<uint32_t>(file, end + 12);
  uint64_t offset = little<uint32_t>(file, end + 16);
  if (end >= kLocator64Size &&
      little<uint32_t>(file, end - kLocator64Size) == kLocator64Signature) {
    const auto at = little<uint64_t>(file, end - kLocator64Size + 8);
    if (file.size() < kEnd64Size || at > file.size() - kEnd64Size ||
        little<uint32_t>(file, at) != kEnd64Signature) {
      fail("central directory", "the zip64 end record is not where it should be");
    }
    count = little<uint64_t>(file, at + 32);
    size = little<uint64_t>(file, at + 40);
    offset = little<uint64_t>(file, at + 48);
  }
  if (offset > end || size > end - offset || count > size / kEntrySize) {
    fail("central directory", "does not lie within the file");
  }
  std::string_view directory = file.substr(offset, size);
  members_.reserve(count);
  std::unordered_set<std::string> names;
  for (uint64_t i = 0; i < count; ++i) {
    if (directory.size() < kEntrySize || little<uint32_t>(directory, 0) != kEntrySignature) {
      fail("central directory", "entry " + std::to_string(i) + " is damaged");
    }
    const size_t length = kEntrySize + little<uint16_t>(directory, 28) +
                          little<uint16_t>(directory, 30) + little<uint16_t>(directory, 32);
    if (directory.size() < length) {
      fail("central directory", "entry " + std::to_string(i) + " is cut off");
    }
    ZipMember member = read_entry(directory.substr(0, length));
    if (!names.insert(member.name).second) {
      fail("central directory", "two members are named '" + member.name + "'");
    }
    members_.push_back(std::move(member));
    directory.remove_prefix(length);
  }
}

ZipMember ZipReader::read_entry(std::string_view entry) const {
  ZipMember member;
  const size_t name_length = little<uint16_t>(entry, 28);
  member.name = std::string(entry.substr(kEntrySize, name_length));
  const auto flags = little<uint16_t>(entry, 8), method = little<uint16_t>(entry, 10);
  if ((flags & 1) != 0) fail(member.name, "is encrypted");
  if (method != kStored && method != kDeflated) {
    fail(member.name, "has compression method " + std::to_string(method) +
                          ", expected 0 (stored) or 8 (deflate)");
  }
  member.is_deflated = method == kDeflated;
  member.crc = little<uint32_t>(entry, 16);
  member.compressed_bytes = little<uint32_t>(entry, 20);
  member.bytes = little<uint32_t>(entry, 24);
  member.header_offset = little<uint32_t>(entry, 42);
  std::string_view extra = entry.substr(kEntrySize + name_length, little<uint16_t>(entry, 30));
  while (extra.size() >= 4) {
    const size_t size = little<uint16_t>(extra, 2);
    if (size > extra.size() - 4) fail(member.name, "its extra field is damaged");
    if (little<uint16_t>(extra, 0) == kZip64Field) {
      // Holds those that did not fit above, in this order.
      size_t at = 4;
      for (uint64_t* value : {&member.bytes, &member.compressed_bytes, &member.header_offset}) {
        if (*value != kFull32) continue;
        if (at + 8 > 4 + size) fail(member.name, "its zip64 field is too short");
        *value = little<uint64_t>(extra, at);
        at += 8;
      }
    }
    extra.remove_prefix(4 + size);
  }
  if (member.is_deflated ? member.bytes / kMostExpansion > member.compressed_bytes
                         : member.bytes != member.compressed_bytes) {
    fail(member.name, "claims " + std::to_string(member.bytes) + " bytes from " +
                          std::to_string(member.compressed_bytes));
  }
  return member;
}

const ZipMember* ZipReader::find(std::string_view name) const {
  const auto it = std::find_if(members_.begin(), members_.end(),
                               [&](const ZipMember& member) { return member.name == name; });
  return it == members_.end() ? nullptr : &*it;
}

std::string_view ZipReader::compressed(const ZipMember& member) const {
  const std::string_view file = file_.bytes();
  // The local header repeats the name and may have other extra fields (zip64 ones of NumPy's).
  if (file.size() < kLocalSize || member.header_offset > file.size() - kLocalSize ||
      little<uint32_t>(file, member.header_offset) != kLocalSignature) {
    fail(member.name, "its header is not where the central directory says");
  }
  const size_t at = member.header_offset;
  const uint64_t begin =
      at + kLocalSize + little<uint16_t>(file, at + 26) + little<uint16_t>(file, at + 28);
  if (begin > file.size() || member.compressed_bytes > file.size() - begin) {
    fail(member.name, "is cut off");
  }
  return file.substr(begin, member.compressed_bytes);
}

Buffer ZipReader::read(const ZipMember& member) const {
  const std::string_view packed = compressed(member);
  Buffer bytes;
  if (member.is_deflated) {
    const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> inflater(
        libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
    if (!inflater) throw SystemError("libdeflate: out of memory");
    bytes.resize(member.bytes);
    if (libdeflate_deflate_decompress(inflater.get(), packed.data(), packed.size(), bytes.data(),
                                      bytes.size(), nullptr) != LIBDEFLATE_SUCCESS) {
      fail(member.name, "its deflated bytes are damaged");
    }
  } else {
    bytes.assign(packed.begin(), packed.end());
  }
  if (libdeflate_crc32(0, bytes.data(), bytes.size()) != member.crc) {
    fail(member.name, "its bytes do not have the checksum (CRC) that the archive gives");
  }
  return bytes;
}

struct ZipReader::Stream::State {
  const ZipReader& archive;
  const ZipMember& member;
  std::string_view packed, taken;
  uint64_t bytes_left;
  uint32_t crc = 0;
  z_stream stream{};

  State(const ZipReader& a, const ZipMember& m)
      : archive(a), member(m), packed(a.compressed(m)), bytes_left(m.bytes) {
    if (m.is_deflated && inflateInit2(&stream, -15) != Z_OK) {
      throw SystemError("zlib: cannot start");
    }
  }
  ~State() {
    if (member.is_deflated) inflateEnd(&stream);
  }

  /// The next bytes of the file; those before them are no longer needed.
  std::string_view take(size_t count) {
    archive.file_.release(taken);
    taken = packed.substr(0, count);
    packed.remove_prefix(taken.size());
    return taken;
  }

  void inflate_into(char* out, size_t count) {
    stream.next_out = reinterpret_cast<Bytef*>(out);
    stream.avail_out = static_cast<uInt>(count);
    while (stream.avail_out > 0) {
      if (stream.avail_in == 0) {
        stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
        stream.avail_in = static_cast<uInt>(take(kPackedAtOnce).size());
      }
      const int status = inflate(&stream, Z_NO_FLUSH);
      const bool ended = status == Z_STREAM_END || (stream.avail_in == 0 && packed.empty());
      if ((status != Z_OK && status != Z_STREAM_END) || (ended && stream.avail_out > 0)) {
        archive.fail(member.name, "its deflated bytes are damaged");
      }
    }
  }
};

ZipReader::Stream::Stream(const ZipReader& archive, const ZipMember& member)
    : state_(std::make_unique<State>(archive, member)) {}
ZipReader::Stream::~Stream() = default;
ZipReader::Stream::Stream(Stream&&) noexcept = default;

size_t ZipReader::Stream::read(char* out, size_t count) {
  State& s = *state_;
  const auto wanted = static_cast<size_t>(std::min<uint64_t>(count, s.bytes_left));
  size_t done = 0;
  while (done < wanted) {
    const size_t piece =
        std::min<size_t>(wanted - done, s.member.is_deflated ? size_t{1} << 30 : kPackedAtOnce);
    if (s.member.is_deflated) {
      s.inflate_into(out + done, piece);
    } else {
      std::memcpy(out + done, s.take(piece).data(), piece);
    }
    s.crc = libdeflate_crc32(s.crc, out + done, piece);
    done += piece;
  }
  s.bytes_left -= wanted;
  if (wanted > 0 && s.bytes_left == 0 && s.crc != s.member.crc) {
    s.archive.fail(s.member.name,
                   "its bytes do not have the checksum (CRC) that the archive gives");
  }
  return wanted;
}

// ---- Writer

struct ZipWriter::State {
  std::filesystem::path path, temporary;
  std::ofstream out;
  uint64_t offset = 0, count = 0;
  std::string directory;
  std::unique_ptr<libdeflate_compressor, void (*)(libdeflate_compressor*)> deflater{
      libdeflate_alloc_compressor(kLevel), libdeflate_free_compressor};

  void write(std::string_view bytes) {
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out) throw SystemError(path.string() + ": cannot be written: " + std::strerror(errno));
    offset += bytes.size();
  }
};

ZipWriter::ZipWriter(std::filesystem::path path) : state_(std::make_unique<State>()) {
  state_->path = std::move(path);
  state_->temporary =
      state_->path.string() + ".part" + std::to_string(static_cast<long>(::getpid()));
  std::error_code ec;
  if (state_->path.has_parent_path()) {
    std::filesystem::create_directories(state_->path.parent_path(), ec);
  }
  state_->out.open(state_->temporary, std::ios::binary | std::ios::trunc);
  if (!state_->out) {
    throw SystemError(state_->path.string() + ": cannot be written: " + std::strerror(errno));
  }
}

ZipWriter::~ZipWriter() {
  if (!state_->out.is_open()) return;
  state_->out.close();
  std::error_code ec;
  std::filesystem::remove(state_->temporary, ec);
}

void ZipWriter::add(std::string_view name, std::string_view bytes) {
  State& s = *state_;
  std::string packed(libdeflate_deflate_compress_bound(s.deflater.get(), bytes.size()), '\0');
  packed.resize(libdeflate_deflate_compress(s.deflater.get(), bytes.data(), bytes.size(),
                                            packed.data(), packed.size()));
  const bool is_deflated = !packed.empty() && packed.size() < bytes.size();
  const std::string_view stored = is_deflated ? std::string_view(packed) : bytes;
  const bool is_large = bytes.size() >= kFull32 || stored.size() >= kFull32;
  const bool is_far = s.offset >= kFull32;
  const uint16_t version = is_large || is_far ? 45 : 20;

  const auto common = [&](std::string& out) {
    put<uint16_t>(out, 0);  // flags
    put<uint16_t>(out, is_deflated ? kDeflated : kStored);
    put<uint16_t>(out, 0);       // time
    put<uint16_t>(out, 0x0021);  // 1980-01-01
    put<uint32_t>(out, libdeflate_crc32(0, bytes.data(), bytes.size()));
    put<uint32_t>(out, is_large ? kFull32 : static_cast<uint32_t>(stored.size()));
    put<uint32_t>(out, is_large ? kFull32 : static_cast<uint32_t>(bytes.size()));
    put<uint16_t>(out, static_cast<uint16_t>(name.size()));
  };
  const auto zip64_field = [&](bool with_offset) {
    std::string values;
    if (is_large) {
      put<uint64_t>(values, bytes.size());
      put<uint64_t>(values, stored.size());
    }
    if (with_offset && is_far) put<uint64_t>(values, s.offset);
    if (values.empty()) return values;
    std::string field;
    put<uint16_t>(field, kZip64Field);
    put<uint16_t>(field, static_cast<uint16_t>(values.size()));
    return field + values;
  };

  const std::string entry_extra = zip64_field(/*with_offset=*/true);
  put<uint32_t>(s.directory, kEntrySignature);
  put<uint16_t>(s.directory, version);
  put<uint16_t>(s.directory, version);
  common(s.directory);
  put<uint16_t>(s.directory, static_cast<uint16_t>(entry_extra.size()));
  put<uint16_t>(s.directory, 0);  // comment
  put<uint16_t>(s.directory, 0);  // volume
  put<uint16_t>(s.directory, 0);  // internal attributes
  put<uint32_t>(s.directory, 0);  // external attributes
  put<uint32_t>(s.directory, is_far ? kFull32 : static_cast<uint32_t>(s.offset));
  s.directory.append(name).append(entry_extra);
  ++s.count;

  std::string header;
  const std::string local_extra = zip64_field(/*with_offset=*/false);
  put<uint32_t>(header, kLocalSignature);
  put<uint16_t>(header, version);
  common(header);
  put<uint16_t>(header, static_cast<uint16_t>(local_extra.size()));
  header.append(name).append(local_extra);
  s.write(header);
  s.write(stored);
}

void ZipWriter::finish() {
  State& s = *state_;
  const uint64_t begin = s.offset, size = s.directory.size();
  s.write(s.directory);
  const bool is_large = s.count >= 0xffff || begin >= kFull32 || size >= kFull32;
  std::string end;
  if (is_large) {
    put<uint32_t>(end, kEnd64Signature);
    put<uint64_t>(end, kEnd64Size - 12);
    put<uint16_t>(end, 45);
    put<uint16_t>(end, 45);
    put<uint32_t>(end, 0);
    put<uint32_t>(end, 0);
    put<uint64_t>(end, s.count);
    put<uint64_t>(end, s.count);
    put<uint64_t>(end, size);
    put<uint64_t>(end, begin);
    put<uint32_t>(end, kLocator64Signature);
    put<uint32_t>(end, 0);
    put<uint64_t>(end, begin + size);
    put<uint32_t>(end, 1);
  }
  put<uint32_t>(end, kEndSignature);
  put<uint16_t>(end, 0);
  put<uint16_t>(end, 0);
  put<uint16_t>(end, is_large ? 0xffff : static_cast<uint16_t>(s.count));
  put<uint16_t>(end, is_large ? 0xffff : static_cast<uint16_t>(s.count));
  put<uint32_t>(end, is_large ? kFull32 : static_cast<uint32_t>(size));
  put<uint32_t>(end, is_large ? kFull32 : static_cast<uint32_t>(begin));
  put<uint16_t>(end, 0);
  s.write(end);
  s.out.close();
  std::error_code ec;
  std::filesystem::rename(s.temporary, s.path, ec);
  if (ec) throw SystemError(s.path.string() + ": cannot be written: " + ec.message());
}

}  // namespace lagom::formats
