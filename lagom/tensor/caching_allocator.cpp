#include "lagom/tensor/caching_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>

namespace lagom::tensor {
namespace {

constexpr size_t kLarge = size_t{1} << 20;
constexpr size_t kHugePage = size_t{2} << 20;

class CachingAllocator final : public c10::Allocator {
 public:
  CachingAllocator(c10::Allocator* small, size_t max_cached)
      : small_(small), max_cached_(max_cached) {}

  c10::DataPtr allocate(size_t bytes) override {
    void* block = bytes < kLarge ? small_->raw_allocate(bytes) : take(bytes);
    return {block, block, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  // oneDNN's operations allocate raw memory and cannot do without it.
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

  static CachingAllocator* instance;

 private:
  void* take(size_t bytes) {
    const size_t size = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    {
      const std::lock_guard lock(mutex_);
      // The smallest that fits, unless a quarter of it would lie idle beyond the rounding up.
      const auto it = free_.lower_bound(size);
      if (it != free_.end() && it->first - it->first / 4 <= size) {
        void* block = it->second.block;
        use(it->first);
        forget(it);
        return block;
      }
      make_room(size);
    }
    void* block = std::aligned_alloc(kHugePage, size);
    if (block == nullptr) throw std::bad_alloc();
    ::madvise(block, size, MADV_HUGEPAGE);
    const std::lock_guard lock(mutex_);
    sizes_[block] = size;
    use(size);
    return block;
  }

  static void give_back(void* block) {
    // All large blocks, and hardly any small one, begin at a huge page.
    const bool can_be_large = reinterpret_cast<uintptr_t>(block) % kHugePage == 0;
    if (!can_be_large || !instance->keep(block)) instance->small_->raw_deallocate(block);
  }
  /// False for a block that is not one of the large ones.
  bool keep(void* block) {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(block);
    if (found == sizes_.end()) return false;
    const size_t size = found->second;
    live_ -= size;
    make_room(size);
    if (cached_ + size > max_cached_) {
      release(block, size);
      return true;
    }
    ++time_;
    oldest_[time_] = free_.emplace(size, Cached{block, time_});
    cached_ += size;
    return true;
  }

  struct Cached {
    void* block;
    uint64_t time;  ///< When it was given back.
  };
  using Free = std::multimap<size_t, Cached>;

  void use(size_t size) {
    live_ += size;
    peak_ = std::max(peak_, live_);
  }
  void forget(Free::iterator it) {
    cached_ -= it->first;
    oldest_.erase(it->second.time);
    free_.erase(it);
  }
  /// Sizes that differ from step to step would otherwise fill the cache with blocks that nothing
  /// fits: with `size` more, all is to stay near the most that was ever in use.
  void make_room(size_t size) {
    while (!oldest_.empty() &&
           (live_ + cached_ + size > peak_ + peak_ / 4 || cached_ + size > max_cached_)) {
      const Free::iterator it = oldest_.begin()->second;
      const auto [block_size, cached] = *it;
      forget(it);
      release(cached.block, block_size);
    }
  }
  void release(void* block, size_t size) {
    sizes_.erase(block);
    ::madvise(block, size, MADV_DONTNEED);  // the heap itself might keep the pages
    std::free(block);
  }

  c10::Allocator* small_;
  size_t max_cached_;
  std::mutex mutex_;
  Free free_;
  std::map<uint64_t, Free::iterator> oldest_;
  std::unordered_map<void*, size_t> sizes_;
  size_t cached_ = 0, live_ = 0, peak_ = 0;
  uint64_t time_ = 0;
};

CachingAllocator* CachingAllocator::instance = nullptr;

}  // namespace

void use_caching_allocator(int64_t max_cached_bytes) {
  if (CachingAllocator::instance != nullptr) return;
  // It lives as long as the process: tensors with static lives come back to it at the end.
  CachingAllocator::instance =
      new CachingAllocator(c10::GetCPUAllocator(), static_cast<size_t>(max_cached_bytes));
  c10::SetCPUAllocator(CachingAllocator::instance, /*priority=*/1);
}

}  // namespace lagom::tensor
