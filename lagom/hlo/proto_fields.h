#pragma once

// Visitors for the table of simple attributes, and messages made of such fields. Private to
// lagom/hlo.

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "lagom/hlo/proto_parts.h"
#include "lagom/hlo/unique_names.h"
#include "lagom/util/error.h"

namespace lagom::hlo::detail {

inline protozero::pbf_tag_type tag(int field) {
  return static_cast<protozero::pbf_tag_type>(field);
}

/// Walks the table of simple attributes and reads the one the reader stands on.
class SimpleReader {
 public:
  explicit SimpleReader(protozero::pbf_reader& reader) : reader_(reader), tag_(reader.tag()) {}
  bool found() const { return found_; }

  void integer(std::string_view, int field, int64_t& value, int64_t standard) {
    if (!wanted(field)) return;
    value = read_integer(reader_);
    // Group counts of 0 mean 1.
    if (standard == 1 && value == 0) value = 1;
  }
  void boolean(std::string_view, int field, bool& value) {
    if (wanted(field)) value = read_integer(reader_) != 0;
  }
  void real(std::string_view, int field, double& value) {
    if (wanted(field)) value = read_float(reader_);
  }
  void word(std::string_view name, int field, std::string& value) {
    if (!wanted(field)) return;
    value = read_bytes(reader_);
    // Text has such words bare.
    std::string word = value;
    if (!word.empty() && sanitize_name(word, "")) {
      throw FormatError("", "", std::string(name) + " is no word: '" + value + "'");
    }
  }
  void quoted(std::string_view, int field, std::string& value) {
    if (wanted(field)) value = read_bytes(reader_);
  }
  void enumeration(std::string_view name, int field, std::string& value,
                   std::span<const std::string_view> names) {
    if (!wanted(field)) return;
    const int64_t i = read_integer(reader_);
    if (i < 0 || i >= static_cast<int64_t>(names.size())) {
      throw FormatError("", "", std::string(name) + " has the unknown value " + std::to_string(i));
    }
    value = names[static_cast<size_t>(i)];
  }
  void integers(std::string_view, int field, Dims& value) {
    if (wanted(field)) read_integers(reader_, value);
  }

 private:
  bool wanted(int field) {
    if (found_ || tag_ != tag(field)) return false;
    found_ = true;
    return true;
  }

  protozero::pbf_reader& reader_;
  protozero::pbf_tag_type tag_;
  bool found_ = false;
};

/// Visits the entries of a message that is nothing but a list of them, as field 1.
template <typename Visitor>
void for_each_entry(protozero::pbf_reader list, Visitor&& visit) {
  while (list.next()) {
    if (list.tag() == 1) {
      visit(open_message(list));
    } else {
      list.skip();
    }
  }
}

/// Reads a whole message whose fields are all simple.
template <typename Fields>
void read_message(protozero::pbf_reader message, Fields&& fields) {
  while (message.next()) {
    SimpleReader simple(message);
    fields(simple);
    if (!simple.found()) message.skip();
  }
}

/// Walks the table of simple attributes and writes those that are set.
class SimpleWriter {
 public:
  explicit SimpleWriter(protozero::pbf_writer& writer) : writer_(writer) {}

  void integer(std::string_view, int field, const int64_t& value, int64_t standard) {
    if (value != standard || standard == 1) writer_.add_int64(tag(field), value);
  }
  void boolean(std::string_view, int field, const bool& value) {
    if (value) writer_.add_bool(tag(field), true);
  }
  void real(std::string_view, int field, const double& value) {
    if (value != 0) writer_.add_float(tag(field), static_cast<float>(value));
  }
  void word(std::string_view, int field, const std::string& value) {
    if (!value.empty()) writer_.add_string(tag(field), value);
  }
  void quoted(std::string_view, int field, const std::string& value) {
    if (!value.empty()) writer_.add_bytes(tag(field), value);
  }
  void enumeration(std::string_view, int field, const std::string& value,
                   std::span<const std::string_view> names) {
    const auto it = std::find(names.begin(), names.end(), value);
    if (it != names.end() && it != names.begin()) {
      writer_.add_enum(tag(field), static_cast<int32_t>(it - names.begin()));
    }
  }
  void integers(std::string_view, int field, const Dims& value) {
    write_integers(writer_, field, value);
  }

 private:
  protozero::pbf_writer& writer_;
};

template <typename Fields>
void write_message(protozero::pbf_writer& writer, int field, Fields&& fields) {
  std::string bytes;
  protozero::pbf_writer out(bytes);
  fields(out);
  writer.add_message(tag(field), bytes);
}

}  // namespace lagom::hlo::detail
