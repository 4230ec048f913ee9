#include "comm/join/join.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "base/text.h"
#include "comm/net/host.h"
#include "comm/rendezvous/roster.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

/// The record that a rank publishes.
struct Card {
  std::string host;
  std::string shm;
  std::uint64_t area = 0;
  std::string heartbeat;
  std::string network;
};

std::string to_text(const Card& card) {
  return fmt::format("{}\n{}\n{}\n{}\n{}", card.host, card.shm, card.area, card.heartbeat,
                     card.network);
}

Card parse_card(const std::string& text) {
  const auto lines = split(text, '\n');
  if (lines.size() != 5) {
    throw Error(ErrorKind::Peer, "a rank published an address of another version");
  }
  return {std::string(lines[0]), std::string(lines[1]),
          static_cast<std::uint64_t>(parse_integer(lines[2]).value_or(0)), std::string(lines[3]),
          std::string(lines[4])};
}

/// Ranks with equal names can share memory. The machine's own name comes first, for readability.
std::string host_name() {
  return fmt::format("{}/{}", machine_name(), host_identity());
}

constexpr const char* kCostsKey = "world/costs";
constexpr const char* kTuningKey = "world/tuning";

/// Without the evidence, which ranks do not need.
std::string bare_text(Tuning tuning) {
  for (TuningRow& row : tuning.rows) {
    row.candidates.clear();
  }
  return tuning.rows.empty() ? "" : to_text(tuning);
}

std::string key_of(Rank rank) {
  return fmt::format("world/rank/{}", rank);
}

class Joining {
 public:
  explicit Joining(const JoinParts& parts)
      : parts_(parts),
        roster_(parts.store, {parts.rank, parts.size, parts.options.join_timeout}, parts.deadline) {
  }

  std::unique_ptr<WorldCore> run() {
    roster_.claim();
    try {
      meet_and_connect();
    } catch (const std::exception& error) {
      roster_.fail(error.what());
      throw;
    }
    return std::make_unique<WorldCore>(std::move(world_));
  }

 private:
  void meet_and_connect() {
    roster_.record(parts_.options);
    make_transports();
    publish();
    roster_.await_all();
    read_cards();
    connect();
    roster_.await_connected();  // no rank continues, and perhaps exits, before all are connected
  }

  [[nodiscard]] bool uses_memory() const {
    return parts_.options.transport != TransportKind::Tcp &&
           parts_.options.transport != TransportKind::Ucx;
  }
  [[nodiscard]] bool uses_network() const {
    return !parts_.hub && parts_.options.transport != TransportKind::SharedMemory &&
           (parts_.size > 1 || !uses_memory());
  }

  void make_transports() {
    if (parts_.hub) {
      world_.transports.push_back(make_inprocess_transport(parts_.hub, parts_.rank));
    } else if (uses_memory()) {
      world_.transports.push_back(make_shm_transport(parts_.rank, parts_.size));
    }
    if (uses_network()) {
      const NetworkParts parts{parts_.rank, parts_.size, parts_.options, parts_.secret};
      world_.transports.push_back(parts_.options.transport == TransportKind::Ucx
                                      ? make_ucx_transport(parts)
                                      : make_tcp_transport(parts));
      make_heartbeat();
    }
  }

  /// If datagrams are unavailable, heartbeats travel over the connections alone.
  void make_heartbeat() {
    try {
      world_.heartbeat =
          std::make_unique<Heartbeat>(parts_.rank, parts_.options.bind, parts_.secret.value());
    } catch (const Error&) {
      world_.heartbeat.reset();
    }
  }

  void publish() {
    Card card;
    card.host = parts_.hub ? "this process" : host_name();
    for (const auto& transport : world_.transports) {
      if (HostMemory* memory = transport->memory(); memory != nullptr) {
        card.shm = transport->address();
        world_.first_area = new (memory->allocate(static_cast<std::int64_t>(kAreaBytes))) Area();
        card.area = *memory->place_of(world_.first_area, sizeof(Area));
      } else {
        card.network = transport->address();
      }
    }
    card.heartbeat = world_.heartbeat ? world_.heartbeat->address() : "";
    if (parts_.rank == 0) {
      const auto& costs = parts_.options.costs;
      parts_.store.set(kCostsKey, costs ? to_text(*costs) : "");
      parts_.store.set(kTuningKey, bare_text(parts_.options.tuning));
    }
    parts_.store.set(key_of(parts_.rank), to_text(card));
  }

  void read_cards() {
    for (Rank r = 0; r < parts_.size; ++r) {
      cards_.push_back(parse_card(parts_.store.get(key_of(r), parts_.deadline)));
    }
  }

  [[nodiscard]] bool is_neighbour(Rank r) const {
    return uses_memory() && cards_[r].host == cards_[parts_.rank].host;
  }

  void connect() {
    world_.rank = parts_.rank;
    world_.size = parts_.size;
    world_.options = parts_.options;
    adopt_choices();
    world_.reach.assign(parts_.size, world_.transports.front().get());
    std::vector<PeerAddress> near;
    std::vector<PeerAddress> far;
    for (Rank r = 0; r < parts_.size; ++r) {
      const Card& card = cards_[r];
      world_.hosts.push_back(card.host);
      world_.area_places.push_back(card.area);
      if (r == parts_.rank) {
        continue;
      }
      if (!is_neighbour(r) && card.network.empty()) {
        throw Error(ErrorKind::Usage,
                    fmt::format("rank {} is on another host than rank {}, but only shared memory "
                                "was requested",
                                r, parts_.rank));
      }
      (is_neighbour(r) ? near : far).push_back({r, is_neighbour(r) ? card.shm : card.network});
      world_.reach[r] =
          is_neighbour(r) ? world_.transports.front().get() : world_.transports.back().get();
    }
    if (!near.empty()) {
      world_.transports.front()->connect(near, parts_.deadline);
    }
    if (uses_network()) {
      connect_far(far);
      connect_heartbeat(far);
    }
  }

  void connect_heartbeat(const std::vector<PeerAddress>& far) {
    for (const PeerAddress& peer : far) {
      const std::string& address = cards_[peer.rank].heartbeat;
      if (world_.heartbeat && !address.empty()) {
        world_.heartbeat->connect(peer.rank, address);
      }
    }
  }

  /// Ranks with different costs would choose differently: all use rank 0's, which were published before its card.
  void adopt_choices() {
    const std::string costs = parts_.store.get(kCostsKey, parts_.deadline);
    const std::string tuning = parts_.store.get(kTuningKey, parts_.deadline);
    world_.options.costs = costs.empty() ? std::nullopt : std::optional(parse_host_costs(costs));
    world_.options.tuning = tuning.empty() ? Tuning{} : parse_tuning(tuning);
  }

  void connect_far(const std::vector<PeerAddress>& far) {
    try {
      world_.transports.back()->connect(far, parts_.deadline);
    } catch (const Error& error) {
      const bool hidden = parts_.options.bind == WorldOptions{}.bind;
      throw Error(
          error.kind(),
          fmt::format("{}{}", error.what(),
                      hidden ? " (ranks listen on 127.0.0.1 only, unless WorldOptions::bind "
                               "names an address that other hosts can reach)"
                             : ""));
    }
  }

  const JoinParts& parts_;
  Roster roster_;
  WorldParts world_;
  IndexedVector<Rank, Card> cards_;
};

/// Throws Error(Usage) if this rank cannot join any world.
void check(const JoinParts& parts) {
  const WorldOptions& options = parts.options;
  if (parts.hub && options.transport != TransportKind::InProcess &&
      options.transport != TransportKind::Automatic) {
    throw Error(ErrorKind::Usage,
                fmt::format("ranks that are threads use the transport in-process, not {}",
                            to_text(options.transport)));
  }
  if (options.encrypt && options.transport == TransportKind::Ucx) {
    throw Error(ErrorKind::Usage,
                "ucx cannot be encrypted; use the transport tcp, or no encryption");
  }
  if (!(options.deadline.count > 0) || !(options.join_timeout.count > 0) ||
      options.connections < 1) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("a deadline of {}, a join_timeout of {} and {} connections; each must be "
                    "more than 0",
                    to_text(options.deadline), to_text(options.join_timeout), options.connections));
  }
  if (options.bind.empty() || options.bind == "0.0.0.0" || options.bind == "::") {
    throw Error(
        ErrorKind::Usage,
        fmt::format("WorldOptions::bind is '{}'; it must be one address of this machine, at "
                    "which ranks on other hosts reach it",
                    options.bind));
  }
  constexpr std::string_view kCosts = "costs or tuning of the world";
  if (options.costs) {
    require_valid(*options.costs, ErrorKind::Usage, kCosts);
  }
  require_valid(options.tuning, ErrorKind::Usage, kCosts);
  if (parts.size < 1 || parts.rank < 0 || parts.rank >= parts.size) {
    throw Error(ErrorKind::Usage, fmt::format("rank {} of {}: it must be 0 to {}", parts.rank,
                                              parts.size, parts.size - 1));
  }
}

}  // namespace

std::unique_ptr<WorldCore> join(const JoinParts& parts) {
  try {
    check(parts);
  } catch (const Error& error) {
    Roster(parts.store, {parts.rank, parts.size}, Clock::now()).fail(error.what());
    throw;
  }
  return Joining(parts).run();
}

}  // namespace trireme::comm
