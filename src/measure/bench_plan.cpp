#include <algorithm>

#include <fmt/format.h>

#include "trireme/bench.h"
#include "trireme/collective.h"
#include "trireme/error.h"

namespace trireme::measure {
namespace {

std::vector<Method> every_method(const BenchPlan& plan, Operation operation) {
  std::vector<Method> methods{Method{}};
  if (shares_memory(plan)) {
    methods.push_back(Method::direct());
  }
  for (const Algorithm algorithm : algorithms_for(operation)) {
    methods.push_back(Method::scheduled(algorithm));
  }
  return methods;
}

std::int64_t elements_of(const BenchPlan& plan, Operation operation, Bytes bytes) {
  const Bytes element = size_of(plan.dtype);
  if (bytes.count % element.count != 0) {
    throw Error(ErrorKind::Usage,
                fmt::format("{} bytes are not a multiple of the {} element size ({} bytes)",
                            bytes.count, to_text(plan.dtype), element.count));
  }
  const std::int64_t count = bytes.count / element.count;
  return has_block_per_rank(operation) ? (count + plan.ranks - 1) / plan.ranks * plan.ranks : count;
}

/// The methods of the selection that support the operation.
std::vector<Method> methods_for(const BenchPlan& plan, const BenchSelection& selection,
                                Operation operation) {
  std::vector<Method> possible = every_method(plan, operation);
  if (!selection.methods) {
    return possible;
  }
  std::vector<Method> methods = *selection.methods;
  std::erase_if(methods, [&](const Method& method) {
    return std::ranges::find(possible, method) == possible.end();
  });
  return methods;
}

}  // namespace

bool shares_memory(const BenchPlan& plan) {
  return plan.transport != TransportKind::Tcp && plan.transport != TransportKind::Ucx;
}

bool has_block_per_rank(Operation operation) {
  return operation == Operation::Scatter || operation == Operation::Gather ||
         operation == Operation::Allgather || operation == Operation::ReduceScatter ||
         operation == Operation::Alltoall;
}

void for_each_cell(std::span<const BenchCase> cases,
                   const std::function<void(std::size_t, std::size_t)>& visit) {
  for (std::size_t first = 0; first < cases.size();) {
    std::size_t last = first + 1;
    while (last < cases.size() && cases[last].operation == cases[first].operation &&
           cases[last].bytes == cases[first].bytes) {
      ++last;
    }
    visit(first, last);
    first = last;
  }
}

void add_cases(BenchPlan& plan, const BenchSelection& selection) {
  for (const Operation operation : selection.operations) {
    const std::vector<Method> methods = methods_for(plan, selection, operation);
    const bool is_barrier = operation == Operation::Barrier;
    for (const Bytes bytes : is_barrier ? std::vector{Bytes{0}} : selection.sizes) {
      const std::int64_t count = elements_of(plan, operation, bytes);
      for (const Method& method : methods) {
        plan.cases.push_back({operation, bytes, count, method});
      }
    }
  }
}

}  // namespace trireme::measure
