#include "generate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>

namespace trireme::fuzz {
namespace {

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * kKiB;

/// Sizes at which a communication library may switch algorithms.
constexpr std::array<std::int64_t, 18> kThresholds{
    8,         40,         64,         128,       512,       4 * kKiB,
    8 * kKiB,  16 * kKiB,  24 * kKiB,  32 * kKiB, 48 * kKiB, 64 * kKiB,
    96 * kKiB, 128 * kKiB, 512 * kKiB, kMiB,      2 * kMiB,  4 * kMiB};

class Generator {
 public:
  Generator(std::uint64_t seed, const GenerateOptions& options) : random_(seed) {
    sequence_.transport = options.transport;
    sequence_.ranks = options.ranks.value_or(choose_ranks());
    sequence_.checksums = pick<WorldOptions::Checksums>(
        {WorldOptions::Checksums::Network, WorldOptions::Checksums::Network,
         WorldOptions::Checksums::Off, WorldOptions::Checksums::All});
    sequence_.connections = pick<int>({2, 2, 1, 3});
    sequence_.costs = pick<Sequence::Costs>({Sequence::Costs::None, Sequence::Costs::None,
                                             Sequence::Costs::Plain, Sequence::Costs::Chatty});
    sequence_.skew = chance(0.3) ? Sequence::Skew::Pauses : Sequence::Skew::None;
    const auto end = chance(0.5) ? Sequence::End::Alone : Sequence::End::Together;
    sequence_.end = options.end.value_or(end);
    choose_hosts();
    groups_ = world_group(sequence_.ranks);
    started_ = pick<double>({0, 0.2, 0.5, 0.9});
    // A world without shared memory rejects World::allocate.
    shared_ = shares_memory(options.transport) ? pick<double>({0, 0.5, 0.5, 0.9}) : 0;
  }

  Sequence generate() {
    const int steps = between(4, 32);
    while (static_cast<int>(sequence_.steps.size()) < steps) {
      add_step();
    }
    return std::move(sequence_);
  }

 private:
  // Choices.

  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  int between(int low, int high) {
    return static_cast<int>(
        between(static_cast<std::int64_t>(low), static_cast<std::int64_t>(high)));
  }
  bool chance(double probability) {
    return static_cast<double>(random_() >> 11) * 0x1p-53 < probability;
  }
  template <class T>
  T pick(const std::vector<T>& from) {
    return from[random_() % from.size()];
  }

  Rank choose_ranks() {
    return chance(0.07) ? between(6, 9) : pick<Rank>({1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 5, 5});
  }

  /// In order with the same number on each, or arbitrary.
  void choose_hosts() {
    const int hosts = has_hosts(sequence_.transport) ? between(1, 3) : 1;
    const bool in_order = chance(0.6);
    sequence_.hosts.clear();
    for (Rank r = 0; r < sequence_.ranks; ++r) {
      sequence_.hosts.push_back(in_order ? r * hosts / sequence_.ranks : between(0, hosts - 1));
    }
  }

  /// A number of bytes: usually right around a threshold.
  std::int64_t choose_bytes(std::int64_t element) {
    if (chance(0.08)) {
      return between(0, 3) * element;
    }
    if (chance(0.004)) {
      return between(4 * kMiB, 20 * kMiB);
    }
    if (chance(0.25)) {
      return static_cast<std::int64_t>(std::exp2(static_cast<double>(between(0, 170)) / 10.0));
    }
    const std::size_t last = chance(0.12) ? kThresholds.size() : kThresholds.size() - 4;
    const std::int64_t threshold = kThresholds[random_() % last];
    return std::max<std::int64_t>(threshold + between(-3, 3) * element, 0);
  }

  int choose_offset() { return chance(0.6) ? 0 : between(1, 17); }
  int choose_lag() {
    if (!chance(started_)) {
      return kBlocking;
    }
    return chance(0.2) ? 1000 : between(0, 6);
  }
  /// In a world without shared memory everything is private.
  Location choose_location() {
    return {chance(shared_) ? Memory::Shared : Memory::Private, choose_offset()};
  }

  // Steps.

  void add(Action action) {
    sequence_.steps.push_back({++key_, std::move(action)});
    update_groups(groups_, sequence_.steps.back());
  }

  int choose_group() {
    auto it = groups_.begin();
    std::advance(it, chance(0.5) ? 0 : between(0, static_cast<int>(groups_.size()) - 1));
    return it->first;
  }
  Rank size_of_group(int group) { return static_cast<Rank>(groups_.at(group).size()); }

  void add_step() {
    if (groups_.size() < 7 && chance(0.06)) {
      add_new_groups();
    } else if (groups_.size() > 1 && chance(0.02)) {
      add(Release{
          std::next(groups_.begin(), between(1, static_cast<int>(groups_.size()) - 1))->first});
    } else if (chance(0.3)) {
      add_messages();
    } else {
      add_collective();
    }
  }

  // Groups.

  std::vector<Rank> shuffled_places(int group) {
    std::vector<Rank> places(size_of_group(group));
    std::iota(places.begin(), places.end(), 0);
    if (chance(0.5)) {
      std::ranges::shuffle(places, random_);
    }
    return places;
  }

  void add_new_groups() {
    NewGroups made;
    made.parent = choose_group();
    made.kind = chance(0.5) ? NewGroups::Kind::Split : NewGroups::Kind::Subset;
    std::vector<Rank> places = shuffled_places(made.parent);
    const int size = static_cast<int>(places.size());
    if (made.kind == NewGroups::Kind::Subset) {
      places.resize(between(1, size));
      made.parts = {{next_group_++, places}};
    } else {
      const auto cut = static_cast<std::ptrdiff_t>(between(0, size - 1));
      made.parts.push_back({next_group_++, {places.begin() + cut, places.end()}});
      if (cut > 0) {
        made.parts.push_back({next_group_++, {places.begin(), places.begin() + cut}});
      }
    }
    add(std::move(made));
  }

  // Messages.

  Side choose_message_side() { return {.input = choose_location(), .lag = choose_lag()}; }

  /// Several in a row between the same two ranks, so that their order matters.
  void add_messages() {
    const int group = choose_group();
    const Rank ranks = size_of_group(group);
    if (ranks < 2) {
      return;
    }
    Message message{.group = group, .from = between(0, ranks - 1), .tag = pick<int>({0, 0, 1, 7})};
    message.to = (message.from + between(1, ranks - 1)) % ranks;
    for (int i = between(1, 4); i > 0; --i) {
      message.dtype = kDTypes[random_() % kDTypes.size()];
      const std::int64_t element = size_of(message.dtype).count;
      message.count = std::min(choose_bytes(element), 600 * kKiB) / element;
      message.sender = choose_message_side();
      message.receiver = choose_message_side();
      add(message);
    }
  }

  // Collectives.

  void add_collective() {
    Collective call{.group = choose_group()};
    const Rank ranks = size_of_group(call.group);
    call.operation =
        chance(0.15) ? Operation::Allreduce : all_operations()[random_() % all_operations().size()];
    call.dtype = chance(0.4) ? DType::F32 : kDTypes[random_() % kDTypes.size()];
    call.root = has_root(call.operation) ? between(0, ranks - 1) : 0;
    choose_reduction(call);
    choose_counts(call, ranks);
    choose_method(call, ranks);
    if (chance(0.1)) {
      call.repeat = between(2, 6);
    }
    const bool all_block = chance(0.3);
    for (Rank r = 0; r < ranks; ++r) {
      call.sides.push_back(choose_side(call));
      call.sides.back().lag = all_block ? kBlocking : choose_lag();
    }
    add(std::move(call));
  }

  void choose_reduction(Collective& call) {
    if (!combines(call.operation)) {
      return;
    }
    std::vector<Reduction> legal{Reduction::Sum, Reduction::Sum, Reduction::Product,
                                 Reduction::Min, Reduction::Max, Reduction::Average};
    if (!is_float(call.dtype)) {
      legal.insert(legal.end(), {Reduction::BitAnd, Reduction::BitOr, Reduction::BitXor});
    }
    call.reduction = pick(legal);
    if (chance(0.1)) {
      call.combiner = Collective::Combiner::User;
      call.reduction = Reduction::Sum;
    } else if (is_float(call.dtype) && chance(0.45)) {
      call.values = Collective::Values::Random;
    }
    call.order = chance(0.3) ? Order::Fixed : Order::Any;
  }

  static bool has_blocks(Operation operation) {
    return operation == Operation::Scatter || operation == Operation::Gather ||
           operation == Operation::Allgather || operation == Operation::ReduceScatter ||
           operation == Operation::Alltoall;
  }

  void choose_counts(Collective& call, Rank ranks) {
    if (call.operation == Operation::Barrier) {
      return;
    }
    const std::int64_t element = size_of(call.dtype).count;
    call.count = choose_bytes(element) / element;
    if (!has_blocks(call.operation)) {
      return;
    }
    if (chance(0.5) || call.count * element > kMiB) {
      call.count /= ranks;  // the threshold is the whole vector's
    }
    if (chance(0.3)) {
      const Rank blocks = call.operation == Operation::Alltoall ? ranks * ranks : ranks;
      for (Rank r = 0; r < blocks; ++r) {
        call.counts.push_back(chance(0.2) ? 0 : between(call.count / 2, call.count + 2));
      }
    }
  }

  void choose_method(Collective& call, Rank ranks) {
    if (chance(0.5)) {
      return;
    }
    if (is_direct_legal(sequence_, groups_.at(call.group)) && chance(0.3)) {
      call.method = Method::direct();
      return;
    }
    std::vector<Algorithm> legal = algorithms_for(call.operation);
    std::erase_if(legal, [&](Algorithm a) { return !is_legal(call, a, ranks); });
    if (!legal.empty()) {
      call.method = Method::scheduled(pick(legal));
    }
  }

  Side choose_side(const Collective& call) {
    Side side{.input = choose_location(), .output = choose_location()};
    const bool pairs_with_counts = call.operation == Operation::Alltoall && !call.counts.empty();
    if (call.operation == Operation::Broadcast || (!pairs_with_counts && chance(0.25))) {
      side.layout = Side::Layout::InPlace;
      side.output = {};
    } else if (has_root(call.operation) && chance(0.3)) {
      // Only counts if the operation ignores the buffer.
      (call.operation == Operation::Scatter ? side.input : side.output) = {Memory::None, 0};
    }
    return side;
  }

  std::mt19937_64 random_;
  Sequence sequence_;
  Groups groups_;
  int next_group_ = 1;
  std::uint64_t key_ = 0;
  double started_ = 0;  ///< how likely a call is started
  double shared_ = 0;   ///< how likely a buffer is in shared memory
};

}  // namespace

Sequence generate(std::uint64_t seed, const GenerateOptions& options) {
  return Generator(seed, options).generate();
}

}  // namespace trireme::fuzz
