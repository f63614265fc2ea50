#include "worker/debug.h"

#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace lagom::worker {
namespace {

[[noreturn]] void eat_memory() {
  std::vector<char*> blocks;
  while (true) {
    constexpr size_t kBlock = size_t{16} << 20;
    char* block = static_cast<char*>(std::malloc(kBlock));
    if (block == nullptr) throw std::bad_alloc();
    std::memset(block, 1, kBlock);
    blocks.push_back(block);
    usleep(2000);
  }
}

}  // namespace

void misbehave(const std::string& action, int descriptor) {
  std::fprintf(stderr, "debug: %s\n", action.c_str());
  if (action == "abort") std::abort();
  if (action == "segfault") std::raise(SIGSEGV);
  if (action == "exit") _exit(7);
  if (action == "hang") {
    while (true) pause();
  }
  if (action == "spin") {
    volatile bool forever = true;
    while (forever) {
    }
  }
  if (action == "eat_memory") eat_memory();
  if (action == "garbage") ::send(descriptor, "this is no message", 18, 0);
  if (action == "half_message") {
    ::send(descriptor, "LGM1\x10\0\0\0", 8, 0);
    _exit(0);
  }
  if (action == "chatter") {
    for (int i = 0; i < 20000; ++i) std::fprintf(stderr, "line %d of much chatter\n", i);
  }
}

}  // namespace lagom::worker
