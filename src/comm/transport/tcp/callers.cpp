#include "comm/transport/tcp/callers.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "comm/net/admission.h"

namespace trireme::comm {

Callers::Callers(const Fd& listener, HandshakeOptions options)
    : listener_(listener), options_(std::move(options)) {}

std::vector<Caller> Callers::advance() {
  accept_all();
  std::vector<Caller> introduced;
  for (Candidate& candidate : candidates_) {
    try {
      if (advance(candidate)) {
        introduced.push_back(std::move(candidate.caller));
      }
    } catch (const Disagreement&) {
      throw;
    } catch (const Error&) {
      candidate.over = true;  // refused; the others continue
    }
  }
  std::erase_if(candidates_, [](const Candidate& candidate) { return candidate.over; });
  return introduced;
}

bool Callers::advance(Candidate& candidate) {
  Channel& channel = candidate.caller.channel;
  if (!channel.is_open() && !channel.advance()) {
    candidate.over = passed(candidate.since + duration(kMaxHandshakeTime));
    return false;
  }
  const auto bytes = std::as_writable_bytes(std::span(&candidate.caller.who, 1));
  const Transfer got = channel.read(bytes.subspan(candidate.heard));
  candidate.heard += got.bytes;
  const bool complete = candidate.heard == bytes.size();
  candidate.over = complete || got.outcome == Transfer::Outcome::Closed;
  return complete;
}

void Callers::accept_all() {
  while (make_room()) {
    std::optional<Fd> socket;
    try {
      socket = accept_now(listener_);
    } catch (const Error&) {  // descriptors ran out
      if (!drop_oldest_stranger()) {
        throw;
      }
      continue;
    }
    if (!socket) {
      return;
    }
    candidates_.push_back(
        {.caller = {.who = {}, .channel = Channel(std::move(*socket), options_)}});
  }
}

/// Whether one more may connect; drops the oldest unauthenticated one for it if it has had its
/// time.
bool Callers::make_room() {
  if (strangers() < most_unauthenticated()) {
    return true;
  }
  return !is_full() && drop_oldest_stranger();
}

bool Callers::is_full() const {
  const auto oldest = std::ranges::find_if(
      candidates_, [](const Candidate& one) { return !one.caller.channel.is_open(); });
  return strangers() >= most_unauthenticated() &&
         !passed(oldest->since + duration(kMinHandshakeTime));
}

std::size_t Callers::strangers() const {
  return std::ranges::count_if(candidates_,
                               [](const Candidate& one) { return !one.caller.channel.is_open(); });
}

bool Callers::drop_oldest_stranger() {
  const auto oldest = std::ranges::find_if(
      candidates_, [](const Candidate& one) { return !one.caller.channel.is_open(); });
  if (oldest == candidates_.end()) {
    return false;
  }
  candidates_.erase(oldest);
  return true;
}

}  // namespace trireme::comm
