// Point-to-point messages, as operations. Creating one posts its message, so messages arrive in the order in which
// their operations were created, whether the caller waits for them or the lane does.
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
  /// A patient long message waits until the receiver requests it; an impatient one is sent after a while anyway.
  enum class Patience : std::uint8_t { Patient, Impatient };
  /// Posts the message. The context and the data must live until it is done.
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
  std::uint64_t seen_ = 0;  ///< bytes moved at the last call
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
  std::uint64_t seen_ = 0;  ///< bytes moved at the last call
};

}  // namespace trireme::comm
