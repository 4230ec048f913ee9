// Reports to a waiting user that a long computation is still running. One thread sets it up.
#pragma once

#include <csignal>
#include <string>

#include "trireme/shared_number.h"

namespace trireme::cli {

struct PatienceOptions {
  std::string reason{};   ///< why it takes long, printed immediately; "": not known yet
  unsigned seconds = 10;  ///< between two messages
  /// Silent once this is not 0, which a forked process may set. Must outlive the Patience.
  const SharedNumber* until = nullptr;
};

/// While it exists, the program reports on standard error, at regular intervals, that it is still computing. Uses SIGALRM.
/// One at a time. Forked processes do not report.
class Patience {
 public:
  explicit Patience(const PatienceOptions& options = {});
  ~Patience();
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace trireme::cli
