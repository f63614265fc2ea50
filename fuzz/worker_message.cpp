// Bytes from the other end of the socket: every decoder either gives a value or a FormatError.

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>

#include "lagom/measure/messages.h"
#include "lagom/measure/protocol.h"
#include "lagom/util/error.h"

namespace {

using namespace lagom::measure;

void try_decoding(const std::function<void()>& decode) {
  try {
    decode();
  } catch (const lagom::FormatError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // What fits into a socket's buffer, so that one thread can be both ends.
  size = std::min<size_t>(size, 64 << 10);
  const SocketPair pair = make_socket_pair();
  const bool written = write(pair.first, data, size) == static_cast<ssize_t>(size);
  close(pair.first);
  Channel channel(pair.second);
  if (!written) return 0;
  Message message;
  try_decoding([&] {
    while (channel.receive(&message)) {
      try_decoding([&] { request_name(message); });
      try_decoding([&] { decode_baseline_request(Message(message)); });
      try_decoding([&] { decode_measure_request(Message(message)); });
      try_decoding([&] { decode_optimized_request(Message(message)); });
      try_decoding([&] { decode_run_request(Message(message)); });
      try_decoding([&] { decode_worker_info(Message(message)); });
      try_decoding([&] { decode_baseline_result(Message(message)); });
      try_decoding([&] { decode_measure_result(Message(message)); });
      try_decoding([&] { decode_optimized_result(Message(message)); });
      try_decoding([&] { decode_run_report(Message(message)); });
    }
  });
  return 0;
}
