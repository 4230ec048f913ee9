#include "comm/wire/geometry.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "comm/kernels/kernels.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

[[noreturn]] void refuse(const Call& call, const std::string& problem) {
  const std::string site =
      call.options.site[0] == '\0' ? "" : fmt::format(" at {}", call.options.site);
  throw Error(ErrorKind::Usage, fmt::format("{}{}: {}", to_text(call.operation), site, problem));
}

std::int64_t elements_of(const Call& call, std::size_t bytes, std::int64_t element_bytes) {
  if (static_cast<std::int64_t>(bytes) % element_bytes != 0) {
    refuse(call, fmt::format("{} bytes are not a whole number of {} elements", bytes,
                             to_text(call.dtype)));
  }
  return static_cast<std::int64_t>(bytes) / element_bytes;
}

/// Rejects more elements than memory can hold, so that no size overflows later. `overflowed`: `count` itself already
/// did.
std::int64_t require_possible_count(const Call& call, std::int64_t count, bool overflowed) {
  constexpr std::int64_t kMaxBytes = std::int64_t{1} << 62;
  if (overflowed || count > kMaxBytes / size_of(call.dtype).count) {
    refuse(call,
           fmt::format("its counts of {} add up to more than 2^62 bytes", to_text(call.dtype)));
  }
  return count;
}

std::int64_t add_counts(const Call& call, std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  const bool overflowed = __builtin_add_overflow(a, b, &sum);
  return require_possible_count(call, sum, overflowed);
}

std::int64_t multiply_counts(const Call& call, std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  const bool overflowed = __builtin_mul_overflow(a, b, &product);
  return require_possible_count(call, product, overflowed);
}

std::vector<Extent> extents_of(const Call& call, const std::vector<std::int64_t>& counts) {
  std::vector<Extent> out;
  out.reserve(counts.size());
  std::int64_t offset = 0;
  for (const std::int64_t count : counts) {
    if (count < 0) {
      refuse(call, fmt::format("a block of {} elements", count));
    }
    out.push_back({offset, count});
    offset = add_counts(call, offset, count);
  }
  return out;
}

std::int64_t total(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

void require_size(const Call& call, const char* what, std::int64_t is, std::int64_t must_be) {
  if (is != must_be) {
    refuse(call, fmt::format("the {} has {} elements; it must have {}", what, is, must_be));
  }
}

/// Rejects overlap unless the two start together (or one is the block of the other that an in-place call names, which
/// starts inside).
bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  return !a.empty() && !b.empty() && a.data() < b.data() + b.size() &&
         b.data() < a.data() + a.size();
}

/// The sizes of one call while they are checked.
struct Sizes {
  const Call& call;
  Rank rank;
  Rank ranks;
  std::int64_t input;
  std::int64_t output;
  [[nodiscard]] bool at_root() const { return rank == call.root; }
};

void shape_vector(const Sizes& s, Geometry& g) {
  g.count = s.input;
  if (s.call.operation == Operation::Allreduce ||
      (s.call.operation == Operation::Reduce && s.at_root())) {
    require_size(s.call, "output", s.output, g.count);
  }
}

/// Which of the two buffers is one block, and whether the other, the whole, is on this rank.
void shape_blocks(const Sizes& s, Geometry& g) {
  const Operation op = s.call.operation;
  const bool input_is_block = op == Operation::Gather || op == Operation::Allgather;
  const std::int64_t mine = input_is_block ? s.input : s.output;
  if (s.call.counts.empty()) {
    g.equal_block = mine;
    g.count = multiply_counts(s.call, mine, s.ranks);
  } else {
    if (static_cast<Rank>(s.call.counts.size()) != s.ranks) {
      refuse(s.call, fmt::format("{} counts for {} ranks", s.call.counts.size(), s.ranks));
    }
    g.listed = extents_of(s.call, s.call.counts);
    g.count = total(s.call.counts);
    require_size(s.call, input_is_block ? "input" : "output", mine, s.call.counts[s.rank]);
  }
  const bool whole_here = !has_root(op) || s.at_root();
  if (whole_here) {
    require_size(s.call, input_is_block ? "output" : "input", input_is_block ? s.output : s.input,
                 g.count);
  }
}

void shape_pairs(const Sizes& s, Geometry& g) {
  if (s.call.counts.empty()) {
    require_size(s.call, "output", s.output, s.input);
    if (s.input % s.ranks != 0) {
      refuse(s.call,
             fmt::format("{} elements do not divide over {} ranks; give counts", s.input, s.ranks));
    }
    g.equal_block = s.input / s.ranks;
    g.count = s.input;
    return;
  }
  if (static_cast<Rank>(s.call.counts.size()) != s.ranks ||
      static_cast<Rank>(s.call.receive_counts.size()) != s.ranks) {
    refuse(s.call, fmt::format("{} and {} counts for {} ranks", s.call.counts.size(),
                               s.call.receive_counts.size(), s.ranks));
  }
  g.listed = extents_of(s.call, s.call.counts);
  g.received = extents_of(s.call, s.call.receive_counts);
  g.count = -1;
  require_size(s.call, "input", s.input, total(s.call.counts));
  require_size(s.call, "output", s.output, total(s.call.receive_counts));
}

/// The offset in the whole buffer at which the in-place block must be, in elements; 0 if both are whole.
std::int64_t in_place_offset(const Sizes& s, const Geometry& g) {
  return g.form == Form::Blocks ? g.block(s.rank).offset : 0;
}

void check_overlap(const Sizes& s, const Geometry& g) {
  const Call& call = s.call;
  const bool output_matters = call.operation != Operation::Broadcast &&
                              !(call.operation == Operation::Reduce && !s.at_root()) &&
                              !(call.operation == Operation::Gather && !s.at_root());
  const bool input_matters = !(call.operation == Operation::Scatter && !s.at_root());
  if (!output_matters || !input_matters || !overlap(call.input, call.output)) {
    return;
  }
  const std::ptrdiff_t offset = in_place_offset(s, g) * g.element_bytes;
  const bool input_is_block =
      call.operation == Operation::Gather || call.operation == Operation::Allgather;
  const bool in_place = input_is_block ? call.output.data() + offset == call.input.data()
                                       : call.input.data() + offset == call.output.data();
  if (!in_place) {
    refuse(call, "input and output overlap without being in place");
  }
  if (g.form == Form::Pairs && !g.listed.empty()) {
    refuse(call, "with separate counts it cannot run in place");
  }
}

void check_reduction(const Call& call) {
  if (!combines(call.operation)) {
    return;
  }
  if (call.options.user == nullptr) {
    const char* problem = refuse_reduction(call.dtype, call.options.reduction);
    if (problem[0] != '\0') {
      refuse(call, problem);
    }
  } else if (!call.options.user->combine) {
    refuse(call, fmt::format("the reduction '{}' has no function", call.options.user->name));
  }
}

}  // namespace

Form form_of(Operation operation) {
  switch (operation) {
    case Operation::Broadcast:
    case Operation::Reduce:
    case Operation::Allreduce:
      return Form::Vector;
    case Operation::Scatter:
    case Operation::Gather:
    case Operation::Allgather:
    case Operation::ReduceScatter:
      return Form::Blocks;
    case Operation::Alltoall:
      return Form::Pairs;
    case Operation::Barrier:
      return Form::Nothing;
  }
  return Form::Nothing;
}

std::int64_t Geometry::longest_block(Rank ranks) const {
  if (listed.empty()) {
    return ranks == 0 ? 0 : equal_block;
  }
  return std::ranges::max_element(listed, {}, &Extent::length)->length;
}

Geometry make_geometry(const Call& call, Rank rank, Rank ranks) {
  Geometry g;
  g.form = form_of(call.operation);
  g.element_bytes = size_of(call.dtype).count;
  if (g.form == Form::Nothing) {
    return g;
  }
  if (call.root < 0 || call.root >= ranks) {
    refuse(call, fmt::format("invalid root {} in a group of {}", call.root, ranks));
  }
  const Sizes sizes{call, rank, ranks, elements_of(call, call.input.size(), g.element_bytes),
                    elements_of(call, call.output.size(), g.element_bytes)};
  if (g.form == Form::Vector) {
    shape_vector(sizes, g);
  } else if (g.form == Form::Blocks) {
    shape_blocks(sizes, g);
  } else {
    shape_pairs(sizes, g);
  }
  check_overlap(sizes, g);
  check_reduction(call);
  return g;
}

}  // namespace trireme::comm
