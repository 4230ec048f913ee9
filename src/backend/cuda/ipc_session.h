// IpcSession: ranks of one host that read each other's device memory by cudaIpc. One thread at a time.
//
// A collective along an axis of n ranks, on s bytes:
//
//   start()    exchange stream: pack the source and copy it to memory that the others may read
//              host:            when that is done, tell each other where it is (an all-gather by `comm`)
//   finish()   host:            wait for that
//              exchange stream: read the others' memory: all-gather and all-to-all copy blocks, all-reduce and
//                               reduce-scatter combine the ranks' blocks in order, so that all have the same bits
//
// An all-reduce reads n s bytes on each rank, the others what they receive. No work on a device waits for another rank, so
// a failed rank is reported by `comm`.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "backend/cuda/ipc_memory.h"
#include "backend/cuda/session.h"
#include "trireme/cuda_device.h"

namespace trireme::cuda {

/// Of a group: kernels have a limited number of arguments.
inline constexpr std::size_t kMaxIpcRanks = 64;

/// What a rank tells the others of its group for a collective.
struct IpcMessage {
  IpcName source{};
  std::array<std::int64_t, kMaxIpcRanks> blocks{};  ///< by reader: where its block begins, in bytes
  std::int64_t finished = 0;  ///< the rank has read everything of the collectives before this one
};

/// The collectives along an axis, numbered alike on all of its ranks. Memory that they read is lent until a later message
/// of every rank says that it has been read.
class IpcAxis {
 public:
  IpcAxis(Group& group, IpcPool& pool) : group_(group), pool_(pool) {}

  struct Turn {
    std::int64_t number = 0;
    const IpcMemory* memory = nullptr;
    std::int64_t finished = 0;  ///< for the message
  };
  /// Begins a collective whose source has this size.
  [[nodiscard]] Turn begin(Bytes source);
  /// Once this rank's reads are enqueued.
  void end(const Turn& turn, std::span<const IpcMessage> messages);
  /// Requires that all ranks have read everything.
  void release_all();

  [[nodiscard]] Group& group() const { return group_; }

 private:
  void release_below(std::int64_t number);

  Group& group_;
  IpcPool& pool_;
  std::int64_t next_ = 0;
  std::set<std::int64_t> unfinished_;
  std::map<std::int64_t, std::unique_ptr<IpcMemory>> lent_;
};

class IpcSession final : public CudaSession {
 public:
  explicit IpcSession(Communicator& communicator);

  /// Collective: opens each other's memory. The first problem of any rank, the same text on all; "" if it works.
  [[nodiscard]] std::string try_out();

  [[nodiscard]] std::unique_ptr<Exchange> bind(const runtime::CollectiveCall& collective,
                                               runtime::BoundOperands operands, Device& device,
                                               const ExchangeContext& context) override;
  void wait(Stream& compute) override;
  void abort() noexcept override {}

  /// Where this process sees the source of a rank of the axis.
  [[nodiscard]] const std::byte* source_of(const IpcAxis& axis, std::size_t rank,
                                           const IpcAxis::Turn& turn, const IpcMessage& message);

 private:
  Group all_;
  IpcPool pool_;
  std::map<std::string, IpcAxis, std::less<>> axes_;
  OpenedMemory opened_;
};

/// Collective. Throws Error(System) on every rank if one cannot open another's memory.
[[nodiscard]] std::shared_ptr<CudaSession> connect_ipc(Communicator& communicator);

}  // namespace trireme::cuda
