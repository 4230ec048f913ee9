#include "train/sync/server_model.h"

#include <algorithm>
#include <limits>
#include <map>

#include "trireme/error.h"

namespace trireme::train {
namespace {

using ServerRule = ps::TrainUpdate::Optimizer;

struct ToServer {
  ServerOptimizer operator()(const Sgd&) const {
    return {.update = {.optimizer = ServerRule::Sgd}};
  }
  ServerOptimizer operator()(const Momentum& o) const {
    return {.update = {.optimizer = ServerRule::Momentum,
                       .momentum = static_cast<float>(o.momentum),
                       .nesterov = o.nesterov},
            .states = {"m"}};
  }
  ServerOptimizer operator()(const Adagrad& o) const {
    return {.update = {.optimizer = ServerRule::Adagrad, .epsilon = static_cast<float>(o.epsilon)},
            .states = {"s"}};
  }
  ServerOptimizer operator()(const AdamW& o) const {
    return {.update = {.optimizer = ServerRule::AdamW,
                       .beta1 = static_cast<float>(o.beta1),
                       .beta2 = static_cast<float>(o.beta2),
                       .epsilon = static_cast<float>(o.epsilon)},
            .states = {"m", "v"}};
  }
  ServerOptimizer operator()(const Lion&) const { return unsupported(); }
  ServerOptimizer operator()(const Muon&) const { return unsupported(); }

  [[noreturn]] static ServerOptimizer unsupported() {
    throw Error(ErrorKind::Usage,
                "parameter servers apply sgd, momentum, adagrad and adamw; use one of these with "
                "--optimizer, or --sync allreduce");
  }
};

constexpr std::size_t kFloatsInBlock = ServerModel::kWidth - ps::kTrainHead;

}  // namespace

ServerOptimizer server_optimizer(const Optimizer& optimizer) {
  return std::visit(ToServer(), optimizer);
}

ServerModel::ServerModel(const std::vector<TrainedParameter>& parameters) {
  std::map<double, std::vector<std::pair<std::size_t, std::size_t>>> by_decay;
  for (const TrainedParameter& parameter : parameters) {
    by_decay[parameter.decay].emplace_back(elements_, parameter.elements);
    elements_ += parameter.elements;
  }
  for (const auto& [decay, places] : by_decay) {
    room_ = 0;
    for (const auto& [from, count] : places) {
      add(from, count, static_cast<float>(decay));
    }
  }
}

void ServerModel::add(std::size_t from, std::size_t count, float decay) {
  while (count > 0) {
    if (room_ == 0) {
      decays_.push_back(decay);
      room_ = kFloatsInBlock;
    }
    const std::size_t here = std::min(room_, count);
    pieces_.push_back({.from = from, .to = rows() * kWidth - room_, .count = here});
    from += here;
    count -= here;
    room_ -= here;
  }
}

void ServerModel::pack(std::span<const float> elements, ps::TrainHead head,
                       std::span<float> rows) const {
  std::ranges::fill(rows, 0.0F);
  for (std::size_t row = 0; row < decays_.size(); ++row) {
    head.decay = decays_[row];
    head.write(rows.subspan(row * kWidth, kWidth));
  }
  for (const Piece& piece : pieces_) {
    std::ranges::copy(elements.subspan(piece.from, piece.count), rows.subspan(piece.to).begin());
  }
}

void ServerModel::unpack(std::span<const float> rows, std::span<float> elements) const {
  for (const Piece& piece : pieces_) {
    std::ranges::copy(rows.subspan(piece.to, piece.count), elements.subspan(piece.from).begin());
  }
}

std::int64_t oldest_row(std::span<const float> rows) {
  std::int64_t oldest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t row = 0; row < rows.size(); row += ServerModel::kWidth) {
    oldest = std::min(oldest, ps::update_count(rows.subspan(row, ServerModel::kWidth)));
  }
  return oldest;
}

}  // namespace trireme::train
