#include "lagom/measure/protocol.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lagom/util/error.h"

namespace lagom::measure {
namespace {

constexpr std::string_view kMagic = "LGM1";
constexpr size_t kFixedBytes = 12;
// Payloads grow as their bytes arrive: a wrong size does not allocate what was never sent.
constexpr size_t kGrowBytes = size_t{16} << 20;

template <typename T>
void put(std::string* out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

template <typename T>
T get(const char* bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

[[noreturn]] void throw_broken(const std::string& what) {
  throw FormatError("message", "", what);
}

}  // namespace

Channel::Channel(int descriptor, Wait wait) : descriptor_(descriptor), wait_(std::move(wait)) {
  if (wait_) fcntl(descriptor_, F_SETFL, fcntl(descriptor_, F_GETFL) | O_NONBLOCK);
}

Channel::~Channel() {
  close(descriptor_);
}

void Channel::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) && wait_) {
      wait_(descriptor_, POLLOUT);
    } else if (n < 0 && errno != EINTR) {
      throw SystemError(std::string("message: cannot be sent: ") + std::strerror(errno));
    }
  }
}

size_t Channel::read_some(char* out, size_t size) {
  while (true) {
    const ssize_t n = ::recv(descriptor_, out, size, 0);
    if (n >= 0) return static_cast<size_t>(n);
    if ((errno == EAGAIN || errno == EWOULDBLOCK) && wait_) {
      wait_(descriptor_, POLLIN);
    } else if (errno == ECONNRESET) {
      return 0;
    } else if (errno != EINTR) {
      throw SystemError(std::string("message: cannot be read: ") + std::strerror(errno));
    }
  }
}

void Channel::read_all(char* out, size_t size, const char* what) {
  size_t done = 0;
  while (done < size) {
    const size_t n = read_some(out + done, size - done);
    if (n == 0) throw_broken(std::string("the stream ends inside ") + what);
    done += n;
  }
}

void Channel::send(std::string_view header, std::span<const std::string_view> payloads) {
  std::string front(kMagic);
  put(&front, static_cast<uint32_t>(header.size()));
  put(&front, static_cast<uint32_t>(payloads.size()));
  for (const std::string_view payload : payloads) put(&front, uint64_t{payload.size()});
  front.append(header);
  write_all(front);
  for (const std::string_view payload : payloads) write_all(payload);
}

bool Channel::receive(Message* message) {
  char fixed[kFixedBytes];
  const size_t first = read_some(fixed, sizeof fixed);
  if (first == 0) return false;
  read_all(fixed + first, sizeof fixed - first, "its first bytes");
  if (std::string_view(fixed, kMagic.size()) != kMagic) {
    throw_broken("expected \"LGM1\" at its start");
  }
  const auto header_size = get<uint32_t>(fixed + 4);
  const auto num_payloads = get<uint32_t>(fixed + 8);
  if (header_size > kMaxHeaderBytes || num_payloads > kMaxPayloads) {
    throw_broken("a header of " + std::to_string(header_size) + " bytes and " +
                 std::to_string(num_payloads) + " payloads pass the limits");
  }
  std::string sizes(size_t{8} * num_payloads, '\0');
  read_all(sizes.data(), sizes.size(), "its sizes");
  uint64_t total = 0;
  for (size_t i = 0; i < num_payloads; ++i) {
    const auto size = get<uint64_t>(sizes.data() + 8 * i);
    if (size > kMaxPayloadBytes - total) throw_broken("its payloads pass the limit");
    total += size;
  }
  message->header.resize(header_size);
  read_all(message->header.data(), header_size, "its header");
  message->payloads.clear();
  for (size_t i = 0; i < num_payloads; ++i) {
    const auto size = get<uint64_t>(sizes.data() + 8 * i);
    std::string& payload = message->payloads.emplace_back();
    while (payload.size() < size) {
      const size_t begin = payload.size();
      payload.resize(begin + std::min<uint64_t>(size - begin, std::max(kGrowBytes, begin)));
      read_all(payload.data() + begin, payload.size() - begin, "a payload");
    }
  }
  return true;
}

SocketPair make_socket_pair() {
  int descriptors[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, descriptors) != 0) {
    throw SystemError(std::string("cannot make a pair of sockets: ") + std::strerror(errno));
  }
  return {descriptors[0], descriptors[1]};
}

}  // namespace lagom::measure
