#include "lagom/formats/event_log.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <protozero/pbf_reader.hpp>
#include <vector>

#include "lagom/util/file.h"
#include "tests/testing/command.h"

namespace lagom::formats {
namespace {

/// The payloads of TFRecords, each checksum compared.
std::vector<std::string> records_of(std::string_view bytes) {
  const auto masked = [](std::string_view part) {
    const uint32_t crc = crc32c(part);
    return static_cast<uint32_t>((crc >> 15 | crc << 17) + 0xa282ead8u);
  };
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  };
  std::vector<std::string> records;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    EXPECT_EQ(number(at + 8), masked(bytes.substr(at, 8)));
    const std::string_view payload = bytes.substr(at + 12, length);
    EXPECT_EQ(number(at + 12 + length), masked(payload));
    records.emplace_back(payload);
    at += 16 + length;
  }
  return records;
}

TEST(EventLogTest, ChecksumIsCastagnoli) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);            // the check value of the CRC catalogue
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
}

TEST(EventLogTest, RecordsHoldVersionStartAndScalars) {
  testing::TemporaryFolder folder;
  {
    EventLog log(folder.path(), 5);
    const std::vector<Scalar> scalars = {{"loss", 1.5}, {"rate", 0.25}};
    log.add(7, scalars);
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    files.push_back(entry.path());
  }
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].filename().string().rfind("events.out.tfevents.", 0), 0u);

  const std::vector<std::string> records = records_of(read_file(files[0]));

  ASSERT_EQ(records.size(), 3u);
  protozero::pbf_reader version(records[0]);
  ASSERT_TRUE(version.next(3));
  EXPECT_EQ(version.get_string(), "brain.Event:2");
  protozero::pbf_reader start(records[1]);
  ASSERT_TRUE(start.next(2));
  EXPECT_EQ(start.get_int64(), 5);
  protozero::pbf_reader event(records[2]);
  std::vector<std::pair<std::string, float>> found;
  int64_t step = -1;
  while (event.next()) {
    if (event.tag() == 2) {
      step = event.get_int64();
    } else if (event.tag() == 5) {
      protozero::pbf_reader summary(event.get_view());
      while (summary.next(1)) {
        protozero::pbf_reader value(summary.get_view());
        ASSERT_TRUE(value.next(1));
        found.emplace_back(value.get_string(), 0.f);
        ASSERT_TRUE(value.next(2));
        found.back().second = value.get_float();
      }
    } else {
      event.skip();
    }
  }
  EXPECT_EQ(step, 7);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0], (std::pair<std::string, float>("loss", 1.5f)));
  EXPECT_EQ(found[1], (std::pair<std::string, float>("rate", 0.25f)));
}

}  // namespace
}  // namespace lagom::formats
