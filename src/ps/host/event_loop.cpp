#include "ps/host/event_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "trireme/message.h"

namespace trireme::ps {

Micros micros_now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             comm::Clock::now().time_since_epoch())
      .count();
}

Timing timing_for(Seconds lease) {
  constexpr double kShortest = 0.01;
  constexpr double kLongest = 86'400;
  constexpr Micros kLongestRetry =
      2'500'000;  // a lost message is repeated, however long leases are
  require(lease.count >= kShortest && lease.count <= kLongest,
          fmt::format("a lease of {} is out of range: use 10 ms to 24 h", to_text(lease)));
  const auto whole = static_cast<Micros>(lease.count * 1e6);
  return {.heartbeat = whole / 5,
          .lease = whole,
          .lease_margin = whole / 10,
          .retry = std::min(whole / 2, kLongestRetry)};
}

EventLoop::EventLoop(const EventLoopOptions& options)
    : self_(options.reactor.self),
      refused_(options.refused),
      stopped_(options.stopped),
      reactor_(options.reactor,
               {.message = [this](NodeId from, Message& message) { take(from, message); },
                .connected =
                    [this](NodeId node) {
                      if (machine_.connected) {
                        machine_.connected(node, micros_now());
                      }
                    },
                .refused =
                    [this](const std::string& why) {
                      counters_.refused();
                      if (refused_) {
                        refused_(why);
                      }
                    },
                .rejected = [this](NodeId peer,
                                   const std::string& why) { stop_if_rejected(peer, why); }}) {}

EventLoop::~EventLoop() {
  stop();
}

void EventLoop::start(Machine machine) {
  machine_ = std::move(machine);
  thread_ = std::thread([this] { run(); });
}

void EventLoop::stop() {
  stopping_ = true;
  reactor_.wake();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void EventLoop::run() noexcept {
  try {
    comm::Deadline next_tick = comm::deadline_in({0});
    while (!stopping_) {
      reactor_.process(reactor_.wait(next_tick));
      if (comm::passed(next_tick)) {
        next_tick = comm::deadline_in(kTick);
        machine_.tick(micros_now(), out_);
        send(out_);
        reactor_.flush();
      }
    }
    if (failure_) {
      std::rethrow_exception(failure_);
    }
  } catch (const std::exception& error) {  // this node has failed; the others continue without it
    if (stopped_) {
      stopped_(error.what());
    }
  }
}

void EventLoop::take(NodeId from, Message& message) {
  counters_.received(message);
  has_met_coordinator_ = has_met_coordinator_ || from == NodeId::Coordinator;
  if (std::holds_alternative<GetMetrics>(message)) {
    return report_metrics(from);
  }
  try {
    machine_.handle(Envelope{from, self_, std::move(message)}, micros_now(), out_);
    send(out_);
  } catch (const std::exception&) {  // not the peer's fault: the reactor must not see it
    fail(std::current_exception());
  }
}

void EventLoop::fail(std::exception_ptr failure) {
  failure_ = std::move(failure);
  stopping_ = true;
}

/// One that has been part of the cluster waits instead: another program may listen where the coordinator did.
void EventLoop::stop_if_rejected(NodeId peer, const std::string& why) {
  if (peer == NodeId::Coordinator && !has_met_coordinator_) {
    fail(std::make_exception_ptr(Error(ErrorKind::Peer, "cannot join the cluster: " + why)));
  }
}

void EventLoop::send(Outbox& out) {
  if (machine_.before_sending) {
    machine_.before_sending();
  }
  learn_addresses();
  for (const Envelope& envelope : out) {
    counters_.sent(envelope.message);
    reactor_.send(envelope.to, envelope.message);
  }
  out.clear();
}

void EventLoop::report_metrics(NodeId to) {
  std::vector<MetricSample> samples;
  if (machine_.metrics) {
    machine_.metrics(micros_now(), samples);
  }
  counters_.append_to(samples);
  Metrics metrics;
  for (MetricSample& sample : samples) {
    metrics.samples.push_back({std::move(sample)});
  }
  reactor_.send(to, std::move(metrics));
}

void EventLoop::learn_addresses() {
  const auto* addresses = machine_.addresses ? machine_.addresses() : nullptr;
  if (addresses == nullptr || *addresses == known_) {
    return;
  }
  known_ = *addresses;
  for (const auto& [node, address] : known_) {
    if (node != self_) {
      reactor_.set_address(node, address);
    }
  }
}

}  // namespace trireme::ps
