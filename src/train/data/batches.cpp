#include "train/data/batches.h"

#include <utility>

namespace trireme::train {
namespace {

/// Memory from the allocator or a device is aligned for every element type.
template <class T>
std::span<T> elements(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

class TokenBatches : public Batches {
 public:
  explicit TokenBatches(TokenSource source) : source_(std::move(source)) {}
  void fill(DataPosition at, const BatchMemory& to) const override {
    source_.fill(at, elements<std::int32_t>(to.inputs), elements<std::int32_t>(to.targets));
  }
  [[nodiscard]] DataPosition advance(DataPosition at, std::int64_t examples) const override {
    return source_.advance(at, examples);
  }
  [[nodiscard]] std::int64_t epoch_size() const override { return source_.windows(); }

 private:
  TokenSource source_;
};

/// A task generates examples endlessly: a single epoch.
template <class Task, class Target>
class TaskBatches : public Batches {
 public:
  TaskBatches(Task task, std::uint64_t seed) : task_(std::move(task)), seed_(seed) {}
  void fill(DataPosition at, const BatchMemory& to) const override {
    task_.fill(seed_, at.index, elements<float>(to.inputs), elements<Target>(to.targets));
  }
  [[nodiscard]] DataPosition advance(DataPosition at, std::int64_t examples) const override {
    return {at.epoch, at.index + examples};
  }

 private:
  Task task_;
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<Batches> make_batches(TokenSource source) {
  return std::make_unique<TokenBatches>(std::move(source));
}

std::unique_ptr<Batches> make_batches(WaveTask task, std::uint64_t seed) {
  return std::make_unique<TaskBatches<WaveTask, float>>(std::move(task), seed);
}

std::unique_ptr<Batches> make_batches(PatternTask task, std::uint64_t seed) {
  return std::make_unique<TaskBatches<PatternTask, std::int32_t>>(std::move(task), seed);
}

}  // namespace trireme::train
