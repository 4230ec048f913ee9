// How the ranks of a host share its cores. A plain value.
#pragma once

namespace trireme::simulate {

/// Ranks of one host share its cores: those that compute use `threads` each, those that communicate one each. While
/// they oversubscribe the cores, all of them slow down equally.
struct SharedCores {
  int cores = 1;
  int threads = 1;
  double speedup_alone = 1;  ///< how much faster a rank is while the others use no core
};

}  // namespace trireme::simulate
