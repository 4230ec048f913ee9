// Efficiency: the share of a device's and its links' peak rates that training reaches in practice. Data, not code: a
// cluster carries one, either measured on the machine or fitted to training runs, with its source.
//
// Plain values; all functions may be called from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/units.h"
#include "trireme/valid.h"

namespace trireme {

/// Shares are between 0 and 1. A matrix product of M x K by K x N takes
///
///   2MNK / (matmul * peak)  *  (1 + depth / K)  *  waves(M, N)
///
/// where waves() is how much longer the last, partly filled wave of tiles makes it, or the time to move its operands
/// through memory if that is longer.
struct Efficiency {
  double matmul = 0.8;   ///< of the dense peak: large matrix products of 16 bits or more
  double matmul8 = 0.6;  ///< the same for 8 bits, conversions included
  double matmul4 = 0.4;  ///< the same for 4 bits
  double depth = 200;  ///< the K at which filling and draining a tile costs as much as computing it
  int units = 0;  ///< multiprocessors that share the tiles of a product; 0: waves do not matter
  int tile_rows = 128;     ///< of the tiles that one multiprocessor computes
  int tile_columns = 256;  ///< the same
  /// Fused attention, as a share of the dense 16-bit peak, counted with a causal mask.
  double attention = 0.5;
  /// The small batched products of attention that is not fused, as a share of the same peak.
  double scores = 0.35;
  double memory = 0.8;         ///< of the memory bandwidth: norms, activations, optimizers
  Seconds launch{60e-6};       ///< of the host: launching the kernels of one block's forward pass
  double node_links = 0.7;     ///< of the bandwidth of links in a node
  double network_links = 0.7;  ///< of the bandwidth of links between nodes
  /// How much longer a pass takes if several tensor groups share a node (1 < tensor < devices of a node): their ranks
  /// contend for host, memory and links, and wait for one another in their collectives. 0.1: 10 %.
  double contention = 0;
  /// The share of the computation that can overlap with data-parallel communication.
  double overlap = 0.9;
  Seconds step{0};       ///< per step: overhead independent of the plan
  std::string source{};  ///< the measurement or runs behind it

  friend bool operator==(const Efficiency&, const Efficiency&) = default;
};

/// What is wrong, in words; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const Efficiency& efficiency);

/// The efficiency of a device preset ("a100"), fitted to published training runs, or a plain default if no runs are
/// known. `source` says which.
[[nodiscard]] Efficiency default_efficiency(std::string_view device);

}  // namespace trireme
