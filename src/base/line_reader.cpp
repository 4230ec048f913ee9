#include "base/line_reader.h"

#include <fmt/format.h>

#include "base/text.h"
#include "trireme/error.h"

namespace trireme {

void LineReader::fail(const std::string& problem) const {
  throw Error(ErrorKind::Input, fmt::format("{}, line {}: {}", what_, line_, problem));
}

std::string_view LineReader::skip_to_content() {
  while (!rest_.empty()) {
    const std::size_t end = rest_.find('\n');
    std::string_view line = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view{} : rest_.substr(end + 1);
    ++line_;
    line = trim(line.substr(0, line.find('#')));
    if (!line.empty()) {
      return line;
    }
  }
  return {};
}

std::string_view LineReader::next_line() {
  const std::string_view line = skip_to_content();
  if (line.empty()) {
    ++line_;
    fail("the text stops before 'end'");
  }
  return line;
}

std::string_view LineReader::field(std::string_view key) {
  const std::vector<std::string_view> words = split_words(next_line());
  if (words.size() != 2 || words[0] != key) {
    fail(fmt::format("expected '{} VALUE'", key));
  }
  return words[1];
}

}  // namespace trireme
