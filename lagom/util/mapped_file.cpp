#include "lagom/util/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "lagom/util/error.h"

namespace lagom {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw SystemError(path.string() + ": cannot be opened: " + strerror(errno));
  struct stat status{};
  const char* problem = nullptr;
  if (::fstat(descriptor, &status) != 0) {
    problem = strerror(errno);
  } else if (S_ISDIR(status.st_mode)) {
    problem = "is a directory, expected a file";
  } else if (status.st_size > 0) {
    size_ = static_cast<size_t>(status.st_size);
    void* const mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapped == MAP_FAILED) {
      problem = strerror(errno);
    } else {
      data_ = static_cast<const char*>(mapped);
    }
  }
  ::close(descriptor);
  if (problem != nullptr) throw SystemError(path.string() + ": " + problem);
}

void MappedFile::release(std::string_view part) const {
  if (part.empty()) return;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = (static_cast<size_t>(part.data() - data_) + page - 1) / page * page;
  const size_t end = (static_cast<size_t>(part.data() - data_) + part.size()) / page * page;
  if (begin < end) ::madvise(const_cast<char*>(data_) + begin, end - begin, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace lagom
