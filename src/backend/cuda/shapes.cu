// Moving elements: slice, concat, pad, permute, broadcast, copy, parts. Each is a copy between strides, by element size;
// of rows that begin and end at multiples of 16 bytes on both sides, 16 bytes at a time. Copies of such rows that are
// independent of each other run in one launch, for those of weights take less time than launches of their own.
#include <array>

#include "backend/cuda/elements.cuh"
#include "backend/cuda/strides.h"
#include "tensor/container_size.h"

namespace trireme::cuda {
namespace {

/// What a copy moves: elements of this shape, with steps and a first element on either side.
struct Move {
  Strides from{};
  Strides to{};
  std::int64_t first_from = 0;
  std::int64_t first_to = 0;
  std::int64_t count = 1;
  std::size_t operand = 0;

  /// The same in units of `width` elements. Nothing if a row is not made of such units on both sides.
  [[nodiscard]] std::optional<Move> in_units(std::int64_t width) const {
    const int last = from.dims - 1;
    if (last < 0 || from.step[last] != 1 || to.step[last] != 1) {
      return std::nullopt;
    }
    Move wide = *this;
    std::int64_t rest = from.size[last] % width + first_from % width + first_to % width;
    for (int d = 0; d < last; ++d) {
      rest += from.step[d] % width + to.step[d] % width;
      wide.from.step[d] /= width;
      wide.to.step[d] /= width;
    }
    wide.from.size[last] /= width;
    wide.to.size[last] /= width;
    wide.first_from /= width;
    wide.first_to /= width;
    wide.count /= width;
    return rest == 0 ? std::optional(wide) : std::nullopt;
  }
};

template <class T>
struct Mover {
  const T* x;
  T* y;
  Strides from;
  Strides to;
  __device__ void operator()(std::int64_t i) const { y[to.offset(i)] = x[from.offset(i)]; }
};

/// Dimensions of a copy, merged where both sides pass over them in one stride.
class MoveBuilder {
 public:
  void add(std::int64_t size, std::int64_t from, std::int64_t to) {
    move_.count *= size;
    if (size == 1) {
      return;
    }
    if (!dims_.empty() && dims_.back().from == size * from && dims_.back().to == size * to) {
      dims_.back() = {dims_.back().size * size, from, to};
    } else {
      dims_.push_back({size, from, to});
    }
  }
  void begin(std::int64_t from, std::int64_t to) {
    move_.first_from = from;
    move_.first_to = to;
  }
  /// Nothing if there are too many dimensions.
  [[nodiscard]] std::optional<Move> build() {
    if (dims_.size() > kMaxDims) {
      return std::nullopt;
    }
    for (const Dim& dim : dims_) {
      move_.from.push(dim.size, dim.from);
      move_.to.push(dim.size, dim.to);
    }
    return move_;
  }

 private:
  struct Dim {
    std::int64_t size, from, to;
  };
  std::vector<Dim> dims_;
  Move move_;
};

bool is_contiguous(const Move& move) {
  return move.from.dims == 0 ||
         (move.from.dims == 1 && move.from.step[0] == 1 && move.to.step[0] == 1);
}

template <class T>
void enqueue_strided(const Move& move, const KernelMemory& m, cudaStream_t stream) {
  enqueue_each(move.count,
               Mover<T>{input<T>(m, move.operand) + move.first_from,
                        output<T>(m, 0) + move.first_to, move.from, move.to},
               stream);
}

template <class T>
void enqueue_move(const Move& move, const KernelMemory& m, cudaStream_t stream) {
  const std::optional<Move> wide = move.in_units(kPack<T>);
  if (is_contiguous(move)) {
    check(cudaMemcpyAsync(
              output<T>(m, 0) + move.first_to, input<T>(m, move.operand) + move.first_from,
              static_cast<std::size_t>(move.count) * sizeof(T), cudaMemcpyDeviceToDevice, stream),
          "copying a tensor");
  } else if (wide && is_aligned_to_pack(m.inputs[move.operand]) &&
             is_aligned_to_pack(m.outputs[0])) {
    enqueue_strided<uint4>(*wide, m, stream);
  } else {
    enqueue_strided<T>(move, m, stream);
  }
}

/// A copy of rows, in units of 16 bytes.
struct RowCopy {
  const uint4* from;
  uint4* to;
  std::int64_t from_step;  ///< between rows
  std::int64_t to_step;
  unsigned row;    ///< units of one
  unsigned count;  ///< units of all
};

constexpr int kRowCopies = 64;
constexpr int kUnitsAhead = 4;  ///< that a thread loads before it stores any
constexpr unsigned kCopyChunk = kThreads * kUnitsAhead;

struct RowCopies {
  RowCopy items[kRowCopies];
  unsigned first_chunk[kRowCopies + 1];  ///< by item, of all; then the number of all
  int count;
};

__device__ void copy_chunk(const RowCopy& copy, unsigned chunk) {
  const unsigned first = chunk * kCopyChunk + threadIdx.x;
  uint4 held[kUnitsAhead];
#pragma unroll
  for (int a = 0; a < kUnitsAhead; ++a) {
    const unsigned i = first + a * kThreads;
    if (i < copy.count) {
      held[a] = copy.from[i / copy.row * copy.from_step + i % copy.row];
    }
  }
#pragma unroll
  for (int a = 0; a < kUnitsAhead; ++a) {
    const unsigned i = first + a * kThreads;
    if (i < copy.count) {
      copy.to[i / copy.row * copy.to_step + i % copy.row] = held[a];
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    copy_rows_kernel(const __grid_constant__ RowCopies copies) {
  int which = 0;
  for (unsigned chunk = blockIdx.x; chunk < copies.first_chunk[copies.count]; chunk += gridDim.x) {
    while (chunk >= copies.first_chunk[which + 1]) {
      ++which;
    }
    copy_chunk(copies.items[which], chunk - copies.first_chunk[which]);
  }
}

/// Collects copies and launches them together.
class RowCopier {
 public:
  explicit RowCopier(cudaStream_t stream) : stream_(stream) {}

  /// Of a move in units of 16 bytes.
  void add(const Move& move, const void* from, void* to) {
    if (copies_.count == kRowCopies) {
      launch();
    }
    const bool is_row = move.from.dims == 1;
    copies_.items[copies_.count] = {static_cast<const uint4*>(from) + move.first_from,
                                    static_cast<uint4*>(to) + move.first_to,
                                    is_row ? 0 : move.from.step[0],
                                    is_row ? 0 : move.to.step[0],
                                    static_cast<unsigned>(move.from.size[move.from.dims - 1]),
                                    static_cast<unsigned>(move.count)};
    chunks_ += (static_cast<unsigned>(move.count) + kCopyChunk - 1) / kCopyChunk;
    copies_.first_chunk[++copies_.count] = chunks_;
  }
  void launch() {
    if (chunks_ > 0) {
      static const std::int64_t resident = resident_blocks(&copy_rows_kernel, kThreads);
      const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(resident, chunks_));
      copy_rows_kernel<<<blocks, kThreads, 0, stream_>>>(copies_);
      check(cudaGetLastError(), "copying rows");
    }
    copies_.count = 0;
    chunks_ = 0;
  }

 private:
  cudaStream_t stream_;
  RowCopies copies_{};
  unsigned chunks_ = 0;
};

/// A move, and the same in units of 16 bytes if it copies rows of them.
struct PreparedMove {
  Move move{};
  std::optional<Move> rows{};
};

std::optional<Move> rows_of(const Move& move, std::int64_t element) {
  const std::optional<Move> wide = move.in_units(16 / element);
  const bool copies_rows = wide && wide->from.dims <= 2 && wide->count <= INT32_MAX;
  return copies_rows ? wide : std::nullopt;
}

using PreparedMoves = std::vector<PreparedMove>;

/// Moves of elements of T's size, for nodes that are independent of each other.
template <class T>
void enqueue_moves(std::span<const BatchItem> items, cudaStream_t stream) {
  RowCopier rows(stream);
  for (const BatchItem& item : items) {
    for (const PreparedMove& one : *static_cast<const PreparedMoves*>(item.prepared)) {
      const std::byte* from = item.memory->inputs[one.move.operand];
      std::byte* to = item.memory->outputs[0];
      if (one.rows && is_aligned_to_pack(from) && is_aligned_to_pack(to)) {
        rows.add(*one.rows, from, to);
      } else {
        enqueue_move<T>(one.move, *item.memory, stream);
      }
    }
  }
  rows.launch();
}

/// Into different parts of the result.
std::optional<Launch> launch_moves(const KernelRequest& request, const std::vector<Move>& moves) {
  auto prepared = std::make_shared<PreparedMoves>();
  for (const Move& move : moves) {
    prepared->push_back({move, rows_of(move, size_of(request.outputs[0].dtype).count)});
  }
  return for_size(request.outputs[0].dtype, [&]<class T>(T) -> std::optional<Launch> {
    return Launch{.enqueue =
                      [prepared](const KernelMemory& m, cudaStream_t stream) {
                        const BatchItem alone{&m, prepared.get()};
                        enqueue_moves<T>(std::span(&alone, 1), stream);
                      },
                  .enqueue_batch = enqueue_moves<T>,
                  .prepared = prepared};
  });
}

/// Between a tensor and a box within a larger one that begins at `begin`; `inward`: into the larger one.
std::optional<Move> box_move(const Shape& box, const Shape& whole,
                             const std::vector<std::int64_t>& begin, bool inward) {
  MoveBuilder builder;
  std::int64_t first = 0;
  const auto box_steps = box.strides();
  const auto whole_steps = whole.strides();
  for (std::size_t d = 0; d < begin.size(); ++d) {
    first += begin[d] * whole_steps[d];
    const std::int64_t size = box.dim(static_cast<int>(d));
    builder.add(size, inward ? box_steps[d] : whole_steps[d],
                inward ? whole_steps[d] : box_steps[d]);
  }
  builder.begin(inward ? 0 : first, inward ? first : 0);
  return builder.build();
}

std::optional<Launch> prepare_slice(const KernelRequest& request) {
  const std::optional<Move> move = box_move(request.outputs[0].shape, request.inputs[0].shape,
                                            signature_of(request).integers("begin"), false);
  return move ? launch_moves(request, {*move}) : std::nullopt;
}

std::optional<Launch> prepare_pad(const KernelRequest& request) {
  const std::optional<Move> move = box_move(request.inputs[0].shape, request.outputs[0].shape,
                                            signature_of(request).integers("before"), true);
  if (!move) {
    return std::nullopt;
  }
  const std::size_t bytes = container_size(size_of(request.outputs[0]));
  const std::optional<Launch> moves = launch_moves(request, {*move});
  if (!moves) {
    return std::nullopt;
  }
  return Launch{[bytes, enqueue = moves->enqueue](const KernelMemory& m, cudaStream_t stream) {
    check(cudaMemsetAsync(m.outputs[0], 0, bytes, stream), "clearing a tensor");
    enqueue(m, stream);
  }};
}

std::optional<Launch> prepare_concat(const KernelRequest& request) {
  const Shape& whole = request.outputs[0].shape;
  const std::int64_t given = signature_of(request).integer("axis");
  const std::size_t axis = given < 0 ? given + whole.rank() : given;
  std::vector<std::int64_t> begin(whole.rank(), 0);
  std::vector<Move> moves;
  for (std::size_t k = 0; k < request.inputs.size(); ++k) {
    std::optional<Move> move = box_move(request.inputs[k].shape, whole, begin, true);
    if (!move) {
      return std::nullopt;
    }
    move->operand = k;
    moves.push_back(*move);
    begin[axis] += request.inputs[k].shape.dim(static_cast<int>(axis));
  }
  return launch_moves(request, moves);
}

std::optional<Launch> prepare_permute(const KernelRequest& request) {
  const auto& order = signature_of(request).integers("order");
  const auto from = request.inputs[0].shape.strides();
  const auto to = request.outputs[0].shape.strides();
  MoveBuilder builder;
  for (std::size_t d = 0; d < order.size(); ++d) {
    builder.add(request.outputs[0].shape.dim(static_cast<int>(d)), from[order[d]], to[d]);
  }
  const std::optional<Move> move = builder.build();
  return move ? launch_moves(request, {*move}) : std::nullopt;
}

std::optional<Launch> prepare_broadcast(const KernelRequest& request) {
  const Shape& shape = request.outputs[0].shape;
  std::vector<bool> is_new(shape.rank(), false);
  for (const std::int64_t axis : signature_of(request).integers("axes")) {
    is_new[axis < 0 ? axis + shape.rank() : axis] = true;
  }
  const auto from = request.inputs[0].shape.strides();
  const auto to = shape.strides();
  MoveBuilder builder;
  std::size_t kept = 0;
  for (std::size_t d = 0; d < is_new.size(); ++d) {
    builder.add(shape.dim(static_cast<int>(d)), is_new[d] ? 0 : from[kept++], to[d]);
  }
  const std::optional<Move> move = builder.build();
  return move ? launch_moves(request, {*move}) : std::nullopt;
}

/// x, then zeros if the result has more elements.
std::optional<Launch> prepare_copy(const KernelRequest& request) {
  const std::size_t from = container_size(size_of(request.inputs[0]));
  const std::size_t to = container_size(size_of(request.outputs[0]));
  return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
    check(cudaMemcpyAsync(m.outputs[0], m.inputs[0], from, cudaMemcpyDeviceToDevice, stream),
          "copying a tensor");
    if (to > from) {
      check(cudaMemsetAsync(m.outputs[0] + from, 0, to - from, stream), "clearing a tensor");
    }
  }};
}

}  // namespace

std::span<const KernelRow> shape_kernels() {
  static constexpr std::array kRows{
      KernelRow{"slice", prepare_slice},         KernelRow{"pad", prepare_pad},
      KernelRow{"concat", prepare_concat},       KernelRow{"permute", prepare_permute},
      KernelRow{"broadcast", prepare_broadcast}, KernelRow{"copy", prepare_copy},
      KernelRow{"parts", prepare_copy}};
  return kRows;
}

}  // namespace trireme::cuda
