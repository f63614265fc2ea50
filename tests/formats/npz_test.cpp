#include "lagom/formats/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "lagom/util/error.h"
#include "lagom/util/file.h"
#include "tests/testing/command.h"

namespace lagom::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NpzTest : public ::testing::Test {
 protected:
  NpzTest() {
    std::mt19937 random(1);
    for (int i = 0; i < 60000; ++i) large_.push_back(static_cast<int32_t>(random() % 1000));
    NpzWriter writer(path());
    writer.add("large", Array::of<int32_t>({6000, 10}, large_));
    writer.add("small", Array::of<float>({3}, {1, 2, 3}));
    writer.add("empty", Array::of<int64_t>({0, 4}, {}));
    writer.add("scalar", Array::of<double>({}, {7}));
    writer.finish();
    bytes_ = read_file(path());
  }

  std::string path() const { return folder_ / "a.npz"; }

  /// What reading an array of a file with these bytes says.
  std::string error_of(const std::string& bytes, const std::string& name = "small") {
    const std::string broken = folder_.write("broken.npz", bytes);
    try {
      NpzReader(broken).read(name);
    } catch (const FormatError& e) {
      EXPECT_THAT(e.what(), ::testing::StartsWith(broken));
      return e.what();
    }
    return "accepted";
  }

  /// Offset of a member's data, from its name in its local header.
  size_t data_of(const std::string& name) const { return bytes_.find(name) + name.size(); }

  testing::TemporaryFolder folder_;
  std::vector<int32_t> large_;
  std::string bytes_;
};

TEST_F(NpzTest, ReadsWhatWasWrittenInAnyOrder) {
  const NpzReader file(path());

  EXPECT_THAT(file.names(), ElementsAre("large", "small", "empty", "scalar"));
  EXPECT_THAT(values_as<double>(file.read("scalar")), ElementsAre(7));
  EXPECT_THAT(values_as<float>(file.read("small")), ElementsAre(1, 2, 3));
  EXPECT_EQ(values_as<int32_t>(file.read("large")), large_);
  EXPECT_THAT(file.read("empty").shape, ElementsAre(0, 4));
  EXPECT_THAT(file.header("large").shape, ElementsAre(6000, 10));
  EXPECT_LT(bytes_.size(), large_.size() * 4 / 2);  // it is compressed
}

TEST_F(NpzTest, ReadsRowsInPieces) {
  const NpzReader file(path());
  NpzReader::Rows rows = file.rows("large");
  std::vector<int32_t> all;
  while (true) {
    const Array part = rows.next(997);
    if (part.shape[0] == 0) break;
    EXPECT_EQ(part.shape[1], 10);
    const auto values = values_as<int32_t>(part);
    all.insert(all.end(), values.begin(), values.end());
  }
  EXPECT_EQ(all, large_);
  EXPECT_THROW(file.rows("scalar"), FormatError);
  EXPECT_EQ(file.rows("empty").next(5).shape[0], 0);
}

TEST_F(NpzTest, NamesWhatIsMissing) {
  EXPECT_EQ(error_of(bytes_, "node_feat"),
            (folder_ / "broken.npz") +
                ": node_feat: there is no such array; the file has large, small, empty, scalar");
}

TEST_F(NpzTest, AFlippedByteIsFound) {
  std::string bytes = bytes_;
  for (size_t offset = 10; offset < 10000; offset = offset * 3 / 2) {
    bytes = bytes_;
    bytes[data_of("large.npy") + offset] ^= 0x10;
    const std::string error = error_of(bytes, "large");
    EXPECT_TRUE(error.find("checksum") != std::string::npos ||
                error.find("damaged") != std::string::npos)
        << offset << ": " << error;
  }
  // In pieces it is found too, at the end at the latest.
  folder_.write("broken.npz", bytes);
  const NpzReader file(folder_ / "broken.npz");
  const auto read_all = [&] {
    NpzReader::Rows rows = file.rows("large");
    while (rows.next(100).shape[0] > 0) {
    }
  };
  EXPECT_THROW(read_all(), FormatError);
}

TEST_F(NpzTest, EveryTruncationIsRefused) {
  for (size_t size = 0; size < bytes_.size(); size += 1 + size / 50) {
    EXPECT_NE(error_of(bytes_.substr(0, size)), "accepted") << size;
  }
  EXPECT_THAT(error_of(bytes_.substr(0, bytes_.size() - 1)), HasSubstr("cut off"));
  EXPECT_THAT(error_of("no zip at all, but long enough to hold one"), HasSubstr("expected a zip"));
}

TEST_F(NpzTest, DamageNeverCrashes) {
  std::mt19937 random(2);
  for (int round = 0; round < 1000; ++round) {
    std::string bytes = bytes_;
    // The directory and the end record, where sizes and offsets are.
    const size_t first = round % 2 == 0 ? bytes.size() - 300 : 0;
    const size_t span = round % 2 == 0 ? 300 : bytes.size();
    for (int i = 0; i < 3; ++i) {
      bytes[first + random() % span] = static_cast<char>(random());
    }
    for (const char* name : {"small", "scalar", "empty"}) error_of(bytes, name);
  }
}

TEST_F(NpzTest, AMemberMayNotClaimMoreThanDeflateCanGive) {
  std::string bytes = bytes_;
  const size_t entry = bytes.find("PK\x01\x02");
  bytes.replace(entry + 24, 4, "\xf0\xff\xff\xff");
  EXPECT_THAT(error_of(bytes, "large"), HasSubstr("claims 4294967280 bytes"));
}

TEST_F(NpzTest, AWriterThatGoesLeavesNothing) {
  {
    NpzWriter writer(folder_ / "b.npz");
    writer.add("x", Array::of<float>({1}, {1}));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "b.npz"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(NpzTest, EqualArraysGiveEqualFiles) {
  NpzWriter writer(folder_ / "again.npz");
  const NpzReader file(path());
  for (const std::string& name : file.names()) writer.add(name, file.read(name));
  writer.finish();
  EXPECT_EQ(read_file(folder_ / "again.npz"), bytes_);
}

}  // namespace
}  // namespace lagom::formats
