#include "base/json.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme {
namespace {

std::string parse_failure(const std::string& text) {
  return error_message(ErrorKind::Input, [&] { (void)parse_json(text, "plan"); });
}

bool is_json(const std::string& text) {
  try {
    (void)parse_json(text, "plan");
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(Json, ReportsLineOfSyntaxError) {
  const std::string message = parse_failure("{\n  \"a\": 1,\n  \"b\" true\n}");
  EXPECT_EQ(message.rfind("plan: line 3, column 10: ", 0), 0U) << message;
}

TEST(Json, RejectsDuplicateFields) {
  EXPECT_EQ(parse_failure(R"({"a": {"b": 1, "b": 2}})"), "plan: field 'b' is given twice");
  EXPECT_EQ(parse_json(R"([{"b": 1}, {"b": 2}])", "plan").size(), 2U);
}

TEST(Json, SurvivesHostileDocuments) {
  EXPECT_EQ(parse_failure(std::string(1'000'000, '[')), "plan: nested deeper than 16 levels");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) {
    objects += "{\"a\":";
  }
  EXPECT_EQ(parse_failure(objects), "plan: nested deeper than 16 levels");
  (void)parse_failure("[1e999]");
  (void)parse_failure("[\"\xff\"]");
  (void)parse_failure("");
  EXPECT_LT(parse_failure("\"" + std::string(1'000'000, 'x')).size(), 400U);
}

TEST(Json, PrintsBuiltDocument) {
  Json json{{"name", "ring"}, {"ranks", 4}, {"seconds", 0.5}, {"whole", 2.0}};
  json["sizes"] = std::vector<std::int64_t>{1, -2};
  json["none"] = nullptr;
  json["list"].push_back(Json{{"large", std::uint64_t{18446744073709551615U}}});
  json["empty"] = Json::array();
  json["nan"] = std::nan("");
  EXPECT_EQ(json.dump(),
            R"({"name":"ring","ranks":4,"seconds":0.5,"whole":2.0,"sizes":[1,-2],"none":null,)"
            R"("list":[{"large":18446744073709551615}],"empty":[],"nan":null})");
  EXPECT_EQ((Json{{"a", Json::array({1, true})}}).dump(2),
            "{\n  \"a\": [\n    1,\n    true\n  ]\n}");
  EXPECT_EQ((Json{1, "two"}).dump(), R"([1,"two"])");
}

TEST(Json, ComparesByValue) {
  EXPECT_EQ(Json::parse("[1, 2.5, {\"a\": null, \"b\": \"c\"}]"),
            Json::parse("[1.0, 2.5, {\"b\": \"c\", \"a\": null}]"));
  EXPECT_NE(Json::parse("[1, 2]"), Json::parse("[1, 2, 3]"));
  EXPECT_NE(Json::parse("{\"a\": 1}"), Json::parse("{\"b\": 1}"));
  EXPECT_NE(Json("1"), Json(1));
  EXPECT_LT(Json(-1), Json(std::uint64_t{1} << 63U));
  EXPECT_FALSE(Json("a") < Json("b"));
}

TEST(Json, ErasesAndUpdatesMembers) {
  Json json{{"a", 1}, {"b", 2}};
  json.erase("a");
  json.update({{"b", 3}, {"c", 4}});
  EXPECT_EQ(json.dump(), R"({"b":3,"c":4})");
}

TEST(Json, ReportsTypeMismatch) {
  const Json json{{"a", 1}, {"b", Json::array({"x"})}};
  EXPECT_EQ(error_message(ErrorKind::Input, [&] { (void)json.at("a").get<std::string>(); }),
            "expected a text in JSON, found '1'");
  EXPECT_EQ(error_message(ErrorKind::Input, [&] { (void)json.at("c"); }),
            R"(expected an object with 'c' in JSON, found '{"a":1,"b":["x"]}')");
  EXPECT_EQ(error_message(ErrorKind::Input, [&] { (void)json.at("b").at(1); }),
            R"(expected an array with an element 1 in JSON, found '["x"]')");
  EXPECT_EQ(error_message(ErrorKind::Input, [&] { (void)json.at("b").at(0).get<double>(); }),
            R"(expected a number in JSON, found '"x"')");
}

TEST(JsonObject, NamesFieldByPath) {
  const Json value =
      parse_json(R"({"name": 3, "count": 1.5, "size": 8e10, "big": 18446744073709551615})", "plan");
  const JsonObject object(value, "plan", "stages[2]", {"name", "count", "size", "big", "gone"});
  EXPECT_EQ(error_message(ErrorKind::Input, [&] { (void)object.text("name"); }),
            "plan: stages[2].name is not a text \"…\"");
  EXPECT_EQ(error_message(ErrorKind::Input, [&] { (void)object.text("gone"); }),
            "plan: stages[2].gone is missing");
  EXPECT_EQ(error_message(ErrorKind::Input, [&] { (void)object.integer("count"); }),
            "plan: stages[2].count is not an integer of at most 63 bits");
  EXPECT_EQ(error_message(ErrorKind::Input, [&] { (void)object.integer("big"); }),
            "plan: stages[2].big is not an integer of at most 63 bits");
  EXPECT_EQ(object.integer("size"), 80'000'000'000);
  EXPECT_EQ(object.optional_number("gone"), std::nullopt);
  EXPECT_EQ(object.optional_text("gone"), "");
}

TEST(JsonObject, SuggestsNearestKnownField) {
  const Json value = parse_json(R"({"nodse": 3})", "plan");
  EXPECT_EQ(error_message(ErrorKind::Input,
                          [&] {
                            const JsonObject object(value, "plan", "", {"name", "nodes"});
                          }),
            "plan: unknown field 'nodse'; did you mean 'nodes'?");
  EXPECT_EQ(error_message(ErrorKind::Input,
                          [&] {
                            const JsonObject object(value, "plan", "", {"quantity", "weight"});
                          }),
            "plan: unknown field 'nodse'; known are quantity and weight");
  EXPECT_EQ(error_message(ErrorKind::Input,
                          [&] { const JsonObject object(Json::array(), "plan", "", {"name"}); }),
            "plan: the document is not an object { … }");
}

TEST(InQuotes, KeepsMessageOnOneShortLine) {
  EXPECT_EQ(in_quotes("a\nb\xff"), "'a?b?'");
  EXPECT_EQ(in_quotes("µ"), "'µ'");
  EXPECT_LT(in_quotes(std::string(1000, 'x')).size(), 70U);
}

TEST(AppendJsonString, RoundTrips) {
  for (const std::string& text :
       {std::string(), std::string("plain"), std::string("\"\\\b\n\x1f\x7f/"), std::string("µ … 𝄞"),
        std::string("a\0b", 3)}) {
    std::string out;
    append_json_string(out, text);
    EXPECT_EQ(Json::parse(out).get<std::string>(), text) << out;
  }
}

/// Any bytes give valid JSON, and valid UTF-8 comes back unchanged: our definition of UTF-8 is the
/// parser's.
TEST(AppendJsonString, AgreesWithParserOnUtf8ForRandomBytes) {
  std::mt19937 random(7);
  int valid = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text(1 + random() % 4, '\0');
    for (char& c : text) {
      c = static_cast<char>(random() % 2 == 0 ? 0x80 + random() % 128 : random() % 256);
    }
    std::string out;
    append_json_string(out, text);
    ASSERT_EQ(Json::parse(out).get<std::string>() == text, is_utf8(text)) << out;
    std::string raw = "\"";
    for (const char c : text) {
      raw += static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\' ? 'x' : c;
    }
    ASSERT_EQ(is_json(raw + "\""), is_utf8(text)) << out;
    valid += is_utf8(text) ? 1 : 0;
  }
  EXPECT_GT(valid, 1000);
}

TEST(AppendJsonNumber, RoundTripsDoubles) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    const auto number = std::bit_cast<double>(random());
    if (!std::isfinite(number)) {
      continue;
    }
    std::string out;
    append_json_number(out, number);
    const Json parsed = Json::parse(out);
    ASSERT_TRUE(parsed.is_number_float()) << out;
    ASSERT_EQ(parsed.get<double>(), number) << out;
  }
  std::string five;
  append_json_number(five, 5);
  EXPECT_EQ(five, "5.0");
}

}  // namespace
}  // namespace trireme
