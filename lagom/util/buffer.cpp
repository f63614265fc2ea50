#include "lagom/util/buffer.h"

#include <sys/mman.h>

#include <new>

namespace lagom {
namespace {

constexpr size_t kLarge = size_t{4} << 20;
constexpr std::align_val_t kHugePage{size_t{2} << 20};

}  // namespace

void* allocate_buffer(size_t bytes) {
  if (bytes < kLarge) return ::operator new(bytes);
  void* const memory = ::operator new(bytes, kHugePage);
  // A wish: without huge pages it is memory as any other.
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

void free_buffer(void* memory, size_t bytes) noexcept {
  if (bytes < kLarge) {
    ::operator delete(memory);
  } else {
    ::operator delete(memory, kHugePage);
  }
}

}  // namespace lagom
