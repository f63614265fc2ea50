#include "lagom/util/hash.h"

#include <libdeflate.h>

namespace lagom {

uint64_t hash64(std::string_view bytes) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const char c : bytes) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdu;
  return h ^ (h >> 33);
}

uint32_t crc32(std::string_view bytes, uint32_t before) {
  return libdeflate_crc32(before, bytes.data(), bytes.size());
}

std::string hex64(uint64_t value) {
  std::string text(16, '0');
  for (size_t i = text.size(); i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}

}  // namespace lagom
