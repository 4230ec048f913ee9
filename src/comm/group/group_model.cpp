#include "comm/group/group_model.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "base/cores.h"
#include "base/indexed_vector.h"
#include "tensor/half.h"
#include "trireme/collective.h"

namespace trireme::comm {
namespace {

/// Assumed link costs until they have been measured: shared-memory messages, and loopback TCP for everything that
/// crosses a network.
constexpr LinkLevel kNear{.span = 0, .alpha = {5e-7}, .beta = {1.5e-10}};
constexpr LinkLevel kFar{.span = 0, .alpha = {8e-6}, .beta = {4e-10}};
constexpr Seconds kGamma{1e-10};

bool is_memory(TransportKind transport) {
  return transport == TransportKind::SharedMemory || transport == TransportKind::InProcess;
}

MessageCost messages_of(const std::optional<HostCosts>& costs, TransportKind transport) {
  const LinkLevel& believed = is_memory(transport) ? kNear : kFar;
  const MessageCost* measured = costs ? costs->messages_by(to_text(transport)) : nullptr;
  return measured != nullptr
             ? *measured
             : MessageCost{std::string(to_text(transport)), believed.alpha, believed.beta, {}};
}

LinkLevel link_of(const std::optional<HostCosts>& costs, TransportKind transport) {
  const MessageCost messages = messages_of(costs, transport);
  return {.span = 0, .alpha = messages.alpha, .beta = messages.beta};
}

int cores_of(const std::optional<HostCosts>& costs) {
  return costs ? costs->cores : usable_cores();
}

/// Ranks that outnumber their cores take turns: a message arrives when the scheduler gets to it.
LinkLevel crowded(LinkLevel link, const std::optional<HostCosts>& costs, Rank ranks) {
  if (costs && ranks > costs->cores) {
    link.alpha = std::max(link.alpha, costs->wait_of(ranks).next);
  }
  return link;
}

CostModel message_costs(const GroupShape& shape, const std::optional<HostCosts>& costs,
                        DType dtype) {
  const bool one_host = is_memory(shape.transport) || shape.ranks_per_host == shape.ranks;
  const Rank together = one_host ? shape.ranks : std::max(1, shape.ranks_per_host);
  const Seconds measured = costs ? costs->gamma(to_text(dtype)) : Seconds{};
  const Seconds gamma = measured.count > 0 ? measured : kGamma;
  const LinkLevel far = crowded(link_of(costs, shape.transport), costs, together);
  if (one_host || shape.ranks_per_host < 2) {
    return {{far}, gamma};
  }
  LinkLevel near = crowded(link_of(costs, TransportKind::SharedMemory), costs, together);
  near.span = shape.ranks_per_host;
  return {{near, far}, gamma};
}

/// The cost of messages between ranks of one host. They share its cores, and each byte occupies two of them, the
/// sender's and the receiver's. More than two ranks also share its memory bandwidth.
class HostMessages {
 public:
  /// `crowding`: how much longer a byte takes when this many ranks are busy.
  HostMessages(const MessageCost& cost, const CostModel& model, int cores,
               std::function<double(Rank busy)> crowding)
      : cost_(cost),
        late_(model.levels.front().alpha.count - cost.alpha.count),
        gamma_(model.gamma.count),
        cores_(cores),
        crowding_(std::move(crowding)) {}

  /// The time of the busiest rank or, if longer, of all bytes on all cores.
  [[nodiscard]] double time(const Schedule& schedule, const Step& step,
                            const Payload& payload) const {
    IndexedVector<Rank, Busy> ranks(schedule.ranks);
    const double crowding = crowding_(busy_ranks(schedule, step));
    double work = 0;
    bool is_empty = true;
    for_each_message(step, [&](const Message& m) {
      const std::int64_t bytes = message_bytes(schedule, payload, m);
      const MessagePoint takes = cost_.at({bytes});
      const double more = crowding * static_cast<double>(bytes);
      const double combining =
          m.action == Action::Combine ? gamma_ * static_cast<double>(bytes) : 0;
      const Ways moving{takes.one_way.count + more, takes.exchange.count + more};
      ranks[m.from].out += moving;
      ranks[m.to].in += moving;
      ranks[m.to].in += {combining, combining};
      work += work_of(takes) + combining;
      is_empty = false;
    });
    if (is_empty) {
      return 0;
    }
    double busiest = 0;
    for (const Busy& rank : ranks) {
      busiest = std::max(busiest, rank.time());
    }
    return late_ + std::max(busiest, shortest().one_way.count + work / cores_);
  }

 private:
  struct Ways {
    double alone = 0;
    double both = 0;
    Ways& operator+=(const Ways& more) {
      alone += more.alone;
      both += more.both;
      return *this;
    }
  };
  /// A rank's work in a step.
  struct Busy {
    Ways out{};
    Ways in{};
    [[nodiscard]] double time() const {
      return out.alone > 0 && in.alone > 0 ? std::max(out.both, in.both)
                                           : std::max(out.alone, in.alone);
    }
  };

  [[nodiscard]] MessagePoint shortest() const { return cost_.at({0}); }

  [[nodiscard]] static Rank busy_ranks(const Schedule& schedule, const Step& step) {
    IndexedVector<Rank, bool> busy(schedule.ranks);
    for_each_message(step, [&](const Message& m) {
      busy[m.from] = true;
      busy[m.to] = true;
    });
    return static_cast<Rank>(std::ranges::count(busy, true));
  }

  /// Core-seconds. If measured: two messages at once, on two cores.
  [[nodiscard]] double work_of(const MessagePoint& takes) const {
    const double moving = takes.exchange.count - shortest().exchange.count;
    return cost_.points.size() < 2 ? 2 * moving : moving * std::min(cores_, 2) / 2;
  }

  const MessageCost& cost_;
  double late_;  ///< if ranks take turns: how much later a message arrives
  double gamma_;
  int cores_;
  std::function<double(Rank busy)> crowding_;
};

Seconds time_on_one_host(const Schedule& schedule, const Payload& payload,
                         const HostMessages& messages) {
  Seconds total{};
  for (const Step& step : schedule.steps) {
    total.count += messages.time(schedule, step, payload);
  }
  return total;
}

/// Sums of half-precision values travel as f32.
Bytes travelling(const GroupModel::Query& query) {
  const bool wide = combines(query.operation) && is_half(query.dtype);
  return {std::max<std::int64_t>(query.bytes.count, 1) * (wide ? 2 : 1)};
}

}  // namespace

GroupModel::GroupModel(const GroupShape& shape, std::optional<HostCosts> costs)
    : shape_(shape), costs_(std::move(costs)), near_(messages_of(costs_, shape.transport)) {
  for (const DType dtype : kDTypes) {
    selectors_.push_back(std::make_unique<Selector>(message_costs(shape_, costs_, dtype)));
  }
}

Selector& GroupModel::selector(DType dtype) const {
  return *selectors_[std::ranges::find(kDTypes, dtype) - kDTypes.begin()];
}

const CostModel& GroupModel::messages(DType dtype) const {
  return selector(dtype).costs();
}

bool GroupModel::is_on_one_host() const {
  return is_memory(shape_.transport) || shape_.ranks_per_host == shape_.ranks;
}

BuildOptions GroupModel::options_for(const Query& query, Algorithm algorithm) const {
  return {.ranks = shape_.ranks,
          .root = query.root,
          .segments = best_segments(query.operation, algorithm, shape_.ranks, travelling(query),
                                    messages(query.dtype)),
          .ranks_per_node = shape_.ranks_per_host < shape_.ranks ? shape_.ranks_per_host : 0};
}

const std::vector<Choice>& GroupModel::ranking(const Query& query) {
  if (!is_on_one_host()) {
    return selector(query.dtype)
        .rank({.operation = query.operation,
               .ranks = shape_.ranks,
               .root = query.root,
               .bytes = travelling(query)});
  }
  const std::tuple key(query.operation, travelling(query).count, query.dtype, query.root);
  MutexLock lock(mutex_);
  const auto [it, is_new] = rankings_.try_emplace(key);
  if (is_new) {
    it->second = rank_on_one_host(query);
  }
  return it->second;
}

std::vector<Choice> GroupModel::rank_on_one_host(const Query& query) const {
  std::vector<Choice> choices;
  for (const Algorithm algorithm : algorithms_for(query.operation)) {
    if (const auto& has = properties(algorithm); !has.two_level && has.bit_identical) {
      choices.push_back({algorithm, options_for(query, algorithm), moving(query, algorithm)});
    }
  }
  std::ranges::stable_sort(choices, {}, &Choice::predicted);
  return choices;
}

/// The time of an algorithm's messages.
Seconds GroupModel::moving(const Query& query, Algorithm algorithm) const {
  const Bytes bytes = travelling(query);
  const CostModel& model = messages(query.dtype);
  const BuildOptions options = options_for(query, algorithm);
  const Payload payload{bytes.count};
  if (is_on_one_host()) {
    const auto crowding_of = [&](Rank busy) {
      // A byte is read at its source and written at its destination.
      return costs_ ? 2 * crowding({2 * bytes.count}, busy, *costs_).count : 0.0;
    };
    return time_on_one_host(build(query.operation, algorithm, options), payload,
                            HostMessages(near_, model, cores_of(costs_), crowding_of));
  }
  return model.is_uniform()
             ? formula(query.operation, algorithm, options)
                   .at(static_cast<double>(bytes.count), model)
             : time_schedule(build(query.operation, algorithm, options), payload, model).seconds;
}

Method GroupModel::choose(const Query& query) {
  if (shape_.shares_memory &&
      (!costs_ || shape_.ranks < 2)) {  // nothing to predict, or no costs to predict with
    return Method::direct();
  }
  const Method messages = query.operation == Operation::Alltoall
                              ? Method::scheduled(Algorithm::Pairwise)
                              : Method::scheduled(ranking(query).front().algorithm);
  if (!shape_.shares_memory) {
    return messages;
  }
  const Seconds by_messages = *predict(query, messages, Sight::Hidden);
  const bool faster = by_messages < *predict(query, Method::direct(), Sight::Hidden) &&
                      by_messages < *predict(query, Method::direct(), Sight::Visible);
  return faster ? messages : Method::direct();
}

/// If ranks share memory, messages begin with all ranks checking all others' records.
Seconds GroupModel::first_wait() const {
  return shape_.shares_memory ? costs_->wait_of(shape_.ranks).first : Seconds{};
}

std::optional<Seconds> GroupModel::predict(const Query& query, const Method& method,
                                           Sight sight) const {
  if (!costs_ || shape_.ranks < 2) {
    return std::nullopt;
  }
  if (method.kind == Method::Kind::Direct) {
    return predict_direct({query.operation, shape_.ranks, query.bytes, sight, query.dtype},
                          *costs_);
  }
  return Seconds{first_wait().count + moving(query, method.algorithm).count};
}

}  // namespace trireme::comm
