// Every operation, by every method, on every transport, against a plain reference.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/run_ranks.h"
#include "comm/small_numbers.h"
#include "trireme/collective.h"
#include "trireme/comm.h"

namespace trireme {
namespace {

using test::require;
using test::run_ranks;
using test::value_of;

template <class T>
double number_of(T value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    return to_f32(value);
  } else {
    return static_cast<double>(value);
  }
}

/// One case: an operation with all its parameters.
struct Case {
  Operation operation = Operation::Allreduce;
  Method method{};
  Rank root = 0;
  std::int64_t size = 0;  ///< elements of the vector, or of one block
  bool in_place = false;
  bool shared = false;
  bool uneven = false;  ///< blocks of different sizes, given as counts
  Order order = Order::Any;
};

std::string describe(const Case& c, const World& world, DType dtype) {
  return fmt::format("{} {} by {} root {} size {} {}{}{}{} on rank {} of {}", to_text(dtype),
                     to_text(c.operation), to_text(c.method), c.root, c.size,
                     c.in_place ? "in place " : "", c.shared ? "shared " : "",
                     c.uneven ? "uneven " : "", c.order == Order::Fixed ? "fixed" : "",
                     world.rank(), world.size());
}

/// The sizes of blocks: equal, or growing and shrinking with some empty.
std::vector<std::int64_t> block_counts(const Case& c, Rank ranks) {
  std::vector<std::int64_t> counts(ranks, c.size);
  for (Rank r = 0; c.uneven && r < ranks; ++r) {
    counts[r] = r % 3 == 1 ? 0 : c.size + r;
  }
  return counts;
}

template <class T>
class CaseRun {
 public:
  CaseRun(World& world, const Case& c)
      : world_(world),
        case_(c),
        rank_(world.rank()),
        ranks_(world.size()),
        counts_(block_counts(c, ranks_)) {}

  void run() {
    prepare();
    Group& group = world_.all();
    group.run(call_);
    check();
  }

 private:
  [[nodiscard]] std::int64_t offset(Rank r) const {
    return std::accumulate(counts_.begin(), counts_.begin() + r, std::int64_t{0});
  }
  [[nodiscard]] std::int64_t count(Rank r) const { return counts_[r]; }
  [[nodiscard]] std::int64_t total() const { return offset(ranks_); }

  [[nodiscard]] bool at_root() const { return rank_ == case_.root; }

  std::span<T> buffer(std::int64_t elements) {
    const auto n = static_cast<std::size_t>(elements);
    if (case_.shared) {
      shared_.push_back(world_.allocate<T>(n));
      return shared_.back().span();
    }
    own_.emplace_back(n);
    return own_.back();
  }
  void fill(std::span<T> data, Rank rank, std::int64_t from = 0) const {
    for (std::size_t i = 0; i < data.size(); ++i) {
      data[i] = value_of<T>(rank, from + static_cast<std::int64_t>(i));
    }
  }

  void prepare() {
    const CallOptions options{.order = case_.order, .method = case_.method, .site = TRIREME_HERE};
    const auto mine = static_cast<std::size_t>(count(rank_));
    switch (case_.operation) {
      case Operation::Broadcast: {
        out_ = buffer(case_.size);
        fill(out_, rank_);
        call_ = broadcast<T>(out_, case_.root, options);
        return;
      }
      case Operation::Allreduce:
      case Operation::Reduce: {
        std::span<T> in = buffer(case_.size);
        fill(in, rank_);
        out_ = case_.in_place && (at_root() || case_.operation == Operation::Allreduce)
                   ? in
                   : buffer(case_.size);
        call_ = case_.operation == Operation::Allreduce
                    ? allreduce<T>(in, out_, options)
                    : reduce<T>(in, at_root() ? out_ : std::span<T>{}, case_.root, options);
        break;
      }
      case Operation::Gather:
      case Operation::Allgather: {
        const bool whole = case_.operation == Operation::Allgather || at_root();
        out_ = whole ? buffer(total()) : std::span<T>{};
        std::span<T> in =
            case_.in_place && whole ? out_.subspan(offset(rank_), mine) : buffer(count(rank_));
        fill(in, rank_);
        call_ = case_.operation == Operation::Gather ? gather<T>(in, out_, case_.root, options)
                                                     : allgather<T>(in, out_, options);
        break;
      }
      case Operation::Scatter:
      case Operation::ReduceScatter: {
        const bool whole = case_.operation == Operation::ReduceScatter || at_root();
        std::span<T> in = whole ? buffer(total()) : std::span<T>{};
        fill(in, rank_);
        out_ = case_.in_place && whole ? in.subspan(offset(rank_), mine) : buffer(count(rank_));
        call_ = case_.operation == Operation::Scatter ? scatter<T>(in, out_, case_.root, options)
                                                      : reduce_scatter<T>(in, out_, options);
        break;
      }
      case Operation::Alltoall: {
        std::span<T> in = buffer(total());
        fill(in, rank_);
        if (case_.uneven) {  // rank s has count(d) for d; d receives count(d) from each
          out_ = buffer(count(rank_) * ranks_);
          call_ = with_counts(alltoall<T>(in, out_, options), counts_,
                              std::vector<std::int64_t>(ranks_, count(rank_)));
          return;
        }
        out_ = case_.in_place ? in : buffer(total());
        call_ = alltoall<T>(in, out_, options);
        return;
      }
      case Operation::Barrier:
        call_ = Call{.options = options};
        return;
    }
    if (case_.uneven) {
      call_ = with_counts(call_, counts_);
    }
  }

  [[nodiscard]] double sum_at(std::int64_t i) const {
    double sum = 0;
    for (Rank r = 0; r < ranks_; ++r) {
      sum += number_of(value_of<T>(r, i));
    }
    return sum;
  }

  /// The expected out_[i].
  [[nodiscard]] double expected(std::int64_t i) const {
    switch (case_.operation) {
      case Operation::Broadcast:
        return number_of(value_of<T>(case_.root, i));
      case Operation::Allreduce:
      case Operation::Reduce:
        return sum_at(i);
      case Operation::ReduceScatter:
        return sum_at(offset(rank_) + i);
      case Operation::Scatter:
        return number_of(value_of<T>(case_.root, offset(rank_) + i));
      case Operation::Gather:
      case Operation::Allgather: {
        Rank from = 0;
        while (offset(from + 1) <= i) {
          ++from;
        }
        return number_of(value_of<T>(from, i - offset(from)));
      }
      case Operation::Alltoall: {
        const std::int64_t each = count(rank_);
        return number_of(value_of<T>(static_cast<Rank>(i / each), offset(rank_) + i % each));
      }
      case Operation::Barrier:
        return 0;
    }
    return 0;
  }

  void check() const {
    const bool has_result =
        !at_root() && (case_.operation == Operation::Reduce || case_.operation == Operation::Gather)
            ? false
            : true;
    for (std::int64_t i = 0; has_result && i < static_cast<std::int64_t>(out_.size()); ++i) {
      const double is = number_of(out_[i]);
      if (is != expected(i)) {
        throw std::runtime_error(fmt::format("{}: element {} is {}, not {}",
                                             describe(case_, world_, kDTypeOf<T>), i, is,
                                             expected(i)));
      }
    }
  }

  World& world_;
  const Case& case_;
  Rank rank_;
  Rank ranks_;
  std::vector<std::int64_t> counts_;
  std::vector<std::vector<T>> own_;
  std::vector<SharedSpan<T>> shared_;
  std::span<T> out_;
  Call call_;
};

void run_case(World& world, const Case& c, DType dtype) {
  switch (dtype) {
    case DType::F32:
      return CaseRun<float>(world, c).run();
    case DType::F64:
      return CaseRun<double>(world, c).run();
    case DType::F16:
      return CaseRun<Float16>(world, c).run();
    case DType::BF16:
      return CaseRun<BFloat16>(world, c).run();
    case DType::I8:
      return CaseRun<std::int8_t>(world, c).run();
    case DType::U8:
      return CaseRun<std::uint8_t>(world, c).run();
    case DType::I32:
      return CaseRun<std::int32_t>(world, c).run();
    case DType::I64:
      return CaseRun<std::int64_t>(world, c).run();
  }
}

std::vector<Method> methods_for(Operation operation, TransportKind kind) {
  std::vector<Method> methods{Method{}};
  if (!test::is_network(kind)) {
    methods.push_back(Method::direct());
  }
  for (const Algorithm algorithm : algorithms_for(operation)) {
    methods.push_back(Method::scheduled(algorithm));
  }
  return methods;
}

/// All variants of one operation by one method; sizes in elements.
void run_circumstances(World& world, Case c, const std::vector<std::int64_t>& sizes,
                       std::span<const DType> dtypes) {
  const Rank roots = has_root(c.operation) ? world.size() : 1;
  for (const std::int64_t size : sizes) {
    c.size = size;
    for (c.root = 0; c.root < roots; ++c.root) {
      for (const bool in_place : {false, true}) {
        c.in_place = in_place;
        for (const DType dtype : dtypes) {
          run_case(world, c, dtype);
        }
      }
    }
  }
}

struct Setting {
  TransportKind kind;
  Rank ranks;
};

std::string setting_name(const testing::TestParamInfo<Setting>& info) {
  std::string text = fmt::format("{}_{}", to_text(info.param.kind), info.param.ranks);
  std::ranges::replace(text, '-', '_');
  return text;
}

/// Every transport with each number of ranks from `least` to `most`.
std::vector<Setting> settings(Rank least, Rank most) {
  std::vector<Setting> all;
  for (const TransportKind kind : test::transports()) {
    for (Rank p = least; p <= most; ++p) {
      all.push_back({kind, p});
    }
  }
  return all;
}

class Collectives : public testing::TestWithParam<Setting> {};

// All operations, methods, roots, types; sizes 0, 1, p-1, p+1, a prime.
TEST_P(Collectives, MatchReference) {
  const auto [kind, ranks] = GetParam();
  run_ranks(kind, ranks, [kind = kind](World& world) {
    const Rank p = world.size();
    std::vector<std::int64_t> sizes{0, 1, p - 1, p + 1, 257};
    for (const Operation operation : all_operations()) {
      for (const Method& method : methods_for(operation, kind)) {
        const bool first = method.kind == Method::Kind::Automatic;
        const std::span<const DType> dtypes =
            first ? std::span(kDTypes) : std::span(kDTypes).subspan(0, 3);
        run_circumstances(world, {.operation = operation, .method = method}, sizes, dtypes);
      }
    }
  });
}

// Blocks of different sizes, some of them empty; the longest also in shared-memory buffers.
TEST_P(Collectives, SupportUnevenBlocks) {
  const auto [kind, ranks] = GetParam();
  run_ranks(kind, ranks, [kind = kind](World& world) {
    for (const Operation operation : {Operation::Scatter, Operation::Gather, Operation::Allgather,
                                      Operation::ReduceScatter, Operation::Alltoall}) {
      Case c{.operation = operation, .uneven = true};
      for (const std::int64_t size : {1, 5, 40000, 400000}) {
        c.size = size;
        c.shared = size == 400000 && !test::is_network(kind);
        for (const bool in_place : {false, true}) {
          c.in_place = in_place && operation != Operation::Alltoall;
          run_case(world, c, DType::I32);
        }
      }
    }
  });
}

// Long vectors: 1 MiB and three elements, in shared-memory and in private buffers.
TEST_P(Collectives, HandleLongVectors) {
  const auto [kind, ranks] = GetParam();
  run_ranks(kind, ranks, [kind = kind](World& world) {
    for (const Operation operation : all_operations()) {
      Case c{.operation = operation};
      const bool vector = operation == Operation::Broadcast || operation == Operation::Reduce ||
                          operation == Operation::Allreduce;
      c.size = vector ? (1 << 20) + 3 : ((1 << 20) + 3) / world.size();
      for (const bool shared : {false, true}) {
        c.shared = shared;
        if (shared && test::is_network(kind)) {
          continue;
        }
        for (const bool in_place : {false, true}) {
          c.in_place = in_place;
          run_case(world, c, DType::U8);
          run_case(world, c, DType::F32);
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, Collectives, testing::ValuesIn(settings(1, 5)), setting_name);
INSTANTIATE_TEST_SUITE_P(LongAll, Collectives, testing::ValuesIn(settings(6, 9)), setting_name);
INSTANTIATE_TEST_SUITE_P(LongMany, Collectives,
                         testing::Values(Setting{TransportKind::InProcess, 16}), setting_name);

void move_between_shared_and_own_memory(World& world) {
  for (const Operation operation : all_operations()) {
    Case c{.operation = operation, .size = 40'003};
    for (const Rank root : {0, world.size() - 1}) {
      c.root = has_root(operation) ? root : 0;
      for (const Rank seen : {0, 1}) {
        c.shared = world.rank() % 2 == seen;
        run_case(world, c, DType::F32);
      }
    }
  }
}

// A sequence of calls of different lengths, so that their chunks are anywhere in staging memory, written with either
// kind of store.
TEST(CollectivesOnOneHost, WrapAroundStagingMemory) {
  for (const TransportKind kind : {TransportKind::InProcess, TransportKind::SharedMemory}) {
    for (const Rank ranks : {2, 3}) {
      run_ranks(kind, ranks, [](World& world) {
        for (int turn = 0; turn < 30; ++turn) {
          for (const Operation operation : all_operations()) {
            for (const std::int64_t size : {20'003, 33'000, 131'075}) {
              run_case(world, {.operation = operation, .root = turn % world.size(), .size = size},
                       DType::F32);
            }
          }
        }
      });
    }
  }
}

// Some ranks have shared-memory buffers, the others private ones: both senders and receivers.
TEST(CollectivesOnOneHost, MixSharedAndPrivateBuffers) {
  for (const TransportKind kind : {TransportKind::InProcess, TransportKind::SharedMemory}) {
    for (const Rank ranks : {2, 3, 5}) {
      run_ranks(kind, ranks, move_between_shared_and_own_memory);
    }
  }
}

}  // namespace
}  // namespace trireme
