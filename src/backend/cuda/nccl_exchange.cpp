#include <algorithm>
#include <utility>

#include "backend/cuda/nccl_session.h"
#include "trireme/error.h"

namespace trireme::cuda {
namespace {

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return ncclFloat32;
    case DType::F64:
      return ncclFloat64;
    case DType::F16:
      return ncclFloat16;
    case DType::BF16:
      return ncclBfloat16;
    case DType::I8:
      return ncclInt8;
    case DType::U8:
      return ncclUint8;
    case DType::I32:
      return ncclInt32;
    case DType::I64:
      return ncclInt64;
  }
  return ncclUint8;
}

ncclRedOp_t reduction_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::Sum:
      return ncclSum;
    case Reduction::Product:
      return ncclProd;
    case Reduction::Min:
      return ncclMin;
    case Reduction::Max:
      return ncclMax;
    case Reduction::Average:
      return ncclAvg;
    default:
      throw Error(ErrorKind::Usage, "nccl has no reduction " + std::string(to_text(reduction)) +
                                        "; use --gpu-exchange host");
  }
}

bool all_equal(const std::vector<std::int64_t>& counts) {
  return std::ranges::adjacent_find(counts, std::ranges::not_equal_to{}) == counts.end();
}

/// A collective on device memory.
class Collective {
 public:
  Collective(const Call& call, const runtime::BoundOperands& operands)
      : call_(call),
        source_(operands.source),
        target_(operands.target),
        elements_(static_cast<std::size_t>(operands.source_size.count / size_of(call.dtype).count)),
        type_(type_of(call.dtype)) {}

  void enqueue(ncclComm_t ranks, cudaStream_t stream) const {
    switch (call_.operation) {
      case Operation::Allreduce:
        check_nccl(nccl().all_reduce(source_, target_, elements_, type_,
                                     reduction_of(call_.options.reduction), ranks, stream),
                   "all-reduce");
        return;
      case Operation::Allgather:
        return all_gather(ranks, stream);
      case Operation::ReduceScatter:
        return reduce_scatter(ranks, stream);
      default:
        return all_to_all(ranks, stream);
    }
  }

 private:
  [[nodiscard]] std::int64_t bytes(std::int64_t elements) const {
    return elements * size_of(call_.dtype).count;
  }
  [[nodiscard]] int ranks_in_call() const { return static_cast<int>(call_.counts.size()); }
  [[nodiscard]] static std::size_t at(const std::vector<std::int64_t>& counts, int rank) {
    return counts[rank];
  }

  /// Runs `one(rank, offset)` for each block of the counts, as one operation.
  template <class One>
  void for_blocks(const std::vector<std::int64_t>& counts, const One& one) const {
    std::int64_t offset = 0;
    for (int rank = 0; rank < ranks_in_call(); ++rank) {
      one(rank, bytes(offset));
      offset += counts[rank];
    }
  }

  void all_gather(ncclComm_t ranks, cudaStream_t stream) const {
    if (all_equal(call_.counts)) {
      check_nccl(nccl().all_gather(source_, target_, elements_, type_, ranks, stream),
                 "all-gather");
      return;
    }
    check_nccl(nccl().group_start(), "all-gather");
    for_blocks(call_.counts, [&](int rank, std::int64_t offset) {
      check_nccl(nccl().broadcast(source_, target_ + offset, at(call_.counts, rank), type_, rank,
                                  ranks, stream),
                 "all-gather");
    });
    check_nccl(nccl().group_end(), "all-gather");
  }

  void reduce_scatter(ncclComm_t ranks, cudaStream_t stream) const {
    const ncclRedOp_t reduction = reduction_of(call_.options.reduction);
    if (all_equal(call_.counts)) {
      check_nccl(nccl().reduce_scatter(source_, target_, at(call_.counts, 0), type_, reduction,
                                       ranks, stream),
                 "reduce-scatter");
      return;
    }
    check_nccl(nccl().group_start(), "reduce-scatter");
    for_blocks(call_.counts, [&](int rank, std::int64_t offset) {
      check_nccl(nccl().reduce(source_ + offset, target_, at(call_.counts, rank), type_, reduction,
                               rank, ranks, stream),
                 "reduce-scatter");
    });
    check_nccl(nccl().group_end(), "reduce-scatter");
  }

  void all_to_all(ncclComm_t ranks, cudaStream_t stream) const {
    check_nccl(nccl().group_start(), "all-to-all");
    for_blocks(call_.counts, [&](int rank, std::int64_t offset) {
      check_nccl(nccl().send(source_ + offset, at(call_.counts, rank), type_, rank, ranks, stream),
                 "all-to-all");
    });
    for_blocks(call_.receive_counts, [&](int rank, std::int64_t offset) {
      check_nccl(nccl().receive(target_ + offset, at(call_.receive_counts, rank), type_, rank,
                                ranks, stream),
                 "all-to-all");
    });
    check_nccl(nccl().group_end(), "all-to-all");
  }

  Call call_;
  std::byte* source_;
  std::byte* target_;
  std::size_t elements_;  ///< of the source
  ncclDataType_t type_;
};

/// Packs and unpacks on the context's stream, whose workspace these kernels share, and exchanges on the axis's.
class NcclExchange : public Exchange {
 public:
  NcclExchange(const Call& call, runtime::BoundOperands operands, NcclSession::Axis& axis,
               Device& device, Stream& packing)
      : collective_(call, operands),
        operands_(std::move(operands)),
        axis_(axis),
        packing_(packing),
        computed_(device.make_event()),
        packed_(device.make_event()),
        received_(device.make_event()),
        unpacked_(device.make_event()) {}

  void start(Stream& compute) override {
    compute.record(*computed_);
    packing_.wait(*computed_);
    operands_.pack.enqueue(packing_);
    packing_.record(*packed_);
    axis_.stream->wait(*packed_);
    collective_.enqueue(axis_.ranks, handle_of(*axis_.stream));
    axis_.stream->record(*received_);
  }

  void finish(Stream& compute) override {
    packing_.wait(*received_);
    operands_.unpack.enqueue(packing_);
    packing_.record(*unpacked_);
    compute.wait(*unpacked_);
  }

 private:
  Collective collective_;
  runtime::BoundOperands operands_;
  NcclSession::Axis& axis_;
  Stream& packing_;
  std::unique_ptr<Event> computed_;
  std::unique_ptr<Event> packed_;
  std::unique_ptr<Event> received_;
  std::unique_ptr<Event> unpacked_;
};

}  // namespace

std::unique_ptr<Exchange> NcclSession::bind(const runtime::CollectiveCall& collective,
                                            runtime::BoundOperands operands, Device& device,
                                            const ExchangeContext& context) {
  return std::make_unique<NcclExchange>(collective.call, std::move(operands),
                                        axes_.find(collective.axis)->second, device,
                                        context.stream);
}

}  // namespace trireme::cuda
