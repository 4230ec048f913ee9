#include "comm/fault_fuzz/runner.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/fault_fuzz/canary.h"
#include "comm/fault_fuzz/hosts_of_run.h"
#include "comm/fault_fuzz/rank.h"
#include "comm/net/secret.h"

namespace trireme::fault_fuzz {
namespace {

void sleep_a_little() {
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

/// The processes of the ranks. Those still running in the end are killed.
class Processes {
 public:
  explicit Processes(std::size_t ranks) : children_(ranks) {}
  ~Processes() {
    for (std::size_t r = 0; r < children_.size(); ++r) {
      signal(static_cast<int>(r), SIGKILL);
      wait(r, 0);
    }
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  template <class Body>
  void start(int rank, const Body& body) {
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) {
      throw std::runtime_error("cannot start a rank: " + comm::error_text(errno));
    }
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() == parent) {
        body();
      }
      std::fflush(nullptr);
      _exit(0);
    }
    children_[rank].pid = child;
  }

  [[nodiscard]] bool has_ended(int rank) const { return at(rank).pid == 0; }
  [[nodiscard]] bool all_ended() const {
    return std::ranges::all_of(children_, [](const Child& child) { return child.pid == 0; });
  }
  /// No effect if it has ended.
  void signal(int rank, int signal) const {
    if (at(rank).pid > 0) {
      kill(at(rank).pid, signal);
    }
  }
  /// Updates which have ended.
  void look() {
    for (std::size_t r = 0; r < children_.size(); ++r) {
      wait(r, WNOHANG);
    }
  }
  /// Of a rank that has ended.
  [[nodiscard]] int status(int rank) const { return at(rank).status; }
  [[nodiscard]] double ended_at(int rank) const { return at(rank).ended_at; }

 private:
  struct Child {
    pid_t pid = 0;  ///< 0: it has ended
    int status = 0;
    double ended_at = 0;
  };
  [[nodiscard]] const Child& at(int rank) const { return children_[rank]; }
  void wait(std::size_t rank, int options) {
    Child& child = children_[rank];
    if (child.pid > 0 && waitpid(child.pid, &child.status, options) == child.pid) {
      child.pid = 0;
      child.ended_at = now();
    }
  }
  std::vector<Child> children_;
};

class Run {
 public:
  explicit Run(const Scenario& scenario)
      : scenario_(scenario),
        hosts_(scenario.host_count()),
        processes_(scenario.hosts.size()),
        begun_(scenario.faults.size()) {}

  Record run() {
    start_ranks();
    Canary canary;
    if (await_joined()) {
      record_.started_at = now();
      inject_all();
      journal_->end.store(true);
      await_end();
    }
    put_down();
    record_.lateness = canary.stop();
    collect();
    return std::move(record_);
  }

 private:
  [[nodiscard]] double deadlines(double count) const { return count * scenario_.deadline; }

  void start_ranks() {
    const std::string secret = comm::Secret::random().hex();
    const std::string store = hosts_.store_address(scenario_.host_of(0));
    std::fflush(nullptr);
    for (int r = 0; r < scenario_.ranks(); ++r) {
      const int host = scenario_.host_of(r);
      const RankPlace place{
          {.rank = r, .size = scenario_.ranks(), .store = store, .secret = secret},
          hosts_.address(host)};
      processes_.start(r, [&] {
        hosts_.enter(host);
        run_rank(scenario_, place, *journal_);
      });
    }
  }

  /// False if they do not all join.
  bool await_joined() {
    const double give_up = now() + 20;
    const auto all_joined = [&] {
      return std::ranges::all_of(
          std::span(journal_->ranks).first(scenario_.hosts.size()),
          [](const RankJournal& rank) { return rank.written.load(std::memory_order_acquire) > 0; });
    };
    while (!all_joined() && !processes_.all_ended() && now() < give_up) {
      processes_.look();
      sleep_a_little();
    }
    return all_joined();
  }

  /// Returns when the length of the scenario has passed.
  void inject_all() {
    const double end = record_.started_at + deadlines(scenario_.length);
    while (now() < end && !processes_.all_ended()) {
      for (std::size_t i = 0; i < scenario_.faults.size(); ++i) {
        inject(i, now() - record_.started_at);
      }
      processes_.look();
      sleep_a_little();
    }
    for (std::size_t i = 0; i < scenario_.faults.size(); ++i) {
      if (begun_[i] && scenario_.faults[i].length > 0) {
        end_fault(*begun_[i]);
      }
    }
  }

  /// Starts or ends the fault if it is time to.
  void inject(std::size_t i, double time) {
    const Fault& fault = scenario_.faults[i];
    if (!begun_[i] && time >= deadlines(fault.at)) {
      begun_[i] = begin_fault(fault);
    } else if (begun_[i] && fault.length > 0 && time >= deadlines(fault.at + fault.length)) {
      end_fault(*begun_[i]);
    }
  }

  /// Returns its index in the record.
  std::size_t begin_fault(const Fault& fault) {
    Strike strike{.fault = fault, .began_after = now()};
    switch (fault.kind) {
      case Fault::Kind::Kill:
        processes_.signal(fault.target, SIGKILL);
        break;
      case Fault::Kind::Stop:
        processes_.signal(fault.target, SIGSTOP);
        break;
      case Fault::Kind::Cut:
        hosts_.cut(fault.target);
        break;
      case Fault::Kind::Idle:
        journal_->idle_until[fault.target].store(now() + deadlines(fault.length));
        break;
      case Fault::Kind::Slow:
        hosts_.slow_down(fault.target);
        break;
    }
    strike.began_before = now();
    record_.strikes.push_back(strike);
    return record_.strikes.size() - 1;
  }

  void end_fault(std::size_t index) {
    Strike& strike = record_.strikes[index];
    if (strike.ended_after < std::numeric_limits<double>::infinity()) {
      return;
    }
    strike.ended_after = now();
    switch (strike.fault.kind) {
      case Fault::Kind::Stop:
        processes_.signal(strike.fault.target, SIGCONT);
        break;
      case Fault::Kind::Cut:
        hosts_.heal(strike.fault.target);
        break;
      case Fault::Kind::Slow:
        hosts_.speed_up(strike.fault.target);
        break;
      default:
        break;
    }
    strike.ended_before = now();
  }

  [[nodiscard]] bool is_stopped_for_good(int rank) const {
    return std::ranges::any_of(record_.strikes, [&](const Strike& strike) {
      return strike.fault.kind == Fault::Kind::Stop && strike.fault.target == rank &&
             strike.fault.length == 0;
    });
  }

  /// Waits until all that can end have ended; not longer than the library's longest possible wait,
  /// and shorter if a rank has been in a call for longer than allowed.
  void await_end() {
    const double soon = now() + deadlines(12) + 2;
    const double late = now() + deadlines(36) + 2;
    while (now() < late && !all_ended_that_can()) {
      if (now() > soon && is_any_stuck()) {
        return;
      }
      processes_.look();
      sleep_a_little();
    }
  }
  [[nodiscard]] bool all_ended_that_can() const {
    for (int r = 0; r < scenario_.ranks(); ++r) {
      if (!processes_.has_ended(r) && !is_stopped_for_good(r)) {
        return false;
      }
    }
    return true;
  }
  /// In shrink() or leaving for too long.
  [[nodiscard]] bool is_any_stuck() const {
    for (int r = 0; r < scenario_.ranks(); ++r) {
      const RankJournal& rank = journal_->ranks[r];
      const double since = rank.waiting_since.load();
      const std::string_view what = rank.waiting_in.load();
      if (!processes_.has_ended(r) && !is_stopped_for_good(r) && since > 0 &&
          (what == "shrink" || what == "leave") && now() - since > deadlines(10)) {
        return true;
      }
    }
    return false;
  }

  /// Kills the remaining ranks.
  void put_down() {
    record_.ranks.resize(scenario_.hosts.size());
    processes_.look();
    for (int r = 0; r < scenario_.ranks(); ++r) {
      RankRecord& rank = record_.ranks[r];
      if (!processes_.has_ended(r)) {
        rank.end = is_stopped_for_good(r) ? RankRecord::End::Stopped : RankRecord::End::Hung;
        processes_.signal(r, SIGKILL);
      } else if (WIFSIGNALED(processes_.status(r))) {
        rank.status = WTERMSIG(processes_.status(r));
        rank.end = was_killed(r) && rank.status == SIGKILL ? RankRecord::End::Killed
                                                           : RankRecord::End::Signaled;
      } else {
        rank.status = WEXITSTATUS(processes_.status(r));
      }
    }
    while (!processes_.all_ended()) {
      processes_.look();
      sleep_a_little();
    }
  }
  [[nodiscard]] bool was_killed(int rank) const {
    return std::ranges::any_of(record_.strikes, [&](const Strike& strike) {
      return strike.fault.kind == Fault::Kind::Kill && strike.fault.target == rank;
    });
  }

  void collect() {
    for (int r = 0; r < scenario_.ranks(); ++r) {
      RankRecord& rank = record_.ranks[r];
      const RankJournal& from = journal_->ranks[r];
      const std::size_t written = from.written.load(std::memory_order_acquire);
      const std::size_t kept = std::min(written, RankJournal::kMaxEvents);
      rank.events.assign(from.events.begin(),
                         from.events.begin() + static_cast<std::ptrdiff_t>(kept));
      rank.events_dropped = written - kept;
      rank.steps = from.steps.load();
      rank.ended_at = processes_.ended_at(r);
      rank.waiting_since = from.waiting_since.load();
      rank.waiting_generation = static_cast<int>(from.waiting_generation.load());
      rank.waiting_in = from.waiting_in.load();
    }
  }

  const Scenario& scenario_;
  HostsOfRun hosts_;
  test::Shared<Journal> journal_;
  Processes processes_;
  std::vector<std::optional<std::size_t>> begun_;
  Record record_;
};

}  // namespace

Record run(const Scenario& scenario, Leftovers::Files files) {
  (void)test::why_no_network();  // tried once, which must not count as left behind
  const Leftovers leftovers(files);
  Record record = Run(scenario).run();
  record.left_behind = leftovers.find();
  return record;
}

}  // namespace trireme::fault_fuzz
