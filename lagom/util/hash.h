#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lagom {

/// A 64-bit hash (FNV-1a with a final mix), stable across machines and versions: it names
/// programs, kernels and configurations in files.
uint64_t hash64(std::string_view bytes);

/// The checksum of zip and gzip (CRC-32), continued from that of the bytes before.
uint32_t crc32(std::string_view bytes, uint32_t before = 0);

/// 16 lower-case hexadecimal digits.
std::string hex64(uint64_t value);

}  // namespace lagom
