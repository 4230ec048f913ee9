// Reads line-based text forms: skips '#' comments and empty lines, and every error names the line. One thread at a
// time.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

class LineReader {
 public:
  /// `what` is the prefix of errors: "schedule". Both texts must outlive this object.
  LineReader(std::string_view text, std::string_view what) : rest_(text), what_(what) {}

  /// Throws Error(Input) "WHAT, line 3: PROBLEM".
  [[noreturn]] void fail(const std::string& problem) const;
  /// The next nonempty line, without its comment; "" at the end of the text.
  [[nodiscard]] std::string_view skip_to_content();
  /// The same; the text must not stop before 'end'.
  [[nodiscard]] std::string_view next_line();
  /// The value in a next line of two words, "KEY VALUE".
  [[nodiscard]] std::string_view field(std::string_view key);

 private:
  std::string_view rest_;
  std::string_view what_;
  int line_ = 0;
};

}  // namespace trireme
