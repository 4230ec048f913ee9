// Whether calls are checked: that all ranks made the same call, that no rank has died or stopped. Always true. The
// benchmark of what that costs (bench/checks) compiles this folder with a replacement for this header that has a
// switch; with the switch off, a call hangs or computes garbage where this version names the culprit.
#pragma once

namespace trireme::comm {

constexpr bool is_checked() {
  return true;
}

}  // namespace trireme::comm
