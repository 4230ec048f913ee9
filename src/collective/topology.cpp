#include "trireme/topology.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/enum_names.h"
#include "base/indexed_vector.h"
#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr auto kSwitchings = enum_names<Switching>("wormhole", "store-and-forward");

constexpr Rank kMaxRoutedRanks = 512;

/// Collects links and routes. Places are numbered: ranks first, switches after.
class Network {
 public:
  Network(std::string name, Rank ranks, Duplex duplex = Duplex::Full) : duplex_(duplex) {
    topology_.name = std::move(name);
    topology_.ranks = ranks;
    topology_.routes.resize(std::int64_t{ranks} * ranks);
  }

  /// A cable: a link in each direction, or one for both.
  void connect(int a, int b, double relative_beta = 1) {
    add_link(a, b, relative_beta);
    if (duplex_ == Duplex::Half) {
      by_ends_[{b, a}] = by_ends_.at({a, b});
    } else {
      add_link(b, a, relative_beta);
    }
  }

  /// path(from, to) lists the places from one rank to the other, both included.
  template <class Path>
  Topology finish(const Path& path) {
    for (Rank from = 0; from < topology_.ranks; ++from) {
      for (Rank to = 0; to < topology_.ranks; ++to) {
        if (from != to) {
          set_route(from, to, path(from, to));
        }
      }
    }
    return std::move(topology_);
  }

 private:
  void add_link(int from, int to, double relative_beta) {
    if (by_ends_.try_emplace({from, to}, static_cast<int>(topology_.links.size())).second) {
      topology_.links.push_back({from, to, relative_beta});
    }
  }

  void set_route(Rank from, Rank to, const std::vector<int>& places) {
    std::vector<int>& route = topology_.routes[topology_.index(from, to)];
    for (std::size_t i = 0; i + 1 < places.size(); ++i) {
      route.push_back(by_ends_.at({places[i], places[i + 1]}));
    }
  }

  Duplex duplex_;
  Topology topology_;
  std::map<std::pair<int, int>, int> by_ends_;
};

/// From a to b on a line of `length` positions, by single steps; on a closed line in the shorter
/// direction (ties go up).
std::vector<int> walk(int a, int b, int length, bool closed) {
  const int up = ((b - a) % length + length) % length;
  const bool go_up = closed ? up <= length - up : b > a;
  std::vector<int> positions{a};
  while (a != b) {
    a = go_up ? (a + 1) % length : (a - 1 + length) % length;
    positions.push_back(a);
  }
  return positions;
}

Topology grid(std::string name, Rank rows, Rank columns, bool closed) {
  Network network(std::move(name), rows * columns);
  const auto place = [&](int row, int column) { return row * columns + column; };
  for (Rank row = 0; row < rows; ++row) {
    for (Rank column = 0; column < columns; ++column) {
      if (column + 1 < columns || (closed && columns > 2)) {
        network.connect(place(row, column), place(row, (column + 1) % columns));
      }
      if (row + 1 < rows || (closed && rows > 2)) {
        network.connect(place(row, column), place((row + 1) % rows, column));
      }
    }
  }
  return network.finish([&](Rank from, Rank to) {
    std::vector<int> places;
    for (const int column : walk(from % columns, to % columns, columns, closed)) {
      places.push_back(place(from / columns, column));
    }
    const std::vector<int> rows_on_the_way = walk(from / columns, to / columns, rows, closed);
    for (std::size_t i = 1; i < rows_on_the_way.size(); ++i) {
      places.push_back(place(rows_on_the_way[i], to % columns));
    }
    return places;
  });
}

Topology line(std::string name, Rank ranks, bool closed, Duplex duplex) {
  Network network(std::move(name), ranks, duplex);
  for (Rank rank = 0; rank < ranks; ++rank) {
    if (rank + 1 < ranks || (closed && ranks > 2)) {
      network.connect(rank, (rank + 1) % ranks);
    }
  }
  return network.finish([&](Rank from, Rank to) { return walk(from, to, ranks, closed); });
}

/// The numbers of "4x8x10".
std::vector<std::int64_t> parse_dimensions(std::string_view text, std::string_view whole) {
  std::vector<std::int64_t> dimensions;
  for (const std::string_view part : split(text, 'x')) {
    const std::optional<std::int64_t> value = parse_integer(part);
    if (!value || *value < 1 || *value > (1 << 20)) {
      throw Error(ErrorKind::Usage, fmt::format("topology '{}': '{}' is not a count", whole, part));
    }
    dimensions.push_back(*value);
  }
  return dimensions;
}

/// Times one step on the network.
class StepTimer {
 public:
  StepTimer(const Topology& topology, const Schedule& schedule, const Payload& payload,
            const LinkCosts& costs)
      : topology_(topology), schedule_(schedule), payload_(payload), costs_(costs) {}

  [[nodiscard]] StepLoad time(const Step& step) const {
    StepLoad load;
    load.messages.resize(topology_.links.size());
    load.bytes.resize(topology_.links.size());
    for_each_message(step, [&](const Message& m) {
      const std::vector<int>& route = topology_.route(m.from, m.to);
      load.longest_route = std::max(load.longest_route, static_cast<int>(route.size()));
      for (const int link : route) {
        ++load.messages[link];
        load.bytes[link] += bytes_of(m);
      }
    });
    load.busy_links =
        static_cast<int>(std::ranges::count_if(load.messages, [](int n) { return n > 0; }));
    load.max_messages = load.messages.empty() ? 0 : std::ranges::max(load.messages);
    load.seconds = {busiest_port(step, load)};
    return load;
  }

 private:
  [[nodiscard]] std::int64_t bytes_of(const Message& m) const {
    return message_bytes(schedule_, payload_, m);
  }

  [[nodiscard]] double link_time(int link, const StepLoad& load) const {
    return static_cast<double>(load.bytes[link]) * costs_.beta.count *
           topology_.links[link].relative_beta;
  }

  [[nodiscard]] double flight_time(const Message& m, const StepLoad& load) const {
    double slowest = 0;
    double sum = 0;
    for (const int link : topology_.route(m.from, m.to)) {
      slowest = std::max(slowest, link_time(link, load));
      sum += costs_.alpha.count + link_time(link, load);
    }
    return costs_.switching == Switching::Wormhole ? costs_.alpha.count + slowest : sum;
  }

  /// A step lasts until the last message has arrived and been combined, and at least as long as the
  /// busiest port: a rank's own messages are serialized, each for as long as its link at the rank
  /// takes.
  [[nodiscard]] double busiest_port(const Step& step, const StepLoad& load) const {
    IndexedVector<Rank, double> sending(topology_.ranks);
    IndexedVector<Rank, double> receiving(topology_.ranks);
    double busiest = 0;
    for_each_message(step, [&](const Message& m) {
      const std::vector<int>& route = topology_.route(m.from, m.to);
      const auto bytes = static_cast<double>(bytes_of(m));
      const double combining = m.action == Action::Combine ? bytes * costs_.gamma.count : 0;
      double& out = sending[m.from];
      double& in = receiving[m.to];
      out += port_time(route.front(), bytes);
      in += port_time(route.back(), bytes) + combining;
      busiest = std::max({busiest, out, in, flight_time(m, load) + combining});
    });
    return busiest;
  }

  [[nodiscard]] double port_time(int link, double bytes) const {
    const double slowness = topology_.links[link].relative_beta;
    return costs_.alpha.count + bytes * costs_.beta.count * slowness;
  }

  const Topology& topology_;  // these four outlive the timer, which lives for one call of time_on()
  const Schedule& schedule_;
  const Payload& payload_;
  const LinkCosts& costs_;
};

}  // namespace

Topology linear_array(Rank ranks, Duplex duplex) {
  return line("linear array", ranks, false, duplex);
}

Topology ring_network(Rank ranks, Duplex duplex) {
  return line("ring", ranks, true, duplex);
}

Topology mesh_network(Rank rows, Rank columns) {
  return grid(fmt::format("{}x{} mesh", rows, columns), rows, columns, false);
}

Topology torus_network(Rank rows, Rank columns) {
  return grid(fmt::format("{}x{} torus", rows, columns), rows, columns, true);
}

Topology fat_tree(Rank ranks, Rank leaf_ranks, Rank spines) {
  Network network(fmt::format("fat tree, leaves of {}, {} spines", leaf_ranks, spines), ranks);
  const Rank leaves = (ranks + leaf_ranks - 1) / leaf_ranks;
  const auto leaf_of = [&](Rank rank) { return ranks + rank / leaf_ranks; };
  const auto spine = [&](Rank which) { return ranks + leaves + which; };
  for (Rank rank = 0; rank < ranks; ++rank) {
    network.connect(rank, leaf_of(rank));
  }
  for (Rank leaf = 0; leaf < leaves; ++leaf) {
    for (Rank which = 0; which < spines; ++which) {
      network.connect(ranks + leaf, spine(which));
    }
  }
  return network.finish([&](Rank from, Rank to) {
    if (leaf_of(from) == leaf_of(to)) {
      return std::vector<int>{from, leaf_of(from), to};
    }
    // The destination picks the spine, as static routing in real fabrics does.
    return std::vector<int>{from, leaf_of(from), spine(to % spines), leaf_of(to), to};
  });
}

Topology node_cluster(Rank nodes, Rank devices, double slowdown) {
  const Rank ranks = nodes * devices;
  Network network(
      fmt::format("{} nodes of {}, network {:g} times slower", nodes, devices, slowdown), ranks);
  const auto switch_of = [&](Rank rank) { return ranks + rank / devices; };
  const int core = ranks + nodes;
  for (Rank rank = 0; rank < ranks; ++rank) {
    network.connect(rank, switch_of(rank));
  }
  for (Rank node = 0; node < nodes; ++node) {
    network.connect(ranks + node, core, slowdown);
  }
  return network.finish([&](Rank from, Rank to) {
    if (switch_of(from) == switch_of(to)) {
      return std::vector<int>{from, switch_of(from), to};
    }
    return std::vector<int>{from, switch_of(from), core, switch_of(to), to};
  });
}

std::string_view to_text(Duplex duplex) {
  static constexpr auto kNames = enum_names<Duplex>("full", "half");
  return kNames[duplex];
}

std::string_view to_text(Switching switching) {
  return kSwitchings[switching];
}

Switching parse_switching(std::string_view text) {
  return kSwitchings.parse("switching", text);
}

Topology parse_topology(std::string_view text, Rank ranks) {
  if (ranks > kMaxRoutedRanks) {
    throw Error(
        ErrorKind::Usage,
        fmt::format(
            "a topology keeps a route for every pair; {} ranks are more than its limit of {}",
            ranks, kMaxRoutedRanks));
  }
  const Duplex duplex = text.ends_with(":half") ? Duplex::Half : Duplex::Full;
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const bool has_numbers = colon != std::string_view::npos && duplex == Duplex::Full;
  const std::vector<std::int64_t> n =
      has_numbers ? parse_dimensions(text.substr(colon + 1), text) : std::vector<std::int64_t>{};
  const auto require = [&](bool fits, std::string_view form) {
    if (!fits) {
      throw Error(
          ErrorKind::Usage,
          fmt::format("topology '{}' does not fit {} ranks; write it as {}", text, ranks, form));
    }
  };
  const auto dimension = [&](std::size_t i) { return static_cast<Rank>(n.at(i)); };
  if (kind == "linear" || kind == "ring") {
    require(n.empty(), fmt::format("{0} or {0}:half", kind));
    return kind == "linear" ? linear_array(ranks, duplex) : ring_network(ranks, duplex);
  }
  if (kind == "mesh" || kind == "torus") {
    require(n.size() == 2 && n[0] * n[1] == ranks,
            fmt::format("{}:ROWSxCOLUMNS with ROWS*COLUMNS = {}", kind, ranks));
    return kind == "mesh" ? mesh_network(dimension(0), dimension(1))
                          : torus_network(dimension(0), dimension(1));
  }
  if (kind == "fat-tree") {
    require(n.size() == 2 && n[0] <= ranks && n[1] <= ranks, "fat-tree:RANKS_PER_LEAFxSPINES");
    return fat_tree(ranks, dimension(0), dimension(1));
  }
  if (kind == "nodes") {
    require((n.size() == 2 || n.size() == 3) && n[0] * n[1] == ranks,
            fmt::format("nodes:NODESxDEVICES[xSLOWDOWN] with NODES*DEVICES = {}", ranks));
    return node_cluster(dimension(0), dimension(1),
                        n.size() == 3 ? static_cast<double>(n[2]) : 10.0);
  }
  throw Error(
      ErrorKind::Usage,
      fmt::format(
          "unknown topology '{}'; use linear, ring, mesh:2x4, torus:4x4, fat-tree:4x2 or nodes:4x8",
          text));
}

LinkTiming time_on(const Topology& topology, const Schedule& schedule, const Payload& payload,
                   const LinkCosts& costs) {
  if (topology.ranks != schedule.ranks) {
    throw Error(ErrorKind::Usage, fmt::format("a schedule over {} ranks on a network of {}",
                                              schedule.ranks, topology.ranks));
  }
  LinkTiming timing;
  const StepTimer timer(topology, schedule, payload, costs);
  double busy = 0;
  for (const Step& step : schedule.steps) {
    timing.steps.push_back(timer.time(step));
    timing.seconds.count += timing.steps.back().seconds.count;
    busy += timing.steps.back().busy_links;
  }
  if (!schedule.steps.empty() && !topology.links.empty()) {
    timing.utilization = busy / static_cast<double>(schedule.steps.size() * topology.links.size());
  }
  return timing;
}

}  // namespace trireme
