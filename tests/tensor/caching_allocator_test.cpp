#include "lagom/tensor/caching_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <set>
#include <string>

namespace lagom::tensor {
namespace {

// oneDNN's operations (gelu, for one) take memory so.
TEST(CachingAllocatorTest, RawMemoryOfEverySizeIsGivenBack) {
  use_caching_allocator();
  c10::Allocator* allocator = c10::GetCPUAllocator();
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{1} << 20, size_t{5} << 20}) {
    void* block = allocator->raw_allocate(bytes);
    std::memset(block, 1, bytes);
    allocator->raw_deallocate(block);
  }
}

TEST(CachingAllocatorTest, LargeMemoryComesBack) {
  use_caching_allocator();
  c10::Allocator* allocator = c10::GetCPUAllocator();
  const void* first = nullptr;
  {
    const c10::DataPtr block = allocator->allocate(size_t{3} << 20);
    first = block.get();
    EXPECT_NE(block.get(), allocator->allocate(size_t{3} << 20).get());
  }
  const c10::DataPtr a = allocator->allocate(size_t{3} << 20);
  const c10::DataPtr b = allocator->allocate(size_t{3} << 20);
  EXPECT_TRUE(a.get() == first || b.get() == first);
}

TEST(CachingAllocatorTest, SizesOfEveryRoundingComeBack) {
  use_caching_allocator();
  c10::Allocator* allocator = c10::GetCPUAllocator();
  // Just above a megabyte: half of its two lies idle.
  for (const size_t bytes : {(size_t{1} << 20) + 1, size_t{5} << 19, size_t{17} << 18}) {
    std::set<const void*> blocks;
    for (int i = 0; i < 10; ++i) blocks.insert(allocator->allocate(bytes).get());
    EXPECT_LE(blocks.size(), 2U) << bytes;  // other tests may have left one
  }
}

double resident_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

TEST(CachingAllocatorTest, SizesThatDifferDoNotPileUp) {
  use_caching_allocator();
  c10::Allocator* allocator = c10::GetCPUAllocator();
  const double before = resident_mb();
  for (size_t step = 0; step < 40; ++step) {  // one block in use at a time, 860 MB in all
    const size_t bytes = (2 + step) << 20;
    const c10::DataPtr block = allocator->allocate(bytes);
    std::memset(block.get(), 1, bytes);
  }
  EXPECT_LT(resident_mb() - before, 120);
}

}  // namespace
}  // namespace lagom::tensor
