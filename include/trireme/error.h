// Errors: how every part of Trireme says that the caller or the world is at fault.
#pragma once

#include <stdexcept>
#include <string>

namespace trireme {

/// The closed list of what can go wrong outside of Trireme itself.
enum class ErrorKind {
  Usage,   ///< the caller asked for something that does not exist or cannot be: root 9 of 4 ranks
  Input,   ///< a file or text is malformed; the message has the line
  System,  ///< the machine refused: a file cannot be opened, memory is short
  Peer,    ///< another rank is at fault: it died, stopped or called something else (see comm.h)
};

/// Thrown on misuse or when the world fails. what() is one line that names the thing, the numbers
/// and, where there is one, the fix. An outcome that is to be expected is a return value, never an
/// Error.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace trireme
