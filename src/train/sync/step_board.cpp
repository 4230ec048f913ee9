#include "train/sync/step_board.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <span>
#include <utility>

namespace trireme::train {
namespace {

std::span<std::uint8_t> bytes_of(std::span<ShareResult> results) {
  return {reinterpret_cast<std::uint8_t*>(results.data()), results.size_bytes()};
}

class ExchangedBoard : public StepBoard {
 public:
  ExchangedBoard(Group& ranks, const Stretch& stretch, const StepBoardOptions& options)
      : ranks_(ranks),
        options_(options),
        last_(stretch.last),
        taken_(stretch.first),
        done_(stretch.first) {
    for (const ShareResult& result : stretch.done) {
      ++taken_;
      post(result);
    }
  }

  std::optional<BatchShare> take() override {
    collect();
    while (std::ssize(rounds_) > options_.max_lead) {
      rounds_.front().pending.wait();
      collect();
    }
    if (taken_ == last_) {
      return std::nullopt;
    }
    staleness_ = std::ssize(rounds_);
    return BatchShare{.step = ++taken_, .part = options_.worker};
  }

  void post(ShareResult result) final {
    result.staleness = static_cast<double>(staleness_);
    Round& round = rounds_.emplace_back();
    round.own = result;
    round.all.resize(ranks_.size());
    round.pending = ranks_.start(
        allgather<std::uint8_t>(bytes_of(std::span(&round.own, 1)), bytes_of(round.all)));
  }

  void check() override { collect(); }

  std::vector<StepReport> completed() override {
    collect();
    return std::exchange(ready_, {});
  }

  std::vector<StepReport> finish() override {
    while (!rounds_.empty()) {
      rounds_.front().pending.wait();
      collect();
    }
    return std::exchange(ready_, {});
  }

  [[nodiscard]] std::int64_t last() const override { return last_; }
  [[nodiscard]] bool stopped() const override { return stopped_; }

 private:
  /// The results of a step, in flight.
  struct Round {
    ShareResult own{};
    std::vector<ShareResult> all;
    Pending pending;  ///< uses the vectors, so destroyed first
  };

  void collect() {
    while (!rounds_.empty() && rounds_.front().pending.done()) {
      rounds_.front().pending.wait();  // throws if it failed
      add(rounds_.front().all);
      rounds_.pop_front();
    }
  }

  void add(std::span<const ShareResult> results) {
    ready_.push_back(summarize(++done_, results));
    if (std::ranges::any_of(results, [](const ShareResult& r) { return r.stop + r.failed > 0; })) {
      // No worker takes the step after this one before it has seen these results.
      last_ = std::min(last_, done_ + options_.max_lead);
      stopped_ = true;
    }
  }

  Group& ranks_;
  StepBoardOptions options_;
  std::int64_t last_;
  std::int64_t taken_;
  std::int64_t done_;  ///< the last step whose results are known
  std::int64_t staleness_ = 0;
  std::deque<Round> rounds_;  ///< of the steps after done_
  std::vector<StepReport> ready_;
  bool stopped_ = false;
};

}  // namespace

namespace {

void add_clocks(SyncState& state, const ShareResult& result) {
  if (result.clock < 0) {
    return;
  }
  const auto own = static_cast<std::int64_t>(result.clock);
  const auto slowest = static_cast<std::int64_t>(result.slowest_clock);
  const SyncClocks before = state.clocks.value_or(SyncClocks{slowest, own});
  state.clocks = {std::min(before.slowest, slowest), std::max(before.fastest, own)};
  state.staleness = state.clocks->fastest - state.clocks->slowest;
}

}  // namespace

StepReport summarize(std::int64_t step, std::span<const ShareResult> results) {
  const auto count = static_cast<double>(results.size());
  StepReport report{.step = step};
  SyncState state;
  double moved = 0;
  double length = 0;
  for (const ShareResult& result : results) {
    report.loss += result.loss / count;
    report.gradient_norm += result.gradient_norm / count;
    report.rate = std::max(report.rate, result.rate);
    if (result.loss_scale > 0) {
      report.loss_scale =
          std::min(report.loss_scale.value_or(result.loss_scale), result.loss_scale);
    }
    state.staleness = std::max(state.staleness, static_cast<std::int64_t>(result.staleness));
    moved += result.moved;
    length += result.length;
    add_clocks(state, result);
  }
  state.spread = length > 0 ? std::sqrt(moved / length) : 0;
  report.sync = state;
  return report;
}

std::unique_ptr<StepBoard> make_step_board(Group& ranks, const Stretch& stretch,
                                           const StepBoardOptions& options) {
  return std::make_unique<ExchangedBoard>(ranks, stretch, options);
}

}  // namespace trireme::train
