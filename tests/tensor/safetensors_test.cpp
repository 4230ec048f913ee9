#include "trireme/safetensors.h"

#include <cstring>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "damage.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace trireme {
namespace {

std::string with_length(const std::string& header, const std::string& data = "") {
  const std::uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + header + data;
}

/// The views point into `file`.
SafetensorsContent parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "x.safetensors");
}

void expect_refused(const std::string& words, const std::string& file) {
  SCOPED_TRACE(file.size() > 8 ? file.substr(8) : file);
  expect_error(ErrorKind::Input, "x.safetensors: " + words, [&] { (void)parse(file); });
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return fmt::format(R"({{"dtype":"{}","shape":{},"data_offsets":{}}})", dtype, shape, offsets);
}

TEST(Safetensors, RoundTrips) {
  const TemporaryFolder folder;
  std::vector<std::vector<std::byte>> data;
  std::vector<TensorView> tensors;
  for (const DType dtype : kDTypes) {
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 0}, Shape{2, 5, 1}}) {
      const TensorSpec spec{fmt::format("layer.{}/{}\"ü", to_text(dtype), to_text(shape)), dtype,
                            shape};
      data.emplace_back(size_of(spec).count, static_cast<std::byte>(data.size()));
      tensors.push_back({spec, data.back()});
    }
  }
  const TensorMetadata metadata{{"format", "pt"}, {"quote\"", "line\nbreak"}};
  const std::string path = folder / "a.safetensors";
  write_safetensors(path, tensors, metadata);
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorView& read = file.at(tensors[i].spec.name);
    EXPECT_EQ(read.spec, tensors[i].spec);
    EXPECT_TRUE(std::ranges::equal(read.bytes, tensors[i].bytes));
  }
  EXPECT_EQ(file.find("none"), nullptr);
  expect_error(ErrorKind::Input, path + ": has no tensor 'none'", [&] { (void)file.at("none"); });
}

TEST(Safetensors, WritesExpectedBytes) {
  const TemporaryFolder folder;
  const std::string eight = "12345678";
  const std::vector<TensorView> tensors{
      {{"w", DType::F32, Shape{2}}, std::as_bytes(std::span(eight))},
      {{"b", DType::I8, Shape{}}, std::as_bytes(std::span(eight)).first(1)}};
  write_safetensors(folder / "a", tensors, {{"k", "v"}});
  std::string header =
      R"({"__metadata__":{"k":"v"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"I8","shape":[],"data_offsets":[8,9]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(content_of(folder / "a"), with_length(header, "123456781"));
}

TEST(Safetensors, AcceptsAnyOrderAndWhitespace) {
  const std::string file = with_length("{ \"b\" : " + entry("U8", "[2]", "[4,6]") + ",\n\"a\":" +
                                           R"({"data_offsets":[0,4],"shape":[1],"dtype":"I32"}}  )",
                                       "aaaabb");
  const SafetensorsContent content = parse(file);
  ASSERT_EQ(content.tensors.size(), 2U);
  EXPECT_EQ(content.tensors[0].spec, (TensorSpec{"a", DType::I32, Shape{1}}));
  EXPECT_EQ(content.tensors[1].bytes[0], std::byte{'b'});
  EXPECT_TRUE(parse(with_length("{}")).tensors.empty());
}

TEST(Safetensors, RejectsBadHeaderLength) {
  expect_refused("is not a safetensors file: it has 3 bytes", "abc");
  expect_refused("says that its header has 5 bytes, but only 2 follow",
                 with_length("{}   ").substr(0, 10));
  std::string long_header = with_length("{}");
  long_header[3] = '\x10';
  expect_refused("says that its header has 268435458 bytes; at most 100000000", long_header);
  expect_refused("header: does not begin with {", with_length(""));
  expect_refused("header: does not begin with {", with_length(" {}"));
}

TEST(Safetensors, RejectsBadHeader) {
  const std::string good = entry("U8", "[1]", "[0,1]");
  expect_refused("header: line 1, column 2", with_length("{"));
  expect_refused("header: line 1, column 3", with_length("{}x"));
  expect_refused("tensor 'a': is given twice",
                 with_length("{\"a\":" + good + ",\"a\":" + good + "}", "x"));
  expect_refused("tensor 'a': 3 where an object is to be", with_length(R"({"a":3})"));
  expect_refused("tensor 'a': a list where an object", with_length(R"({"a":[]})"));
  expect_refused("tensor 'a': has no shape",
                 with_length(R"({"a":{"dtype":"U8","data_offsets":[0,0]}})"));
  expect_refused("tensor 'a': has an unknown field 'size'", with_length(R"({"a":{"size":1}})"));
  expect_refused("tensor 'a': dtype is given twice",
                 with_length(R"({"a":{"dtype":"U8","dtype":"U8"}})"));
  expect_refused("tensor 'a': dtype 'F8_E4M3' is not one of F32",
                 with_length("{\"a\":" + entry("F8_E4M3", "[1]", "[0,1]") + "}", "x"));
  expect_refused("tensor 'a': dtype is a list", with_length(R"({"a":{"dtype":[]}})"));
  expect_refused("tensor 'a': shape holds -1, which is not",
                 with_length("{\"a\":" + entry("U8", "[-1]", "[0,1]") + "}", "x"));
  expect_refused("tensor 'a': shape holds 1.5", with_length(R"({"a":{"shape":[1.5]}})"));
  expect_refused("tensor 'a': shape holds a list", with_length(R"({"a":{"shape":[[1]]}})"));
  expect_refused("tensor 'a': data_offsets has 1 numbers, not 2",
                 with_length(R"({"a":{"data_offsets":[0]}})"));
  expect_refused("__metadata__: 'k' is 1, not a text", with_length(R"({"__metadata__":{"k":1}})"));
  expect_refused("__metadata__: 'k' is given twice",
                 with_length(R"({"__metadata__":{"k":"a","k":"b"}})"));
}

TEST(Safetensors, RejectsInconsistentSizesAndRanges) {
  const auto one = [](const std::string& dtype, const std::string& shape,
                      const std::string& range) {
    return with_length("{\"a\":" + entry(dtype, shape, range) + "}", "12345678");
  };
  expect_refused("tensor 'a': data_offsets [0,8] hold 8 bytes, which does not fit f32[3]",
                 one("F32", "[3]", "[0,8]"));
  expect_refused("tensor 'a': data_offsets [0,7] hold 7 bytes", one("F32", "[1]", "[0,7]"));
  expect_refused("tensor 'a': data_offsets [8,0] end before", one("F32", "[2]", "[8,0]"));
  expect_refused("tensor 'a': data_offsets [0,12] go beyond the 8 bytes",
                 one("F32", "[3]", "[0,12]"));
  expect_refused("tensor 'a': its shape has more elements than 63 bits",
                 one("U8", "[4294967296,4294967296]", "[0,8]"));
  expect_refused("tensor 'a': its shape has more elements",
                 one("U8", "[18446744073709551615]", "[0,8]"));
  // 2^61 elements of 8 bytes are 2^64 bytes, which must not wrap to 0.
  expect_refused("tensor 'a': data_offsets [0,0] hold 0",
                 one("F64", "[2305843009213693952]", "[0,0]"));
  expect_refused("tensor 'a': bytes 0 to 4 before it", one("F32", "[1]", "[4,8]"));
  expect_refused("bytes 4 to 8 at the end of the data belong to no tensor",
                 one("F32", "[1]", "[0,4]"));
  expect_refused("tensor 'b': data_offsets [2,6] overlap those of 'a'",
                 with_length("{\"a\":" + entry("F32", "[1]", "[0,4]") +
                                 ",\"b\":" + entry("F32", "[1]", "[2,6]") + "}",
                             "123456"));
}

TEST(Safetensors, RejectsEveryTruncationAndSurvivesDamage) {
  const std::string file = with_length(
      "{\"a\":" + entry("F32", "[1]", "[0,4]") + ",\"b\":" + entry("I8", "[3]", "[4,7]") + "}",
      "1234567");
  EXPECT_EQ(parse(file).tensors.size(), 2U);
  for (std::size_t size = 0; size < file.size(); ++size) {
    expect_error(ErrorKind::Input, "x.safetensors: ", [&] { (void)parse(file.substr(0, size)); });
  }
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    try {
      (void)parse(damaged(file, random));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
    }
  }
}

TEST(SafetensorsWriter, RejectsInvalidTensors) {
  const auto nowhere = [](std::span<const std::byte>) {};
  const TensorSpec spec{"a", DType::F32, Shape{1}};
  const std::vector<std::byte> four(4);
  expect_error(ErrorKind::Usage, "tensor 'a': is given twice", [&] {
    SafetensorsWriter(nowhere, {spec, spec});
  });
  expect_error(ErrorKind::Usage, "keeps this name", [&] {
    SafetensorsWriter(nowhere, {{"__metadata__", DType::F32, Shape{}}});
  });
  expect_error(ErrorKind::Usage, "not UTF-8", [&] {
    SafetensorsWriter(nowhere, {{"\xff", DType::F32, Shape{}}});
  });
  SafetensorsWriter writer(nowhere, {spec});
  expect_error(ErrorKind::Usage, "'a': has not been written; 0 of 1", [&] { writer.finish(); });
  expect_error(ErrorKind::Usage, "got 3 bytes for f32[1], which has 4",
               [&] { writer.add(std::span(four).first(3)); });
  writer.add(four);
  writer.finish();
  expect_error(ErrorKind::Usage, "all 1 tensors have been written", [&] { writer.add(four); });
}

}  // namespace
}  // namespace trireme
