#include "backend/cuda/tuning.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "tensor/container_size.h"
#include "trireme/cuda_device.h"
#include "trireme/error.h"

namespace trireme::cuda {
namespace {

constexpr std::size_t kPattern = std::size_t{1} << 20U;

/// As bf16 at least 2^-7, as f16 at least 1, of either sign; also valid as the high bits of wider numbers.
std::vector<std::uint16_t> random_numbers() {
  std::mt19937 random(1);
  std::vector<std::uint16_t> numbers(kPattern / sizeof(std::uint16_t));
  std::ranges::generate(numbers,
                        [&] { return static_cast<std::uint16_t>((random() & 0x83ffU) | 0x3c00U); });
  return numbers;
}

struct Kept {
  std::unique_ptr<AlgorithmFile> file{};  ///< nullptr: nowhere
  AlgorithmChoice choice = AlgorithmChoice::Fastest;
};

Kept& kept() {
  static Kept kept;
  return kept;
}

class Timer {
 public:
  Timer() {
    cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
    cuda::check(cudaEventCreate(&begin_), "creating an event");
    cuda::check(cudaEventCreate(&end_), "creating an event");
  }
  ~Timer() {
    (void)cudaEventDestroy(begin_);
    (void)cudaEventDestroy(end_);
    (void)cudaStreamDestroy(stream_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Milliseconds of `runs` in a row. f(stream) enqueues one.
  template <class F>
  float time(int runs, F f) {
    cuda::check(cudaEventRecord(begin_, stream_), "timing an algorithm");
    for (int run = 0; run < runs; ++run) {
      f(stream_);
    }
    cuda::check(cudaEventRecord(end_, stream_), "timing an algorithm");
    cuda::check(cudaEventSynchronize(end_), "timing an algorithm");
    float time = 0;
    cuda::check(cudaEventElapsedTime(&time, begin_, end_), "timing an algorithm");
    return time;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

/// One that works, and its time.
struct Candidate {
  std::size_t number = 0;
  float time = 0;
};

/// Those that need at most this many times as long as the fastest are timed again.
constexpr float kClose = 1.1F;

/// The shortest of a few runs, after one to warm up. Nothing if the algorithm does not work.
std::optional<float> shortest_run(Timer& timer, std::size_t number, const RunAlgorithm& run) {
  bool works = true;
  const auto once = [&](cudaStream_t stream) { works = works && run(number, stream); };
  float best = std::numeric_limits<float>::max();
  for (int round = 0; round < 4; ++round) {
    const float time = timer.time(1, once);
    best = round == 0 ? best : std::min(best, time);
  }
  return works ? std::optional(best) : std::nullopt;
}

/// The time of many runs of each, interleaved: a device that is busy for longer lowers its clock, to stay within its power,
/// and then another algorithm may be the fastest.
void time_under_load(Timer& timer, std::span<Candidate> candidates, const RunAlgorithm& run) {
  constexpr int kRounds = 5;
  constexpr int kRuns = 8;
  for (int round = 0; round < kRounds; ++round) {
    for (Candidate& one : candidates) {
      const float time =
          timer.time(kRuns, [&](cudaStream_t stream) { (void)run(one.number, stream); });
      one.time = round == 0 ? time : one.time + time;
    }
  }
}

}  // namespace

Scratch::Scratch(std::size_t bytes) {
  static const std::vector<std::uint16_t> pattern = random_numbers();
  cuda::check(cudaMalloc(&data_, std::max<std::size_t>(bytes, 1)), "allocating memory to time on");
  auto* to = static_cast<std::byte*>(data_);
  std::size_t filled = std::min(bytes, kPattern);
  cuda::check(cudaMemcpy(to, pattern.data(), filled, cudaMemcpyHostToDevice), "filling memory");
  while (filled < bytes) {
    const std::size_t more = std::min(filled, bytes - filled);
    cuda::check(cudaMemcpyAsync(to + filled, to, more, cudaMemcpyDeviceToDevice), "filling memory");
    filled += more;
  }
  cuda::check(cudaStreamSynchronize(cudaStreamLegacy), "filling memory");
}

Scratch::~Scratch() {
  (void)cudaFree(data_);
}

std::string device_name() {
  int device = 0;
  cuda::check(cudaGetDevice(&device), "finding the current device");
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, device), "reading the device's properties");
  return properties.name;
}

bool times_algorithms() {
  return kept().choice == AlgorithmChoice::Fastest;
}

std::optional<AlgorithmBits> kept_algorithm(const std::string& key) {
  return kept().file != nullptr ? kept().file->find(key) : std::nullopt;
}

void keep_algorithm(const std::string& key, const AlgorithmBits& bits) {
  if (kept().file != nullptr) {
    kept().file->add(key, bits);
  }
}

std::size_t fastest_of(std::size_t count, const RunAlgorithm& run) {
  Timer timer;
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < count; ++i) {
    if (const std::optional<float> time = shortest_run(timer, i, run)) {
      candidates.push_back({.number = i, .time = *time});
    }
  }
  if (candidates.empty()) {
    return 0;
  }
  const float limit = kClose * std::ranges::min(candidates, {}, &Candidate::time).time;
  std::erase_if(candidates, [limit](const Candidate& one) { return one.time > limit; });
  if (candidates.size() > 1) {
    time_under_load(timer, candidates, run);
  }
  return std::ranges::min(candidates, {}, &Candidate::time).number;
}

std::size_t fastest_launch(std::span<const Launch> launches, const KernelRequest& request) {
  std::deque<Scratch> owned;
  const auto memory_of = [&](Bytes bytes) {
    return static_cast<std::byte*>(owned.emplace_back(container_size(bytes)).data());
  };
  KernelMemory memory;
  for (const TensorType& type : request.inputs) {
    memory.inputs.push_back(memory_of(size_of(type)));
  }
  for (const TensorType& type : request.outputs) {
    memory.outputs.push_back(memory_of(size_of(type)));
  }
  const auto largest =
      std::ranges::max(launches, {}, [](const Launch& launch) { return launch.workspace.count; });
  memory.workspace = memory_of(largest.workspace);
  return fastest_of(launches.size(), [&](std::size_t number, cudaStream_t stream) {
    try {
      launches[number].enqueue(memory, stream);
      return true;
    } catch (const Error&) {
      return false;
    }
  });
}

}  // namespace trireme::cuda

namespace trireme {

void keep_cuda_algorithms(const std::string& path, AlgorithmChoice choice) {
  cuda::kept() = {.file = path.empty() ? nullptr : std::make_unique<cuda::AlgorithmFile>(path),
                  .choice = choice};
}

}  // namespace trireme
