#include "comm/group/algorithm_choice.h"

#include <algorithm>

#include "trireme/collective.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

GroupModel::Query query_of(const Call& call, Bytes bytes) {
  return {.operation = call.operation,
          .bytes = bytes,
          .dtype = call.dtype,
          .root = has_root(call.operation) ? call.root : 0};
}

/// Whether an algorithm supports blocks of different sizes.
bool carries_own_sizes(Operation operation, Algorithm algorithm) {
  const AlgorithmProperties& has = properties(algorithm);
  return operation == Operation::Alltoall ? !has.forwards_blocks : !has.segmented;
}

}  // namespace

Method AlgorithmChoice::choose(const Call& call, const Geometry& geometry) {
  const Method& requested = call.options.method;
  if (!shape_.shares_memory && shape_.ranks == 1) {
    return Method::scheduled(algorithms_for(call.operation).front());
  }
  if (requested.kind == Method::Kind::Direct && !shape_.shares_memory) {
    throw Error(
        ErrorKind::Usage,
        "direct operations need all ranks of the group on one host; choose an algorithm, or "
        "leave the choice open");
  }
  if (requested.kind != Method::Kind::Automatic) {
    return requested;
  }
  // If every pair has its own size, all ranks know only that it is at least 0.
  const Bytes bytes{std::max<std::int64_t>(geometry.bytes(), 0)};
  const Method tuned = tuning_.find({.operation = call.operation,
                                     .ranks = shape_.ranks,
                                     .transport = shape_.transport,
                                     .bytes = bytes});
  const bool own_sizes = !geometry.listed.empty();
  if (accepts(tuned, call, own_sizes)) {
    return tuned;
  }
  return own_sizes ? choose_for_blocks(call, geometry) : model_.choose(query_of(call, bytes));
}

bool AlgorithmChoice::accepts(const Method& tuned, const Call& call, bool own_sizes) const {
  if (tuned.kind == Method::Kind::Direct) {
    return shape_.shares_memory;
  }
  return tuned.kind == Method::Kind::Scheduled &&
         (!own_sizes || carries_own_sizes(call.operation, tuned.algorithm));
}

/// For blocks of different sizes, which not every algorithm supports.
Method AlgorithmChoice::choose_for_blocks(const Call& call, const Geometry& geometry) {
  if (shape_.shares_memory) {
    return Method::direct();
  }
  if (call.operation == Operation::Alltoall) {
    return Method::scheduled(Algorithm::Pairwise);
  }
  for (const Choice& choice : model_.ranking(query_of(call, {geometry.bytes()}))) {
    if (carries_own_sizes(call.operation, choice.algorithm)) {
      return Method::scheduled(choice.algorithm);
    }
  }
  return Method::scheduled(Algorithm::Flat);
}

}  // namespace trireme::comm
