// Messages between two ranks, as operations. Making one posts its message, so messages arrive in the order in which
// their operations were made, whether a caller waits for them or the lane does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "comm/op/context.h"
#include "comm/op/op.h"
#include "comm/wire/message.h"

namespace trireme::comm {

class SendOp : public Op {
 public:
  /// Posts the message. The context and the data must live until it is done.
  /// Patient: a long message waits until the receiver asks for it; otherwise it goes out after a while all the same.
  enum class Patience : std::uint8_t { Patient, Impatient };
  SendOp(const OpContext& context, std::span<const std::byte> data, DType dtype, Rank to,
         std::int32_t tag, Patience patience);
  ~SendOp() override;
  SendOp(const SendOp&) = delete;
  SendOp& operator=(const SendOp&) = delete;
  [[nodiscard]] Progress advance() override;
  void check(Seconds stuck) override;
  void expire(Seconds stuck) override;
  [[nodiscard]] bool awaits_mailbox() const override { return !message_.done.load(); }

 private:
  [[nodiscard]] std::string text() const;

  const OpContext& context_;
  Rank to_;
  std::int32_t tag_;
  Outgoing message_;
  std::uint64_t seen_ = 0;  ///< bytes moved when last asked
};

class ReceiveOp : public Op {
 public:
  /// Posts the receive. The context and the data must live until it is done.
  ReceiveOp(const OpContext& context, std::span<std::byte> data, DType dtype, Rank from,
            std::int32_t tag);
  ~ReceiveOp() override;
  ReceiveOp(const ReceiveOp&) = delete;
  ReceiveOp& operator=(const ReceiveOp&) = delete;
  [[nodiscard]] Progress advance() override;
  void check(Seconds stuck) override;
  void expire(Seconds stuck) override;
  [[nodiscard]] bool awaits_mailbox() const override { return !message_.done.load(); }

 private:
  [[nodiscard]] std::string text() const;

  const OpContext& context_;
  Rank from_;
  std::int32_t tag_;
  std::size_t bytes_;
  Incoming message_;
  std::uint64_t seen_ = 0;  ///< bytes moved when last asked
};

}  // namespace trireme::comm
