// Files of arrays: npz, npy, safetensors and the compact graph form. Any bytes give arrays that
// agree with their headers, or a FormatError.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "fuzz/memory_file.h"
#include "lagom/formats/npy.h"
#include "lagom/formats/npz.h"
#include "lagom/formats/safetensors.h"
#include "lagom/graph/dataset_file.h"
#include "lagom/graph/graph_cache.h"
#include "lagom/util/error.h"

namespace {

using namespace lagom;

void read_npz(const std::string& path) {
  const formats::NpzReader npz(path);
  for (const std::string& name : npz.names()) {
    const formats::NpyHeader header = npz.header(name);
    if (header.data_bytes() > 1 << 24) continue;
    const formats::Array array = npz.read(name);
    if (array.data.size() != header.data_bytes()) std::abort();
    (void)formats::statistics_of(array);
  }
}

void read_safetensors(const std::string& path) {
  uint64_t bytes = 0;
  const formats::SafetensorsFile file(path);
  for (const formats::SafetensorsEntry& entry : file.entries()) {
    for (const char c : entry.data) bytes += static_cast<uint8_t>(c);
    if (file.find(entry.name) == nullptr) std::abort();
  }
  if (bytes == uint64_t(-1)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] == 'y') {
      (void)formats::statistics_of(formats::read_npy(bytes, "file"));
      return 0;
    }
    const fuzz::MemoryFile file(bytes);
    if (data[0] == 'z') read_npz(file.path());
    if (data[0] == 's') read_safetensors(file.path());
    if (data[0] == 'm') (void)graph::read_measured_graph(formats::NpzReader(file.path()));
    if (data[0] == 'g') graph::GraphCache(file.path()).verify();
  } catch (const FormatError&) {
  }
  return 0;
}
