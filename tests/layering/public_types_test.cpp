// Two public headers that define the same name differently break whoever includes both, or links objects that include one
// each.
#include <map>
#include <regex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "layering/source_files.h"

namespace trireme::layering {
namespace {

/// The types that a header defines in a namespace: lines that begin with `struct Name {` and the like.
std::vector<std::string> types_defined_in(const std::string& text) {
  static const std::regex definition(R"(^(struct|class|enum class) (\w+)( final)?( : .*)? \{.*)");
  std::vector<std::string> names;
  for (const std::string_view line : split(text, '\n')) {
    std::smatch match;
    const std::string whole(line);
    if (std::regex_match(whole, match, definition)) {
      names.push_back(match[2]);
    }
  }
  return names;
}

/// The text of every public header by its name.
std::map<std::string, std::string> public_headers() {
  std::map<std::string, std::string> headers;
  for (const std::string& name : files_below(TRIREME_SOURCE_DIR, "include")) {
    headers[name] = read_file(std::filesystem::path(TRIREME_SOURCE_DIR) / name);
  }
  return headers;
}

TEST(PublicTypes, EachIsDefinedInOneHeader) {
  std::map<std::string, std::vector<std::string>> headers;
  for (const auto& [name, text] : public_headers()) {
    for (const std::string& type : types_defined_in(text)) {
      headers[type].push_back(name);
    }
  }
  EXPECT_GT(headers.size(), 100U);
  for (const auto& [type, where] : headers) {
    EXPECT_EQ(where.size(), 1U) << fmt::format("{}: {}", type, fmt::join(where, ", "));
  }
}

TEST(PublicTypes, EnumsHaveTextForm) {
  static const std::regex definition(R"(enum class (\w+))");
  int count = 0;
  for (const auto& [name, text] : public_headers()) {
    for (std::sregex_iterator it(text.begin(), text.end(), definition), end; it != end; ++it) {
      const std::regex printer(fmt::format(R"(to_text\((\w+::)*{} )", (*it)[1].str()));
      EXPECT_TRUE(std::regex_search(text, printer)) << fmt::format("{}: {}", name, (*it)[1].str());
      ++count;
    }
  }
  EXPECT_GT(count, 50);
}

}  // namespace
}  // namespace trireme::layering
