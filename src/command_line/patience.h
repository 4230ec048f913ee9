// Tells a user who waits for a long computation that it goes on. One thread sets it up.
#pragma once

#include <csignal>
#include <string>

namespace trireme::cli {

/// While it exists, the program says on standard error that it is computing: at once, with the reason why that takes
/// long, and again every ten seconds. For requests that are known to be large. Uses SIGALRM. One at a time.
class Patience {
 public:
  explicit Patience(const std::string& reason);
  ~Patience();
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace trireme::cli
