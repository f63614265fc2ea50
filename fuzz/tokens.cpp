// Tokenizers and token shards. Any bytes give a tokenizer under which any text comes back from its
// tokens, or a shard whose tokens can all be read, or a FormatError.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "fuzz/memory_file.h"
#include "lagom/text/token_file.h"
#include "lagom/text/tokenizer.h"
#include "lagom/util/error.h"

namespace {

using namespace lagom;

/// bytes: the tokenizer's file, a zero byte and a text.
void read_tokenizer(std::string_view bytes) {
  const size_t end = std::min(bytes.size(), bytes.rfind('\0'));
  const fuzz::MemoryFile file(bytes.substr(0, end));
  const auto tokenizer = text::load_tokenizer(file.path());
  const std::string_view input = end < bytes.size() ? bytes.substr(end + 1) : "some text";
  const std::vector<text::TokenId> ids = tokenizer->encode(input);
  for (const text::TokenId id : ids) {
    if (id < 0 || id >= tokenizer->vocab_size()) std::abort();
  }
  if (tokenizer->decode(ids) != input) std::abort();
}

void read_shard(std::string_view bytes) {
  const fuzz::MemoryFile file(bytes);
  const text::TokenFile shard = text::TokenFile::open_shard(file.path());
  std::vector<int64_t> ids(static_cast<size_t>(std::min<int64_t>(shard.size(), 1 << 16)));
  shard.read(shard.size() - std::ssize(ids), ids, /*vocab_size=*/65536);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] == 't') read_tokenizer(bytes);
    if (data[0] == 's') read_shard(bytes);
  } catch (const FormatError&) {
  }
  return 0;
}
