#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// How the parent and a worker talk: whole messages over one stream socket.
///
/// On the wire, all numbers little endian: the four bytes "LGM1", u32 size of the header, u32
/// number of payloads, u64 size of each payload, the header (JSON text), the payloads' bytes.
namespace lagom::measure {

struct Message {
  std::string header;
  std::vector<std::string> payloads;
};

inline constexpr uint32_t kMaxHeaderBytes = uint32_t{64} << 20;
inline constexpr uint32_t kMaxPayloads = 1 << 16;
inline constexpr uint64_t kMaxPayloadBytes = uint64_t{64} << 30;  ///< All of a message together.

/// One end of the socket; owns the descriptor.
///
/// Without a `wait` function calls block. With one, the descriptor is made non-blocking and `wait`
/// is called with poll's events whenever a call would block: it returns when trying again makes
/// sense, or throws to give up (the channel is then unusable).
class Channel {
 public:
  using Wait = std::function<void(int descriptor, short events)>;

  explicit Channel(int descriptor, Wait wait = {});
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Throws SystemError when the other end is gone.
  void send(std::string_view header, std::span<const std::string_view> payloads = {});

  /// False when the other end closed between two messages. Throws FormatError for bytes that are no
  /// message or pass the limits (checked before anything is allocated), and when the stream ends
  /// inside a message; SystemError when reading fails.
  bool receive(Message* message);

 private:
  void write_all(std::string_view bytes);
  size_t read_some(char* out, size_t size);
  void read_all(char* out, size_t size, const char* what);

  int descriptor_;
  Wait wait_;
};

/// A connected pair of stream sockets, both closed on exec. Throws SystemError.
struct SocketPair {
  int first;
  int second;
};
SocketPair make_socket_pair();

}  // namespace lagom::measure
