// Whether calls are checked: that all ranks called the same, that nobody has died or stopped. Always. The
// benchmark of what that costs (bench/checks) compiles this folder with a header in place of this one that has a
// switch; with the switch off a call hangs or computes nonsense where this one names who is at fault.
#pragma once

namespace trireme::comm {

constexpr bool is_checked() {
  return true;
}

}  // namespace trireme::comm
