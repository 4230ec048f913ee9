// How many pushes per second a parameter server applies with 1, 2, … reactors.
//
//   build/release/bench/ps_reactors_bench [--reactors 1,2] [--workers 2] [--bytes 4096] [--rounds 9] [--json]
//
// One server and its workers, in this process, over shared memory. A push adds a vector to a random key; each worker has 8
// in flight. Rounds of 0.5 s alternate between the numbers of reactors, so that other load meets all of them alike. Medians, with the
// smallest and the largest. Before the first round every cluster shows that it adds correctly.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "trireme/parameter_server.h"

namespace trireme::ps {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kSecret = "the secret of a benchmark";
constexpr Key kKeys = 1024;
constexpr std::size_t kDepth = 8;
constexpr std::chrono::milliseconds kRound(500);

struct Options {
  std::vector<std::size_t> reactors{1, 2};
  std::size_t workers = 2;
  std::uint32_t bytes = 4096;
  int rounds = 9;
  bool json = false;
};

/// "1,2".
std::vector<std::size_t> numbers(const std::string& text) {
  std::vector<std::size_t> list;
  std::istringstream fields(text);
  for (std::string field; std::getline(fields, field, ',');) {
    list.push_back(std::stoul(field));
  }
  return list;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    options.json = options.json || name == "--json";
    if (name == "--reactors") {
      options.reactors = numbers(value);
    } else if (name == "--workers") {
      options.workers = std::stoul(value);
    } else if (name == "--bytes") {
      options.bytes = static_cast<std::uint32_t>(std::stoul(value));
    } else if (name == "--rounds") {
      options.rounds = std::stoi(value);
    }
  }
  return options;
}

class Cluster {
 public:
  Cluster(std::size_t reactors, const Options& options)
      : width_(std::max(options.bytes / 4, 1U)),
        coordinator_({.secret = kSecret, .lease = {5}, .replicas = 1}),
        server_({.reactors = reactors,
                 .coordinator = coordinator_.address(),
                 .secret = kSecret,
                 .lease = {5}}) {
    for (std::size_t i = 0; i < options.workers; ++i) {
      clients_.push_back(std::make_unique<ParameterClient>(ParameterClientOptions{
          .coordinator = coordinator_.address(), .secret = kSecret, .lease = {5}}));
      table_ = clients_.back()->create_table({.name = "w", .keys = kKeys, .width = width_});
    }
    check();
  }

  /// Pushes per second of all workers.
  [[nodiscard]] double round() {
    std::atomic<std::uint64_t> pushes = 0;
    const Clock::time_point begin = Clock::now();
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      threads.emplace_back([&, i] { pushes += work(*clients_[i], i, begin + kRound); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    return static_cast<double>(pushes) /
           std::chrono::duration<double>(Clock::now() - begin).count();
  }

 private:
  void check() {
    const std::vector<float> ones(kKeys * width_, 1.0F);
    std::vector<float> values(ones.size());
    for (const auto& client : clients_) {
      client->push(table_, Keys::range(0, kKeys), ones).wait();
    }
    clients_[0]->pull(table_, Keys::range(0, kKeys), values).wait();
    const auto expected = static_cast<float>(clients_.size());
    if (std::ranges::any_of(values, [&](float value) { return value != expected; })) {
      throw std::runtime_error("the sums are wrong");
    }
  }
  [[nodiscard]] std::uint64_t work(ParameterClient& client, std::size_t seed,
                                   Clock::time_point end) const {
    std::mt19937_64 random(seed);
    const std::vector<float> gradient(width_, 1.0F);
    std::deque<PendingOperation> pending;
    std::uint64_t done = 0;
    while (Clock::now() < end) {
      const Key key = random() % kKeys;
      pending.push_back(client.push(table_, Keys::range(key, key + 1), gradient));
      if (pending.size() >= kDepth) {
        pending.front().wait();
        pending.pop_front();
        ++done;
      }
    }
    for (; !pending.empty(); pending.pop_front()) {
      pending.front().wait();
      ++done;
    }
    return done;
  }

  std::uint32_t width_;
  ParameterCoordinator coordinator_;
  ParameterServer server_;
  std::vector<std::unique_ptr<ParameterClient>> clients_;
  TableHandle table_;
};

void run(const Options& options) {
  std::vector<std::unique_ptr<Cluster>> clusters;
  for (const std::size_t reactors : options.reactors) {
    clusters.push_back(std::make_unique<Cluster>(reactors, options));
  }
  std::vector<std::vector<double>> rates(clusters.size());
  for (int round = -1; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < clusters.size(); ++i) {
      const double rate = clusters[i]->round();
      if (round >= 0) {  // the first one warms up
        rates[i].push_back(rate);
      }
    }
  }
  double first = 0;
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    std::ranges::sort(rates[i]);
    const double median = rates[i][rates[i].size() / 2];
    first = i == 0 ? median : first;
    if (options.json) {
      fmt::print(
          "{{\"reactors\": {}, \"workers\": {}, \"bytes\": {}, \"per_second\": {:.0f}, "
          "\"lowest\": {:.0f}, \"highest\": {:.0f}, \"ratio\": {:.3f}}}\n",
          options.reactors[i], options.workers, options.bytes, median, rates[i].front(),
          rates[i].back(), median / first);
    } else {
      fmt::print(
          "{:>2} reactors, {} workers, {} B: {:>8.0f} pushes/s ({:.0f} to {:.0f}), {:.2f} x the "
          "first\n",
          options.reactors[i], options.workers, options.bytes, median, rates[i].front(),
          rates[i].back(), median / first);
    }
  }
}

}  // namespace
}  // namespace trireme::ps

int main(int argc, char** argv) {
  trireme::ps::run(trireme::ps::parse(argc, argv));
}
