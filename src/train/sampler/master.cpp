// The master's side of the protocol in wire.h. Polls the workers in turn, since only one thread may make calls on a
// World, and sleeps briefly when there are no requests.
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/indexed_vector.h"
#include "train/clock.h"
#include "train/sampler/ledger.h"
#include "train/sampler/wire.h"
#include "trireme/error.h"
#include "trireme/sampler.h"

namespace trireme {
namespace {

using train::Answer;
using train::Ask;
using train::Clock;
using train::SampleLedger;
using train::SamplerMessage;

constexpr std::chrono::microseconds kNap{100};
/// How long a request may be held: a worker that waits much longer would time out on the master.
constexpr std::chrono::milliseconds kLongestHold{100};

}  // namespace

class SampleMaster::Server {
 public:
  Server(Group& group, OnConsumed on_consumed)
      : master_(group.rank()), on_consumed_(std::move(on_consumed)) {
    if (group.size() < 2) {
      throw Error(ErrorKind::Usage, "sampler: the master is alone in its group, without workers");
    }
    seats_.resize(group.size());
    for (Rank rank = 0; rank < group.size(); ++rank) {
      Seat& seat = seats_[rank];
      seat.rank = rank;
      if (rank != master_) {
        guard(seat, [&] { seat.pair = group.subset({master_, rank}); });
      }
    }
  }

  [[nodiscard]] Rank ranks() const { return seats_.count(); }
  [[nodiscard]] Rank master() const { return master_; }

  ServeReport serve(SampleLedger ledger) {
    ledger_ = &ledger;
    consumed_.assign(seats_.size(), 0);
    for (Seat& seat : seats_) {
      seat.told_over = false;
      if (!seat.pair) {
        ledger.lose(seat.rank);
      }
    }
    while (is_anyone_there()) {
      if (!attend_all()) {
        std::this_thread::sleep_for(kNap);
      }
    }
    ledger_ = nullptr;
    return {.consumed = consumed_.items(), .left_over = ledger.left(), .lost = lost_};
  }

 private:
  /// The master's view of a worker: either its next request is pending, or it requested samples when none were available
  /// and is held.
  struct Seat {
    Rank rank = 0;
    std::optional<Group> pair{};  ///< none: the worker is lost
    SamplerMessage request{};
    bool listening = false;
    Pending heard{};  ///< the pending request, while listening
    std::optional<Clock::time_point> held{};
    bool told_over = false;
  };

  [[nodiscard]] bool is_anyone_there() const {
    return std::ranges::any_of(seats_,
                               [](const Seat& seat) { return seat.pair && !seat.told_over; });
  }

  /// Returns whether anything happened.
  bool attend_all() {
    bool moved = false;
    for (Seat& seat : seats_) {
      if (seat.pair && !seat.told_over) {
        guard(seat, [&] { moved = attend(seat) || moved; });
        moved = moved || !seat.pair;
      }
    }
    return moved;
  }

  /// A communication failure between the master and a worker affects only that worker.
  template <class Action>
  void guard(Seat& seat, const Action& action) {
    try {
      action();
    } catch (const CommError& error) {
      lose(seat, error.what());
    }
  }

  void lose(Seat& seat, const std::string& why) {
    seat.pair.reset();
    lost_.emplace(seat.rank, why);
    if (ledger_ != nullptr) {
      ledger_->lose(seat.rank);
    }
  }

  bool attend(Seat& seat) {
    if (seat.held) {
      return give(seat);
    }
    if (!seat.listening) {
      seat.heard = seat.pair->start_receive<std::int64_t>(seat.request, train::kWorkerPlace);
      seat.listening = true;
    }
    if (!seat.heard.done()) {
      return false;
    }
    seat.listening = false;
    seat.heard.wait();
    handle(seat);
    return true;
  }

  void handle(Seat& seat) {
    switch (static_cast<Ask>(seat.request[0])) {
      case Ask::Take:
        seat.held = Clock::now();
        (void)give(seat);
        return;
      case Ask::Confirm:
        count(seat, ledger_->confirm(seat.rank, seat.request[1]));
        return;
      case Ask::Leave:
        lose(seat, fmt::format("rank {} left: it takes no more samples", seat.rank));
        return;
    }
    TRIREME_CHECK(false, fmt::format("rank {} requested {}", seat.rank, seat.request[0]));
  }

  void count(Seat& seat, const std::vector<SampleIndex>& samples) {
    consumed_[seat.rank] += std::ssize(samples);
    if (on_consumed_) {
      on_consumed_(seat.rank, samples);
    }
    answer(seat, make_message(Answer::Counted));
  }

  /// Answers a request for samples; false if the worker stays held.
  bool give(Seat& seat) {
    const std::vector<SampleIndex> some = ledger_->take(seat.rank, seat.request[1]);
    if (!some.empty() || ledger_->holds_some(seat.rank)) {
      answer(seat, make_message(Answer::Given, std::ssize(some)));
      if (!some.empty()) {
        seat.pair->send<SampleIndex>(some, train::kWorkerPlace);
      }
    } else if (ledger_->is_over()) {
      seat.told_over = true;
      answer(seat, make_message(Answer::Over));
    } else if (Clock::now() - *seat.held > kLongestHold) {
      answer(seat, make_message(Answer::NotYet));
    } else {
      return false;
    }
    return true;
  }

  static void answer(Seat& seat, const SamplerMessage& message) {
    seat.held.reset();
    seat.pair->send<std::int64_t>(message, train::kWorkerPlace);
  }

  Rank master_;
  OnConsumed on_consumed_;
  IndexedVector<Rank, Seat> seats_;  ///< the master's own is empty
  SampleLedger* ledger_ = nullptr;   ///< set while serve() runs
  IndexedVector<Rank, std::int64_t> consumed_;
  std::map<Rank, std::string> lost_;
};

SampleMaster::SampleMaster(Group& group, OnConsumed on_consumed)
    : server_(std::make_unique<Server>(group, std::move(on_consumed))) {}

SampleMaster::~SampleMaster() = default;

ServeReport SampleMaster::serve_pool(const PoolOptions& options) {
  return server_->serve(SampleLedger(options, server_->ranks()));
}

ServeReport SampleMaster::serve_lists(const std::vector<std::vector<SampleIndex>>& lists) {
  if (std::ssize(lists) != server_->ranks()) {
    throw Error(ErrorKind::Usage,
                fmt::format("sampler: {} lists for {} ranks", lists.size(), server_->ranks()));
  }
  if (!lists[server_->master()].empty()) {
    throw Error(ErrorKind::Usage,
                fmt::format("sampler: rank {} is the master and takes no samples, "
                            "but has a list of them",
                            server_->master()));
  }
  return server_->serve(SampleLedger(lists));
}

}  // namespace trireme
