// A SAX parser, so that a header of a hundred megabytes never becomes a tree of values.
#include "tensor/safetensors_header.h"

#include <optional>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "tensor/safetensors_names.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme {
namespace {

using PlainJson = nlohmann::json;

class HeaderReader : public nlohmann::json_sax<PlainJson> {
 public:
  explicit HeaderReader(std::string_view what) : what_(what) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool null() override { return wrong_value("null"); }
  bool boolean(bool /*value*/) override { return wrong_value("true or false"); }
  bool number_integer(std::int64_t value) override { return wrong_value(std::to_string(value)); }
  bool number_float(double /*value*/, const std::string& text) override {
    return wrong_value(text);
  }
  bool binary(PlainJson::binary_t& /*value*/) override { return wrong_value("binary data"); }

  bool number_unsigned(std::uint64_t value) override {
    if (place_ != Place::List) {
      return wrong_value(std::to_string(value));
    }
    list_.push_back(value);
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::Metadata) {
      if (!header_.metadata.emplace(field_, std::move(value)).second) {
        fail(fmt::format("{} is given twice", in_quotes(field_)));
      }
    } else if (place_ == Place::Entry && field_ == "dtype") {
      take_dtype(value);
    } else {
      wrong_value(in_quotes(value));
    }
    return true;
  }

  bool start_object(std::size_t /*fields*/) override {
    if (place_ == Place::Outside) {
      place_ = Place::Top;
    } else if (place_ == Place::Top) {
      place_ = name_ == kMetadataName ? Place::Metadata : Place::Entry;
      dtype_.reset();
      shape_.reset();
      offsets_.reset();
    } else {
      wrong_value("an object");
    }
    return true;
  }

  bool key(std::string& value) override {
    if (place_ == Place::Top) {
      name_ = std::move(value);
      if (!seen_.insert(name_).second) {
        fail("is given twice");
      }
    } else {
      field_ = std::move(value);
      if (place_ == Place::Entry && field_ != "dtype" && field_ != "shape" &&
          field_ != "data_offsets") {
        fail(fmt::format("has an unknown field {}", in_quotes(field_)));
      }
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::Entry) {
      add_entry();
    }
    place_ = place_ == Place::Top ? Place::Outside : Place::Top;
    return true;
  }

  bool start_array(std::size_t /*elements*/) override {
    if (place_ != Place::Entry || field_ == "dtype") {
      return wrong_value("a list");
    }
    place_ = Place::List;
    list_.clear();
    return true;
  }

  bool end_array() override {
    place_ = Place::Entry;
    if (field_ == "shape") {
      keep(shape_, std::move(list_));
    } else if (list_.size() == 2) {
      keep(offsets_, std::pair(list_[0], list_[1]));
    } else {
      fail(fmt::format("data_offsets has {} numbers, not 2", list_.size()));
    }
    list_ = {};
    return true;
  }

  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    throw_json_error(fmt::format("{}: header", what_), error);
  }

 private:
  enum class Place { Outside, Top, Metadata, Entry, List };

  [[noreturn]] void fail(const std::string& problem) const {
    const std::string where = name_ == kMetadataName ? name_ : "tensor " + in_quotes(name_);
    throw Error(ErrorKind::Input, fmt::format("{}: {}: {}", what_, where, problem));
  }

  bool wrong_value(const std::string& found) const {
    switch (place_) {
      case Place::Outside:
        throw Error(ErrorKind::Input, fmt::format("{}: header: is not an object", what_));
      case Place::Top:
        fail(fmt::format("{} where an object is to be", found));
      case Place::Metadata:
        fail(fmt::format("{} is {}, not a text", in_quotes(field_), found));
      case Place::Entry:
        fail(fmt::format("{} is {}", field_, found));
      case Place::List:
        fail(fmt::format("{} holds {}, which is not an integer of 0 or more", field_, found));
    }
    return false;
  }

  template <class T>
  void keep(std::optional<T>& kept, T value) {
    if (kept) {
      fail(fmt::format("{} is given twice", field_));
    }
    kept = std::move(value);
  }

  void take_dtype(const std::string& text) {
    const std::optional<DType> dtype = safetensors_dtype(text);
    if (!dtype) {
      fail(fmt::format("dtype {} is not one of F32, F64, F16, BF16, I8, U8, I32 and I64",
                       in_quotes(text)));
    }
    keep(dtype_, *dtype);
  }

  void add_entry() {
    const char* missing = !dtype_     ? "dtype"
                          : !shape_   ? "shape"
                          : !offsets_ ? "data_offsets"
                                      : nullptr;
    if (missing != nullptr) {
      fail(fmt::format("has no {}", missing));
    }
    header_.entries.push_back({.spec = {.name = name_, .dtype = *dtype_, .shape = make_shape()},
                               .begin = offsets_->first,
                               .end = offsets_->second});
  }

  [[nodiscard]] Shape make_shape() const {
    try {
      // A 64-bit dimension becomes negative and is rejected as such.
      return Shape(std::vector<std::int64_t>(shape_->begin(), shape_->end()));
    } catch (const Error&) {
      fail("its shape has more elements than 63 bits can count");
    }
  }

  std::string_view what_;
  SafetensorsHeader header_;
  std::unordered_set<std::string> seen_;
  Place place_ = Place::Outside;
  std::string name_;
  std::string field_;
  std::optional<DType> dtype_;
  std::optional<std::vector<std::uint64_t>> shape_;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> offsets_;
  std::vector<std::uint64_t> list_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, std::string_view what) {
  HeaderReader reader(what);
  PlainJson::sax_parse(text, &reader);
  return reader.take();
}

}  // namespace trireme
