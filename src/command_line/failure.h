// What a program reports when an exception ends it. Callable from any thread.
#pragma once

#include <string>

namespace trireme::cli {

struct Failure {
  std::string message;
  int exit_code = 1;  ///< 1: it failed; 2: the command line, or a file that it names, is wrong
};

/// Of the exception that is being handled: call it in a catch block.
[[nodiscard]] Failure current_failure();

}  // namespace trireme::cli
