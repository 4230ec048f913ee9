// Reads the text forms that go line by line: comments from '#' on and empty lines are left out, and every complaint
// names the line. One thread at a time.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

class LineReader {
 public:
  /// `what` is what complaints begin with: "schedule". Both texts must live as long.
  LineReader(std::string_view text, std::string_view what) : rest_(text), what_(what) {}

  /// Throws Error(Input) "WHAT, line 3: PROBLEM".
  [[noreturn]] void fail(const std::string& problem) const;
  /// The next line that says something, without its comment; "" at the end of the text.
  [[nodiscard]] std::string_view skip_to_content();
  /// The same; the text must not stop before 'end'.
  [[nodiscard]] std::string_view next_line();

 private:
  std::string_view rest_;
  std::string_view what_;
  int line_ = 0;
};

}  // namespace trireme
