#include "lagom/measure/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>

#include "lagom/util/error.h"

namespace lagom::measure {
namespace {

using ::testing::HasSubstr;

// Writes raw bytes, closes, and tells what receive makes of them.
std::string error_for(const std::string& bytes) {
  const SocketPair pair = make_socket_pair();
  EXPECT_EQ(write(pair.first, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  close(pair.first);
  Channel channel(pair.second);
  Message message;
  try {
    channel.receive(&message);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

TEST(ProtocolTest, MessageArrivesAsSent) {
  const SocketPair pair = make_socket_pair();
  Channel sender(pair.first);
  Channel receiver(pair.second);
  const std::string binary("\0\1\2\xff", 4);
  const std::string_view payloads[] = {binary, ""};
  sender.send("{\"a\":1}", payloads);
  sender.send("{}");

  Message message;
  ASSERT_TRUE(receiver.receive(&message));
  EXPECT_EQ(message.header, "{\"a\":1}");
  EXPECT_THAT(message.payloads, ::testing::ElementsAre(binary, ""));
  ASSERT_TRUE(receiver.receive(&message));
  EXPECT_EQ(message.header, "{}");
  EXPECT_TRUE(message.payloads.empty());
}

TEST(ProtocolTest, LargePayloadArrivesWhole) {
  const SocketPair pair = make_socket_pair();
  std::string large(size_t{40} << 20, '\0');
  for (size_t i = 0; i < large.size(); i += 4099) large[i] = static_cast<char>(i);
  std::thread writer([&] {
    Channel sender(pair.first);
    const std::string_view payloads[] = {large};
    sender.send("{}", payloads);
  });
  Channel receiver(pair.second);
  Message message;

  ASSERT_TRUE(receiver.receive(&message));
  writer.join();

  EXPECT_TRUE(message.payloads.at(0) == large);
  EXPECT_FALSE(receiver.receive(&message)) << "the other end has closed";
}

TEST(ProtocolTest, BrokenMessagesAreNamed) {
  EXPECT_THAT(error_for("GET / HTTP/1.1\r\n"), HasSubstr("expected \"LGM1\""));
  EXPECT_THAT(error_for("LGM1"), HasSubstr("ends inside its first bytes"));
  EXPECT_THAT(error_for(std::string("LGM1\x05\0\0\0\0\0\0\0{}", 14)),
              HasSubstr("ends inside its header"));
  EXPECT_THAT(error_for(std::string("LGM1\x02\0\0\0\x01\0\0\0", 12)),
              HasSubstr("ends inside its sizes"));
}

TEST(ProtocolTest, SizesPastTheLimitsAreRefusedBeforeAllocating) {
  EXPECT_THAT(error_for(std::string("LGM1\xff\xff\xff\xff\0\0\0\0", 12)), HasSubstr("limits"));
  EXPECT_THAT(error_for(std::string("LGM1\x02\0\0\0\xff\xff\xff\xff", 12)), HasSubstr("limits"));
  // One payload of 2^63 bytes.
  EXPECT_THAT(error_for(std::string("LGM1\x02\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\x80{}", 22)),
              HasSubstr("limit"));
  // 32 GiB are announced, two bytes come: it fails by the end of the stream, not by memory.
  EXPECT_THAT(error_for(std::string("LGM1\x02\0\0\0\x01\0\0\0\0\0\0\0\x08\0\0\0{}ab", 24)),
              HasSubstr("ends inside a payload"));
}

TEST(ProtocolTest, WaitFunctionCanGiveUp) {
  const SocketPair pair = make_socket_pair();
  Channel idle(pair.first);
  int waits = 0;
  Channel channel(pair.second, [&](int, short events) {
    EXPECT_EQ(events, POLLIN);
    if (++waits == 3) throw std::runtime_error("enough");
  });
  Message message;

  EXPECT_THROW(channel.receive(&message), std::runtime_error);
  EXPECT_EQ(waits, 3);
}

TEST(ProtocolTest, SendingToAClosedEndIsAnErrorAndNoSignal) {
  const SocketPair pair = make_socket_pair();
  close(pair.second);
  Channel channel(pair.first);

  EXPECT_THROW(channel.send("{}"), SystemError);
}

}  // namespace
}  // namespace lagom::measure
