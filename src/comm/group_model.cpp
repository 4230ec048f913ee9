#include "comm/group_model.h"

#include <algorithm>

#include "trireme/collective.h"

namespace trireme::comm {
namespace {

/// What is believed of links until they have been measured: of messages through shared memory, and of
/// loopback TCP for all that crosses a network.
constexpr LinkLevel kNear{.span = 0, .alpha = {5e-7}, .beta = {1.5e-10}};
constexpr LinkLevel kFar{.span = 0, .alpha = {8e-6}, .beta = {4e-10}};
constexpr Seconds kGamma{1e-10};

bool is_memory(TransportKind transport) {
  return transport == TransportKind::SharedMemory || transport == TransportKind::InProcess;
}

LinkLevel link_of(const std::optional<HostCosts>& costs, TransportKind transport) {
  LinkLevel link = is_memory(transport) ? kNear : kFar;
  const MessageCost* measured = costs ? costs->messages_by(name(transport)) : nullptr;
  if (measured != nullptr) {
    link.alpha = measured->alpha;
    link.beta = measured->beta;
  }
  return link;
}

/// Ranks that outnumber their cores take turns: to move bytes takes so many times as long, and a
/// message comes when the scheduler gets to it.
struct Crowding {
  double factor = 1;
  Seconds turn{};
};

Crowding crowding(const std::optional<HostCosts>& costs, Rank ranks) {
  if (!costs || ranks <= costs->cores) {
    return {};
  }
  return {static_cast<double>(ranks) / costs->cores, costs->wait_of(ranks).next};
}

LinkLevel crowded(LinkLevel link, const Crowding& crowd) {
  link.alpha = std::max(link.alpha, crowd.turn);
  link.beta.count *= crowd.factor;
  return link;
}

CostModel message_costs(const GroupShape& shape, const std::optional<HostCosts>& costs,
                        DType dtype) {
  const bool one_host = is_memory(shape.transport) || shape.ranks_per_host == shape.ranks;
  const Rank together = one_host ? shape.ranks : std::max(1, shape.ranks_per_host);
  const Crowding crowd = crowding(costs, together);
  const Seconds measured = costs ? costs->gamma(to_text(dtype)) : Seconds{};
  const Seconds gamma{(measured.count > 0 ? measured : kGamma).count * crowd.factor};
  const LinkLevel far = crowded(link_of(costs, shape.transport), crowd);
  if (one_host || shape.ranks_per_host < 2) {
    return {{far}, gamma};
  }
  LinkLevel near = crowded(link_of(costs, TransportKind::SharedMemory), crowd);
  near.span = shape.ranks_per_host;
  return {{near, far}, gamma};
}

/// Sums of halves travel as f32.
Bytes travelling(const GroupModel::Query& query) {
  const bool wide =
      combines(query.operation) && (query.dtype == DType::F16 || query.dtype == DType::BF16);
  return {std::max<std::int64_t>(query.bytes.count, 1) * (wide ? 2 : 1)};
}

}  // namespace

GroupModel::GroupModel(const GroupShape& shape, std::optional<HostCosts> costs)
    : shape_(shape), costs_(std::move(costs)) {
  for (const DType dtype : kDTypes) {
    selectors_.push_back(std::make_unique<Selector>(message_costs(shape_, costs_, dtype)));
  }
}

Selector& GroupModel::selector(DType dtype) const {
  return *selectors_[static_cast<std::size_t>(std::ranges::find(kDTypes, dtype) - kDTypes.begin())];
}

const CostModel& GroupModel::messages(DType dtype) const {
  return selector(dtype).costs();
}

const std::vector<Choice>& GroupModel::ranking(const Query& query) {
  return selector(query.dtype)
      .rank({.operation = query.operation,
             .ranks = shape_.ranks,
             .root = query.root,
             .bytes = travelling(query)});
}

Method GroupModel::choose(const Query& query) {
  if (shape_.sees_memory && !costs_) {
    return Method::direct();
  }
  const Method messages = query.operation == Operation::Alltoall
                              ? Method::scheduled(Algorithm::Pairwise)
                              : Method::scheduled(ranking(query).front().algorithm);
  if (!shape_.sees_memory) {
    return messages;
  }
  const Seconds by_messages = *predict(query, messages, Sight::Hidden);
  const bool faster = by_messages < *predict(query, Method::direct(), Sight::Hidden) &&
                      by_messages < *predict(query, Method::direct(), Sight::Visible);
  return faster ? messages : Method::direct();
}

/// Where ranks see one another's memory, messages begin with all seeing all others' records.
Seconds GroupModel::first_wait() const {
  return shape_.sees_memory ? costs_->wait_of(shape_.ranks).first : Seconds{};
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
  const Bytes bytes = travelling(query);
  const CostModel& model = messages(query.dtype);
  const BuildOptions options{
      .ranks = shape_.ranks,
      .root = query.root,
      .segments = best_segments(query.operation, method.algorithm, shape_.ranks, bytes, model),
      .ranks_per_node = shape_.ranks_per_host < shape_.ranks ? shape_.ranks_per_host : 0};
  const Seconds moving =
      model.is_uniform()
          ? formula(query.operation, method.algorithm, options)
                .at(static_cast<double>(bytes.count), model)
          : time_schedule(build(query.operation, method.algorithm, options), {bytes.count}, model)
                .seconds;
  return Seconds{first_wait().count + moving.count};
}

}  // namespace trireme::comm
