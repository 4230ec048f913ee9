// A worker of a chaos run: pushes ones to its own keys, and checks every value that it reads.
#include <algorithm>
#include <deque>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ps/host/event_loop.h"
#include "ps/tools/chaos_ledger.h"
#include "ps/tools/chaos_tables.h"
#include "trireme/parameter_server.h"
#include "trireme/ps_chaos.h"

namespace trireme::ps {
namespace {

constexpr std::size_t kDepth = 64;            ///< pushes in flight
constexpr int kPushesPerIteration = 32;       ///< between two reads
constexpr std::int64_t kSlowMicros = 20'000;  ///< from which on an operation is written down
constexpr Seconds kClientPatience{120};

class ChaosWorker {
 public:
  explicit ChaosWorker(const ChaosWorkerOptions& options)
      : options_(options),
        ledger_(ledger_file(options.folder, options.life)),
        roster_(roster_file(options.folder)),
        random_(options.seed + options.life),
        begin_(micros_now()),
        client_({.coordinator = options.coordinator,
                 .etcd_tls = options.etcd_tls,
                 .secret = options.secret,
                 .lease = options.lease,
                 .patience = kClientPatience}),
        counters_(client_.create_table(chaos_counters())),
        progress_(client_.create_table(chaos_progress())) {}

  void run() {
    client_.start_iteration(progress_);
    ledger_->join_micros = static_cast<std::uint64_t>(micros_now() - begin_);
    clock_ = client_.clock(progress_);
    while (!ledger_->stop) {
      client_.start_iteration(progress_);
      note_clock();
      check_own();
      check_others();
      for (int i = 0; i < kPushesPerIteration; ++i) {
        push();
      }
      push_progress();
      client_.complete_iteration(progress_);
      ++clock_;
    }
    while (!pending_.empty()) {
      finish_oldest();
    }
  }

 private:
  struct Pending {
    PendingOperation operation;
    std::optional<Key> key;       ///< of a counter
    std::vector<float> gradient;  ///< of what is not a counter
    Micros begin = 0;
  };

  /// A clock that jumps: the others continued without this worker.
  void note_clock() {
    if (const ClockCount now = client_.clock(progress_); now != clock_) {
      ledger_->has_left_clock = true;
      clock_ = now;
    }
  }

  void push() {
    if (pending_.size() >= kDepth) {
      finish_oldest();
    }
    const Key key = random_() % kChaosKeys;
    ++ledger_->begun.at(key);
    const Key place = chaos_key(key, options_.life);
    const Micros begin = micros_now();
    pending_.push_back(
        {client_.push(counters_, Keys::range(place, place + 1), one_), key, {}, begin});
  }

  void push_progress() {
    std::vector<float> completed{static_cast<float>(clock_ + 1)};
    const Keys key = Keys::range(options_.life, options_.life + 1);
    PendingOperation operation = client_.push(progress_, key, completed);
    pending_.push_back({std::move(operation), {}, std::move(completed), micros_now()});
  }

  void finish_oldest() {
    Pending& oldest = pending_.front();
    oldest.operation.wait();
    if (oldest.key) {
      ++ledger_->acknowledged.at(*oldest.key);
      ++ledger_->pushes;
      const Micros took = micros_of(oldest.operation);
      ++ledger_->latencies.at(latency_bucket(took));
      note_if_slow(oldest.begin, oldest.begin + took);
    }
    pending_.pop_front();
  }

  /// Until the answer arrived. The worker may have noticed it later, for example because it waited for another's clock.
  static Micros micros_of(const PendingOperation& operation) {
    return static_cast<Micros>(operation.took().count * 1e6);
  }

  void pull(TableHandle table, const Keys& keys, std::vector<float>& values) {
    const Micros begin = micros_now();
    PendingOperation operation = client_.pull(table, keys, values);
    operation.wait();
    note_if_slow(begin, begin + micros_of(operation));
  }

  void note_if_slow(Micros begin, Micros end) {
    const std::uint64_t number = ledger_->slow_count;
    if (end - begin >= kSlowMicros && number < ledger_->slow.size()) {
      ledger_->slow.at(number) = {begin, end};
      ledger_->slow_count = number + 1;
    }
  }

  /// Nobody else pushes to these keys, so the value is exactly what this worker has pushed, acknowledged or not.
  void check_own() {
    const Key key = random_() % kChaosKeys;
    const Key place = chaos_key(key, options_.life);
    std::vector<float> value(1);
    pull(counters_, Keys::range(place, place + 1), value);
    ++ledger_->reads;
    const auto expected = static_cast<float>(ledger_->begun.at(key));
    ledger_->missed_writes += value[0] == expected ? 0 : 1;
  }

  /// The staleness bound: at clock c every other worker's iterations before c - s are there.
  void check_others() {
    std::vector<Key> lives;
    for (const SharedCount& life : roster_->life) {
      if (const std::uint64_t number = life; number != 0 && number != options_.life) {
        lives.push_back(number);
      }
    }
    if (lives.empty()) {
      return;
    }
    std::ranges::sort(lives);
    std::vector<float> seen(lives.size());
    pull(progress_, Keys::list(lives), seen);
    for (std::size_t i = 0; i < lives.size(); ++i) {
      const auto completed = static_cast<ClockCount>(seen[i]);
      ++ledger_->reads;
      if (completed > 0 && completed < clock_ - kChaosStaleness) {
        ledger_->saw_stale.at(lives[i]) = true;
      }
    }
  }

  ChaosWorkerOptions options_;
  SharedRecord<LifeLedger> ledger_;
  SharedRecord<Roster> roster_;
  std::mt19937_64 random_;
  Micros begin_;
  ParameterClient client_;
  TableHandle counters_;
  TableHandle progress_;
  ClockCount clock_ = 0;
  std::vector<float> one_{1.0F};
  std::deque<Pending> pending_;
};

}  // namespace

void run_chaos_worker(const ChaosWorkerOptions& options) {
  const SharedRecord<LifeLedger> ledger(ledger_file(options.folder, options.life));
  try {
    ChaosWorker(options).run();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    std::ranges::copy(text.substr(0, ledger->problem.size() - 1), ledger->problem.begin());
  }
  ledger->is_finished = true;
}

}  // namespace trireme::ps
