#include "lagom/util/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "lagom/util/error.h"

namespace lagom {
namespace {

std::string inflate_gzip(const std::filesystem::path& path, const std::string& packed,
                         uint64_t max_bytes) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) throw SystemError("zlib: cannot start");
  struct End {
    z_stream* s;
    ~End() { inflateEnd(s); }
  } end{&stream};
  std::string out;
  std::string chunk(size_t{1} << 18, '\0');
  size_t consumed = 0;
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    if (stream.avail_in == 0) {
      const size_t n = std::min<size_t>(packed.size() - consumed, size_t{1} << 30);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + consumed));
      stream.avail_in = static_cast<uInt>(n);
      consumed += n;
    }
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = static_cast<uInt>(chunk.size());
    status = inflate(&stream, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END) {
      throw FormatError(path.string(), "gzip byte " + std::to_string(stream.total_in),
                        status == Z_BUF_ERROR ? "the stream ends early" : "damaged gzip stream");
    }
    out.append(chunk.data(), chunk.size() - stream.avail_out);
    if (out.size() > max_bytes) {
      throw FormatError(path.string(), "gzip",
                        "expands to more than " + std::to_string(max_bytes) + " bytes");
    }
  }
  return out;
}

}  // namespace

std::string read_file(const std::filesystem::path& path, uint64_t max_bytes) {
  std::error_code ec;
  if (std::filesystem::is_directory(path, ec)) {
    throw SystemError(path.string() + ": is a directory, expected a file");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) throw SystemError(path.string() + ": cannot be opened: " + std::strerror(errno));
  std::string bytes;
  const uint64_t size = std::filesystem::file_size(path, ec);
  if (!ec) {
    if (size > max_bytes) {
      throw SystemError(path.string() + ": has " + std::to_string(size) + " bytes, the limit is " +
                        std::to_string(max_bytes));
    }
    bytes.resize(size);
    in.read(bytes.data(), static_cast<std::streamsize>(size));
    bytes.resize(static_cast<size_t>(in.gcount()));
  } else {  // a pipe or another file without a size
    char buffer[1 << 16];
    while (in.read(buffer, sizeof buffer) || in.gcount() > 0) {
      bytes.append(buffer, static_cast<size_t>(in.gcount()));
      if (bytes.size() > max_bytes)
        throw SystemError(path.string() + ": more bytes than the limit");
    }
  }
  if (bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b') {
    return inflate_gzip(path, bytes, max_bytes);
  }
  return bytes;
}

std::string gzip(std::string_view bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    throw SystemError("zlib: cannot start");
  }
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) throw SystemError("gzip: the data is too large for one stream");
  return out;
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  write_file(path, std::span(&bytes, 1));
}

void write_file(const std::filesystem::path& path, std::span<const std::string_view> pieces) {
  std::error_code ec;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ec);
  const std::filesystem::path temporary =
      path.string() + ".part" + std::to_string(static_cast<long>(::getpid()));
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    for (const std::string_view piece : pieces) {
      out.write(piece.data(), static_cast<std::streamsize>(piece.size()));
    }
    out.flush();
    if (!out) {
      std::filesystem::remove(temporary, ec);
      throw SystemError(path.string() + ": cannot be written: " + std::strerror(errno));
    }
  }
  std::filesystem::rename(temporary, path, ec);
  if (ec) {
    const std::string why = ec.message();
    std::filesystem::remove(temporary, ec);
    throw SystemError(path.string() + ": cannot be written: " + why);
  }
}

void append_line(const std::filesystem::path& path, std::string_view line) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) throw SystemError(path.string() + ": " + std::strerror(errno));
  ::flock(descriptor, LOCK_EX);
  const off_t size = ::lseek(descriptor, 0, SEEK_END);
  char last = '\n';
  if (size > 0) (void)!::pread(descriptor, &last, 1, size - 1);
  std::string text = last == '\n' ? "" : "\n";
  text += line;
  text += '\n';
  const bool complete =
      ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const std::string why = std::strerror(errno);
  ::close(descriptor);
  if (!complete) throw SystemError(path.string() + ": cannot be written: " + why);
}

}  // namespace lagom
