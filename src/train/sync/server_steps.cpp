#include "train/sync/server_steps.h"

#include <chrono>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "train/clock.h"
#include "train/sync/server_board.h"
#include "train/sync/server_model.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/ps_cache.h"

namespace trireme::train {
namespace {

using ps::TrainHead;

/// How long servers may take to answer, and a worker to finish its step while others wait for it.
constexpr Seconds kServerPatience{60};
constexpr std::chrono::minutes kWorkerPatience{30};

ps::Consistency consistency_of(SyncSpec::Kind kind) {
  switch (kind) {
    case SyncSpec::Kind::ServerSsp:
      return ps::Consistency::Ssp;
    case SyncSpec::Kind::ServerEssp:
      return ps::Consistency::Essp;
    case SyncSpec::Kind::ServerAsync:
      return ps::Consistency::Async;
    default:
      return ps::Consistency::Bsp;
  }
}

/// A name for the tables of this run that no other run has. Collective.
std::string agree_on_name(Group& workers) {
  std::random_device device;
  std::int64_t number = static_cast<std::int64_t>(device()) << 20 ^ device();
  workers.run(broadcast<std::int64_t>(std::span(&number, 1), 0));
  return fmt::format("run-{:x}", number);
}

ps::ParameterClientOptions client_options(const RunServers& servers) {
  return {.coordinator = servers.address,
          .etcd_tls = servers.etcd_tls,
          .secret = servers.secret,
          .encrypt = servers.encrypt ? ps::Encrypt::Yes : ps::Encrypt::No,
          .encryption_advice = servers.encrypt ? "leave --ps-encrypt out" : "use --ps-encrypt",
          .lease = servers.lease,
          .patience = kServerPatience};
}

double squared_length(std::span<const float> elements) {
  double sum = 0;
  for (const float element : elements) {
    sum += static_cast<double>(element) * static_cast<double>(element);
  }
  return sum;
}

class ServerSteps : public SyncStrategy {
 public:
  ServerSteps(const SyncSpec& spec, const WorkerPlace& place)
      : spec_(spec),
        trainer_(place.trainer),
        workers_(place.workers),
        worker_(workers_.rank()),
        count_(workers_.size()),
        name_(agree_on_name(workers_)),
        optimizer_(server_optimizer(trainer_.training().optimizer)),
        model_(trainer_.trained_parameters()),
        client_(client_options(place.servers)),
        table_spec_(describe_table()),
        table_(client_.create_table(table_spec_)),
        cache_(client_, table_, table_spec_,
               {.reads = spec.reads == SyncSpec::Reads::Snapshot ? ps::Reads::Snapshot
                                                                 : ps::Reads::Inconsistent}),
        first_step_(trainer_.step()),
        elements_(model_.elements()),
        rows_(model_.floats()) {
    if (spec_.samples == SyncSpec::Samples::Pool) {
      pool_.emplace(client_,
                    ServerPool::Options{.name = name_, .worker = worker_, .workers = count_});
    }
    if (worker_ == 0) {
      upload();
    }
    client_.start_iteration(table_);  // all are in the clocks before one starts to count
    workers_.barrier();
  }

  void begin_step() override {
    await_model(trainer_.step() + 1);
    model_.unpack(cache_.values(), elements_);
    trainer_.write_trained(elements_);
  }

  StepResult run_step(std::span<const std::byte> inputs, std::span<const std::byte> targets,
                      Trace* trace) override {
    const std::int64_t step = trainer_.step() + 1;
    StepResult result{.step = step};
    result.loss = trainer_.compute_gradients(inputs, targets, elements_, trace);
    result.gradient_norm = std::sqrt(squared_length(elements_));
    result.rate = trainer_.rate();
    result.finite = std::isfinite(result.loss) && std::isfinite(result.gradient_norm);
    clip(result);
    push(step, static_cast<float>(result.rate));
    if (result.finite) {
      trainer_.set_step(step);
    }
    return result;
  }

  Moved mix(std::int64_t /*step*/) override {
    return {.clock = static_cast<double>(first_step_ + own_clock_),
            .slowest_clock = static_cast<double>(first_step_ + slowest_clock_)};
  }

  std::unique_ptr<StepBoard> open_board(const Stretch& stretch) override {
    if (pool_) {
      return pool_->open_board(workers_, stretch);
    }
    const int lead = std::min(kMaxLead, staleness_bound(spec_).value_or(kMaxLead) + 1);
    auto board = make_step_board(workers_, stretch, {.worker = worker_, .max_lead = lead});
    board_ = board.get();
    return board;
  }

  void with_average(const std::function<void()>& body) override {
    download_model();
    body();
  }

  void settle() override {
    download_model();
    if (workers_.rank() == 0) {
      for (std::size_t slot = 0; slot < optimizer_.states.size(); ++slot) {
        exchange(slot);
        client_.pull(table_, all_rows(), rows_).wait();
        exchange(slot);
        model_.unpack(rows_, elements_);
        trainer_.write_state(optimizer_.states[slot], elements_);
      }
    }
    workers_.barrier();
    cache_.read();  // so that a run that resumes continues from the same copies
    workers_.barrier();
  }

  /// The servers no longer wait for gradients of the dead, and end what one of them may have begun in settle().
  void continue_without(std::span<const int> dead, double rate) override {
    if (workers_.rank() == 0) {
      for (const int worker : dead) {
        std::ranges::fill(elements_, 0.0F);
        model_.pack(elements_,
                    {.operation = TrainHead::Operation::Leave,
                     .worker = worker,
                     .rate = static_cast<float>(rate)},
                    rows_);
        client_.push(table_, all_rows(), rows_).wait();
      }
    }
    workers_.barrier();
  }

 private:
  [[nodiscard]] ps::Keys all_rows() const { return ps::Keys::range(0, model_.rows()); }
  [[nodiscard]] bool aggregates() const { return staleness_bound(spec_) == 0; }

  [[nodiscard]] ps::TableSpec describe_table() {
    optimizer_.update.workers = count_;
    optimizer_.update.aggregation = aggregates() ? ps::Aggregation::Mean : ps::Aggregation::None;
    return {.name = name_ + "/model",
            .keys = model_.rows(),
            .width = ServerModel::kWidth,
            .update = ps::kTrainUpdate,
            .parameters = to_parameters(optimizer_.update),
            .consistency = consistency_of(spec_.kind),
            .staleness = spec_.staleness};
  }

  /// How many updates each row has had before a step.
  [[nodiscard]] std::int64_t updates_before(std::int64_t step) const {
    return (step - 1) * (aggregates() ? 1 : count_);
  }

  // The model and the optimizer's state, between trainer and servers.

  void assign(std::span<const float> elements) {
    model_.pack(
        elements,
        {.operation = TrainHead::Operation::Assign, .count = updates_before(trainer_.step() + 1)},
        rows_);
    client_.push(table_, all_rows(), rows_).wait();
  }

  void exchange(std::size_t slot) {
    std::vector<float> rows(model_.floats());
    for (std::size_t row = 0; row < model_.rows(); ++row) {
      TrainHead{.operation = TrainHead::Operation::Exchange,
                .worker = worker_,
                .slot = static_cast<int>(slot)}
          .write(std::span(rows).subspan(row * ServerModel::kWidth, ServerModel::kWidth));
    }
    client_.push(table_, all_rows(), rows).wait();
  }

  void upload() {
    for (std::size_t slot = 0; slot < optimizer_.states.size(); ++slot) {
      trainer_.read_state(optimizer_.states[slot], elements_);
      assign(elements_);
      exchange(slot);
    }
    trainer_.read_trained(elements_);
    assign(elements_);
  }

  /// With all pushes. Collective.
  void download_model() {
    cache_.flush();
    workers_.barrier();
    client_.pull(table_, all_rows(), rows_).wait();
    model_.unpack(rows_, elements_);
    trainer_.write_trained(elements_);
    workers_.barrier();
  }

  // Steps.

  /// Waits until this worker may take the step and has a recent enough model. A worker that was silent for longer than
  /// its lease does not block others by its clock; if all gradients of a step are applied together, they wait for the
  /// update instead.
  void await_model(std::int64_t step) {
    own_clock_ = step - 1 - first_step_;
    client_.advance_clock(table_, own_clock_);
    const Clock::time_point deadline = Clock::now() + kWorkerPatience;
    constexpr Seconds kLook{1};
    bool has_model = false;
    while (!has_model) {
      const bool may_start = client_.wait_to_start(table_, kLook);
      if (may_start) {
        slowest_clock_ = std::min(client_.slowest_clock(table_), own_clock_);
        cache_.refresh();
        has_model = !aggregates() || oldest_row(cache_.values()) >= updates_before(step);
      }
      if (!has_model && board_ != nullptr) {
        board_->check();
      }
      if (may_start && !has_model) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        cache_.read();
        has_model = oldest_row(cache_.values()) >= updates_before(step);
      }
      if (Clock::now() > deadline) {
        throw Error(ErrorKind::Peer,
                    fmt::format("--sync {}: worker {} waited {} minutes to start step {}: another "
                                "worker hangs",
                                to_text(spec_), worker_, kWorkerPatience.count(), step));
      }
    }
  }

  /// Clips by the gradient's own norm. A non-finite gradient becomes 0: the others wait for it, and the run ends with
  /// this step.
  void clip(const StepResult& result) {
    const double limit = trainer_.training().clip_limit;
    if (result.finite && result.gradient_norm <= limit) {
      return;
    }
    const auto scale = static_cast<float>(limit / result.gradient_norm);
    for (float& element : elements_) {
      element = result.finite ? element * scale : 0.0F;
    }
  }

  void push(std::int64_t step, float rate) {
    TrainHead head{.worker = worker_, .ticket = step, .rate = rate};
    if (pool_) {
      head.worker = pool_->ticket()->owner;
      head.ticket = pool_->ticket()->part + 1;
    }
    require(head.ticket < ps::kMaxTrainNumber,
            fmt::format("--sync {}: more than {} steps are not supported", to_text(spec_),
                        ps::kMaxTrainNumber / (pool_ ? count_ : 1)));
    model_.pack(elements_, head, rows_);
    cache_.push(rows_);
    if (aggregates()) {
      cache_.flush();  // who knows that all have done a step can rely on its update
    }
    if (!pool_) {
      client_.complete_iteration(table_);
    }
  }

  SyncSpec spec_;
  Trainer& trainer_;
  Group& workers_;  ///< those that live
  int worker_;
  int count_;  ///< of workers when the run began
  std::string name_;
  ServerOptimizer optimizer_;
  ServerModel model_;
  ps::ParameterClient client_;
  ps::TableSpec table_spec_;
  ps::TableHandle table_;
  ps::TableCache cache_;
  std::int64_t first_step_;  ///< steps before the clocks began
  std::vector<float> elements_;
  std::vector<float> rows_;
  std::optional<ServerPool> pool_;
  StepBoard* board_ = nullptr;  ///< of the current stretch, whose owner takes all its steps
  ps::ClockCount own_clock_ = 0;
  ps::ClockCount slowest_clock_ = 0;
};

}  // namespace

std::unique_ptr<SyncStrategy> make_server_steps(const SyncSpec& spec, const WorkerPlace& place) {
  return std::make_unique<ServerSteps>(spec, place);
}

}  // namespace trireme::train
