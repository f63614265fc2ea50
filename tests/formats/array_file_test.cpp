#include "lagom/formats/array_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "tests/testing/command.h"

namespace lagom::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class ArrayFileTest : public ::testing::Test {
 protected:
  /// "a" int16 [2, 3], "empty" float [0, 5], "scalar" uint64 [].
  std::string write_sample() const {
    ArrayFileWriter writer(path_);
    writer.begin("a", PrimitiveType::kS16, {2, 3});
    const std::vector<int16_t> first = {1, -2}, second = {3, 4, 5, -6};
    writer.append(std::span<const int16_t>(first));
    writer.append(std::span<const int16_t>(second));
    writer.add<float>("empty", {0, 5}, {});
    writer.add<uint64_t>("scalar", {}, {uint64_t{1} << 63});
    writer.finish();
    return read_file(path_);
  }

  testing::TemporaryFolder folder_;
  std::string path_ = folder_ / "x.arrays";
};

TEST_F(ArrayFileTest, ArraysComeBackByNameAndType) {
  write_sample();
  const ArrayFile file(path_);
  EXPECT_THAT(file.values<int16_t>("a", 2), ElementsAre(1, -2, 3, 4, 5, -6));
  EXPECT_THAT(file.shape("a"), ElementsAre(2, 3));
  EXPECT_TRUE(file.values<float>("empty", 2).empty());
  EXPECT_THAT(file.values<uint64_t>("scalar", 0), ElementsAre(uint64_t{1} << 63));
  EXPECT_EQ(file.find("b"), nullptr);
  EXPECT_NO_THROW(file.verify_all());
}

TEST_F(ArrayFileTest, ValuesBeginAtMultiplesOf64) {
  write_sample();
  const ArrayFile file(path_);
  for (const ArrayFile::Entry& entry : file.entries()) EXPECT_EQ(entry.offset % 64, 0u);
}

TEST_F(ArrayFileTest, OtherTypesRanksAndNamesAreRefused) {
  write_sample();
  const ArrayFile file(path_);
  EXPECT_THAT([&] { file.values<int32_t>("a", 2); },
              ThrowsMessage<FormatError>(HasSubstr("a: is s16[2, 3], expected s32 with 2")));
  EXPECT_THROW(file.values<int16_t>("a", 1), FormatError);
  EXPECT_THAT([&] { file.values<int16_t>("b", 1); },
              ThrowsMessage<FormatError>(HasSubstr("b: there is no such array")));
}

TEST_F(ArrayFileTest, EveryTruncationIsRefused) {
  const std::string bytes = write_sample();
  for (size_t size = 0; size < bytes.size(); ++size) {
    write_file(path_, bytes.substr(0, size));
    EXPECT_THROW(ArrayFile{path_}, FormatError) << size;
  }
  write_file(path_, bytes + "x");
  EXPECT_THROW(ArrayFile{path_}, FormatError);
}

TEST_F(ArrayFileTest, EveryFlippedByteOfHeaderDirectoryAndValuesIsFound) {
  const std::string bytes = write_sample();
  const auto is_padding = [&](size_t at) {
    // Behind the header's checksum; behind the 12 bytes of "a" and the 8 of the scalar.
    return (at >= 40 && at < 64) || (at >= 64 + 12 && at < 128) || (at >= 128 + 8 && at < 192);
  };
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    write_file(path_, flipped);
    if (is_padding(at)) continue;
    EXPECT_THROW(ArrayFile(path_).verify_all(), FormatError) << at;
  }
}

TEST_F(ArrayFileTest, AnUnfinishedWriterLeavesNothing) {
  {
    ArrayFileWriter writer(path_);
    writer.begin("a", PrimitiveType::kS8, {2});
    EXPECT_FALSE(std::filesystem::exists(path_));
    EXPECT_THROW(writer.begin("b", PrimitiveType::kS8, {1}), std::invalid_argument);
    EXPECT_THROW(writer.finish(), std::invalid_argument);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(ArrayFileTest, WriterRefusesNamesAndValuesThatDoNotFit) {
  ArrayFileWriter writer(path_);
  writer.add<int8_t>("a", {1}, {1});
  EXPECT_THROW(writer.add<int8_t>("a", {1}, {1}), std::invalid_argument);
  EXPECT_THROW(writer.add<int8_t>(std::string(41, 'x'), {1}, {1}), std::invalid_argument);
  EXPECT_THROW(writer.add<int8_t>("deep", {1, 1, 1, 1, 1}, {1}), std::invalid_argument);
  EXPECT_THROW(writer.add<int8_t>("b", {1}, {1, 2}), std::invalid_argument);
}

}  // namespace
}  // namespace lagom::formats
