#include "trireme/ps_train_update.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "base/enum_names.h"
#include "base/indexed_vector.h"
#include "ps/rules.h"
#include "trireme/message.h"
#include "trireme/ps_update.h"

namespace trireme::ps {
namespace {

using TrainOperation = TrainHead::Operation;
using Optimizer = TrainUpdate::Optimizer;

// Places in the head of a pushed row.
constexpr std::size_t kOperation = 0;
constexpr std::size_t kWorker = 1;
constexpr std::size_t kTicket = 2;
constexpr std::size_t kRate = 3;
constexpr std::size_t kDecay = 4;
constexpr std::size_t kCount = 5;
constexpr std::size_t kSlot = 6;
// In the head of a stored row.
constexpr std::size_t kUpdates = 0;
constexpr std::size_t kExchanged = 1;  ///< 1 + the slot that is in the parameters' place; 0: none
/// The ticket of a worker that has left.
constexpr auto kLeft = static_cast<float>(kMaxTrainNumber);

constexpr std::size_t kParameters = 8;

TrainUpdate from_parameters(std::span<const float> p) {
  require(p.size() == kParameters && p[0] >= 0 && p[0] <= 3 && p[1] >= 1 && p[1] <= 65536,
          fmt::format("update 'train' takes {} parameters; see to_parameters()", kParameters));
  return {.optimizer = static_cast<Optimizer>(p[0]),
          .workers = static_cast<int>(p[1]),
          .aggregation = p[2] == 0 ? Aggregation::None : Aggregation::Mean,
          .momentum = p[3],
          .nesterov = p[4] != 0,
          .beta1 = p[5],
          .beta2 = p[6],
          .epsilon = p[7]};
}

/// -1 if a peer sent something else.
std::int64_t number_of(float number) {
  const bool is_valid = number >= 0 && number < static_cast<float>(kMaxTrainNumber);
  return is_valid ? static_cast<std::int64_t>(number) : -1;
}

TrainHead read_head(std::span<const float> row) {
  return {.operation = static_cast<TrainOperation>(number_of(row[kOperation])),
          .worker = static_cast<int>(number_of(row[kWorker])),
          .ticket = number_of(row[kTicket]),
          .rate = row[kRate],
          .decay = row[kDecay],
          .count = number_of(row[kCount]),
          .slot = static_cast<int>(number_of(row[kSlot]))};
}

/// A block of parameters and the optimizer's state of it.
struct Block {
  std::span<float> p;
  std::span<float> a;
  std::span<float> b;
};

void step_sgd(const Block& x, std::span<const float> g, float rate, float decay) {
  for (std::size_t i = 0; i < x.p.size(); ++i) {
    x.p[i] -= rate * (g[i] + decay * x.p[i]);
  }
}

void step_momentum(const TrainUpdate& u, const Block& x, std::span<const float> g, float rate,
                   float decay) {
  const float of_g = u.nesterov ? 1.0F : 0.0F;
  const float of_m = u.nesterov ? u.momentum : 1.0F;
  for (std::size_t i = 0; i < x.p.size(); ++i) {
    const float d = g[i] + decay * x.p[i];
    x.a[i] = u.momentum * x.a[i] + d;
    x.p[i] -= rate * (of_g * d + of_m * x.a[i]);
  }
}

void step_adagrad(const TrainUpdate& u, const Block& x, std::span<const float> g, float rate,
                  float decay) {
  for (std::size_t i = 0; i < x.p.size(); ++i) {
    const float d = g[i] + decay * x.p[i];
    x.a[i] += d * d;
    x.p[i] -= rate * d / (std::sqrt(x.a[i]) + u.epsilon);
  }
}

void step_adamw(const TrainUpdate& u, const Block& x, std::span<const float> g, float rate,
                float decay, double count) {
  const float keep = 1 - rate * decay;
  const auto scaled =
      static_cast<float>(rate / (1 - std::pow(static_cast<double>(u.beta1), count)));
  const auto root =
      static_cast<float>(1 / std::sqrt(1 - std::pow(static_cast<double>(u.beta2), count)));
  for (std::size_t i = 0; i < x.p.size(); ++i) {
    x.a[i] = u.beta1 * x.a[i] + (1 - u.beta1) * g[i];
    x.b[i] = u.beta2 * x.b[i] + (1 - u.beta2) * g[i] * g[i];
    x.p[i] = keep * x.p[i] - scaled * x.a[i] / (std::sqrt(x.b[i]) * root + u.epsilon);
  }
}

// A gradient that is applied alone comes from a K-th of the batch. So that a learning rate means the same as for the mean
// of K gradients, it is scaled: by 1/K for updates proportional to the gradient, by 1/√K for AdamW, which divides by
// the gradient's root mean square (Malladi et al. 2022). Adagrad's sum of squares grows faster by itself.
float rate_for_one(const TrainUpdate& update) {
  const auto workers = static_cast<float>(update.workers);
  switch (update.optimizer) {
    case Optimizer::Sgd:
    case Optimizer::Momentum:
      return 1 / workers;
    case Optimizer::AdamW:
      return 1 / std::sqrt(workers);
    case Optimizer::Adagrad:
      break;
  }
  return 1;
}

/// State of a row: the ticket of the last update; the last ticket of each worker; the optimizer's state; with
/// Aggregation::Mean a gradient of each worker.
class TrainRule final : public UpdateRule {
 public:
  explicit TrainRule(std::span<const float> parameters)
      : update_(from_parameters(parameters)), share_(rate_for_one(update_)) {}

  [[nodiscard]] std::size_t state_per_key(std::size_t width) const override {
    const std::size_t block = width - std::min(width, kTrainHead);
    return 1 + workers() + (slots() + (collects() ? workers() : 0)) * block;
  }

  void apply(const UpdateRun& run) const override {
    if (run.width <= kTrainHead) {
      return;  // no table of this update
    }
    const std::size_t stride = state_per_key(run.width);
    for (std::size_t key = 0; key * run.width < run.values.size(); ++key) {
      apply_row({.values = run.values.subspan(key * run.width, run.width),
                 .state = run.state.subspan(key * stride, stride)},
                run.gradient.subspan(key * run.width, run.width));
    }
  }

 private:
  struct Row {
    std::span<float> values;
    std::span<float> state;

    [[nodiscard]] std::span<float> block() const { return values.subspan(kTrainHead); }
    [[nodiscard]] float& updates() const { return values[kUpdates]; }
    [[nodiscard]] float& done() const { return state[0]; }
    [[nodiscard]] float& exchanged() const { return values[kExchanged]; }
    [[nodiscard]] float& ticket(std::size_t worker) const { return state[1 + worker]; }
  };

  [[nodiscard]] std::size_t workers() const { return static_cast<std::size_t>(update_.workers); }
  [[nodiscard]] std::size_t slots() const {
    return static_cast<std::size_t>(slot_count(update_.optimizer));
  }
  [[nodiscard]] bool collects() const { return update_.aggregation == Aggregation::Mean; }
  [[nodiscard]] std::span<float> slot(const Row& row, std::size_t i) const {
    const std::size_t size = row.block().size();
    return row.state.subspan(1 + workers() + i * size, size);
  }
  [[nodiscard]] std::span<float> collected(const Row& row, std::size_t worker) const {
    return slot(row, slots() + worker);
  }

  void apply_row(const Row& row, std::span<const float> pushed) const {
    const TrainHead head = read_head(pushed);
    const std::span<const float> block = pushed.subspan(kTrainHead);
    switch (head.operation) {
      case TrainOperation::Gradient:
        return take_gradient(row, head, block);
      case TrainOperation::Assign:
        std::ranges::copy(block, row.block().begin());
        row.updates() = static_cast<float>(head.count);
        row.exchanged() = 0;
        return;
      case TrainOperation::Exchange:
        if (is_present(row, head.worker) && head.slot >= 0 && position_of(head.slot) < slots()) {
          exchange(row, head.slot);
        }
        return;
      case TrainOperation::Leave:
        if (is_present(row, head.worker)) {
          leave(row, head);
        }
        return;
    }
  }

  [[nodiscard]] bool is_present(const Row& row, int worker) const {
    return worker >= 0 && position_of(worker) < workers() && row.ticket(worker) < kLeft;
  }

  void exchange(const Row& row, std::size_t i) const {
    std::ranges::swap_ranges(row.block(), slot(row, i));
    const auto place = static_cast<float>(i + 1);
    row.exchanged() = row.exchanged() == place ? 0.0F : place;
  }

  void leave(const Row& row, const TrainHead& head) const {
    if (row.exchanged() > 0) {
      exchange(row, static_cast<std::size_t>(row.exchanged()) - 1);
    }
    if (collects()) {
      row.ticket(head.worker) = kLeft;
      update_if_complete(row, head);
    }
  }

  void take_gradient(const Row& row, const TrainHead& head, std::span<const float> g) const {
    const std::size_t worker = head.worker;
    if (!is_present(row, head.worker) || static_cast<float>(head.ticket) <= row.ticket(worker)) {
      return;
    }
    row.ticket(worker) = static_cast<float>(head.ticket);
    if (!collects()) {
      return step(row, head, g, head.rate * share_);
    }
    std::ranges::copy(g, collected(row, worker).begin());
    update_if_complete(row, head);
  }

  /// Once all workers that have not left have pushed for the next step.
  void update_if_complete(const Row& row, const TrainHead& head) const {
    const std::span<float> tickets = row.state.subspan(1, workers());
    const float slowest = std::ranges::min(tickets);
    if (slowest > row.done() && slowest < kLeft) {
      row.done() = slowest;
      step(row, head, mean(row), head.rate);
    }
  }

  /// Of the gradients of all workers that have not left, added in the order of the workers; in place of the first.
  [[nodiscard]] std::span<const float> mean(const Row& row) const {
    const std::span<float> tickets = row.state.subspan(1, workers());
    const auto is_here = [](float ticket) { return ticket < kLeft; };
    const auto first =
        static_cast<std::size_t>(std::ranges::find_if(tickets, is_here) - tickets.begin());
    const std::span<float> sum = collected(row, first);
    for (std::size_t worker = first + 1; worker < workers(); ++worker) {
      const std::span<const float> g = collected(row, worker);
      for (std::size_t i = 0; i < sum.size() && is_here(tickets[worker]); ++i) {
        sum[i] += g[i];
      }
    }
    const auto count = static_cast<float>(std::ranges::count_if(tickets, is_here));
    for (float& element : sum) {
      element /= count;
    }
    return sum;
  }

  void step(const Row& row, const TrainHead& head, std::span<const float> g, float rate) const {
    row.updates() += 1;
    const Block block{.p = row.block(),
                      .a = slots() > 0 ? slot(row, 0) : std::span<float>(),
                      .b = slots() > 1 ? slot(row, 1) : std::span<float>()};
    switch (update_.optimizer) {
      case Optimizer::Sgd:
        return step_sgd(block, g, rate, head.decay);
      case Optimizer::Momentum:
        return step_momentum(update_, block, g, rate, head.decay);
      case Optimizer::Adagrad:
        return step_adagrad(update_, block, g, rate, head.decay);
      case Optimizer::AdamW:
        return step_adamw(update_, block, g, rate, head.decay, row.updates());
    }
  }

  TrainUpdate update_;
  float share_;  ///< of the rate, for a gradient that is applied alone
};

}  // namespace

void TrainHead::write(std::span<float> row) const {
  std::ranges::fill(row.first(kTrainHead), 0.0F);
  row[kOperation] = static_cast<float>(operation);
  row[kWorker] = static_cast<float>(worker);
  row[kTicket] = static_cast<float>(ticket);
  row[kRate] = rate;
  row[kDecay] = decay;
  row[kCount] = static_cast<float>(count);
  row[kSlot] = static_cast<float>(slot);
}

std::int64_t update_count(std::span<const float> row) {
  return static_cast<std::int64_t>(row[kUpdates]);
}

int slot_count(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::Sgd:
      return 0;
    case Optimizer::Momentum:
    case Optimizer::Adagrad:
      return 1;
    case Optimizer::AdamW:
      break;
  }
  return 2;
}

std::vector<float> to_parameters(const TrainUpdate& u) {
  return {static_cast<float>(u.optimizer),
          static_cast<float>(u.workers),
          u.aggregation == Aggregation::Mean ? 1.0F : 0.0F,
          u.momentum,
          u.nesterov ? 1.0F : 0.0F,
          u.beta1,
          u.beta2,
          u.epsilon};
}

std::unique_ptr<UpdateRule> make_train_rule(std::span<const float> parameters) {
  return std::make_unique<TrainRule>(parameters);
}

std::string_view to_text(Aggregation aggregation) {
  static constexpr auto kNames = enum_names<Aggregation>("none", "mean");
  return kNames[aggregation];
}

std::string_view to_text(TrainHead::Operation operation) {
  static constexpr auto kNames = enum_names<TrainHead::Operation>("gradient", "assign", "exchange");
  return kNames[operation];
}

std::string_view to_text(TrainUpdate::Optimizer optimizer) {
  static constexpr auto kNames =
      enum_names<TrainUpdate::Optimizer>("sgd", "momentum", "adagrad", "adamw");
  return kNames[optimizer];
}

}  // namespace trireme::ps
