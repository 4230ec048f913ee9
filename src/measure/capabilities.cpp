#include "trireme/capabilities.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <system_error>

#include <sys/mman.h>

#include "base/indexed_vector.h"
#include "tensor/container_size.h"
#include "trireme/comm.h"
#include "trireme/error.h"

namespace trireme::measure {
namespace {

constexpr std::size_t kTypes = kDTypes.size();
constexpr std::size_t kRows = position_of(Operation::Barrier) + 2;  // and messages
constexpr std::size_t kMessages = kRows - 1;
constexpr Rank kRanks = 2;
constexpr std::int64_t kElements = 4;  // a multiple of the ranks

/// By row and type: whether rank 0 had the right result. In memory that forked ranks share with this process.
using Results = std::array<std::array<bool, kTypes>, kRows>;

class SharedResults {
 public:
  SharedResults()
      : memory_(::mmap(nullptr, sizeof(Results), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0)) {
    if (memory_ == MAP_FAILED) {
      throw Error(ErrorKind::System,
                  "cannot share memory: " + std::generic_category().message(errno));
    }
    new (memory_) Results{};
  }
  ~SharedResults() { ::munmap(memory_, sizeof(Results)); }
  SharedResults(const SharedResults&) = delete;
  SharedResults& operator=(const SharedResults&) = delete;
  [[nodiscard]] Results& get() const { return *static_cast<Results*>(memory_); }

 private:
  void* memory_;
};

/// A byte that, repeated, is a small positive number in every type; plus the rank, to distinguish buffers.
constexpr std::byte kPattern{0x3C};
std::byte pattern_of(Rank rank) {
  return static_cast<std::byte>(static_cast<int>(kPattern) + rank);
}

bool has_whole_input(Operation operation) {
  return combines(operation) || operation == Operation::Scatter ||
         operation == Operation::Alltoall || operation == Operation::Broadcast;
}
bool has_whole_output(Operation operation) {
  return operation != Operation::Scatter && operation != Operation::ReduceScatter;
}

using Payload = std::vector<std::byte>;

std::size_t payload_size(DType dtype) {
  return kElements * container_size(size_of(dtype));
}

/// What rank 0 must have. In sums rank 1 contributes zeros, and so rank 0's own numbers remain.
Payload expected_at_zero(Operation operation, std::size_t whole) {
  Payload expected(has_whole_output(operation) ? whole : whole / kRanks, pattern_of(0));
  const bool collects = operation == Operation::Gather || operation == Operation::Allgather ||
                        operation == Operation::Alltoall;
  if (collects) {
    std::fill(expected.begin() + static_cast<std::ptrdiff_t>(whole / kRanks), expected.end(),
              pattern_of(1));
  }
  return expected;
}

bool run_collective(Group& group, Operation operation, DType dtype) {
  if (operation == Operation::Barrier) {
    group.barrier();
    return true;
  }
  const std::size_t whole = payload_size(dtype);
  const bool is_zero = combines(operation) && group.rank() == 1;
  Payload input(has_whole_input(operation) ? whole : whole / kRanks,
                is_zero ? std::byte{0} : pattern_of(group.rank()));
  Payload output(has_whole_output(operation) ? whole : whole / kRanks);
  Call call{.operation = operation, .dtype = dtype, .root = 0, .input = input, .output = output};
  if (operation == Operation::Broadcast) {
    call.output = input;
  }
  group.run(call);
  const Payload& result = operation == Operation::Broadcast ? input : output;
  return group.rank() != 0 || result == expected_at_zero(operation, whole);
}

bool exchange_messages(Group& group, DType dtype) {
  const Payload mine(payload_size(dtype), pattern_of(group.rank()));
  Payload theirs(mine.size());
  const Rank other = 1 - group.rank();
  Pending sent = group.start_send(mine, dtype, other, 0);
  group.start_receive(theirs, dtype, other, 0).wait();
  sent.wait();
  return theirs == Payload(mine.size(), pattern_of(other));
}

void run_all(World& world, Results& results) {
  for (std::size_t type = 0; type < kTypes; ++type) {
    for (const Operation operation : all_operations()) {
      const bool right = run_collective(world.all(), operation, kDTypes.at(type));
      if (world.rank() == 0) {
        results.at(position_of(operation)).at(type) = right;
      }
    }
    const bool right = exchange_messages(world.all(), kDTypes.at(type));
    if (world.rank() == 0) {
      results.at(kMessages).at(type) = right;
    }
  }
}

Capability row_of(std::string operation, const std::array<bool, kTypes>& works) {
  Capability row{.operation = std::move(operation), .types = {}};
  for (std::size_t type = 0; type < kTypes; ++type) {
    if (works.at(type)) {
      row.types.push_back(kDTypes.at(type));
    }
  }
  return row;
}

}  // namespace

TransportCapabilities find_capabilities(TransportKind transport) {
  TransportCapabilities found{.transport = transport, .built = is_built(transport), .rows = {}};
  if (transport == TransportKind::Automatic) {
    throw Error(ErrorKind::Usage, "name a transport; automatic is a choice among them");
  }
  if (!found.built) {
    return found;
  }
  const SharedResults results;
  const auto body = [&](World& world) { run_all(world, results.get()); };
  WorldOptions options;
  options.transport = transport;
  if (transport == TransportKind::InProcess) {
    run_threads(kRanks, body, options);
  } else {
    launch(kRanks, body, options);  // a failure leaves its cell and those after it empty
  }
  for (const Operation operation : all_operations()) {
    found.rows.push_back(
        row_of(std::string(to_text(operation)), results.get().at(position_of(operation))));
  }
  found.rows.push_back(row_of("send and receive", results.get().at(kMessages)));
  return found;
}

}  // namespace trireme::measure
