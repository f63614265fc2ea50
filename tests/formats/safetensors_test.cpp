#include "lagom/formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "tests/testing/command.h"

namespace lagom::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string file_bytes(const std::string& header, const std::string& values) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + values;
}

class SafetensorsTest : public ::testing::Test {
 protected:
  std::string error_of(const std::string& bytes) const {
    try {
      SafetensorsFile file(folder_.write("w.safetensors", bytes));
    } catch (const FormatError& error) {
      return std::string(error.what()).substr(folder_.path().string().size() + 1);
    }
    return "";
  }
  testing::TemporaryFolder folder_;
};

TEST_F(SafetensorsTest, ReadsAFileWrittenByHand) {
  const std::string path = folder_.write(
      "a.safetensors",
      file_bytes(
          R"({"__metadata__":{"k":"v"},"b":{"dtype":"I16","shape":[2],"data_offsets":[1,5]},)"
          R"("a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}   )",
          std::string("\x07\x01\x00\xff\xff", 5)));

  const SafetensorsFile file(path);

  ASSERT_EQ(file.entries().size(), 2u);
  EXPECT_EQ(file.entries()[0].name, "a");
  EXPECT_EQ(file.entries()[0].data, "\x07");
  const SafetensorsEntry& b = file.at("b");
  EXPECT_EQ(b.element_type, PrimitiveType::kS16);
  EXPECT_THAT(b.shape, ElementsAre(2));
  EXPECT_EQ(b.data, std::string("\x01\x00\xff\xff", 4));
  EXPECT_EQ(file.metadata().at("k"), "v");
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_THROW((void)file.at("c"), FormatError);
}

TEST_F(SafetensorsTest, WhatIsWrittenReadsBack) {
  const std::string path = folder_ / "deeper/b.safetensors";
  const std::vector<SafetensorsEntry> entries = {
      {"x \"quoted\"", PrimitiveType::kBF16, {2, 1}, "abcd"},
      {"empty", PrimitiveType::kF32, {0, 7}, ""},
      {"y", PrimitiveType::kF64, {}, "12345678"},
  };

  write_safetensors(path, entries, {{"config", "a = 1\n"}});

  const std::string bytes = read_file(path);
  EXPECT_TRUE(is_safetensors(bytes));
  const SafetensorsFile file(path);
  ASSERT_EQ(file.entries().size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const SafetensorsEntry& entry = file.at(entries[i].name);
    EXPECT_EQ(entry.data, entries[i].data);
    EXPECT_EQ(entry.shape, entries[i].shape);
    EXPECT_EQ(entry.element_type, entries[i].element_type);
  }
  EXPECT_EQ(file.metadata().at("config"), "a = 1\n");
}

TEST_F(SafetensorsTest, BrokenFilesAreRefusedWithTheReason) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(error_of(file_bytes(good, "12345678")), "");

  EXPECT_EQ(error_of("1234"), "w.safetensors: header: expected at least 8 bytes, found 4");
  EXPECT_THAT(error_of(file_bytes(good, "1234567")),
              HasSubstr("tensor 'a': ends at byte 8 of the values, the file has 7"));
  EXPECT_THAT(error_of(file_bytes(good, "123456789")),
              HasSubstr("1 bytes after the last tensor's values"));
  EXPECT_THAT(error_of(file_bytes(good, "12345678").substr(0, 20)),
              HasSubstr("claims 54 bytes, the file has 12"));
  EXPECT_THAT(error_of(std::string(8, '\xff') + "{}"), HasSubstr("header: claims"));
  EXPECT_THAT(error_of(file_bytes("{\"a\":", "")), HasSubstr("header: no JSON"));
  EXPECT_THAT(error_of(file_bytes("[]", "")), HasSubstr("expected a JSON object"));
  EXPECT_THAT(
      error_of(file_bytes(R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", "12345678")),
      HasSubstr("tensor 'a': unknown dtype 'F31'"));
  EXPECT_THAT(
      error_of(file_bytes(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "12345678")),
      HasSubstr("tensor 'a': F32[3] expects 12 bytes, found 8"));
  EXPECT_THAT(error_of(file_bytes(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
                                  "12345678")),
              HasSubstr("shape: expected an array of numbers from 0"));
  EXPECT_THAT(error_of(file_bytes(
                  R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})",
                  "12345678")),
              HasSubstr("expects uncountable bytes"));
  EXPECT_THAT(
      error_of(file_bytes(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[8,0]}})", "12345678")),
      HasSubstr("data_offsets: expected [begin, end]"));
  EXPECT_THAT(error_of(file_bytes(R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},)"
                                  R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                                  "12345678")),
              HasSubstr("tensor 'b': its values overlap"));
  EXPECT_THAT(error_of(file_bytes(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                  R"("a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                                  "12345678")),
              HasSubstr("header: 'a' is there twice"));
  EXPECT_THAT(error_of(file_bytes(R"({"__metadata__":{"k":1}})", "")),
              HasSubstr("metadata 'k': expected a string"));
}

TEST_F(SafetensorsTest, AFailedWriteKeepsTheOldFile) {
  const std::string path = folder_ / "c.safetensors";
  const std::vector<SafetensorsEntry> entries = {{"a", PrimitiveType::kU8, {3}, "abc"}};
  write_safetensors(path, entries);
  const std::string before = read_file(path);

  const std::vector<SafetensorsEntry> wrong = {{"a", PrimitiveType::kU8, {4}, "abc"}};
  EXPECT_THROW(write_safetensors(path, wrong), std::invalid_argument);
  const std::vector<SafetensorsEntry> twice = {entries[0], entries[0]};
  EXPECT_THROW(write_safetensors(path, twice), std::invalid_argument);
  const std::vector<SafetensorsEntry> untyped = {{"a", PrimitiveType::kS4, {3}, "abc"}};
  EXPECT_THROW(write_safetensors(path, untyped), std::invalid_argument);
  EXPECT_THROW(write_safetensors("/proc/c.safetensors", entries), SystemError);

  EXPECT_EQ(read_file(path), before);
}

}  // namespace
}  // namespace lagom::formats
