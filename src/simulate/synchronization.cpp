// An event simulation. There are two kinds of events: a worker has computed, a worker's iteration is complete. A policy
// says when iterations that have been computed complete, and whether a worker may start the next one.
#include "trireme/synchronization.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/enum_names.h"
#include "base/indexed_vector.h"
#include "trireme/error.h"

namespace trireme::simulate {
namespace {

constexpr int kMaxWorkers = 1 << 16;
constexpr std::int64_t kMaxIterations = std::int64_t{1} << 28;

int group_size(const StrategyOptions& o) {
  const int root = static_cast<int>(std::lround(std::sqrt(static_cast<double>(o.workers))));
  return std::clamp(o.group == 0 ? root : o.group, 1, o.workers);
}

double ring_time(double workers, const StrategyOptions& o) {
  return 2 * (workers - 1) * o.alpha.count + 2 * (workers - 1) / workers * o.transfer.count;
}

struct Completion {
  int worker = 0;
  double time = 0;
};

/// How the workers depend on one another.
class Policy {
 public:
  Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;
  virtual ~Policy() = default;
  /// A worker has computed an iteration. Appends the iterations whose completion is now known.
  virtual void computed(int worker, std::int64_t iteration, double now,
                        std::vector<Completion>& out) = 0;
  /// How far ahead of the slowest a worker may be when it starts.
  [[nodiscard]] virtual std::int64_t lead() const {
    return std::numeric_limits<std::int64_t>::max();
  }
  /// How long it takes until workers learn that the slowest has completed an iteration.
  [[nodiscard]] virtual double news_delay() const { return 0; }
};

/// Push and pull, alone; the server decides who may start.
class ServerPolicy : public Policy {
 public:
  ServerPolicy(double communication, std::int64_t lead, double news_delay = 0)
      : communication_(communication), lead_(lead), news_delay_(news_delay) {}
  void computed(int worker, std::int64_t /*iteration*/, double now,
                std::vector<Completion>& out) override {
    out.push_back({worker, now + communication_});
  }
  [[nodiscard]] std::int64_t lead() const override { return lead_; }
  [[nodiscard]] double news_delay() const override { return news_delay_; }

 private:
  double communication_;
  std::int64_t lead_;
  double news_delay_;
};

/// A collective of each group starts when its last member has computed.
class GroupPolicy : public Policy {
 public:
  GroupPolicy(double communication, int workers, int size)
      : communication_(communication), workers_(workers), size_(size) {}
  void computed(int worker, std::int64_t iteration, double now,
                std::vector<Completion>& out) override {
    const int group = group_of(worker, iteration, workers_, size_);
    std::vector<int>& arrived = arrived_[{iteration, group}];
    arrived.push_back(worker);
    if (static_cast<int>(arrived.size()) < members(iteration, group)) {
      return;
    }
    for (const int member : arrived) {
      out.push_back({member, now + communication_});
    }
    arrived_.erase({iteration, group});
  }

 private:
  [[nodiscard]] int members(std::int64_t iteration, int group) const {
    const int groups = (workers_ + size_ - 1) / size_;
    if (iteration % 2 == 0) {
      return std::min(size_, workers_ - group * size_);
    }
    return (workers_ - group + groups - 1) / groups;
  }

  double communication_;
  int workers_;
  int size_;
  std::map<std::pair<std::int64_t, int>, std::vector<int>> arrived_;
};

/// A worker needs the message of the same iteration from the worker 2^k before it.
class GossipPolicy : public Policy {
 public:
  GossipPolicy(double communication, int workers)
      : communication_(communication), workers_(workers) {
    for (int distance = 1; distance < workers; distance *= 2) {
      distances_.push_back(distance);
    }
  }
  void computed(int worker, std::int64_t iteration, double now,
                std::vector<Completion>& out) override {
    const int distance = distances_.empty() ? 0 : distances_[iteration % std::ssize(distances_)];
    const int from = (worker + workers_ - distance) % workers_;
    const int to = (worker + distance) % workers_;
    if (waiting_.erase({iteration, to}) > 0) {
      out.push_back({to, now + communication_});
    } else {
      sent_.insert({iteration, worker});
    }
    if (sent_.erase({iteration, from}) > 0) {
      out.push_back({worker, now + communication_});
    } else {
      waiting_.insert({iteration, worker});
    }
  }

 private:
  using Key = std::pair<std::int64_t, int>;

  double communication_;
  int workers_;
  std::vector<int> distances_;
  std::set<Key> sent_;     ///< by sender: not received yet
  std::set<Key> waiting_;  ///< by receiver
};

std::unique_ptr<Policy> make_policy(Strategy strategy, const StrategyOptions& o) {
  const double time = communication_time(strategy, o).count;
  switch (strategy) {
    case Strategy::Bsp:
    case Strategy::Allreduce:
      return std::make_unique<GroupPolicy>(time, o.workers, o.workers);
    case Strategy::Ssp:
      return std::make_unique<ServerPolicy>(time, o.staleness);
    case Strategy::Essp:
      return std::make_unique<ServerPolicy>(time, o.staleness, o.alpha.count + o.transfer.count);
    case Strategy::Async:
      return std::make_unique<ServerPolicy>(time, std::numeric_limits<std::int64_t>::max());
    case Strategy::Grouped:
      return std::make_unique<GroupPolicy>(time, o.workers, group_size(o));
    case Strategy::Gossip:
      return std::make_unique<GossipPolicy>(time, o.workers);
  }
  TRIREME_CHECK(false, "unknown strategy");
}

/// The completed iterations of all workers, and their minimum.
class Clocks {
 public:
  explicit Clocks(int workers) : completed_(workers), at_(1, workers) {}

  [[nodiscard]] std::int64_t of(int worker) const { return completed_[worker]; }
  [[nodiscard]] std::int64_t least() const { return least_; }
  void complete(int worker) {
    const std::int64_t clock = completed_[worker]++;
    if (clock + 1 == at_.count()) {
      at_.push_back(0);
    }
    --at_[clock];
    ++at_[clock + 1];
    while (at_[least_] == 0) {
      ++least_;
    }
  }

 private:
  IndexedVector<int, std::int64_t> completed_;
  IndexedVector<std::int64_t, int> at_;  ///< workers by clock
  std::int64_t least_ = 0;
};

class StrategySimulator {
 public:
  StrategySimulator(Strategy strategy, const StrategyOptions& options)
      : options_(options),
        policy_(make_policy(strategy, options)),
        clocks_(options.workers),
        current_(options.workers),
        workers_(options.workers) {
    result_.strategy = strategy;
  }

  StrategyResult run() {
    for (int worker = 0; worker < options_.workers; ++worker) {
      start(worker, 0);
    }
    const std::int64_t wanted = options_.workers * options_.steps;
    double now = 0;
    while (done_ < wanted) {
      std::erase_if(ready_, [&](int worker) { return try_start(worker, now); });
      TRIREME_CHECK(!events_.empty(), "all workers wait");
      now = events_.top().time;
      handle_all_at(now);
    }
    finish(now);
    return std::move(result_);
  }

 private:
  enum class EventKind : std::uint8_t { Computed, Completed, News };
  struct Event {
    double time = 0;
    std::int64_t number = 0;  ///< breaks ties: first come, first served
    EventKind kind = EventKind::Computed;
    int worker = 0;
    std::int64_t least = 0;  ///< of news: the clock of the slowest worker
    [[nodiscard]] bool operator<(const Event& other) const {  // the queue's top is the largest
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  /// Events at the same moment come before the starts that they allow.
  void handle_all_at(double now) {
    while (!events_.empty() && events_.top().time == now) {
      const Event event = events_.top();
      events_.pop();
      switch (event.kind) {
        case EventKind::Computed:
          computed(event);
          break;
        case EventKind::Completed:
          complete(event);
          break;
        case EventKind::News:
          known_least_ = event.least;
          break;
      }
    }
  }

  [[nodiscard]] double compute_time(int worker, std::int64_t iteration) const {
    if (options_.compute_time) {
      return options_.compute_time(worker, iteration);
    }
    return options_.compute.count *
           time_factor(options_.variation, worker, options_.workers, iteration);
  }

  void push(double time, int worker, EventKind kind) {
    events_.push({time, events_made_++, kind, worker, clocks_.least()});
  }

  void start(int worker, double now) {
    const std::int64_t iteration = clocks_.of(worker);
    const std::int64_t behind = iteration - clocks_.least();
    IterationTimes& times = current_[worker];
    times = {.worker = worker, .iteration = iteration, .start = now, .staleness = behind};
    times.computed = now + compute_time(worker, iteration);
    if (behind >= staleness_.count()) {
      staleness_.resize(behind + 1);
    }
    ++staleness_[behind];
    push(times.computed, worker, EventKind::Computed);
  }

  void computed(const Event& event) {
    completions_.clear();
    policy_->computed(event.worker, clocks_.of(event.worker), event.time, completions_);
    for (const Completion& completion : completions_) {
      push(completion.time, completion.worker, EventKind::Completed);
    }
  }

  void complete(const Event& event) {
    IterationTimes& times = current_[event.worker];
    times.completed = event.time;
    WorkerTimes& worker = workers_[event.worker];
    ++worker.iterations;
    worker.computing.count += times.computed - times.start;
    worker.communicating.count += communication();
    if (options_.keep_iterations) {
      result_.iterations.push_back(times);
    }
    times.start = std::numeric_limits<double>::infinity();  // not started
    const std::int64_t least = clocks_.least();
    clocks_.complete(event.worker);
    if (clocks_.least() > least) {
      push(event.time + policy_->news_delay(), event.worker, EventKind::News);
    }
    ready_.push_back(event.worker);
    ++done_;
  }

  bool try_start(int worker, double now) {
    if (clocks_.of(worker) - known_least_ > policy_->lead()) {
      return false;
    }
    start(worker, now);
    return true;
  }

  [[nodiscard]] double communication() const {
    return communication_time(result_.strategy, options_).count;
  }

  void finish(double end) {
    result_.time = {end};
    double computing = 0;
    for (int worker = 0; worker < options_.workers; ++worker) {
      WorkerTimes& times = workers_[worker];
      const IterationTimes& last = current_[worker];
      times.computing.count += std::max(0.0, std::min(last.computed, end) - last.start);
      times.waiting.count = std::max(0.0, end - times.computing.count - times.communicating.count);
      computing += times.computing.count;
    }
    const double workers = options_.workers;
    result_.throughput = workers * static_cast<double>(options_.steps) / end;
    result_.of_ideal = result_.throughput * options_.compute.count / workers;
    result_.utilization = computing / (workers * end);
    result_.drift = staleness_.count() - 1;
    result_.workers = std::move(workers_).items();
    result_.staleness = std::move(staleness_).items();
  }

  const StrategyOptions&
      options_;  // the caller's; outlives the simulator, which lives for one call
  std::unique_ptr<Policy> policy_;
  Clocks clocks_;
  std::int64_t known_least_ = 0;  ///< the clock of the slowest worker, as the workers know it
  IndexedVector<int, IterationTimes> current_;
  IndexedVector<int, WorkerTimes> workers_;
  IndexedVector<std::int64_t, std::int64_t>
      staleness_;  ///< iterations by how far ahead they started
  std::priority_queue<Event> events_;
  std::int64_t events_made_ = 0;
  std::vector<int> ready_;  ///< to start their next iteration as soon as they may
  std::int64_t done_ = 0;
  std::vector<Completion> completions_;  ///< scratch of computed()
  StrategyResult result_;
};

}  // namespace

std::string_view to_text(Strategy strategy) {
  static constexpr auto kNames =
      enum_names<Strategy>("bsp", "ssp", "essp", "async", "all-reduce", "grouped", "gossip");
  return kNames[strategy];
}

std::span<const Strategy> all_strategies() {
  static constexpr std::array<Strategy, 7> kAll{
      Strategy::Bsp,       Strategy::Ssp,     Strategy::Essp,  Strategy::Async,
      Strategy::Allreduce, Strategy::Grouped, Strategy::Gossip};
  return kAll;
}

bool may_start(std::span<const std::int64_t> completed, int worker, int staleness) {
  return completed[worker] - std::ranges::min(completed) <= staleness;
}

int group_of(int worker, std::int64_t iteration, int workers, int group_size) {
  const int groups = (workers + group_size - 1) / group_size;
  return iteration % 2 == 0 ? worker / group_size : worker % groups;
}

std::vector<std::string> problems(const StrategyOptions& o) {
  std::vector<std::string> found = problems(o.variation);
  const auto check = [&](bool holds, std::string problem) {
    if (!holds) {
      found.push_back(std::move(problem));
    }
  };
  check(o.workers >= 1 && o.workers <= kMaxWorkers,
        fmt::format("{} workers; use 1 to {}", o.workers, kMaxWorkers));
  check(o.steps >= 1 && o.steps <= kMaxIterations / std::max(o.workers, 1),
        fmt::format("{} steps of {} workers; use 1 to {} iterations in all", o.steps, o.workers,
                    kMaxIterations));
  check(std::isfinite(o.compute.count) && o.compute.count > 0,
        fmt::format("the computation takes {} s; it must be more than 0", o.compute.count));
  check(o.alpha.count >= 0 && o.transfer.count >= 0,
        fmt::format("a message takes {} s + {} s; neither may be negative", o.alpha.count,
                    o.transfer.count));
  check(o.staleness >= 0, fmt::format("the staleness is {}; use 0 or more", o.staleness));
  check(o.group >= 0 && o.group <= o.workers,
        fmt::format("groups of {} of {} workers", o.group, o.workers));
  check(o.variation.slow_workers <= o.workers,
        fmt::format("{} of {} workers are slow", o.variation.slow_workers, o.workers));
  return found;
}

Seconds communication_time(Strategy strategy, const StrategyOptions& o) {
  switch (strategy) {
    case Strategy::Bsp:
    case Strategy::Ssp:
    case Strategy::Async:
      return {2 * (o.alpha.count + o.transfer.count)};
    case Strategy::Allreduce:
      return {ring_time(o.workers, o)};
    case Strategy::Grouped:
      return {ring_time(group_size(o), o)};
    case Strategy::Essp:
    case Strategy::Gossip:
      return {o.alpha.count + o.transfer.count};
  }
  return {0};
}

double StrategyResult::mean_staleness() const {
  double sum = 0;
  double count = 0;
  for (std::size_t k = 0; k < staleness.size(); ++k) {
    sum += static_cast<double>(k) * static_cast<double>(staleness[k]);
    count += static_cast<double>(staleness[k]);
  }
  return count > 0 ? sum / count : 0;
}

std::int64_t StrategyResult::staleness_quantile(double share) const {
  double count = 0;
  for (const std::int64_t each : staleness) {
    count += static_cast<double>(each);
  }
  double below = 0;
  for (std::size_t k = 0; k < staleness.size(); ++k) {
    below += static_cast<double>(staleness[k]);
    if (below >= share * count) {
      return static_cast<std::int64_t>(k);
    }
  }
  return drift;
}

StrategyResult simulate_strategy(Strategy strategy, const StrategyOptions& options) {
  require_valid(options);
  return StrategySimulator(strategy, options).run();
}

std::vector<StrategyResult> compare_strategies(const StrategyOptions& options) {
  std::vector<StrategyResult> results;
  for (const Strategy strategy : all_strategies()) {
    results.push_back(simulate_strategy(strategy, options));
  }
  return results;
}

}  // namespace trireme::simulate
