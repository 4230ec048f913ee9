#include "trireme/repartition_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "tensor/container_size.h"
#include "trireme/comm.h"
#include "trireme/communicator.h"
#include "trireme/error.h"
#include "trireme/execution.h"

namespace trireme::measure {
namespace {

using predict::MatrixLayout;
using predict::Repartition;

/// Rings, and pairwise exchanges: direct operations send nothing that could be counted.
WorldOptions by_messages(Rank ranks) {
  WorldOptions options;
  for (const Operation operation : {Operation::Allreduce, Operation::Allgather,
                                    Operation::ReduceScatter, Operation::Alltoall}) {
    TuningRow row;
    row.operation = operation;
    row.ranks = ranks;
    row.transport = TransportKind::InProcess;
    row.to = Bytes{std::int64_t{1} << 40};
    row.method =
        Method::scheduled(operation == Operation::Alltoall ? Algorithm::Pairwise : Algorithm::Ring);
    options.tuning.rows.push_back(row);
  }
  return options;
}

/// Integers, which every floating-point type adds without rounding.
std::vector<double> numbers_for(const Shape& shape) {
  std::vector<double> numbers(container_size(shape));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<double>(i % 61);
  }
  return numbers;
}

template <class T>
std::vector<std::byte> as_bytes_of(const std::vector<double>& numbers) {
  const std::vector<T> elements(numbers.begin(), numbers.end());
  const auto bytes = std::as_bytes(std::span<const T>(elements));
  return {bytes.begin(), bytes.end()};
}
template <class T>
std::vector<double> as_numbers(const std::vector<std::byte>& bytes) {
  std::vector<T> elements(bytes.size() / sizeof(T));
  std::memcpy(elements.data(), bytes.data(), bytes.size());
  return {elements.begin(), elements.end()};
}

std::int64_t all_sent(const SentBytes& sent) {
  return std::accumulate(sent.by_operation.begin(), sent.by_operation.end(), sent.messages);
}

/// The output of a rank's program for its part.
std::vector<double> run_rank(World& world, const Repartition& r, const std::vector<double>& whole,
                             Device& device, std::int64_t& sent) {
  const Rank rank = world.rank();
  Communicator communicator(world, Mesh({{"ranks", r.ranks()}}));
  Execution execution(r.programs[rank], device, &communicator);
  const bool is_wide = r.type.dtype == DType::F64;
  const std::vector<double> part = part_of(whole, r.type.shape, r.from, r.ranks(), rank);
  execution.write("x", is_wide ? as_bytes_of<double>(part) : as_bytes_of<float>(part));
  const std::int64_t before = all_sent(world.bytes_sent());
  execution.run();
  sent = all_sent(world.bytes_sent()) - before;
  const Program& program = execution.program();
  std::vector<std::byte> bytes(container_size(size_of(program.buffer(program.find("y")).type)));
  execution.read("y", bytes);
  return is_wide ? as_numbers<double>(bytes) : as_numbers<float>(bytes);
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

double error_of(const Repartition& r, const std::vector<double>& whole,
                const IndexedVector<int, std::vector<double>>& results) {
  double largest = 0;
  std::vector<double> sum(whole.size(), 0);
  for (int rank = 0; rank < r.ranks(); ++rank) {
    const std::vector<double>& result = results[rank];
    if (r.to != MatrixLayout::Partial) {
      largest = std::max(largest,
                         difference(result, part_of(whole, r.type.shape, r.to, r.ranks(), rank)));
    } else if (result.size() == sum.size()) {
      std::transform(sum.begin(), sum.end(), result.begin(), sum.begin(), std::plus<>());
    }
  }
  return r.to == MatrixLayout::Partial ? difference(sum, whole) : largest;
}

}  // namespace

RepartitionRun run_repartition(const Repartition& repartition,
                               const std::function<std::unique_ptr<Device>()>& make_device) {
  const DType dtype = repartition.type.dtype;
  if (dtype != DType::F32 && dtype != DType::F64) {
    throw Error(ErrorKind::Usage,
                fmt::format("only matrices of f32 and f64 can be run, not {}", to_text(dtype)));
  }
  const std::vector<double> whole = numbers_for(repartition.type.shape);
  RepartitionRun run;
  run.sent.resize(repartition.ranks());
  IndexedVector<int, std::vector<double>> results(repartition.ranks());
  run_threads(
      repartition.ranks(),
      [&](World& world) {
        const std::unique_ptr<Device> device = make_device();
        std::int64_t& sent = run.sent[world.rank()];
        results[world.rank()] = run_rank(world, repartition, whole, *device, sent);
      },
      by_messages(repartition.ranks()));
  run.largest_error = error_of(repartition, whole, results);
  return run;
}

}  // namespace trireme::measure
