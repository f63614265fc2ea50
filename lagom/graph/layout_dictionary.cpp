#include "lagom/graph/layout_dictionary.h"

#include <cstring>

namespace lagom::graph {
namespace {

constexpr size_t kValues = kLayoutConfigFeatures;
static_assert(kValues == 18);

uint64_t hash(const int8_t* values) {
  uint64_t first, second;
  uint16_t third;
  std::memcpy(&first, values, 8);
  std::memcpy(&second, values + 8, 8);
  std::memcpy(&third, values + 16, 2);
  uint64_t h = first * 0x9e3779b97f4a7c15u;
  h = (h ^ (h >> 32) ^ second) * 0xff51afd7ed558ccdu;
  h = (h ^ (h >> 32) ^ third) * 0xc4ceb9fe1a85ec53u;
  return h ^ (h >> 29);
}

}  // namespace

LayoutDictionary::LayoutDictionary() : slots_(1024, 0) {}

size_t LayoutDictionary::slot_of(const int8_t* values) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash(values) & mask;
  while (slots_[slot] != 0 &&
         std::memcmp(values_.data() + (slots_[slot] - 1) * kValues, values, kValues) != 0) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

uint32_t LayoutDictionary::code(const int8_t* values) {
  const size_t slot = slot_of(values);
  if (slots_[slot] != 0) return slots_[slot] - 1;
  values_.insert(values_.end(), values, values + kValues);
  slots_[slot] = ++size_;
  if (size_t{size_} * 2 > slots_.size()) grow();
  return size_ - 1;
}

void LayoutDictionary::grow() {
  slots_.assign(slots_.size() * 2, 0);
  for (uint32_t code = 0; code < size_; ++code) {
    slots_[slot_of(values_.data() + size_t{code} * kValues)] = code + 1;
  }
}

}  // namespace lagom::graph
