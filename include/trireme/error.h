// Errors: how Trireme reports that the caller or the environment is at fault. Callable from any thread.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace trireme {

/// The closed list of failures outside Trireme.
enum class ErrorKind {
  Usage,   ///< the request is impossible or refers to something unknown: root 9 of 4 ranks
  Input,   ///< a file is missing or unreadable, or a text is malformed; the message has the line
  System,  ///< the system failed: a file cannot be written, memory is short
  Peer,    ///< another rank is at fault: it died, stopped or made a different call (see comm.h)
};
/// "usage", …
[[nodiscard]] std::string_view to_text(ErrorKind kind);

/// Thrown on misuse or when the environment fails. what() is one line that names the object, the
/// numbers and, if there is one, the fix. An expected outcome is a return value, never an Error.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

/// A violated invariant inside Trireme: please report it. Libraries do not catch it.
class Bug : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace trireme
