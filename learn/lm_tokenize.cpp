#include <CLI/CLI.hpp>
#include <cstdio>

#include "lagom/text/token_file.h"
#include "lagom/text/tokenizer.h"
#include "learn/lm_commands.h"

namespace lagom::learn {
namespace {

struct TokenizeArguments {
  std::string tokenizer, in, out;
};

int tokenize(const TokenizeArguments& args) {
  const auto tokenizer = args.tokenizer == "bytes" ? text::make_byte_tokenizer()
                                                   : text::load_tokenizer(args.tokenizer);
  text::write_corpus(args.in, *tokenizer, args.out);
  const text::TokenFile shard = text::TokenFile::open_shard(args.out);
  std::fprintf(stderr, "%s: %lld tokens of %lld\n", args.out.c_str(),
               static_cast<long long>(shard.size()),
               static_cast<long long>(tokenizer->vocab_size()));
  return 0;
}

}  // namespace

void add_lm_tokenize(CLI::App& lm, Action& chosen) {
  auto* command = lm.add_subcommand("tokenize", "Text as a shard of tokens, for data.train");
  auto args = std::make_shared<TokenizeArguments>();
  command->add_option("tokenizer", args->tokenizer, "tokenizer.json, tiktoken ranks or 'bytes'")
      ->required();
  command->add_option("text", args->in, "A text file, or JSON lines with a document each")
      ->required();
  command->add_option("out", args->out, "The shard to write (.bin, llm.c's layout)")->required();
  command->footer("Example: lagom lm tokenize gpt2/tokenizer.json corpus.jsonl corpus.bin");
  command->callback([args, &chosen] { chosen = [args] { return tokenize(*args); }; });
}

}  // namespace lagom::learn
