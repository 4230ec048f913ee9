// Messages between two ranks, as operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/group_core.h"
#include "comm/mailbox.h"
#include "comm/op.h"

namespace trireme::comm {

class SendOp : public Op {
 public:
  /// The group and the data must live until it is done.
  /// Patient: a long message waits until the receiver asks for it; otherwise it goes all the same after a while.
  enum class Patience : std::uint8_t { Patient, Impatient };
  SendOp(GroupCore& group, std::span<const std::byte> data, DType dtype, Rank to, std::int32_t tag,
         Patience patience);
  ~SendOp() override;
  SendOp(const SendOp&) = delete;
  SendOp& operator=(const SendOp&) = delete;
  [[nodiscard]] Progress advance() override;
  void check(Seconds stuck) override;

 private:
  GroupCore& group_;
  Rank to_;
  std::int32_t tag_;
  Outgoing message_;
  bool posted_ = false;
  std::uint64_t seen_ = 0;  ///< bytes moved when last asked
};

class ReceiveOp : public Op {
 public:
  ReceiveOp(GroupCore& group, std::span<std::byte> data, DType dtype, Rank from, std::int32_t tag);
  ~ReceiveOp() override;
  ReceiveOp(const ReceiveOp&) = delete;
  ReceiveOp& operator=(const ReceiveOp&) = delete;
  [[nodiscard]] Progress advance() override;
  void check(Seconds stuck) override;

 private:
  GroupCore& group_;
  Rank from_;
  std::int32_t tag_;
  std::size_t bytes_;
  Incoming message_;
  bool posted_ = false;
  std::uint64_t seen_ = 0;  ///< bytes moved when last asked
};

}  // namespace trireme::comm
