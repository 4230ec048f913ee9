// The report of training runs: one HTML page that needs nothing else, for one run or several side by side. It has no
// script (a live page has a few lines), follows light and dark, and every picture is also a table. Callable from any
// thread.
#pragma once

#include <span>
#include <string>

#include "trireme/run_record.h"

namespace trireme::report {

struct PageOptions {
  /// The page replaces its panels with newer ones every few seconds, from the address it was loaded from.
  bool live = false;
};

/// Requires a run.
[[nodiscard]] std::string run_page(std::span<const RunRecord> runs,
                                   const PageOptions& options = {});

}  // namespace trireme::report
