#include "lagom/formats/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lagom/util/error.h"

namespace lagom::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::string_literals;

/// An npy file of version 1.0 with this dictionary and these values.
std::string npy(const std::string& dictionary, const std::string& values, int major = 1) {
  std::string bytes = "\x93NUMPY" + std::string(1, static_cast<char>(major)) + "\0"s;
  const size_t length = dictionary.size();
  bytes += static_cast<char>(length & 0xff);
  bytes += static_cast<char>(length >> 8);
  if (major > 1) bytes += "\0\0"s;
  return bytes + dictionary + values;
}

std::string error_of(const std::string& bytes) {
  try {
    read_npy(bytes, "a.npz", "x");
  } catch (const FormatError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(NpyTest, ReadsEveryVersionAndOrderOfKeys) {
  const std::string values = "\x01\x02\x03\x04\x05\x06"s;
  for (const int major : {1, 2, 3}) {
    const Array array = read_npy(
        npy("{'shape': (2, 3), 'fortran_order': False, 'descr': '|i1'}", values, major), "f");
    EXPECT_EQ(array.element_type, PrimitiveType::kS8);
    EXPECT_THAT(array.shape, ElementsAre(2, 3));
    EXPECT_EQ(view_of(array.data), values);
  }
}

TEST(NpyTest, ReadsColumnMajorArrays) {
  // The columns of ((1, 2, 3), (4, 5, 6)).
  const Array array = read_npy(
      npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", "\x01\x04\x02\x05\x03\x06"),
      "f");
  EXPECT_EQ(view_of(array.data), "\x01\x02\x03\x04\x05\x06");
}

TEST(NpyTest, ReadsBigEndianValues) {
  const Array array = read_npy(
      npy("{'descr': '>i4', 'fortran_order': False, 'shape': (2,), }", "\0\0\1\2\xff\xff\xff\xfe"s),
      "f");
  EXPECT_THAT(values_as<int32_t>(array), ElementsAre(258, -2));
  const Array complex = read_npy(
      npy("{'descr': '>c8', 'fortran_order': False, 'shape': (), }", "\x3f\x80\0\0\x40\0\0\0"s),
      "f");
  EXPECT_EQ(decode_number(PrimitiveType::kC64, complex.data.data(), 0), 1);
  EXPECT_EQ(decode_number(PrimitiveType::kC64, complex.data.data(), 1), 2);
}

TEST(NpyTest, ReadsScalarsAndEmptyArrays) {
  const Array scalar =
      read_npy(npy("{'descr': '<f2', 'fortran_order': False, 'shape': (), }", "\x00\x3e"s), "f");
  EXPECT_THAT(values_as<float>(scalar), ElementsAre(1.5F));
  const Array empty =
      read_npy(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 7), }", ""), "f");
  EXPECT_EQ(empty.num_elements(), 0);
  EXPECT_TRUE(values_as<int8_t>(empty).empty());
}

TEST(NpyTest, WritesWhatItReads) {
  const Array array = Array::of<float>({2, 1, 3}, {1, -2, 0.5F, 1e30F, 0, 7});
  const std::string bytes = write_npy(array);

  EXPECT_EQ(read_npy_header(bytes, "f", "").data_offset % 64, 0u);
  const Array again = read_npy(bytes, "f");
  EXPECT_EQ(again.shape, array.shape);
  EXPECT_EQ(again.data, array.data);
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{}, std::vector<int64_t>{5}, std::vector<int64_t>{0, 3}}) {
    EXPECT_EQ(read_npy_header(npy_header(PrimitiveType::kU16, shape), "f", "").shape, shape);
  }
  EXPECT_THROW(npy_header(PrimitiveType::kBF16, {1}), std::invalid_argument);
}

TEST(NpyTest, RefusesWhatIsNoArrayOfNumbers) {
  const auto with_type = [](const std::string& descr) {
    return error_of(
        npy("{'descr': " + descr + ", 'fortran_order': False, 'shape': (1,), }", "12345678"));
  };
  EXPECT_EQ(with_type("'|O'"),
            "a.npz: x: an array of Python objects: it would be a pickle, which is never read");
  EXPECT_THAT(with_type("[('a', '<i4'), ('b', '<i4')]"), HasSubstr("structures"));
  for (const char* type : {"'<U2'", "'|S8'", "'<M8[ns]'", "'<f16'", "'|V2'", "''", "'<i3'"}) {
    EXPECT_THAT(with_type(type), HasSubstr("type '")) << type;
  }
}

TEST(NpyTest, RefusesBrokenHeaders) {
  EXPECT_THAT(error_of("PK"), HasSubstr("expected an npy array"));
  EXPECT_THAT(error_of("\x93NUMPY\x01"), HasSubstr("cut off"));
  EXPECT_THAT(error_of(npy("{}", "", 9)), HasSubstr("version 9"));
  EXPECT_THAT(error_of("\x93NUMPY\x01\0\xff\x0f{"s), HasSubstr("cut off"));
  EXPECT_THAT(error_of("\x93NUMPY\x02\0\xff\xff\xff\xff{"s), HasSubstr("too long"));
  for (const char* dictionary :
       {"", "{", "{'descr': '<f4'}", "{'descr' '<f4'}", "{'descr': '<f4', 'fortran_order': Maybe}",
        "{'shape': (1, 'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1), 'other': 2}"}) {
    EXPECT_THAT(error_of(npy(dictionary, "1234")), HasSubstr("a.npz: x: ")) << dictionary;
  }
}

TEST(NpyTest, RefusesSizesThatDoNotFit) {
  EXPECT_THAT(error_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "1234567")),
              HasSubstr("holds 7 bytes of values, its shape and type need 8"));
  EXPECT_THAT(error_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000, "
                           "4000000000, 4000000000), }",
                           "")),
              HasSubstr("more bytes than can be counted"));
  EXPECT_THAT(error_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': "
                           "(0, 99999999999999999999), }",
                           "")),
              HasSubstr("too large"));
}

TEST(ArrayTest, ConvertsByValueWithinRange) {
  const Array whole = Array::of<double>({3}, {-1, 127, 3});
  EXPECT_THAT(values_as<int8_t>(whole), ElementsAre(-1, 127, 3));
  EXPECT_THAT(values_as<float>(whole), ElementsAre(-1, 127, 3));
  EXPECT_THROW(values_as<uint8_t>(whole), std::invalid_argument);
  EXPECT_THROW(values_as<int64_t>(Array::of<double>({1}, {0.5})), std::invalid_argument);
  EXPECT_THROW(values_as<int64_t>(Array::of<double>({1}, {std::nan("")})), std::invalid_argument);
  EXPECT_THROW(values_as<int64_t>(Array::of<double>({1}, {9223372036854775808.0})),
               std::invalid_argument);
  EXPECT_THROW(values_as<int32_t>(Array::of<uint32_t>({1}, {4000000000U})), std::invalid_argument);
  EXPECT_THROW(values_as<uint64_t>(Array::of<int64_t>({1}, {-1})), std::invalid_argument);
  try {
    values_as<int8_t>(Array::of<int32_t>({3}, {1, 300, 2}));
    FAIL() << "accepted";
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "value 300 at index 1 does not fit in s8");
  }
}

TEST(ArrayTest, StatisticsAreInDouble) {
  const ArrayStatistics s = statistics_of(Array::of<float>({3}, {16777216.0F, 1, 1}));
  EXPECT_EQ(s.sum, 16777218.0);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.max, 16777216);
  EXPECT_TRUE(std::isnan(statistics_of(Array::of<double>({2}, {1, std::nan("")})).max));
  EXPECT_EQ(statistics_of(Array::of<float>({0}, {})).sum, 0);
}

}  // namespace
}  // namespace lagom::formats
