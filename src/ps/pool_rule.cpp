#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "ps/pool_row.h"
#include "ps/rules.h"
#include "trireme/message.h"
#include "trireme/ps_update.h"

namespace trireme::ps {
namespace {

class PoolRule final : public UpdateRule {
 public:
  [[nodiscard]] std::size_t state_per_key(std::size_t width) const override {
    return width - std::min(width, PoolRow::kTickets);
  }

  void apply(const UpdateRun& run) const override {
    const std::size_t workers = state_per_key(run.width) / 2;
    if (run.values.size() != run.width || workers == 0) {
      return;  // no table of this update
    }
    const float worker = run.gradient[1];
    const bool is_worker = worker >= 0 && worker < static_cast<float>(workers);
    const std::span<const float> numbers = run.gradient.subspan(2, 2);
    switch (static_cast<int>(std::clamp(run.gradient[0], -1.0F, 9.0F))) {
      case static_cast<int>(PoolRequest::Open):
        return open(run, numbers[0], numbers[1]);
      case static_cast<int>(PoolRequest::Take):
        return is_worker ? take(run, static_cast<std::size_t>(worker)) : void();
      case static_cast<int>(PoolRequest::Stop):
        return stop(run, numbers[0]);
      case static_cast<int>(PoolRequest::Abandon):
        return is_worker ? abandon(run, static_cast<std::size_t>(worker)) : void();
      default:
        return;
    }
  }

 private:
  struct Slot {
    float& part;
    float& owner;
  };
  static Slot held(const UpdateRun& run, std::size_t worker) {
    return {run.values[PoolRow::kTickets + 2 * worker],
            run.values[PoolRow::kTickets + 2 * worker + 1]};
  }
  static Slot abandoned(const UpdateRun& run, std::size_t place) {
    return {run.state[2 * place], run.state[2 * place + 1]};
  }

  static void open(const UpdateRun& run, float first, float last) {
    std::ranges::fill(run.values, PoolRow::kNone);
    std::ranges::fill(run.state, PoolRow::kNone);
    run.values[PoolRow::kNext] = first;
    run.values[PoolRow::kLast] = last;
  }

  static void take(const UpdateRun& run, std::size_t worker) {
    const Slot own = held(run, worker);
    for (std::size_t place = 0; 2 * place < run.state.size(); ++place) {
      if (const Slot left = abandoned(run, place); left.part != PoolRow::kNone) {
        own.part = std::exchange(left.part, PoolRow::kNone);
        own.owner = left.owner;
        return;
      }
    }
    const bool has_more = run.values[PoolRow::kNext] < run.values[PoolRow::kLast];
    own.part = has_more ? run.values[PoolRow::kNext]++ : PoolRow::kNone;
    own.owner = static_cast<float>(worker);
  }

  static void stop(const UpdateRun& run, float parts) {
    if (parts >= 1) {
      run.values[PoolRow::kLast] = std::min(run.values[PoolRow::kLast],
                                            std::ceil(run.values[PoolRow::kNext] / parts) * parts);
    }
  }

  static void abandon(const UpdateRun& run, std::size_t worker) {
    const Slot lost = held(run, worker);
    if (lost.part != PoolRow::kNone) {
      const Slot place = abandoned(run, worker);
      place.part = std::exchange(lost.part, PoolRow::kNone);
      place.owner = lost.owner;
    }
  }
};

}  // namespace

std::unique_ptr<UpdateRule> make_pool_rule(std::span<const float> parameters) {
  require(parameters.empty(), "update 'pool' takes no parameters");
  return std::make_unique<PoolRule>();
}

}  // namespace trireme::ps
