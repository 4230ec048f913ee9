// The protocol of direct collectives, checked in a model of memory (direct_model.h): every operation, root, combination
// of buffers and size around a threshold; and that the checks detect broken protocols.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/direct/direct_limits.h"
#include "comm/direct_model.h"
#include "trireme/schedule.h"

namespace trireme::test {
namespace {

using comm::Path;

/// Sizes in bytes at which direct operations switch paths.
constexpr std::int64_t kThresholds[] = {
    static_cast<std::int64_t>(comm::kInlineBytes),
    comm::kCopyAnyway,
    comm::kCombineAlone,
    comm::kFetchFrom,  // and kCombinedWholeTo, kSharedWriteAbove
    comm::kWholeTo,    // and kExchangeTo, kHalveFrom
    comm::kPutFrom,
    static_cast<std::int64_t>(comm::kChunkBytes),
    static_cast<std::int64_t>(comm::kRoundBytes),
    comm::kFetchTo,
    comm::kStreamAbove,
    comm::kHalveTo};

bool has_blocks(Operation operation) {
  const comm::Form form = comm::form_of(operation);
  return form == comm::Form::Blocks || form == comm::Form::Pairs;
}

/// In elements of the vector, or of a block: around each threshold of a block and of all blocks.
std::set<std::int64_t> sizes_for(Operation operation, Rank ranks, DType dtype) {
  if (operation == Operation::Barrier) {
    return {0};
  }
  std::set<std::int64_t> sizes{0, 1, 3};
  for (const std::int64_t threshold : kThresholds) {
    const std::int64_t elements = threshold / size_of(dtype).count;
    for (const std::int64_t step : {-1, 0, 1}) {
      sizes.insert(elements + step);
      if (has_blocks(operation)) {
        sizes.insert(elements / ranks + step);
      }
    }
  }
  return sizes;
}

/// Which buffers can matter on a rank: the others are assumed to be private.
struct Relevant {
  bool input = true;
  bool output = true;
  bool in_place = true;
};

Relevant relevant(const ModelCase& c, Rank rank) {
  const bool is_root = rank == c.root;
  switch (c.operation) {
    case Operation::Barrier:
      return {false, false, false};
    case Operation::Broadcast:
      return {is_root, !is_root, false};
    case Operation::Reduce:
    case Operation::Gather:
      return {true, is_root, is_root};
    case Operation::Scatter:
      return {is_root, true, is_root};
    default:
      return {};
  }
}

/// All kinds of buffers that a rank can have.
std::vector<ModelBuffers> buffer_kinds(const ModelCase& c, Rank rank) {
  const Relevant which = relevant(c, rank);
  std::vector<ModelBuffers> kinds{{}};
  const auto both = [&](bool matters, const auto& set) {
    for (std::size_t i = 0, n = kinds.size(); matters && i < n; ++i) {
      kinds.push_back(kinds[i]);
      set(kinds.back());
    }
  };
  both(which.input, [](ModelBuffers& b) { b.input_visible = true; });
  both(which.output, [](ModelBuffers& b) { b.output_visible = true; });
  if (which.in_place) {
    const bool has_pairs = c.operation == Operation::Alltoall && c.counts != ModelCounts::Equal;
    if (!has_pairs) {
      kinds.push_back({false, false, true});
      kinds.push_back({true, true, true});
    }
  }
  return kinds;
}

/// Calls `visit` with every combination of buffers; with four ranks or more either all are in place or none.
void each_mixture(ModelCase c, Rank ranks, const std::function<void(const ModelCase&)>& visit) {
  c.buffers.assign(ranks, {});
  const std::function<void(Rank)> choose = [&](Rank rank) {
    if (rank == ranks) {
      visit(c);
      return;
    }
    for (const ModelBuffers& kind : buffer_kinds(c, rank)) {
      const Rank first = relevant(c, 0).in_place || ranks == 1 ? 0 : c.root;
      const bool differs = relevant(c, rank).in_place && kind.in_place != c.buffers[first].in_place;
      if (ranks >= 4 && rank > first && differs) {
        continue;
      }
      c.buffers[rank] = kind;
      choose(rank + 1);
    }
  };
  choose(0);
}

/// Every call of an operation: roots, counts, whether ranks can fetch from one another.
void each_call(Operation operation, Rank ranks,
               const std::function<void(const ModelCase&)>& visit) {
  std::vector<ModelCounts> counts{ModelCounts::Equal};
  if (has_blocks(operation)) {
    counts.insert(counts.end(), {ModelCounts::SomeEmpty, ModelCounts::OneLong});
  }
  for (Rank root = 0; root < (has_root(operation) ? ranks : 1); ++root) {
    for (const ModelCounts how : counts) {
      for (const bool can_fetch : {false, true}) {
        visit({.operation = operation, .root = root, .counts = how, .can_fetch = can_fetch});
      }
    }
  }
}

/// Checks calls, each kind once.
class Checker {
 public:
  struct Options {
    bool explores_all = false;         ///< every size, not only one of each kind
    std::int64_t explored_chunks = 3;  ///< calls with more are only run
    std::int64_t run_chunks = 1000;    ///< calls with more are skipped
  };
  explicit Checker(const Options& options) : options_(options) {}

  void check(const ModelCase& c) {
    const std::vector<ModelCase> calls{c};
    DirectModel model(calls);
    const std::string signature = model.signature(0);
    if (model.chunks(0) > options_.run_chunks ||
        !checked_.insert(fmt::format("{} {}", c.size, signature)).second) {
      return;
    }
    expect_right(c, model.run(DirectModel::Order::LowestFirst));
    expect_right(c, model.run(DirectModel::Order::HighestFirst));
    expect_right(c, model.run(DirectModel::Order::InTurn));
    ++paths_[static_cast<std::size_t>(model.path(0))];
    if (model.chunks(0) <= options_.explored_chunks &&
        (explored_.insert(signature).second || options_.explores_all)) {
      expect_right(c, model.explore());
      states_ += model.states();
    }
  }

  void expect_all_paths() const {
    EXPECT_GT(paths_[0], 0U);
    EXPECT_GT(paths_[1], 0U);
    EXPECT_GT(paths_[2], 0U);
  }
  [[nodiscard]] std::string summary() const {
    return fmt::format("{} calls, {} kinds explored, {} states; read {}, share {}, chunked {}",
                       checked_.size(), explored_.size(), states_, paths_[0], paths_[1], paths_[2]);
  }

 private:
  static void expect_right(const ModelCase& c, const std::optional<std::string>& problem) {
    if (problem) {
      ADD_FAILURE() << to_text(c) << ": " << *problem;
    }
  }

  Options options_;
  std::unordered_set<std::string> checked_{};
  std::unordered_set<std::string> explored_{};
  std::array<std::size_t, 3> paths_{};
  std::size_t states_ = 0;
};

void check_all(Rank ranks, DType dtype, const Checker::Options& options) {
  Checker checker(options);
  for (const Operation operation : all_operations()) {
    each_call(operation, ranks, [&](ModelCase c) {
      c.dtype = dtype;
      for (const std::int64_t size : sizes_for(operation, ranks, dtype)) {
        c.size = size;
        each_mixture(c, ranks, [&](const ModelCase& mixed) { checker.check(mixed); });
      }
    });
  }
  checker.expect_all_paths();
  testing::Test::RecordProperty("summary", checker.summary());
}

TEST(DirectProtocol, OneRank) {
  check_all(1, DType::F32, {.explores_all = true});
}
TEST(DirectProtocol, TwoRanks) {
  check_all(2, DType::F32, {.explores_all = true});
}
TEST(DirectProtocol, ThreeRanks) {
  check_all(3, DType::F32, {.run_chunks = 8});
}
TEST(DirectProtocol, FourRanks) {
  check_all(4, DType::F32, {.explored_chunks = 1, .run_chunks = 8});
}
TEST(DirectProtocol, OneByteElements) {
  check_all(2, DType::U8, {});
}
TEST(DirectProtocol, EightByteElements) {
  check_all(2, DType::F64, {});
}

/// Some operations switch paths from a number of ranks on. The root's buffers are of one kind, the others' of another.
TEST(DirectProtocol, ManyRanks) {
  for (const Rank ranks : {comm::kManyCopy, comm::kFewCombine + 1}) {
    Checker checker({.explored_chunks = -1, .run_chunks = 3});
    for (const Operation operation : all_operations()) {
      each_call(operation, ranks, [&](ModelCase c) {
        c.root = std::min(c.root, Rank{1});
        for (const std::int64_t size : sizes_for(operation, ranks, c.dtype)) {
          c.size = size;
          for (const bool root_visible : {false, true}) {
            for (const bool others_visible : {false, true}) {
              const ModelBuffers others{others_visible, others_visible};
              c.buffers.assign(ranks, others);
              c.buffers[c.root] = {root_visible, root_visible};
              checker.check(c);
            }
          }
        }
      });
    }
    checker.expect_all_paths();
  }
}

// A sequence of calls: slots, staged copies and chunks are reused.

/// Calls with every kind of waiting; all ranks have the same buffers.
std::vector<ModelCase> representative_calls(Rank ranks) {
  const std::vector<ModelBuffers> apart(ranks, ModelBuffers{});
  const std::vector<ModelBuffers> seen(ranks, ModelBuffers{true, true});
  return {
      {.operation = Operation::Barrier, .buffers = apart},
      {.operation = Operation::Broadcast, .root = 0, .size = 5, .buffers = apart},
      {.operation = Operation::Broadcast, .root = 1, .size = 500, .buffers = apart},
      {.operation = Operation::Gather, .root = 0, .size = 5, .buffers = apart},
      {.operation = Operation::Reduce, .root = 1, .size = 500, .buffers = apart},
      {.operation = Operation::Allreduce, .size = 500, .buffers = apart},
      {.operation = Operation::Allreduce, .size = 300'000, .buffers = apart},
      {.operation = Operation::Allreduce, .size = 30'000, .buffers = seen},
      {.operation = Operation::Gather, .root = 1, .size = 30'000, .buffers = seen},
      {.operation = Operation::Gather, .root = 0, .size = 30'000, .buffers = apart},
      {.operation = Operation::Scatter, .root = 0, .size = 30'000, .buffers = seen},
      {.operation = Operation::Scatter,
       .root = 1,
       .size = 9'000,
       .can_fetch = true,
       .buffers = apart},
  };
}

std::string to_text(const std::vector<ModelCase>& calls) {
  std::string text;
  for (const ModelCase& c : calls) {
    text += to_text(c) + "; ";
  }
  return text;
}

/// The problem with some three consecutive calls.
std::optional<std::string> find_in_sequences(Rank ranks, Mutation mutation) {
  const std::vector<ModelCase> all = representative_calls(ranks);
  for (const ModelCase& first : all) {
    for (const ModelCase& second : all) {
      for (const ModelCase& third : all) {
        const std::vector<ModelCase> calls{first, second, third};
        DirectModel model(calls, mutation);
        for (const auto order : {DirectModel::Order::LowestFirst, DirectModel::Order::HighestFirst,
                                 DirectModel::Order::InTurn}) {
          if (const auto problem = model.run(order)) {
            return to_text(calls) + *problem;
          }
        }
        const bool is_small =
            std::ranges::all_of(calls, [](const ModelCase& c) { return c.size < 100'000; });
        if (ranks == 2 || is_small) {
          if (const auto problem = model.explore()) {
            return to_text(calls) + *problem;
          }
        }
      }
    }
  }
  return std::nullopt;
}

TEST(DirectProtocol, BackToBackCalls) {
  EXPECT_EQ(find_in_sequences(2, Mutation::None), std::nullopt);
  EXPECT_EQ(find_in_sequences(3, Mutation::None), std::nullopt);
}

// The checks themselves: each detects its broken protocol.

/// The problem with some call of these operations.
std::optional<std::string> find(Mutation mutation, const std::vector<Operation>& operations) {
  std::optional<std::string> found;
  for (const Operation operation : operations) {
    each_call(operation, 3, [&](ModelCase c) {
      for (const std::int64_t size : {2, 3'000, 5'000, 12'000, 300'000}) {
        c.size = size;
        each_mixture(c, 3, [&](const ModelCase& mixed) {
          if (!found) {
            const std::vector<ModelCase> calls{mixed};
            DirectModel model(calls, mutation);
            found = model.run(DirectModel::Order::LowestFirst);
            if (!found) {
              found = model.explore();
            }
          }
        });
      }
    });
  }
  return found;
}

struct Broken {
  const char* name;
  Mutation mutation;
  std::vector<Operation> operations;
  const char* problem;
};

class BrokenDirectProtocol : public testing::TestWithParam<Broken> {};

TEST_P(BrokenDirectProtocol, IsDetected) {
  const Broken& broken = GetParam();
  const std::optional<std::string> found = find(broken.mutation, broken.operations);
  ASSERT_TRUE(found);
  EXPECT_NE(found->find(broken.problem), std::string::npos) << *found;
}

INSTANTIATE_TEST_SUITE_P(
    All, BrokenDirectProtocol,
    testing::Values(
        Broken{"ReduceRootClaimsACopy",
               Mutation::AnnounceWithheldAsCopy,
               {Operation::Reduce},
               "combines bytes that are not those of rank 0 in this call"},
        Broken{"CopyIsIncomplete",
               Mutation::SkipPartOfCopy,
               {Operation::Alltoall},
               "reads bytes that were not written in this call"},
        Broken{"ChunkIsIncomplete",
               Mutation::SkipPartOfChunk,
               {Operation::Allreduce},
               "combines bytes that are not those of rank"},
        Broken{"PrivateOutputIsShared",
               Mutation::ShareEagerly,
               {Operation::Allreduce},
               "uses a private buffer"},
        Broken{"LenderDoesNotWait",
               Mutation::LeaveWithoutWaiting,
               {Operation::Allgather},
               "which has returned"},
        Broken{"OwnerOfOutputDoesNotWait",
               Mutation::LeaveWithoutWaiting,
               {Operation::Gather},
               "which has returned"},
        Broken{"ChunkIsStagedTooEarly",
               Mutation::StageWithoutWaiting,
               {Operation::Alltoall},
               "returns without the right result"},
        Broken{"ChunkIsReadTooEarly",
               Mutation::WorkWithoutWaiting,
               {Operation::Broadcast},
               "returns without the right result"},
        Broken{"ResultIsTakenTooEarly",
               Mutation::TakeWithoutWaiting,
               {Operation::Reduce},
               "not written in this call"},
        Broken{
            "NobodyIsAwaited", Mutation::AwaitNobody, {Operation::Allreduce}, "not those of rank"},
        Broken{"WorkIsNotTold", Mutation::NeverTell, {Operation::Scatter}, "all ranks wait"}),
    [](const testing::TestParamInfo<Broken>& which) { return which.param.name; });

TEST(BrokenDirectProtocols, PrematureStartsAreDetected) {
  const std::optional<std::string> found = find_in_sequences(2, Mutation::BeginWithoutWaiting);
  ASSERT_TRUE(found);
}

}  // namespace
}  // namespace trireme::test
