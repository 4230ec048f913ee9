// The link-level model: directed links, routes over them, and the load of a schedule's steps on
// each link. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/schedule.h"
#include "trireme/units.h"

namespace trireme {

/// How a message crosses several links.
enum class Switching {
  Wormhole,  ///< cut-through: one alpha for any distance, all links of the route held at once
  StoreAndForward,  ///< buffers the message at each hop: alpha + bytes * beta for every link of the route
};
/// "wormhole", "store-and-forward"; parse_switching throws Error(Usage) listing them.
[[nodiscard]] std::string_view to_text(Switching switching);
[[nodiscard]] Switching parse_switching(std::string_view text);

enum class Duplex {
  Full,  ///< the two directions of a cable are two links
  Half,  ///< the two directions share one link
};
[[nodiscard]] std::string_view to_text(Duplex duplex);

/// A directed link between two places; places below `ranks` are ranks, the others switches.
struct DirectedLink {
  int from = 0;
  int to = 0;
  double relative_beta = 1;  ///< this link's beta relative to the model's: 8 is eight times slower
};

/// A network. Build one with the functions below.
struct Topology {
  std::string name;
  Rank ranks = 0;
  std::vector<DirectedLink> links;
  /// The links of the route from a to b, in order.
  [[nodiscard]] const std::vector<int>& route(Rank from, Rank to) const {
    return routes[index(from, to)];
  }
  [[nodiscard]] std::size_t index(Rank from, Rank to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks) +
           static_cast<std::size_t>(to);
  }
  std::vector<std::vector<int>> routes;
};

/// A row of ranks, each connected to its neighbors.
[[nodiscard]] Topology linear_array(Rank ranks, Duplex duplex = Duplex::Full);
/// A row closed by a wrap-around cable; routes take the shorter direction.
[[nodiscard]] Topology ring_network(Rank ranks, Duplex duplex = Duplex::Full);
/// Row-major grid; routes go along the row first, then the column.
[[nodiscard]] Topology mesh_network(Rank rows, Rank columns);
[[nodiscard]] Topology torus_network(Rank rows, Rank columns);
/// Leaf switches with `leaf_ranks` ranks each, joined by one layer of `spines` switches; rank pairs
/// are distributed over the spines. spines = leaf_ranks gives full bisection.
[[nodiscard]] Topology fat_tree(Rank ranks, Rank leaf_ranks, Rank spines);
/// Nodes of `devices` ranks on a fast switch; one network port per node, `slowdown` times slower.
[[nodiscard]] Topology node_cluster(Rank nodes, Rank devices, double slowdown);
/// Parses "linear", "ring" (each also with ":half" for half-duplex cables), "mesh:2x4",
/// "torus:4x4", "fat-tree:4x2" (leaf ranks x spines), "nodes:4x8" or "nodes:4x8x10" (nodes x
/// devices x slowdown). Throws Error(Usage) if it does not fit the number of ranks.
[[nodiscard]] Topology parse_topology(std::string_view text, Rank ranks);

/// The load of one step on the links.
struct StepLoad {
  std::vector<int> messages;        ///< by link
  std::vector<std::int64_t> bytes;  ///< by link
  int busy_links = 0;               ///< links with a message
  int max_messages = 0;             ///< on one link: 1 or less means no conflict
  int longest_route = 0;
  Seconds seconds;
};

struct LinkTiming {
  Seconds seconds;
  std::vector<StepLoad> steps;
  double utilization = 0;  ///< busy links over all links, averaged over the steps
};

struct LinkCosts {
  Seconds alpha{1e-6};
  Seconds beta{1e-9};
  Seconds gamma{1e-10};
  Switching switching = Switching::Wormhole;
};

/// Times the schedule on the network. Messages that share a directed link in a step share its
/// bandwidth. Wormhole: a message takes alpha + (bytes on its busiest link) * beta;
/// store-and-forward: the sum over its links of alpha + (bytes on the link) * beta. Combining adds
/// gamma. A rank's own messages of a step are still serialized.
[[nodiscard]] LinkTiming time_on(const Topology& topology, const Schedule& schedule,
                                 const Payload& payload, const LinkCosts& costs);

}  // namespace trireme
