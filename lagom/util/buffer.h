#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace lagom {

/// Memory for large arrays: from 4 MB on it asks for huge pages, since touching a fresh array page
/// by page takes as long as decompressing it. Elements begin without a value.
void* allocate_buffer(size_t bytes);
void free_buffer(void* memory, size_t bytes) noexcept;

template <typename T>
struct BufferAllocator {
  using value_type = T;
  BufferAllocator() = default;
  template <typename U>
  BufferAllocator(const BufferAllocator<U>&) {}

  T* allocate(size_t count) { return static_cast<T*>(allocate_buffer(count * sizeof(T))); }
  void deallocate(T* memory, size_t count) noexcept { free_buffer(memory, count * sizeof(T)); }
  template <typename U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;
  }
  template <typename U, typename... Arguments>
  void construct(U* place, Arguments&&... arguments) {
    ::new (static_cast<void*>(place)) U(std::forward<Arguments>(arguments)...);
  }
  friend bool operator==(const BufferAllocator&, const BufferAllocator&) { return true; }
};

/// Bytes; `resize` does not clear the new ones.
using Buffer = std::vector<char, BufferAllocator<char>>;

inline std::string_view view_of(const Buffer& buffer) {
  return {buffer.data(), buffer.size()};
}

}  // namespace lagom
