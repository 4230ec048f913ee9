// Blocks along a dimension that is not the outermost are not contiguous: they are packed in scratch before they are
// sent, or unpacked after they are received.
#include "runtime/exchange.h"

#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "graph/blocks.h"
#include "trireme/error.h"
#include "trireme/op.h"

namespace trireme::runtime {
namespace {

Signature signature_of(const KernelRequest& request) {
  return {.op = request.op, .inputs = request.inputs, .attributes = &request.attributes};
}

/// A tensor viewed as [outer, size, inner] around one dimension; inner is in bytes.
struct Around {
  std::int64_t outer = 1;
  std::int64_t size = 1;
  std::int64_t inner = 1;

  Around(const TensorType& type, std::int64_t dimension) {
    const auto& dims = type.shape.dims();
    const auto at = dims.begin() + dimension;
    outer = std::accumulate(dims.begin(), at, std::int64_t{1}, std::multiplies<>());
    size = *at;
    inner = std::accumulate(at + 1, dims.end(), size_of(type.dtype).count, std::multiplies<>());
  }
};

/// Copies columns [begin, begin + length) of `whole` to or from a contiguous block.
void copy_out_block(const std::byte* whole, const Around& a, const IndexRange& block,
                    std::byte* to) {
  const std::int64_t run = block.length * a.inner;
  for (std::int64_t o = 0; o < a.outer; ++o) {
    std::memcpy(to + o * run, whole + (o * a.size + block.begin) * a.inner,
                static_cast<std::size_t>(run));
  }
}
void copy_in_block(const std::byte* block_data, const Around& a, const IndexRange& block,
                   std::byte* whole) {
  const std::int64_t run = block.length * a.inner;
  for (std::int64_t o = 0; o < a.outer; ++o) {
    std::memcpy(whole + (o * a.size + block.begin) * a.inner, block_data + o * run,
                static_cast<std::size_t>(run));
  }
}

std::vector<IndexRange> blocks_of(std::int64_t size, std::int64_t unit, std::int64_t ranks) {
  std::vector<IndexRange> blocks;
  blocks.reserve(static_cast<std::size_t>(ranks));
  for (std::int64_t r = 0; r < ranks; ++r) {
    blocks.push_back(block_of(size, unit, ranks, r));
  }
  return blocks;
}

/// Elements of each block, given the number per step along the dimension.
std::vector<std::int64_t> counts_of(const std::vector<IndexRange>& blocks, std::int64_t elements) {
  std::vector<std::int64_t> counts;
  counts.reserve(blocks.size());
  for (const IndexRange& block : blocks) {
    counts.push_back(block.length * elements);
  }
  return counts;
}

Reduction reduction_of(const Signature& s) {
  return parse_reduction(s.text("reduction"));
}

std::span<const std::byte> bytes_at(const std::byte* data, const TensorType& type) {
  return {data, static_cast<std::size_t>(size_of(type).count)};
}
std::span<std::byte> bytes_at(std::byte* data, const TensorType& type) {
  return {data, static_cast<std::size_t>(size_of(type).count)};
}

/// Shared by all collectives.
class Collective : public Exchange {
 public:
  Collective(const KernelRequest& request, const KernelMemory& memory, Communicator& communicator)
      : request_(request),
        memory_(memory),
        signature_(runtime::signature_of(request_)),
        group_(communicator.along(signature_.text("group"))) {
    call_.dtype = request_.inputs[0].dtype;
    call_.options.site = request_.op->name.data();
  }
  void start() override {
    prepare();
    pending_ = group_.start(call_);
  }
  void finish() override {
    pending_.wait();
    complete();
  }

 protected:
  virtual void prepare() {}
  virtual void complete() {}
  [[nodiscard]] std::int64_t ranks() const { return signature_.integer("ranks"); }

  KernelRequest request_;
  KernelMemory memory_;
  Signature signature_;
  Group& group_;
  Call call_{};

 private:
  Pending pending_;
};

class AllReduce final : public Collective {
 public:
  AllReduce(const KernelRequest& request, const KernelMemory& memory, Communicator& communicator)
      : Collective(request, memory, communicator) {
    call_.operation = Operation::Allreduce;
    call_.options.reduction = reduction_of(signature_);
    call_.input = bytes_at(memory_.inputs[0], request_.inputs[0]);
    call_.output = bytes_at(memory_.outputs[0], request_.outputs[0]);
  }
};

class AllGather final : public Collective {
 public:
  AllGather(const KernelRequest& request, const KernelMemory& memory, Communicator& communicator)
      : Collective(request, memory, communicator),
        around_(request_.outputs[0], signature_.integer("dimension")),
        blocks_(blocks_of(around_.size, signature_.integer("unit"), ranks())) {
    call_.operation = Operation::Allgather;
    call_.input = bytes_at(memory_.inputs[0], request_.inputs[0]);
    call_.output = bytes_at(gathered(), request_.outputs[0]);
    call_.counts = counts_of(blocks_, around_.outer * around_.inner / size_of(call_.dtype).count);
  }

 protected:
  void complete() override {
    if (around_.outer == 1) {
      return;
    }
    const std::byte* from = gathered();
    for (const IndexRange& block : blocks_) {
      copy_in_block(from, around_, block, memory_.outputs[0]);
      from += block.length * around_.outer * around_.inner;
    }
  }

 private:
  [[nodiscard]] std::byte* gathered() const {
    return around_.outer == 1 ? memory_.outputs[0] : memory_.outputs[1];
  }
  Around around_;
  std::vector<IndexRange> blocks_;
};

class ReduceScatter final : public Collective {
 public:
  ReduceScatter(const KernelRequest& request, const KernelMemory& memory,
                Communicator& communicator)
      : Collective(request, memory, communicator),
        around_(request_.inputs[0], signature_.integer("dimension")),
        blocks_(blocks_of(around_.size, signature_.integer("unit"), ranks())) {
    call_.operation = Operation::ReduceScatter;
    call_.options.reduction = reduction_of(signature_);
    call_.input =
        bytes_at(around_.outer == 1 ? memory_.inputs[0] : memory_.outputs[1], request_.inputs[0]);
    call_.output = bytes_at(memory_.outputs[0], request_.outputs[0]);
    call_.counts = counts_of(blocks_, around_.outer * around_.inner / size_of(call_.dtype).count);
  }

 protected:
  void prepare() override {
    if (around_.outer == 1) {
      return;
    }
    std::byte* to = memory_.outputs[1];
    for (const IndexRange& block : blocks_) {
      copy_out_block(memory_.inputs[0], around_, block, to);
      to += block.length * around_.outer * around_.inner;
    }
  }

 private:
  Around around_;
  std::vector<IndexRange> blocks_;
};

class AllToAll final : public Collective {
 public:
  AllToAll(const KernelRequest& request, const KernelMemory& memory, Communicator& communicator)
      : Collective(request, memory, communicator),
        sent_(request_.inputs[0], signature_.integer("to")),
        received_(request_.outputs[0], signature_.integer("from")),
        sent_blocks_(blocks_of(sent_.size, signature_.integer("to_unit"), ranks())),
        received_blocks_(blocks_of(received_.size, signature_.integer("from_unit"), ranks())) {
    call_.operation = Operation::Alltoall;
    call_.input = bytes_at(memory_.outputs[1], request_.inputs[0]);
    call_.output =
        bytes_at(memory_.outputs[1] + size_of(request_.inputs[0]).count, request_.outputs[0]);
    const std::int64_t width = size_of(call_.dtype).count;
    call_.counts = counts_of(sent_blocks_, sent_.outer * sent_.inner / width);
    call_.receive_counts = counts_of(received_blocks_, received_.outer * received_.inner / width);
  }

 protected:
  void prepare() override {
    std::byte* to = memory_.outputs[1];
    for (const IndexRange& block : sent_blocks_) {
      copy_out_block(memory_.inputs[0], sent_, block, to);
      to += block.length * sent_.outer * sent_.inner;
    }
  }
  void complete() override {
    const std::byte* from = call_.output.data();
    for (const IndexRange& block : received_blocks_) {
      copy_in_block(from, received_, block, memory_.outputs[0]);
      from += block.length * received_.outer * received_.inner;
    }
  }

 private:
  Around sent_;
  Around received_;
  std::vector<IndexRange> sent_blocks_;
  std::vector<IndexRange> received_blocks_;
};

class Send final : public Exchange {
 public:
  Send(const KernelRequest& request, const KernelMemory& memory, Communicator& communicator)
      : data_(bytes_at(memory.inputs[0], request.inputs[0])),
        dtype_(request.inputs[0].dtype),
        all_(communicator.all()) {
    const Signature s = runtime::signature_of(request);
    to_ = static_cast<Rank>(s.integer("to"));
    tag_ = static_cast<std::int32_t>(s.integer("tag"));
  }
  void start() override { pending_ = all_.start_send(data_, dtype_, to_, tag_); }
  void finish() override { pending_.wait(); }

 private:
  std::span<const std::byte> data_;
  DType dtype_;
  Group& all_;
  Rank to_ = 0;
  std::int32_t tag_ = 0;
  Pending pending_;
};

class Receive final : public Exchange {
 public:
  Receive(const KernelRequest& request, const KernelMemory& memory, Communicator& communicator)
      : data_(bytes_at(memory.outputs[0], request.outputs[0])),
        dtype_(request.outputs[0].dtype),
        all_(communicator.all()) {
    const Signature s = runtime::signature_of(request);
    from_ = static_cast<Rank>(s.integer("from"));
    tag_ = static_cast<std::int32_t>(s.integer("tag"));
  }
  void start() override { pending_ = all_.start_receive(data_, dtype_, from_, tag_); }
  void finish() override { pending_.wait(); }

 private:
  std::span<std::byte> data_;
  DType dtype_;
  Group& all_;
  Rank from_ = 0;
  std::int32_t tag_ = 0;
  Pending pending_;
};

template <class T>
std::unique_ptr<Exchange> make(const KernelRequest& request, const KernelMemory& memory,
                               Communicator& communicator) {
  return std::make_unique<T>(request, memory, communicator);
}

}  // namespace

std::unique_ptr<Exchange> make_exchange(const KernelRequest& request, const KernelMemory& memory,
                                        Communicator& communicator) {
  using Make =
      std::unique_ptr<Exchange> (*)(const KernelRequest&, const KernelMemory&, Communicator&);
  static const std::map<std::string_view, Make> makers{{"all_reduce", make<AllReduce>},
                                                       {"all_gather", make<AllGather>},
                                                       {"all_to_all", make<AllToAll>},
                                                       {"reduce_scatter", make<ReduceScatter>},
                                                       {"send", make<Send>},
                                                       {"receive", make<Receive>}};
  const auto it = makers.find(request.op->name);
  if (it == makers.end()) {
    throw Error(ErrorKind::Usage, fmt::format("{} is not a communication op", request.op->name));
  }
  return it->second(request, memory, communicator);
}

}  // namespace trireme::runtime
