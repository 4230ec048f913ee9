#include "comm/op/message_op.h"

#include <utility>

#include <fmt/format.h>

namespace trireme::comm {
namespace {

/// Both sides must use the same type.
std::uint64_t fingerprint_of(DType dtype) {
  return 0x6D73670000000000 + static_cast<std::uint64_t>(dtype);
}

Key key_of(const OpContext& context, std::int32_t tag) {
  return {context.members.context(), static_cast<std::uint32_t>(tag), Topic::Message};
}

Progress moved_since(const std::atomic<std::uint64_t>& moved, std::uint64_t& seen) {
  const std::uint64_t now = moved.load(std::memory_order_relaxed);
  return std::exchange(seen, now) == now ? Progress::Stuck : Progress::Moved;
}

}  // namespace

SendOp::SendOp(const OpContext& context, std::span<const std::byte> data, DType dtype, Rank to,
               std::int32_t tag, Patience patience)
    : context_(context), to_(to), tag_(tag) {
  message_.patient = patience == Patience::Patient;
  message_.to = context.members.world_rank(to);
  message_.key = key_of(context, tag);
  message_.fingerprint = fingerprint_of(dtype);
  message_.parts.push_back(data);
  context.messages.count_message(static_cast<std::int64_t>(data.size()));
  context.messages.mailbox().send(message_);
}

SendOp::~SendOp() {
  if (!message_.done.load()) {
    context_.messages.mailbox().cancel(message_);
  }
}

Progress SendOp::advance() {
  if (!message_.done.load(std::memory_order_acquire)) {
    context_.messages.progress();
  }
  if (message_.done.load(std::memory_order_acquire)) {
    return Progress::Done;
  }
  return moved_since(message_.moved, seen_);
}

void SendOp::check(Seconds /*stuck*/) {
  context_.failures.check_members([this](Rank place) { return place == to_ && awaits_mailbox(); },
                                  [this] { return text(); });
}

void SendOp::expire(Seconds stuck) {
  context_.failures.fail_late({to_}, stuck, text());
}

std::string SendOp::text() const {
  return fmt::format("send of {} bytes to rank {}, tag {}", message_.parts[0].size(), message_.to,
                     tag_);
}

ReceiveOp::ReceiveOp(const OpContext& context, std::span<std::byte> data, DType dtype, Rank from,
                     std::int32_t tag)
    : context_(context), from_(from), tag_(tag), bytes_(data.size()) {
  message_.from = context.members.world_rank(from);
  message_.key = key_of(context, tag);
  message_.fingerprint = fingerprint_of(dtype);
  message_.parts.push_back({data.data(), nullptr, data.size()});
  context.messages.mailbox().receive(message_);
}

ReceiveOp::~ReceiveOp() {
  if (!message_.done.load()) {
    context_.messages.mailbox().cancel(message_);
  }
}

Progress ReceiveOp::advance() {
  if (!message_.done.load(std::memory_order_acquire)) {
    context_.messages.progress();
  }
  if (!message_.done.load(std::memory_order_acquire)) {
    return moved_since(message_.moved, seen_);
  }
  if (message_.wrong != Incoming::Wrong::Nothing) {
    context_.failures.fail(
        CommFault::Mismatch, {message_.from},
        message_.wrong == Incoming::Wrong::Call
            ? fmt::format("receive from rank {}, tag {}: the message sent has another type",
                          message_.from, tag_)
            : fmt::format("receive from rank {}, tag {}: {} bytes were sent, {} expected",
                          message_.from, tag_, message_.wrong_length, bytes_));
  }
  return Progress::Done;
}

void ReceiveOp::check(Seconds /*stuck*/) {
  context_.failures.check_members([this](Rank place) { return place == from_ && awaits_mailbox(); },
                                  [this] { return text(); });
}

void ReceiveOp::expire(Seconds stuck) {
  context_.failures.fail_late({from_}, stuck, text());
}

std::string ReceiveOp::text() const {
  return fmt::format("receive of {} bytes from rank {}, tag {}", bytes_, message_.from, tag_);
}

}  // namespace trireme::comm
