// The C interface: each function is one of comm.h, with exceptions turned into statuses (see c_api_status.h).
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "comm/c_api_status.h"
#include "tensor/container_size.h"
#include "trireme/comm.h"
#include "trireme/trireme.h"

struct trireme_group {
  explicit trireme_group(trireme::Group made) : group(std::move(made)) {}
  trireme::Group group;
};
struct trireme_pending {
  explicit trireme_pending(trireme::Pending started) : pending(std::move(started)) {}
  trireme::Pending pending;
};
struct trireme_world {
  explicit trireme_world(trireme::World& joined) : world(&joined), all{joined.all()} {}
  explicit trireme_world(trireme::World&& joined)
      : owned(std::move(joined)), world(&*owned), all{owned->all()} {}

  std::optional<trireme::World> owned{};  ///< unless launch() owns it
  trireme::World* world;                  ///< owned, or of the launch() that calls the body
  trireme_group all;
  std::map<void*, trireme::SharedSpan<std::byte>> memory{};
};

namespace trireme {
namespace {

using comm::guarded;

DType type_of(trireme_dtype dtype) {
  const std::size_t number = position_of(dtype);
  if (number >= kDTypes.size()) {
    throw Error(ErrorKind::Usage, fmt::format("invalid trireme_dtype {}", number));
  }
  return kDTypes.at(number);
}

Reduction reduction_of(trireme_reduction reduction) {
  if (reduction < TRIREME_SUM || reduction > TRIREME_BIT_XOR) {
    throw Error(ErrorKind::Usage,
                fmt::format("invalid trireme_reduction {}", static_cast<int>(reduction)));
  }
  return static_cast<Reduction>(reduction);
}

Group& group_of(trireme_group* group) {
  if (group == nullptr) {
    throw Error(ErrorKind::Usage, "the group is NULL");
  }
  return group->group;
}

std::size_t bytes_of(std::size_t count, DType dtype) {
  const std::size_t width = container_size(size_of(dtype));
  if (count > (std::size_t{1} << 60) / width) {
    throw Error(ErrorKind::Usage, fmt::format("{} elements are more than memory can have", count));
  }
  return count * width;
}
/// `count` for each rank of the group.
std::size_t of_all_ranks(std::size_t count, const Group& group) {
  return count * group.size();
}
/// NULL is an empty buffer, which the call then refuses unless it ignores it.
std::span<const std::byte> input_of(const void* data, std::size_t count, DType dtype) {
  return {static_cast<const std::byte*>(data), data == nullptr ? 0 : bytes_of(count, dtype)};
}
std::span<std::byte> output_of(void* data, std::size_t count, DType dtype) {
  return {static_cast<std::byte*>(data), data == nullptr ? 0 : bytes_of(count, dtype)};
}

std::vector<std::int64_t> counts_of(const std::size_t* counts, const Group& group) {
  if (counts == nullptr) {
    throw Error(ErrorKind::Usage, "the counts are NULL; pass one for each rank of the group");
  }
  return {counts, counts + group.size()};
}
std::size_t sum_of(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

void run(trireme_group* group, const Call& call, trireme_pending** pending) {
  if (pending == nullptr) {
    group_of(group).run(call);
  } else {
    *pending = std::make_unique<trireme_pending>(group_of(group).start(call)).release();
  }
}

/// A call on these buffers, of `inputs` and `outputs` elements.
struct Buffers {
  const void* input = nullptr;
  std::size_t inputs = 0;
  void* output = nullptr;
  std::size_t outputs = 0;
};
Call make_call(Operation operation, const Buffers& buffers, trireme_dtype dtype, int root = 0,
               trireme_reduction reduction = TRIREME_SUM) {
  Call call{.operation = operation, .dtype = type_of(dtype), .root = root};
  call.input = input_of(buffers.input, buffers.inputs, call.dtype);
  call.output = output_of(buffers.output, buffers.outputs, call.dtype);
  call.options.reduction = reduction_of(reduction);
  return call;
}

/// Whether this rank has the long buffer of a rooted operation.
std::size_t at_root(const Group& group, int root, std::size_t count) {
  return group.rank() == root ? count : 0;
}

std::optional<std::string> looked_up(char* (*variable)(const char*), const std::string& name) {
  const char* value = variable == nullptr ? nullptr : variable(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace
}  // namespace trireme

// The functions of a C interface are outside of any namespace, and have parameters instead of options.
// NOLINTBEGIN(google-build-using-namespace, readability-function-size)
using namespace trireme;

trireme_status trireme_init(char* (*variable)(const char* name), trireme_world** world) {
  return guarded([&] {
    World joined = join([&](const std::string& name) { return looked_up(variable, name); });
    *world = std::make_unique<trireme_world>(std::move(joined)).release();
  });
}

void trireme_finalize(trireme_world* world) {
  const std::unique_ptr<trireme_world> owner(world);
}

int trireme_launch(int ranks, int (*body)(trireme_world* world, void* context), void* context) {
  int result = 1;
  const trireme_status status = guarded([&] {
    result = launch(ranks, [&](World& world) {
      trireme_world view(world);
      if (const int code = body(&view, context); code != 0) {
        throw Error(ErrorKind::Usage, fmt::format("the body returned {}", code));
      }
    });
  });
  return status == TRIREME_OK ? result : 1;
}

trireme_group* trireme_all(trireme_world* world) {
  return &world->all;
}

trireme_status trireme_allocate(trireme_world* world, size_t bytes, void** memory) {
  return guarded([&] {
    SharedSpan<std::byte> span = world->world->allocate<std::byte>(bytes);
    *memory = span.data();
    world->memory.emplace(*memory, std::move(span));
  });
}

void trireme_free(trireme_world* world, void* memory) {
  world->memory.erase(memory);
}

int trireme_rank(const trireme_group* group) {
  return group->group.rank();
}

int trireme_size(const trireme_group* group) {
  return group->group.size();
}

trireme_status trireme_split(trireme_group* group, int64_t color, int64_t key,
                             trireme_group** result) {
  return guarded([&] {
    *result = std::make_unique<trireme_group>(group_of(group).split(color, key)).release();
  });
}

trireme_status trireme_subset(trireme_group* group, const int* ranks, int count,
                              trireme_group** result) {
  return guarded([&] {
    const std::vector<Rank> places(ranks, ranks + count);
    *result = std::make_unique<trireme_group>(group_of(group).subset(places)).release();
  });
}

trireme_status trireme_shrink(trireme_group* group, trireme_group** result) {
  return guarded(
      [&] { *result = std::make_unique<trireme_group>(group_of(group).shrink()).release(); });
}

void trireme_group_free(trireme_group* group) {
  const std::unique_ptr<trireme_group> owner(group);
}

trireme_status trireme_broadcast(trireme_group* group, void* buffer, size_t count,
                                 trireme_dtype dtype, int root, trireme_pending** pending) {
  return guarded([&] {
    run(group, make_call(Operation::Broadcast, {buffer, count, buffer, count}, dtype, root),
        pending);
  });
}

trireme_status trireme_reduce(trireme_group* group, const void* input, void* output, size_t count,
                              trireme_dtype dtype, trireme_reduction reduction, int root,
                              trireme_pending** pending) {
  return guarded([&] {
    const std::size_t results = at_root(group_of(group), root, count);
    run(group,
        make_call(Operation::Reduce, {input, count, output, results}, dtype, root, reduction),
        pending);
  });
}

trireme_status trireme_allreduce(trireme_group* group, const void* input, void* output,
                                 size_t count, trireme_dtype dtype, trireme_reduction reduction,
                                 trireme_pending** pending) {
  return guarded([&] {
    run(group, make_call(Operation::Allreduce, {input, count, output, count}, dtype, 0, reduction),
        pending);
  });
}

trireme_status trireme_scatter(trireme_group* group, const void* input, void* output, size_t count,
                               trireme_dtype dtype, int root, trireme_pending** pending) {
  return guarded([&] {
    const Group& all = group_of(group);
    const std::size_t whole = at_root(all, root, of_all_ranks(count, all));
    run(group, make_call(Operation::Scatter, {input, whole, output, count}, dtype, root), pending);
  });
}

trireme_status trireme_gather(trireme_group* group, const void* input, void* output, size_t count,
                              trireme_dtype dtype, int root, trireme_pending** pending) {
  return guarded([&] {
    const Group& all = group_of(group);
    const std::size_t whole = at_root(all, root, of_all_ranks(count, all));
    run(group, make_call(Operation::Gather, {input, count, output, whole}, dtype, root), pending);
  });
}

trireme_status trireme_allgather(trireme_group* group, const void* input, void* output,
                                 size_t count, trireme_dtype dtype, trireme_pending** pending) {
  return guarded([&] {
    const std::size_t whole = of_all_ranks(count, group_of(group));
    run(group, make_call(Operation::Allgather, {input, count, output, whole}, dtype), pending);
  });
}

trireme_status trireme_reduce_scatter(trireme_group* group, const void* input, void* output,
                                      size_t count, trireme_dtype dtype,
                                      trireme_reduction reduction, trireme_pending** pending) {
  return guarded([&] {
    const std::size_t whole = of_all_ranks(count, group_of(group));
    run(group,
        make_call(Operation::ReduceScatter, {input, whole, output, count}, dtype, 0, reduction),
        pending);
  });
}

trireme_status trireme_alltoall(trireme_group* group, const void* input, void* output, size_t count,
                                trireme_dtype dtype, trireme_pending** pending) {
  return guarded([&] {
    const std::size_t whole = of_all_ranks(count, group_of(group));
    run(group, make_call(Operation::Alltoall, {input, whole, output, whole}, dtype), pending);
  });
}

namespace {

/// Block sizes of a group, and this rank's share of them.
struct Counts {
  Counts(trireme_group* group, const size_t* given)
      : by_rank(counts_of(given, group_of(group))),
        own(by_rank.at(group->group.rank())),
        whole(sum_of(by_rank)) {}
  std::vector<std::int64_t> by_rank;
  std::size_t own;
  std::size_t whole;
};

}  // namespace

trireme_status trireme_scatterv(trireme_group* group, const void* input, void* output,
                                const size_t* counts, trireme_dtype dtype, int root,
                                trireme_pending** pending) {
  return guarded([&] {
    const Counts sizes(group, counts);
    const std::size_t whole = at_root(group_of(group), root, sizes.whole);
    const Call call = make_call(Operation::Scatter, {input, whole, output, sizes.own}, dtype, root);
    run(group, with_counts(call, sizes.by_rank), pending);
  });
}

trireme_status trireme_gatherv(trireme_group* group, const void* input, void* output,
                               const size_t* counts, trireme_dtype dtype, int root,
                               trireme_pending** pending) {
  return guarded([&] {
    const Counts sizes(group, counts);
    const std::size_t whole = at_root(group_of(group), root, sizes.whole);
    const Call call = make_call(Operation::Gather, {input, sizes.own, output, whole}, dtype, root);
    run(group, with_counts(call, sizes.by_rank), pending);
  });
}

trireme_status trireme_allgatherv(trireme_group* group, const void* input, void* output,
                                  const size_t* counts, trireme_dtype dtype,
                                  trireme_pending** pending) {
  return guarded([&] {
    const Counts sizes(group, counts);
    const Call call =
        make_call(Operation::Allgather, {input, sizes.own, output, sizes.whole}, dtype);
    run(group, with_counts(call, sizes.by_rank), pending);
  });
}

trireme_status trireme_reduce_scatterv(trireme_group* group, const void* input, void* output,
                                       const size_t* counts, trireme_dtype dtype,
                                       trireme_reduction reduction, trireme_pending** pending) {
  return guarded([&] {
    const Counts sizes(group, counts);
    const Call call = make_call(Operation::ReduceScatter, {input, sizes.whole, output, sizes.own},
                                dtype, 0, reduction);
    run(group, with_counts(call, sizes.by_rank), pending);
  });
}

trireme_status trireme_alltoallv(trireme_group* group, const void* input, const size_t* send_counts,
                                 void* output, const size_t* receive_counts, trireme_dtype dtype,
                                 trireme_pending** pending) {
  return guarded([&] {
    const Counts send(group, send_counts);
    const Counts receive(group, receive_counts);
    const Call call =
        make_call(Operation::Alltoall, {input, send.whole, output, receive.whole}, dtype);
    run(group, with_counts(call, send.by_rank, receive.by_rank), pending);
  });
}

trireme_status trireme_barrier(trireme_group* group) {
  return guarded([&] { group_of(group).barrier(); });
}

namespace {

void finish_or_keep(Pending started, trireme_pending** pending) {
  if (pending == nullptr) {
    started.wait();
  } else {
    *pending = std::make_unique<trireme_pending>(std::move(started)).release();
  }
}

}  // namespace

trireme_status trireme_send(trireme_group* group, const void* data, size_t count,
                            trireme_dtype dtype, int to, int32_t tag, trireme_pending** pending) {
  return guarded([&] {
    const DType type = type_of(dtype);
    finish_or_keep(group_of(group).start_send(input_of(data, count, type), type, to, tag), pending);
  });
}

trireme_status trireme_receive(trireme_group* group, void* data, size_t count, trireme_dtype dtype,
                               int from, int32_t tag, trireme_pending** pending) {
  return guarded([&] {
    const DType type = type_of(dtype);
    finish_or_keep(group_of(group).start_receive(output_of(data, count, type), type, from, tag),
                   pending);
  });
}

int trireme_done(const trireme_pending* pending) {
  return pending == nullptr || pending->pending.done() ? 1 : 0;
}

trireme_status trireme_wait(trireme_pending* pending) {
  const std::unique_ptr<trireme_pending> owner(pending);
  return guarded([&] {
    if (owner != nullptr) {
      owner->pending.wait();
    }
  });
}

// NOLINTEND(google-build-using-namespace, readability-function-size)
