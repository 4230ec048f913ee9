// Direct collectives on every combination of private and shared-memory buffers, at the sizes where
// they switch paths. Each call has its own data, so that stale bytes from an earlier call are
// detected.
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/direct/direct_limits.h"
#include "comm/run_ranks.h"
#include "trireme/comm.h"

namespace trireme {
namespace {

using test::run_ranks;
using Word = std::int32_t;

constexpr std::int64_t kWordBytes = sizeof(Word);

/// One above and one below each size, in elements.
std::vector<std::size_t> sizes_around(std::span<const std::int64_t> bytes) {
  std::vector<std::size_t> sizes;
  for (const std::int64_t size : bytes) {
    for (const std::int64_t step : {-1, 0, 1}) {
      sizes.push_back(static_cast<std::size_t>(size / kWordBytes + step));
    }
  }
  return sizes;
}

/// Memory of both kinds, long enough for every call of a test.
class Buffers {
 public:
  Buffers(World& world, std::size_t most) : private_(most), shared_(world.allocate<Word>(most)) {}

  [[nodiscard]] std::span<Word> get(bool is_shared, std::size_t count) {
    return (is_shared ? shared_.span() : std::span<Word>(private_)).first(count);
  }

 private:
  std::vector<Word> private_;
  SharedSpan<Word> shared_;
};

Word word_of(Rank rank, int call, std::size_t index) {
  return (rank + 1) * 1'000'003 + call * 97 + static_cast<Word>(index % 89) * (rank + 5);
}

/// One reduce. Bit r of `shared_inputs` stands for rank r's input.
struct ReduceCase {
  Rank root = 0;
  std::size_t count = 0;
  unsigned shared_inputs = 0;
  enum class Output { Private, Shared, InPlace } output = Output::Private;
};

class ReduceRun {
 public:
  ReduceRun(World& world, std::size_t most)
      : world_(world), inputs_(world, most), outputs_(world, most) {}

  void run(const ReduceCase& c) {
    ++call_;
    const bool is_root = world_.rank() == c.root;
    const bool is_shared = (c.shared_inputs >> world_.rank() & 1U) != 0;
    const std::span<Word> input = inputs_.get(is_shared, c.count);
    for (std::size_t i = 0; i < c.count; ++i) {
      input[i] = word_of(world_.rank(), call_, i);
    }
    const std::span<Word> output =
        c.output == ReduceCase::Output::InPlace
            ? input
            : outputs_.get(c.output == ReduceCase::Output::Shared, c.count);
    world_.all().run(reduce<Word>(input, is_root ? output : std::span<Word>{}, c.root,
                                  {.method = Method::direct()}));
    if (is_root) {
      check(c, output);
    }
  }

 private:
  void check(const ReduceCase& c, std::span<const Word> output) const {
    for (std::size_t i = 0; i < c.count; ++i) {
      Word expected = 0;
      for (Rank r = 0; r < world_.size(); ++r) {
        expected += word_of(r, call_, i);
      }
      if (output[i] != expected) {
        throw std::runtime_error(fmt::format(
            "reduce of {} elements to rank {} of {}, shared inputs {:#b}, output {}: element {} is "
            "{}, not {}",
            c.count, c.root, world_.size(), c.shared_inputs, static_cast<int>(c.output), i,
            output[i], expected));
      }
    }
  }

  World& world_;
  Buffers inputs_;
  Buffers outputs_;
  int call_ = 0;
};

void reduce_every_mixture(World& world) {
  constexpr std::int64_t kLimits[] = {comm::kCopyAnyway, comm::kCombineAlone,
                                      comm::kCombinedWholeTo, comm::kWholeTo};
  const std::vector<std::size_t> sizes = sizes_around(kLimits);
  ReduceRun reduce(world, sizes.back());
  for (const std::size_t count : sizes) {
    for (Rank root = 0; root < world.size(); ++root) {
      for (unsigned shared = 0; shared < 1U << world.size(); ++shared) {
        for (const auto output : {ReduceCase::Output::Private, ReduceCase::Output::Shared,
                                  ReduceCase::Output::InPlace}) {
          reduce.run({root, count, shared, output});
        }
      }
    }
  }
}

TEST(DirectBuffers, ReduceHandlesAnyMixOfPrivateAndSharedBuffers) {
  for (const Rank ranks : {2, 3, 4}) {
    run_ranks(TransportKind::SharedMemory, ranks, reduce_every_mixture);
  }
}

}  // namespace
}  // namespace trireme
