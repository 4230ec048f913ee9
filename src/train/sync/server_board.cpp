#include "train/sync/server_board.h"

#include <algorithm>
#include <array>
#include <utility>

#include "trireme/ps_train_update.h"

namespace trireme::train {
namespace {

/// What travels of a result, in this order, behind a 1.
constexpr std::array kFields{&ShareResult::loss,   &ShareResult::gradient_norm,
                             &ShareResult::rate,   &ShareResult::staleness,
                             &ShareResult::failed, &ShareResult::stop,
                             &ShareResult::clock,  &ShareResult::slowest_clock};
constexpr std::size_t kResultFloats = kFields.size() + 1;
/// Steps whose results are requested together.
constexpr std::int64_t kAsked = 16;

void write_result(const ShareResult& result, std::span<float> floats) {
  floats[0] = 1;
  for (std::size_t i = 0; i < kFields.size(); ++i) {
    floats[i + 1] = static_cast<float>(result.*kFields[i]);
  }
}

/// The mean of what was posted: two workers do a part if one dies after it has posted.
ShareResult read_result(std::span<const float> floats) {
  ShareResult result;
  for (std::size_t i = 0; i < kFields.size(); ++i) {
    result.*kFields[i] = static_cast<double>(floats[i + 1]) / static_cast<double>(floats[0]);
  }
  return result;
}

}  // namespace

ServerPool::ServerPool(ps::ParameterClient& client, const Options& options)
    : client_(client),
      options_(options),
      parts_(
          client,
          {.table = options.name + "/parts", .worker = options.worker, .workers = options.workers}),
      results_(client.create_table({.name = options.name + "/results",
                                    .keys = static_cast<ps::Key>(ps::kMaxTrainNumber),
                                    .width = static_cast<std::uint32_t>(kResultFloats) *
                                             static_cast<std::uint32_t>(options.workers),
                                    .layout = ps::TableLayout::Sparse})) {}

class ServerBoard : public StepBoard {
 public:
  ServerBoard(ServerPool& pool, Group& workers, const Stretch& stretch)
      : pool_(pool),
        workers_(workers),
        stretch_(stretch),
        reported_(stretch.first),
        last_(stretch.last) {
    if (workers.rank() == 0) {
      open_pool();
    }
    workers.barrier();
  }

  std::optional<BatchShare> take() override {
    pool_.ticket_ = pool_.parts_.take();
    if (!pool_.ticket_) {
      return std::nullopt;
    }
    share_ = {.step = pool_.ticket_->part / count() + 1,
              .part = static_cast<int>(pool_.ticket_->part % count())};
    return share_;
  }

  void post(ShareResult result) override {
    std::vector<float> row(pool_.results_.width);
    write_result(result, std::span(row).subspan(share_.part * kResultFloats, kResultFloats));
    const ps::Key key = key_of(share_.step);
    pool_.client_.push(pool_.results_, ps::Keys::list(std::span(&key, 1)), row).wait();
    if (result.stop + result.failed > 0) {
      pool_.parts_.stop(count());
    }
  }

  std::vector<StepReport> completed() override {
    return workers_.rank() == 0 ? collect() : std::vector<StepReport>();
  }

  std::vector<StepReport> finish() override {
    workers_.barrier();
    last_ = pool_.parts_.last() / count();
    std::vector<StepReport> reports;
    while (reported_ < last_) {
      std::ranges::move(collect(), std::back_inserter(reports));
    }
    workers_.barrier();
    return reports;
  }

  [[nodiscard]] std::int64_t last() const override { return last_; }
  [[nodiscard]] bool stopped() const override { return stopped_; }

 private:
  [[nodiscard]] std::int64_t count() const { return pool_.options_.workers; }

  /// It is open already if the stretch began again because a worker died; what that one held is handed out again.
  void open_pool() {
    if (pool_.parts_.last() <= stretch_.first * count()) {
      pool_.parts_.open(stretch_.first * count(), stretch_.last * count());
    }
    const std::vector<Rank>& live = workers_.world_ranks();
    for (Rank worker = 0; worker < pool_.options_.workers; ++worker) {
      if (std::ranges::find(live, worker) == live.end()) {
        pool_.parts_.abandon(worker);
      }
    }
  }
  static ps::Key key_of(std::int64_t step) { return static_cast<ps::Key>(step - 1); }

  /// The next steps that are complete.
  std::vector<StepReport> collect() {
    const std::int64_t end = std::min(reported_ + kAsked, last_);
    std::vector<StepReport> reports;
    if (end == reported_) {
      return reports;
    }
    const std::size_t width = pool_.results_.width;
    std::vector<ps::Key> keys;
    for (std::int64_t step = reported_ + 1; step <= end; ++step) {
      keys.push_back(key_of(step));
    }
    std::vector<float> rows(keys.size() * width);
    pool_.client_.pull(pool_.results_, ps::Keys::list(keys), rows).wait();
    for (std::size_t i = 0; i < keys.size() && add(std::span(rows).subspan(i * width, width));
         ++i) {
      reports.push_back(summarize(reported_, results_));
    }
    return reports;
  }

  /// Whether all results of the next step are there.
  bool add(std::span<const float> row) {
    results_.clear();
    for (; !row.empty(); row = row.subspan(kResultFloats)) {
      if (row[0] == 0) {
        return false;
      }
      results_.push_back(read_result(row.first(kResultFloats)));
      stopped_ = stopped_ || results_.back().stop + results_.back().failed > 0;
    }
    ++reported_;
    return true;
  }

  ServerPool& pool_;
  Group& workers_;
  Stretch stretch_;
  BatchShare share_{};
  std::int64_t reported_;  ///< the last step that was
  std::int64_t last_;
  std::vector<ShareResult> results_;
  bool stopped_ = false;
};

std::unique_ptr<StepBoard> ServerPool::open_board(Group& workers, const Stretch& stretch) {
  return std::make_unique<ServerBoard>(*this, workers, stretch);
}

}  // namespace trireme::train
