#include "lagom/text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdexcept>

namespace lagom::text {

namespace patterns {
const char* const kGpt2 =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const char* const kCl100k = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                            R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|)"
    R"(\s+(?!\S)|\s+)";
}  // namespace patterns

class PreTokenizer::Impl {
 public:
  explicit Impl(const std::string& pattern) {
    int error = 0;
    PCRE2_SIZE where = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &where, nullptr);
    if (!code_) {
      char message[200] = {};
      pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(message), sizeof message);
      throw std::invalid_argument("pattern of the pre-tokenizer, at " + std::to_string(where) +
                                  ": " + message);
    }
    pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);
  }
  ~Impl() { pcre2_code_free(code_); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void split(std::string_view text, std::vector<std::string_view>& pieces) const {
    const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
        pcre2_match_data_create_from_pattern(code_, nullptr), &pcre2_match_data_free);
    size_t done = 0, from = 0;
    while (from < text.size()) {
      const int count = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                    from, 0, match.get(), nullptr);
      if (count < 0) break;
      const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match.get());
      if (span[1] <= span[0]) {  // an empty match parts nothing
        from = span[1] + 1;
        continue;
      }
      if (span[0] > done) pieces.push_back(text.substr(done, span[0] - done));
      pieces.push_back(text.substr(span[0], span[1] - span[0]));
      done = from = span[1];
    }
    if (done < text.size()) pieces.push_back(text.substr(done));
  }

 private:
  pcre2_code* code_ = nullptr;
};

PreTokenizer::PreTokenizer(const std::string& pattern) : impl_(std::make_unique<Impl>(pattern)) {}
PreTokenizer::~PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;

void PreTokenizer::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  impl_->split(text, pieces);
}

}  // namespace lagom::text
