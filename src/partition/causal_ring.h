// Ring execution under a causal mask, with the same work for every rank. Callable from any thread.
//
// Rank i has the queries of shard i and the keys of shard i. Under a causal mask shard i of the queries sees only the
// shards 0 … i of the keys, so in a plain ring the last rank would always work and the first only once. Instead, the
// pair of queries i and keys j < i is computed by the owner of the queries, to which the keys are sent, or by the owner
// of the keys, to which the queries are sent and which returns the results (after Li et al., DISTFLASHATTN, 2024). With
// p ranks, in round 0 each computes its own pair. In round s = 1 … (p - 1) / 2, the ranks from s on compute their own
// queries with the keys of the rank s places before; the first s ranks, which would be idle, compute the queries of the
// rank s places before them, counted from the end, with their own keys. If p is even, a last round has half as many
// pairs as ranks: queries are divided in two, one half for each of the two owners.
//
//   p = 4       rank 0             rank 1             rank 2             rank 3
//   round 0     q0 k0              q1 k1              q2 k2              q3 k3
//   round 1     q3 k0              q1 k0              q2 k1              q3 k2
//   round 2     second half q2 k0  second half q3 k1  first half q2 k0   first half q3 k1
//
// With equal shards of even length, every rank has one diagonal pair and (p - 1) / 2 others: exactly equal work. Shards
// stay contiguous, so that no other op, no input and no checkpoint is affected.
//
//   communication in the forward pass, all ranks together: in round s, p - s shards of keys and of values, s of
//   queries and s of results; 2 p shards a round, p (p - 1) in all (p / 2 more if p is even), as in a plain causal ring
//
// Messages of a round are in flight while the round before is computed. In the backward pass, the owner of the queries
// returns the gradients of keys and values, the owner of the keys returns the gradient of the queries.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "partition/ring_op.h"

namespace trireme::partition {

/// Whether no rank has work with the parts of later ranks, and each input has either the ring's factor or its rows.
[[nodiscard]] bool is_causal(const Ring& ring);

/// As add_ring(). Requires is_causal().
[[nodiscard]] std::vector<ValueId> add_causal_ring(GraphBuilder& builder, const Ring& ring,
                                                   std::span<const ValueId> inputs,
                                                   std::int64_t& tag);

}  // namespace trireme::partition
